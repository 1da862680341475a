import math

import numpy as np

from .rule import Rule, softmax


class SCE(Rule):
    def __init__(self, rows, classes, clean=None, alpha=0.1, beta=1.0, log_zero=-4.0):
        super().__init__(rows, classes)
        self.alpha, self.beta, self.log_zero = alpha, beta, log_zero

    def step(self, logits, labels, rows):
        def losses(moving):
            found = []
            for p, label in zip(softmax(moving), labels, strict=True):
                log_of_label = [0.0 if k == label else self.log_zero for k in range(len(p))]
                reverse = -sum(p[k] * log_of_label[k] for k in range(len(p)))
                found.append(self.alpha * -math.log(p[label]) + self.beta * reverse)
            return np.array(found)

        return losses, np.ones(len(labels))
