import math

from .rule import Rule


class ITLM(Rule):
    def __init__(self, rows, classes, clean=None, keep=0.6, every=1):
        super().__init__(rows, classes)
        self.keep, self.every = keep, every
        self.used = set(range(rows))

    def start_epoch(self, epoch, losses):
        if epoch and epoch % self.every == 0:
            number = max(1, math.floor(self.keep * self.rows + 1e-6))
            self.used = set(sorted(range(self.rows), key=lambda row: losses[row])[:number])

    def weights(self, losses, rows):
        return [float(row in self.used) for row in rows]
