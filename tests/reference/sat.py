import numpy as np

from .rule import Rule, softmax


class SAT(Rule):
    def __init__(self, rows, classes, clean=None, alpha=0.9):
        super().__init__(rows, classes)
        self.alpha, self.targets = alpha, {}

    def step(self, logits, labels, rows):
        weights = []
        for p, label, row in zip(softmax(logits), labels, rows, strict=True):
            if row not in self.targets:
                self.targets[row] = np.eye(self.classes)[label]
            self.targets[row] = self.alpha * self.targets[row] + (1 - self.alpha) * p
            weights.append(max(self.targets[row]))
        targets = np.array([self.targets[row] for row in rows])
        self.confidence = targets[range(len(rows)), labels]
        return lambda moving: -(targets * np.log(softmax(moving))).sum(1), weights
