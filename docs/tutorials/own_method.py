# %% [markdown]
# # Your own method in 30 lines
#
# A method decides how much each sample of a mini-batch counts. We write one, check it, look at what it does and train
# with it.

# %%
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import matplotlib.pyplot as plt
import torch
from torch import Tensor, nn

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.noise import Symmetric, corrupt
from adaptivek.testing import check_method

torch.set_num_threads(1)

# %% tags=["parameters"]
epochs = 25
check = True

# %% [markdown]
# ## The idea
#
# Adaptive-k keeps or drops: a sample just above the threshold counts nothing. Let us soften that: the weight falls
# from 1 to 0 around the recent mean loss, as a logistic curve of the loss.
#
# What changes from step to step, here the recent mean, is the *state*: a tuple of tensors that goes in and comes out.
# The fields of the class are the *parameters*.


# %%
class MeanLoss(NamedTuple):
    mean: Tensor  #: EMA of the mean loss of a batch


@dataclass(frozen=True)
class SoftThreshold(adaptivek.Method[MeanLoss]):
    """A sample counts by how far its loss is below twice the recent mean."""

    width: float = 0.25

    name: ClassVar[str] = "soft-threshold"
    summary: ClassVar[str] = "weighs losses by a logistic curve around twice their recent mean"
    paper: ClassVar[str] = "this tutorial"

    def init(self, task: adaptivek.Task) -> MeanLoss:
        return MeanLoss(torch.full((), 2.0))

    def step(self, state: MeanLoss, batch: adaptivek.Batch) -> adaptivek.Decision:
        mean = state.mean.lerp(batch.loss.sum() / batch.n_valid, 0.02)
        weights = torch.sigmoid((2 * mean - batch.loss) / (self.width * mean))
        return adaptivek.Decision(weights, update={"mean": mean})


# %% [markdown]
# ## Check it
#
# `check_method` runs what the rest of the library relies on: the same result compiled or not, alone or stacked with
# other runs, resumed or not, on one process or several. It raises if something does not hold.

# %%
if check:
    check_method(SoftThreshold)
    print("all checks passed")

# %% [markdown]
# ## Look at it
#
# How much does a sample count, by its loss? We show it a batch with losses from 0 to 6, at three points of training:
# when the mean loss is 2, 1 and 0.5.

# %%
losses = torch.linspace(0, 6, 200)
figure, axes = plt.subplots(figsize=(7.2, 2.8))
for mean in (2.0, 1.0, 0.5):
    batch = adaptivek.Batch(losses, losses, torch.ones(200, dtype=torch.bool), torch.tensor(200))
    weights = SoftThreshold().step(MeanLoss(torch.tensor(mean)), batch).weights
    axes.plot(losses, weights, label=f"mean loss {mean:g}")
axes.set(xlabel="loss of the sample", ylabel="weight")
axes.legend()

# %% [markdown]
# ## Train with it
#
# A method goes wherever a name goes. Digits, 40 % of the labels noisy, against plain training and the default:

# %%
data = load("digits")
labels, _ = corrupt(data.y, Symmetric(0.4), classes=10, seed=0)


def accuracies(method):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    criterion = adaptivek.Selection(method, rows=len(labels))
    found = []
    for _ in range(epochs):
        for rows in torch.randperm(len(labels)).split(10):
            loss = criterion(model(data.x[rows]), labels[rows], rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with torch.no_grad():
            found.append(100 * (model(data.x_test).argmax(1) == data.y_test).float().mean().item())
    return found


default = adaptivek.Selection().method
curves = {method.name: accuracies(method) for method in (SoftThreshold(), default, adaptivek.Vanilla())}
for name, curve in curves.items():
    print(f"{name}: {curve[-1]:.1f} % at the last epoch, {max(curve):.1f} % at the best")

# %%
figure, axes = plt.subplots(figsize=(7.2, 3))
for name, curve in curves.items():
    axes.plot(range(1, epochs + 1), curve, label=name)
axes.set(xlabel="epoch", ylabel="test accuracy, %")
axes.legend()

# %% [markdown]
# ## Where to go from here
#
# - `adaptivek.register(SoftThreshold)` in a file, and `adaptivek bench --import that_file.py` compares it with all
#   others over data sets, noise and seeds.
# - A decision may also hold other `losses`, `targets` or a `confidence`, and the state may have an entry for each row
#   of the training set: [Write your own method](../guides/own-method.md).
