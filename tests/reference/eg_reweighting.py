import numpy as np

from .rule import Rule


class EGReweighting(Rule):
    def __init__(self, rows, classes, clean=None, rate=0.1, decay=1.0):
        super().__init__(rows, classes)
        self.rate, self.decay = rate, decay
        self.distribution = np.ones(rows) / rows

    def weights(self, losses, rows):
        self.distribution[rows] = (self.distribution[rows] * self.rows) ** self.decay / self.rows
        self.distribution[rows] *= np.exp(-self.rate * losses)
        if self.decay == 1:  # with another exponent a common factor is not indifferent to later steps
            self.distribution /= self.distribution.sum()
        return self.distribution[rows] / self.distribution[rows].max()
