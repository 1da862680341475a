import math

from .mkl import MKL


class RT(MKL):
    def __init__(self, rows, classes, clean=None, keep=0.6, ramp=10, curve="power", power=1.0, late=0.0):
        super().__init__(rows, classes, keep=1.0)
        self.target, self.ramp, self.curve, self.power, self.late = keep, ramp, curve, power, late

    def start_epoch(self, epoch, losses):
        x = min(epoch / self.ramp, 1)
        if self.curve == "exp":
            shape = (1 - math.exp(-self.power * x)) / (1 - math.exp(-self.power))
        elif self.curve == "log":
            shape = math.log(1 + self.power * x) / math.log(1 + self.power)
        else:
            shape = x**self.power
        self.keep = 1 - (1 - self.target) * shape
        if epoch > self.ramp:
            self.keep = min(1, max(0, self.keep + self.late * (epoch - self.ramp) / self.ramp))
