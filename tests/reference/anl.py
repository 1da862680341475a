import math

import numpy as np

from .rule import Rule, softmax


class ANL(Rule):
    def __init__(self, rows, classes, clean=None, alpha=5.0, beta=5.0):
        super().__init__(rows, classes)
        self.alpha, self.beta = alpha, beta

    def step(self, logits, labels, rows):
        def losses(moving):
            return np.array([self.loss(p, label) for p, label in zip(softmax(moving), labels, strict=True)])

        return losses, np.ones(len(rows))

    def loss(self, p, label):
        """Each of the two as the paper has it: the loss with the label over the sum of that with every class."""
        most = -math.log(1e-7)
        positive = [-math.log(one) for one in p]
        negative = [most + math.log(max(one, 1e-7)) for one in p]
        normalised = positive[label] / sum(positive)
        return self.alpha * normalised + self.beta * (1 - negative[label] / sum(negative))
