import numpy as np

from .co_teaching import CoTeaching, easiest
from .rule import cross_entropy, softmax


def divergence(p, q):
    return (p * np.log(p / q)).sum(-1)


class JoCoR(CoTeaching):
    def __init__(self, rows, classes, clean=None, keep=0.6, ramp=10, agreement=0.5):
        super().__init__(rows, classes, clean, keep, ramp)
        self.agreement = agreement

    def step(self, logits, labels, rows):
        def joint(moving):
            p, q = softmax(moving[0]), softmax(moving[1])
            labelled = cross_entropy(moving[0], labels) + cross_entropy(moving[1], labels)
            return (1 - self.agreement) * labelled + self.agreement * (divergence(p, q) + divergence(q, p))

        chosen = easiest(joint(logits), self.number(len(labels)))
        # the joint loss belongs to both networks: half of it each
        return lambda moving: np.stack([joint(moving) / 2] * 2), [chosen, chosen]
