from .curriculum import Curriculum


class CyclicalCurriculum(Curriculum):
    def __init__(self, rows, classes, clean=None, start=0.25, end=1.0, factor=0.5):
        super().__init__(rows, classes, start=start, end=end)
        self.factor = factor

    def share(self, epoch):
        up = [self.start]
        while up[-1] < self.end:
            up.append(min(up[-1] / self.factor, self.end))
        down = [self.end]
        while down[-1] > self.start:
            down.append(max(down[-1] * self.factor, self.start))
        cycle = up + down[1:-1]
        return cycle[(epoch - 1) % len(cycle)]
