import numpy as np

from .rule import Rule, softmax


class LabelSmoothing(Rule):
    def __init__(self, rows, classes, clean=None, smoothing=0.1):
        super().__init__(rows, classes)
        self.targets = (1 - smoothing) * np.eye(classes) + smoothing / classes

    def step(self, logits, labels, rows):
        return lambda moving: -(self.targets[labels] * np.log(softmax(moving))).sum(1), np.ones(len(labels))
