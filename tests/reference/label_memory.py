import numpy as np

from .rule import Rule, softmax


class LabelMemory(Rule):
    """Row by row and class by class; `mistakes[found][given]` counts, older samples fade."""

    def __init__(self, rows, classes, clean=None, beta=0.8, caution=0.5):
        super().__init__(rows, classes)
        self.beta, self.caution = beta, caution
        self.predictions = np.zeros((rows, classes))
        self.mistakes = np.zeros((classes, classes))

    def step(self, logits, labels, rows):
        counts = self.mistakes + np.eye(self.classes)
        targets, believed, found = [], [], []
        for p, label, row in zip(softmax(logits), labels, rows, strict=True):
            entropy = -sum(q * np.log(q) for q in p if q > 0)
            speed = (1 - self.beta) * max(1 - entropy / np.log(self.classes), 1e-6) ** self.caution
            self.predictions[row] = (1 - speed) * self.predictions[row] + speed * p
            memory = self.predictions[row].copy()
            memory[label] += 1 - memory.sum()
            own = max(counts[label][label] / counts[label].sum(), 1e-3)
            odds = np.array(
                [min(1.0, max(counts[c][label] / counts[c].sum(), 1e-3) / own) for c in range(self.classes)]
            )
            judged = memory * np.sqrt(odds)
            believed.append(all(judged[label] >= judged[c] for c in range(self.classes) if c != label))
            better = np.maximum(p, 1e-6) * np.maximum(memory, 1e-6) * odds
            far = 0.0 if believed[-1] else min(1.0, 2 * counts[label][label] / counts[:, label].sum())
            target = far * better / better.sum()
            target[label] += 1 - far
            targets.append(target)
            found.append(int(np.argmax(memory)))
        self.mistakes *= max(0.0, 1 - len(labels) / len(self.predictions))
        for c, label in zip(found, labels, strict=True):
            self.mistakes[c][label] += 1
        self.believed = np.array(believed)

        def losses(moving):
            return -(np.array(targets) * np.log(softmax(moving))).sum(1)

        return losses, np.ones(len(labels))
