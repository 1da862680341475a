import math

import numpy as np

from .rule import Rule, cross_entropy, softmax


class LabelAgreement(Rule):
    """Row by row: what was predicted a visit before, what is forgotten since, and which labels are left out."""

    clean_share = 0.85

    def __init__(self, rows, classes, clean=None, limit=0.08):
        super().__init__(rows, classes)
        self.limit, self.agreed, self.out = limit, set(), set()
        self.mean, self.square = np.full(classes, 1 / classes), np.full(classes, 1 / classes**2)
        self.lost = self.learned = self.back = self.left_out = 0.0
        self.predicted, self.labelled = np.zeros(classes), np.zeros(classes)

    def settled(self):
        share = (self.lost + 1) / (self.learned + 2)
        most = share + math.sqrt(share * (1 - share) / max(self.learned, 1.0))
        return float(np.clip((1.5 * self.limit - most) / (0.5 * self.limit), 0, 1))

    def lasting(self):
        share = self.back / max(self.left_out, 1.0)
        least = share - math.sqrt(share * (1 - share) / max(self.left_out, 1.0))
        return float(np.clip((0.2 - least) / 0.1, 0, 1))

    def step(self, logits, labels, rows):
        p, share = softmax(logits), len(labels) / self.rows
        pace = min(1.0, len(labels) / 256)
        self.mean = (1 - pace) * self.mean + pace * p.mean(0)
        self.square = (1 - pace) * self.square + pace * (p**2).mean(0)
        sure, kept = self.settled() * self.lasting(), []
        for row, label in zip(p, labels, strict=True):
            deviation = math.sqrt(max(self.square[label] - self.mean[label] ** 2, 0.0))
            threshold = min(self.mean[label] + deviation, 0.75)
            trust = np.clip(4 * self.predicted[label] / (self.labelled[label] + 1) - 1, 0, 1)
            good = int(np.argmax(row)) == label and row[label] >= threshold
            kept.append(1.0 if good else 1 - sure * trust)
        kept = self.confidence = np.array(kept)

        self.lost, self.learned = (max(0.0, 1 - 4 * share) * number for number in (self.lost, self.learned))
        self.predicted, self.labelled = (max(0.0, 1 - 2 * share) * number for number in (self.predicted, self.labelled))
        self.back, self.left_out = (max(0.0, 1 - share) * number for number in (self.back, self.left_out))
        before, out = set(self.agreed), set(self.out)
        for row, label, number, counts in zip(p, labels, rows, kept, strict=True):
            agrees = int(np.argmax(row)) == label
            self.labelled[label] += 1
            self.predicted[label] += agrees
            if number in before:
                self.learned += 1
                self.lost += not agrees
            if number in out:
                self.left_out += 1
                self.back += agrees
            (self.agreed.add if agrees else self.agreed.discard)(number)
            (self.out.add if counts < 0.5 and not agrees else self.out.discard)(number)

        def losses(moving):
            q = np.log(softmax(moving))
            return kept * cross_entropy(moving, labels) - (1 - kept) * (p * q).sum(1)

        return losses, np.ones(len(labels))
