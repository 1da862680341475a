import numpy as np

from .rule import Rule, softmax


class LCCN(Rule):
    """Gibbs sampling of the true classes, but for every draw its expectation."""

    def __init__(self, rows, classes, clean=None, prior=1.0):
        super().__init__(rows, classes)
        self.prior, self.matrix, self.inferred, self.labels = prior, None, {}, {}

    def start_epoch(self, epoch, losses):
        if not self.inferred:
            return
        counts = np.zeros((self.classes, self.classes))
        for row, shares in self.inferred.items():
            for z in range(self.classes):
                counts[z, self.labels[row]] += shares[z]
        self.matrix = np.array([(row + self.prior) / sum(row + self.prior) for row in counts])

    def step(self, logits, labels, rows):
        targets = []
        for p, label, row in zip(softmax(logits), labels, rows, strict=True):
            self.labels[row] = label
            if self.matrix is None:  # no counts yet: they begin with the predicted classes
                targets.append(np.eye(self.classes)[label])
                self.inferred[row] = np.eye(self.classes)[np.argmax(p)]
            else:
                joint = np.array([p[z] * self.matrix[z, label] for z in range(self.classes)])
                targets.append(joint / sum(joint))
                self.inferred[row] = targets[-1]
        targets = np.array(targets)
        self.confidence = targets[range(len(rows)), labels]
        return lambda moving: -(targets * np.log(softmax(moving))).sum(1), np.ones(len(labels))
