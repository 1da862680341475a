import numpy as np

from .rule import Rule, cross_entropy, softmax


class CORES(Rule):
    def __init__(self, rows, classes, clean=None, beta=2.0, plain=10, ramp=30, sieve=31):
        super().__init__(rows, classes)
        rising = np.linspace(0, beta, ramp)
        self.betas = np.concatenate([np.zeros(plain), rising, np.full(200, beta)])
        self.epoch, self.sieve, self.seen, self.removed = 0, sieve, [], []
        self.first_epoch = max(0, sieve - 3)
        self.prior = np.full(classes, 1 / classes)

    def start_epoch(self, epoch, losses):
        self.epoch = epoch
        if self.seen:  # the prior of all labels, less those that the sieve took out
            left = np.bincount(self.seen, minlength=self.classes) - np.bincount(self.removed, minlength=self.classes)
            self.prior = left / left.sum()
        self.seen, self.removed = [], []

    def step(self, logits, labels, rows):
        every = -np.log(softmax(logits) + 1e-8)
        kept = (cross_entropy(logits, labels) - every.mean(1) <= 0) | (self.epoch < self.sieve)
        self.seen += list(labels)
        self.removed += list(labels[~kept])
        beta, prior = self.betas[self.epoch], self.prior

        def losses(moving):
            regulariser = (prior * -np.log(softmax(moving) + 1e-8)).sum(1)
            return (cross_entropy(moving, labels) - beta * regulariser) / (1 + beta)

        return losses, kept.astype(float)
