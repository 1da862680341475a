import numpy as np

from .rule import Rule, softmax


class LabelPosterior(Rule):
    """Row by row and class by class; `confusion[remembered][observed]` counts, older samples fade."""

    def __init__(self, rows, classes, clean=None, beta=0.8, worth=0.5, caution=2.0):
        super().__init__(rows, classes)
        self.beta, self.worth, self.caution = beta, worth, caution
        self.predictions, self.visits = np.zeros((rows, classes)), np.zeros(rows)
        self.confusion = np.zeros((classes, classes))

    def step(self, logits, labels, rows):
        counts = self.confusion + np.eye(self.classes)
        found, targets, self.confidence = [], [], np.zeros(len(labels))
        for place, (p, label, row) in enumerate(zip(softmax(logits), labels, rows, strict=True)):
            visits, before = self.visits[row], self.predictions[row].copy()
            own = max(counts[label][label] / counts[label].sum(), 1e-3)
            posterior = np.zeros(self.classes)
            for c in range(self.classes):
                odds = 1.0 if c == label else min(max(counts[c][label] / counts[c].sum(), 1e-3) / own, 0.5)
                posterior[c] = max(p[c], 1e-6) * (max(before[c], 1e-6) if visits else 1.0) * odds
            posterior /= posterior.sum()
            again = self.confusion[label][label] / (self.confusion[:, label].sum() + 1)
            share = min(max(4 * again - 1, 0.0), 1.0) * visits / (self.worth + visits)
            targets.append((1 - share) * np.eye(self.classes)[label] + share * posterior)
            self.confidence[place] = posterior[label]
            pace = max(1 / (visits + 1), 1 - self.beta)
            self.predictions[row] = before + pace * (p - before)
            self.visits[row] += 1
            memory = self.predictions[row]
            entropy = -sum(q * np.log(q) for q in memory if q > 0)
            certainty = min(max(1 - entropy / np.log(self.classes), 1e-6), 1.0)
            found.append((int(np.argmax(memory)), label, certainty**self.caution))
        self.confusion *= max(0.0, 1 - len(labels) / len(self.visits))
        for c, label, weight in found:
            self.confusion[c][label] += weight

        def losses(moving):
            return -(np.array(targets) * np.log(softmax(moving))).sum(1)

        return losses, np.ones(len(labels))
