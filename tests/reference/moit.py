from collections import Counter

import numpy as np

from .rule import Rule


class MOIT(Rule):
    def __init__(self, rows, classes, clean=None, neighbours=50, plain=5):
        super().__init__(rows, classes)
        self.neighbours, self.plain = neighbours, plain
        self.labels, self.used = {}, set(range(rows))

    def start_epoch(self, epoch, features):
        if epoch < self.plain or not self.labels:
            return
        near = {}
        for row, own in enumerate(features):
            likeness = {
                other: own @ features[other] / np.linalg.norm(own) / np.linalg.norm(features[other])
                for other in self.labels
                if other != row
            }
            near[row] = sorted(likeness, key=likeness.get, reverse=True)[: self.neighbours]
        corrected = {row: self.winner(Counter(self.labels[other] for other in near[row])) for row in near}
        votes = {row: Counter(corrected[other] for other in near[row]) for row in near}
        known = sorted(self.labels)
        classes = {label: [row for row in known if self.labels[row] == label] for label in range(self.classes)}
        agreeing = [sum(self.winner(votes[row]) == label for row in rows) for label, rows in classes.items() if rows]
        number = max(1, sorted(agreeing)[(len(agreeing) - 1) // 2])
        self.used = {row for row in range(self.rows) if row not in self.labels}
        for label, rows in classes.items():
            self.used |= set(sorted(rows, key=lambda row: -votes[row][label])[:number])

    def winner(self, votes):
        return min(votes, key=lambda label: (-votes[label], label))

    def step(self, logits, labels, rows):
        self.labels.update(zip(rows.tolist(), labels.tolist(), strict=True))
        return super().step(logits, labels, rows)

    def weights(self, losses, rows):
        return [float(row in self.used) for row in rows]
