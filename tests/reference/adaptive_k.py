import math

from .rule import Rule


class AdaptiveK(Rule):
    def __init__(self, rows, classes, clean=None, threshold="paper", beta1=0.9, beta2=0.999, eps=1e-8):
        super().__init__(rows, classes)
        self.threshold, self.beta1, self.beta2, self.eps = threshold, beta1, beta2, eps
        self.m = self.v = 0.0
        self.t = 0

    def cut(self, losses):
        mean = sum(float(x) for x in losses) / len(losses)
        self.t += 1
        self.m = self.beta1 * self.m + (1 - self.beta1) * mean
        self.v = self.beta2 * self.v + (1 - self.beta2) * mean**2
        if self.threshold == "paper":
            return self.m / (math.sqrt(self.v) + self.eps)
        return self.m / (1 - self.beta1**self.t)

    def weights(self, losses, rows):
        cut = self.cut(losses)
        return [float(x <= cut) for x in losses]
