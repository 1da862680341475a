import math

import numpy as np

from .label_posterior import LabelPosterior
from .rule import softmax


class LabelAgreement(LabelPosterior):
    """Row by row: what was predicted a visit before, what is forgotten since, and which labels are left out."""

    def __init__(self, rows, classes, clean=None, limit=0.08):
        super().__init__(rows, classes)
        self.limit, self.agreed, self.out = limit, set(), set()
        self.mean_of_all, self.square_of_all = 1 / classes, 1 / classes**2
        self.lost, self.predicted_before = np.zeros(classes), np.zeros(classes)
        self.back = self.left_out = 0.0
        self.learned_of_late = self.lost_of_late = 0.0
        self.predicted, self.labelled = np.zeros(classes), np.zeros(classes)

    def settled(self):
        number = self.predicted_before.sum()
        of_all = (self.lost.sum() + 1) / (number + 2)
        pairs = zip(self.lost, self.predicted_before, strict=True)
        share = np.mean([(lost + 2 * of_all) / (before + 2) for lost, before in pairs])
        most = share + math.sqrt(share * (1 - share) / max(number, 1.0))
        return float(np.clip((1.5 * self.limit - most) / (0.5 * self.limit), 0, 1))

    def levelled_off(self):
        number = self.learned_of_late + self.lost_of_late + 1
        surplus = (self.learned_of_late - self.lost_of_late) / number + 1 / math.sqrt(number)
        return float(np.clip((0.08 - surplus) / 0.04, 0, 1))

    def memorised(self):
        if self.at_first < 100:
            return 0.0
        clean = 1 - self.wrong_at_first / self.at_first
        return float(np.clip((self.predicted.sum() / max(self.labelled.sum(), 1) - clean) / 0.05, 0, 1))

    def lasting(self):
        share = self.back / max(self.left_out, 1.0)
        least = share - math.sqrt(share * (1 - share) / max(self.left_out, 1.0))
        return float(np.clip((0.2 - least) / 0.1, 0, 1))

    def doubted(self, row):
        return 1.0 if self.visits[row] < 4 else max(self.settled(), self.levelled_off(), self.memorised())

    def step(self, logits, labels, rows):
        p, share, visited = softmax(logits), len(labels) / self.rows, self.visits[rows] > 0
        self.at_first, self.wrong_at_first = self.early, self.early_wrong
        mixed = self.targets(logits, labels, rows)
        pace = min(1.0, len(labels) / 256)
        self.mean_of_all = (1 - pace) * self.mean_of_all + pace * p.mean()
        self.square_of_all = (1 - pace) * self.square_of_all + pace * (p**2).mean()
        deviation = math.sqrt(max(self.square_of_all - self.mean_of_all**2, 0.0))
        threshold = min(self.mean_of_all + deviation, 0.75)
        sure, kept = self.settled() * self.lasting(), []
        for row, label in zip(p, labels, strict=True):
            trust = np.clip(4 * self.predicted[label] / (self.labelled[label] + 1) - 1, 0, 1)
            good = int(np.argmax(row)) == label and row[label] >= threshold
            kept.append(1.0 if good else 1 - sure * trust)
        self.kept = np.array(kept)

        for name, epochs in {
            "lost": 1 / 4, "predicted_before": 1 / 4, "predicted": 1 / 4, "labelled": 1 / 4,
            "back": 1, "left_out": 1, "learned_of_late": 2, "lost_of_late": 2,
        }.items():  # fmt: skip
            setattr(self, name, max(0.0, 1 - share / epochs) * getattr(self, name))
        before, out = set(self.agreed), set(self.out)
        for row, label, number, counts, again in zip(p, labels, rows, kept, visited, strict=True):
            agrees = int(np.argmax(row)) == label
            self.labelled[label] += 1
            self.predicted[label] += agrees
            if number in before:
                self.predicted_before[label] += 1
                self.lost[label] += not agrees
                self.lost_of_late += not agrees
            elif again:
                self.learned_of_late += agrees
            if number in out:
                self.left_out += 1
                self.back += agrees
            (self.agreed.add if agrees else self.agreed.discard)(number)
            (self.out.add if counts < 0.5 and not agrees else self.out.discard)(number)
        left = self.kept[:, None]
        return self.cross_entropy_with(left * mixed + (1 - left) * p), np.ones(len(labels))
