import numpy as np

from .rule import Rule, softmax


class Forward(Rule):
    def __init__(self, rows, classes, clean=None, percentile=97):
        super().__init__(rows, classes)
        self.percentile, self.matrix = percentile, None

    def start_epoch(self, epoch, logits):
        if self.matrix is not None:
            return
        p, self.matrix = softmax(logits), []
        for label in range(self.classes):
            column = p[:, label].copy()
            if self.percentile < 100:
                column[column >= np.percentile(column, self.percentile, method="higher")] = 0
            anchor = np.argmax(column)
            self.matrix.append(p[anchor] / sum(p[anchor]))
        self.matrix = np.array(self.matrix)

    def step(self, logits, labels, rows):
        def losses(moving):
            found = np.clip(softmax(moving), 1e-7, 1 - 1e-7)
            matrix = np.eye(self.classes) if self.matrix is None else self.matrix
            return -np.log((found @ matrix)[np.arange(len(labels)), labels])

        return losses, np.ones(len(labels))
