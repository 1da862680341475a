import math

import numpy as np

from .label_memory import LabelMemory
from .rule import softmax


class LabelControl(LabelMemory):
    """Label memory row by row; then which rows are held out, what they tell, and what is remembered."""

    clean_share = 0.85  # with more noise nothing would be learned of held-out labels, and it would not begin

    def __init__(self, rows, classes, clean=None, beta=0.5, wait=1.0):
        super().__init__(rows, classes, beta=beta, caution=0.0)
        self.shares, self.squares = np.ones(classes), np.ones(classes)
        self.agreed, self.compared = {False: 0.0, True: 0.0}, {False: 0.0, True: 0.0}
        self.last, self.passed = {}, 0.0  # surprise of each control at its last visit; epochs
        self.visits, self.changes = [], []  # of controls: weight, and surprise or its change
        self.wait, self.probably, self.certainly = wait, float(wait == 0), float(wait == 0)

    def held_out(self, row):
        return (int(row) * 40503) % 65536 < 65536 * min(1024 / self.rows, 1 / 16)

    def memorised(self, slack=0.0):
        if min(self.compared.values()) < 4:
            return 0.0
        learned, held = (self.agreed[out] / self.compared[out] for out in (False, True))
        more = learned - held - slack - 0.5 * math.sqrt(held * (1 - held) / self.compared[True])
        return 1 - math.exp(-max(more, 0.0) / 0.03)

    def follow(self, labels, rows, predicted):
        """Each control's surprise, beside that of its last visit; older ones count for less."""
        share = min(1.0, len(labels) / self.rows)
        self.passed += share
        self.visits, self.changes = (
            [((1 - share) * weight, value) for weight, value in seen] for seen in (self.visits, self.changes)
        )
        for p, label, row in zip(predicted, labels, rows, strict=True):
            if self.held_out(row):
                surprise = min(-math.log(p[label]), 9.0)
                self.visits.append((1.0, surprise))
                if row in self.last:
                    self.changes.append((1.0, surprise - self.last[row]))
                if self.passed >= 0.5:
                    self.last[row] = surprise

    def learned_out(self, chance, errors):
        number = sum(weight for weight, _ in self.changes)
        if number < max(6, min(1024, self.rows / 16) / 8):
            return 0.0
        surprise = sum(w * value for w, value in self.visits) / max(1.0, sum(w for w, _ in self.visits))
        change = sum(w * value for w, value in self.changes) / number
        error = math.sqrt(sum(w * value**2 for w, value in self.changes)) / number
        to_learn = max(min(surprise, chance - surprise), 0.01)
        return math.exp(-max(errors * error - change, 0.0) / (0.01 * to_learn))

    def step(self, logits, labels, rows):
        seen = [self.predictions[row].sum() > 0 for row in rows]
        super().step(logits, labels, rows)
        memorised = max(self.probably * self.memorised(), self.memorised(0.05))
        weights, targets = np.ones(len(labels)), []
        remembered = [self.predictions[row] / self.predictions[row].sum() for row in rows]
        squared = [np.maximum(m, 1e-6) ** 2 / (np.maximum(m, 1e-6) ** 2).sum() for m in remembered]
        for place, (label, row) in enumerate(zip(labels, rows, strict=True)):
            sharp = squared[place] * self.shares / self.squares
            sharp /= sharp.sum()
            far = memorised if seen[place] else 0.0
            target = (1 - self.certainly) * np.eye(self.classes)[label] + self.certainly * self.targets[place]
            confidence = 1 - self.certainly + self.certainly * self.confidence[place]
            self.confidence[place] = (1 - far) * confidence + far * sharp[label]
            if self.held_out(row):
                weights[place] = far
                far = 1.0
            targets.append((1 - far) * target + far * sharp)
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
        self.follow(labels, rows, softmax(logits))
        observed = self.mistakes.sum(0) / self.mistakes.sum()
        chance = -sum(share * math.log(share) for share in observed if share > 0)
        faster = min(1.0, 3 * len(labels) / self.rows)
        surprise = sum(w * value for w, value in self.visits) / max(1.0, sum(w for w, _ in self.visits))
        learned = min(1.0, max(0.0, (1 - surprise / max(chance, 0.01)) / 0.05))
        self.probably += faster * max(0.0, self.learned_out(chance, self.wait / 2) - self.probably)
        self.certainly += faster * max(0.0, learned * self.learned_out(chance, self.wait) - self.certainly)

        def losses(moving):
            return -(np.array(targets) * np.log(softmax(moving))).sum(1)

        return losses, weights
