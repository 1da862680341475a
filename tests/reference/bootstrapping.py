import numpy as np

from .rule import Rule, softmax


class Bootstrapping(Rule):
    def __init__(self, rows, classes, clean=None, kind="hard", beta=0.8):
        super().__init__(rows, classes)
        self.kind, self.beta = kind, beta

    def step(self, logits, labels, rows):
        decided = np.eye(self.classes)[logits.argmax(1)]

        def losses(moving):
            p = softmax(moving)
            own = decided if self.kind == "hard" else p
            target = self.beta * np.eye(self.classes)[labels] + (1 - self.beta) * own
            return -(target * np.log(p)).sum(1)

        return losses, np.ones(len(labels))
