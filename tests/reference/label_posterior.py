import numpy as np

from .rule import Rule, softmax


class LabelPosterior(Rule):
    """Row by row and class by class; `confusion[remembered][observed]` counts, older samples fade."""

    def __init__(self, rows, classes, clean=None, beta=0.5, worth=0.5, strength=2.0):
        super().__init__(rows, classes)
        self.beta, self.worth, self.strength = beta, worth, strength
        self.predictions, self.visits = np.zeros((rows, classes)), np.zeros(rows)
        self.confusion, self.expected = np.zeros((classes, classes)), np.zeros(classes)
        self.mean, self.square = np.full(classes, 1 / classes), np.full(classes, 1 / classes**2)
        self.early_wrong, self.early, self.doubt = 0.0, 0.0, 0.0

    def trust(self, label):
        again = self.confusion[label][label] / (self.confusion[:, label].sum() + 1)
        right, number = self.confusion[label][label], self.confusion[label].sum()
        explained = max(right - self.expected[label], 0.0) / (number - right + 1)
        chance = 1 / self.classes
        learned = min(max((self.mean[label] - chance) / (1 - chance) / 0.25, 0.0), 1.0)
        return min(max(4 * again - 1, 0.0), 1.0) * max(1 - explained, 0.0) * learned

    def doubted(self, row):
        """How far the label of a row may be doubted."""
        return 1.0

    def step(self, logits, labels, rows):
        losses = self.cross_entropy_with(self.targets(logits, labels, rows))
        return losses, np.ones(len(labels))

    def cross_entropy_with(self, targets):
        return lambda moving: -(targets * np.log(softmax(moving))).sum(1)

    def targets(self, logits, labels, rows):
        counts = self.confusion + np.eye(self.classes)
        noisy = self.early_wrong / (self.early + 1)
        memorising = min(max((noisy - self.doubt) / 0.05 - 1, 0.0), 1.0)
        seen, targets, self.confidence = [], [], np.zeros(len(labels))
        for place, (p, label, row) in enumerate(zip(softmax(logits), labels, rows, strict=True)):
            visits, before = self.visits[row], self.predictions[row].copy()
            own = max(counts[label][label] / counts[label].sum(), 1e-3)
            few = min(1.0, 5 / max(visits, 1))
            posterior = np.zeros(self.classes)
            for c in range(self.classes):
                odds = 1.0 if c == label else min(max(counts[c][label] / counts[c].sum(), 1e-3) / own, 0.5)
                said = max(p[c], 1e-6) * (max(before[c], 1e-6) if visits else 1.0)
                posterior[c] = said ** ((1 + max(few, memorising)) / 2) * odds
            posterior /= posterior.sum()
            trust = self.trust(label) * self.doubted(row)
            share = trust * visits / (self.worth + visits)
            target = (1 - share) * np.eye(self.classes)[label] + share * posterior
            self.confidence[place] = posterior[label]
            pace = max(1 / (visits + 1), 1 - self.beta)
            self.predictions[row] = memory = before + pace * (p - before)
            self.visits[row] += 1
            past = (1 - 0.7 ** (visits + 1)) * memory
            agreement = sum(past[c] * p[c] for c in range(self.classes))
            for c in range(self.classes):
                pull = p[c] * (past[c] - agreement) / max(1 - agreement, 1e-4)
                target[c] += self.strength * max(few**2, memorising) * trust * pull
            target = np.clip(target, 0, 1)
            targets.append(target / target.sum())
            seen.append((int(np.argmax(memory)), label, memory.max(), p, visits))
        left = max(0.0, 1 - len(labels) / len(self.visits))
        self.confusion *= left
        self.expected *= left
        new = [[] for _ in range(self.classes)]
        for c, label, confidence, p, visits in seen:
            new[c].append(confidence)
            deviation = max(self.square[c] - self.mean[c] ** 2, 0.0) ** 0.5
            if confidence >= self.mean[c] + min(0.67 * deviation, (1 - self.mean[c]) / 2):
                self.confusion[c][label] += 1
                self.expected[c] += p[c]
                if 1 <= visits <= 5:
                    self.early += 1
                    self.early_wrong += c != label
        for c, confidences in enumerate(new):
            if confidences:
                far = min(len(confidences) / 64, 1)
                self.mean[c] += far * (np.mean(confidences) - self.mean[c])
                self.square[c] += far * (np.mean(np.square(confidences)) - self.square[c])

        self.doubt += min(1, len(labels) / len(self.visits)) * (np.mean(1 - self.confidence) - self.doubt)
        return np.array(targets)
