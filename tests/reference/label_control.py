import math

import numpy as np

from .label_memory import LabelMemory
from .rule import softmax


class LabelControl(LabelMemory):
    """Label memory row by row; then which rows are held out, how much is memorised, and what is remembered."""

    def __init__(self, rows, classes, clean=None, beta=0.5):
        super().__init__(rows, classes, beta=beta, caution=0.0)
        self.shares, self.squares = np.ones(classes), np.ones(classes)
        self.agreed, self.compared = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}

    def held_out(self, row):
        return (int(row) * 40503) % 65536 < 65536 * min(512 / self.rows, 1 / 16)

    def memorised(self):
        if min(self.compared.values()) < 4:
            return 0.0
        learned, held = (self.agreed[out] / self.compared[out] for out in (False, True))
        more = learned - held - 0.5 * math.sqrt(held * (1 - held) / self.compared[True])
        return 1 - math.exp(-max(more, 0.0) / 0.03)

    def step(self, logits, labels, rows):
        seen = [self.predictions[row].sum() > 0 for row in rows]
        super().step(logits, labels, rows)
        memorised, weights, targets = self.memorised(), np.ones(len(labels)), []
        remembered = [self.predictions[row] / self.predictions[row].sum() for row in rows]
        squared = [np.maximum(m, 1e-6) ** 2 / (np.maximum(m, 1e-6) ** 2).sum() for m in remembered]
        for place, (label, row) in enumerate(zip(labels, rows, strict=True)):
            sharp = squared[place] * self.shares / self.squares
            sharp /= sharp.sum()
            far = memorised if seen[place] else 0.0
            self.confidence[place] = (1 - far) * self.confidence[place] + far * sharp[label]
            if self.held_out(row):
                weights[place] = far
                far = 1.0
            targets.append((1 - far) * self.targets[place] + far * sharp)
        for out in (False, True):
            left = max(0.0, 1 - 2 * len(labels) / self.rows)
            self.agreed[out] *= left
            self.compared[out] *= left
        for p, label, row, before in zip(softmax(logits), labels, rows, seen, strict=True):
            if before:
                self.compared[self.held_out(row)] += 1
                self.agreed[self.held_out(row)] += int(np.argmax(p)) == label
        pace = min(1.0, 4 * len(labels) / self.rows)
        for moving, now in ((self.shares, remembered), (self.squares, squared)):
            moving += pace * (np.maximum(self.classes * np.mean(now, 0), 0.01) - moving)

        def losses(moving):
            return -(np.array(targets) * np.log(softmax(moving))).sum(1)

        return losses, weights
