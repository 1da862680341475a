import numpy as np

from .rule import Rule


class DLT(Rule):
    def __init__(self, rows, classes, clean=None, plain=5):
        super().__init__(rows, classes)
        self.plain = plain
        self.remembered, self.bound = {}, np.inf

    def start_epoch(self, epoch, losses):
        if epoch >= self.plain and self.remembered:
            known = np.array(list(self.remembered.values()))
            self.bound = known.mean()
            for _ in range(20):
                low, high = known[known <= self.bound], known[known > self.bound]
                self.bound = (low.mean() + high.mean()) / 2

    def weights(self, losses, rows):
        self.remembered.update(zip(rows.tolist(), losses, strict=True))
        return [float(x <= self.bound) for x in losses]
