import math

from .rule import Rule


class Curriculum(Rule):
    def __init__(self, rows, classes, clean=None, start=0.3, end=1.0, ramp=20):
        super().__init__(rows, classes)
        self.start, self.end, self.ramp = start, end, ramp
        self.difficulty, self.used = {}, set(range(rows))

    def share(self, epoch):
        return self.start + (self.end - self.start) * min((epoch - 1) / self.ramp, 1)

    def start_epoch(self, epoch, losses):
        number = max(1, math.floor(self.share(max(epoch, 1)) * self.rows + 1e-6))
        easy = sorted(self.difficulty, key=self.difficulty.__getitem__)[:number]
        self.used = set(easy) | (set(range(self.rows)) - set(self.difficulty))

    def weights(self, losses, rows):
        self.difficulty.update(zip(rows.tolist(), losses, strict=True))
        return [float(row in self.used) for row in rows.tolist()]
