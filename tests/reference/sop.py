import numpy as np
import torch

from .rule import Rule


class SOP(Rule):
    """The released loss written down whole, and its slopes for u and v by autograd: no formula for a slope here."""

    def __init__(self, rows, classes, clean=None, rate_u=0.1, rate_v=0.1):
        super().__init__(rows, classes)
        self.rate_u, self.rate_v = rate_u, rate_v
        self.u = torch.full((rows,), 1e-8, dtype=torch.float64)
        self.v = torch.full((rows, classes), 1e-8, dtype=torch.float64)

    def step(self, logits, labels, rows):
        u, v = self.u[rows].requires_grad_(), self.v[rows].requires_grad_()
        surprise, error = parts(logits, labels, u, v)
        (surprise + error).mean().backward()
        # a rate is for a row's own loss, so it is as many times their learning rate as the mean has samples
        self.u[rows] -= self.rate_u * len(labels) * u.grad
        self.v[rows] -= self.rate_v * len(labels) * v.grad

        def losses(moving):
            return parts(moving, labels, u.detach(), v.detach())[0].numpy()

        return losses, np.ones(len(labels))


def parts(logits, labels, u, v):
    """The cross-entropy, which the network learns from, and the squared error, for u and v only."""
    logits = torch.as_tensor(logits)
    given = torch.eye(logits.shape[1], dtype=torch.float64)[torch.as_tensor(labels)]
    predicted = torch.eye(logits.shape[1], dtype=torch.float64)[logits.argmax(1)]
    added = torch.clamp(u[:, None] ** 2 * given, 0, 1)
    taken = torch.clamp(v**2 * (1 - given), 0, 1)
    q = torch.clamp(torch.softmax(logits, 1) + added - taken.detach(), min=1e-4)
    q = torch.clamp(q / q.sum(1, keepdim=True), 1e-4, 1)
    error = ((predicted + added - taken - given) ** 2).sum(1)
    return -(given * q.log()).sum(1), error
