import numpy as np

from .rule import Rule, softmax


class LabelMemory(Rule):
    """Row by row and class by class; `mistakes[predicted][given]` counts, older samples fade."""

    def __init__(self, rows, classes, clean=None, beta=0.8, caution=0.5):
        super().__init__(rows, classes)
        self.beta, self.caution = beta, caution
        self.predictions = np.zeros((rows, classes))
        self.mistakes = np.zeros((classes, classes))

    def step(self, logits, labels, rows):
        counts = self.mistakes + np.eye(self.classes)
        targets, believed, predicted = [], [], []
        for p, label, row in zip(softmax(logits), labels, rows, strict=True):
            entropy = -sum(q * np.log(q) for q in p if q > 0)
            speed = (1 - self.beta) * max(1 - entropy / np.log(self.classes), 1e-6) ** self.caution
            before = self.predictions[row].copy()
            self.predictions[row] = (1 - speed) * before + speed * p
            memory = self.predictions[row].copy()
            memory[label] += 1 - memory.sum()
            own = max(counts[label][label] / counts[label].sum(), 1e-3)
            odds = [min(1.0, max(counts[c][label] / counts[c].sum(), 1e-3) / own) for c in range(self.classes)]
            others = [c for c in range(self.classes) if c != label]
            beaten = [any(voice[c] * np.sqrt(odds[c]) > voice[label] for c in others) for voice in (memory, before, p)]
            again = self.mistakes[label][label] / (self.mistakes[:, label].sum() + 1)
            trust = min(max(4 * again - 1, 0.0), 1.0)
            one_hot = np.eye(self.classes)[label]
            if beaten[0]:
                better = np.maximum(p, 1e-6) * np.maximum(memory, 1e-6) * odds
                targets.append((1 - trust) * one_hot + trust * better / better.sum())
                believed.append(0.0)
            else:
                held = trust * before.sum() if beaten[1] and beaten[2] else 0.0
                targets.append((1 - held) * one_hot + held * p)
                believed.append(1 - held)
            predicted.append(int(np.argmax(self.predictions[row])))
        self.mistakes *= max(0.0, 1 - len(labels) / len(self.predictions))
        for c, label in zip(predicted, labels, strict=True):
            self.mistakes[c][label] += 1
        self.confidence, self.targets = np.array(believed), targets

        def losses(moving):
            return -(np.array(targets) * np.log(softmax(moving))).sum(1)

        return losses, np.ones(len(labels))
