import numpy as np

from .rule import Rule, cross_entropy


def easiest(losses, number):
    """1 for the smallest losses, at least one of them."""
    chosen = sorted(range(len(losses)), key=lambda i: losses[i])[: max(1, number)]
    return np.array([float(i in chosen) for i in range(len(losses))])


class CoTeaching(Rule):
    def __init__(self, rows, classes, clean=None, keep=0.6, ramp=10):
        super().__init__(rows, classes)
        # a rate for each epoch; the authors count these from 0 and train from epoch 1 on
        self.rates = [*np.linspace(0, 1 - keep, ramp), *[1 - keep] * 1000]
        self.rate = 0.0

    def start_epoch(self, epoch, losses):
        self.rate = self.rates[epoch + 1]

    def number(self, size):
        return int((1 - self.rate) * size + 1e-9)

    def step(self, logits, labels, rows):
        number = self.number(len(labels))
        first, second = (easiest(cross_entropy(network, labels), number) for network in logits)

        def losses(moving):
            return np.stack([cross_entropy(network, labels) for network in moving])

        return losses, [second, first]
