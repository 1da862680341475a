import numpy as np

from .rule import Rule


class MedianTGD(Rule):
    def __init__(self, rows, classes, clean=None, factor=2.0):
        super().__init__(rows, classes)
        self.factor = factor

    def weights(self, losses, rows):
        return [float(x <= self.factor * np.median(losses)) for x in losses]
