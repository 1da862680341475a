import numpy as np

from .rule import Rule, cross_entropy

MASK = 2**64 - 1


def splitmix(x):
    x = (x + 1) * 0x9E3779B97F4A7C15 & MASK
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & MASK
    x = (x ^ x >> 27) * 0x94D049BB133111EB & MASK
    return x ^ x >> 31


class LabelNoisedTrim(Rule):
    def __init__(self, rows, classes, clean=None, flip=0.1, largest=0.1, smallest=0.1):
        super().__init__(rows, classes)
        self.flip, self.largest, self.smallest, self.steps = flip, largest, smallest, 0

    def step(self, logits, labels, rows):
        given = np.array(labels)
        for i, row in enumerate(rows):
            drawn = splitmix(splitmix(self.steps) + int(row) & MASK)
            if (drawn >> 40) / 2**24 < self.flip:
                given[i] = (drawn & 0x7FFFFFFF) % self.classes
        self.steps += 1
        order = np.argsort(cross_entropy(logits, given))
        low = round(self.smallest * len(rows))
        high = round(self.largest * len(rows))
        weights = np.zeros(len(rows))
        weights[order[low : len(rows) - high]] = 1
        return lambda moving: cross_entropy(moving, given), weights
