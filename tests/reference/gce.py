import numpy as np

from .rule import Rule, softmax


class GCE(Rule):
    def __init__(self, rows, classes, clean=None, q=0.7, truncate=0.0):
        super().__init__(rows, classes)
        self.q, self.truncate = q, truncate

    def step(self, logits, labels, rows):
        def losses(moving):
            found = []
            for probabilities, label in zip(softmax(moving), labels, strict=True):
                p = probabilities[label] if probabilities[label] > self.truncate else self.truncate
                found.append((1 - p**self.q) / self.q)
            return np.array(found)

        return losses, np.ones(len(labels))
