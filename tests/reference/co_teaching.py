import numpy as np

from .rule import Rule, cross_entropy


def easiest(losses, share):
    """1 for the smallest losses, at least one of them."""
    number = max(1, int(np.rint(np.float32(share) * np.float32(len(losses)))))
    chosen = sorted(range(len(losses)), key=lambda i: losses[i])[:number]
    return np.array([float(i in chosen) for i in range(len(losses))])


class CoTeaching(Rule):
    def __init__(self, rows, classes, clean=None, keep=0.6, ramp=10):
        super().__init__(rows, classes)
        self.keep, self.ramp, self.share = keep, ramp, 1.0

    def start_epoch(self, epoch, losses):
        forget = 1 - self.keep
        self.share = 1 - min(forget * epoch / self.ramp, forget)

    def step(self, logits, labels, rows):
        first, second = (easiest(cross_entropy(network, labels), self.share) for network in logits)

        def losses(moving):
            return np.stack([cross_entropy(network, labels) for network in moving])

        return losses, [second, first]
