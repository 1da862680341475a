import numpy as np

from .rule import Rule, cross_entropy, softmax


class BARE(Rule):
    def __init__(self, rows, classes, clean=None, deviations=1.0):
        super().__init__(rows, classes)
        self.deviations = deviations

    def step(self, logits, labels, rows):
        p = softmax(logits)
        weights = []
        for i, label in enumerate(labels):
            column = p[:, label]
            deviation = np.std(column, ddof=1)
            weights.append(float(p[i, label] - column.mean() >= self.deviations * deviation))
        if not any(weights):
            weights = [1.0] * len(labels)
        return lambda moving: cross_entropy(moving, labels), weights
