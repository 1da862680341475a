import numpy as np

from .co_teaching import easiest
from .rule import Rule, cross_entropy


class AugDesc(Rule):
    def __init__(self, rows, classes, clean=None, keep=0.6, ramp=10):
        super().__init__(rows, classes)
        self.keep, self.ramp, self.share = keep, ramp, 1.0

    def start_epoch(self, epoch, losses):
        forget = 1 - self.keep
        self.share = 1 - min(forget * epoch / self.ramp, forget)

    def step(self, logits, labels, rows):
        judged = cross_entropy(logits[0], labels)
        chosen = easiest(judged, int(np.rint(np.float32(self.share) * np.float32(len(labels)))))
        # the plain view stands still: it is not learned from
        return lambda moving: np.stack([judged, cross_entropy(moving[1], labels)]), [0 * chosen, chosen]
