import numpy as np
from scipy.stats import beta

from .rule import Rule, cross_entropy


class BetaMixture(Rule):
    def __init__(self, rows, classes, clean=None, rounds=10):
        super().__init__(rows, classes)
        self.rounds = rounds
        self.wrong = np.zeros(rows)

    def start_epoch(self, epoch, losses):
        low, high = np.percentile(losses, [5, 95])
        scaled = np.clip((losses - low) / (high - low + 1e-6), 1e-3, 1 - 1e-3)
        fitted = scaled[(losses >= low) & (losses <= high)]
        found = [(fitted < 0.5).astype(float), (fitted >= 0.5).astype(float)]
        for _ in range(self.rounds):
            shares = [part.sum() / len(fitted) for part in found]
            shapes = []
            for part in found:
                mean = np.average(fitted, weights=part)
                spread = np.average((fitted - mean) ** 2, weights=part)
                total = mean * (1 - mean) / spread - 1
                shapes.append((mean * total, (1 - mean) * total))
            found = self.responsibilities(fitted, shapes, shares)
        means = [a / (a + b) for a, b in shapes]
        high_one = int(np.argmax(means))
        self.wrong = self.responsibilities(np.clip(scaled, min(means), max(means)), shapes, shares)[high_one]

    def responsibilities(self, x, shapes, shares):
        parts = [share * beta.pdf(x, *shape) for share, shape in zip(shares, shapes, strict=True)]
        return [part / sum(parts) for part in parts]

    def step(self, logits, labels, rows):
        w, own = self.wrong[rows], logits.argmax(-1)
        return (
            lambda moving: (1 - w) * cross_entropy(moving, labels) + w * cross_entropy(moving, own),
            np.ones(len(labels)),
        )
