# %% [markdown]
# # One line in your loop
#
# A plain PyTorch loop, trained on labels of which 40 % are noisy; then the same loop with one line changed. We look at
# what happens inside.

# %%
import matplotlib.pyplot as plt
import torch
from torch import nn

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.noise import Directed, corrupt

torch.set_num_threads(1)  # the network is too small to share

# %% tags=["parameters"]
epochs = 40

# %% [markdown]
# ## The data
#
# Handwritten digits. Each label is flipped with probability 0.4, always to the same other digit: nearly half of all
# threes are called five.

# %%
data = load("digits")
labels, manifest = corrupt(data.y, Directed(0.4), classes=10, seed=0)
noisy = labels != data.y
print(f"{len(labels)} rows, {noisy.float().mean():.1%} of the labels are noisy")

# %% [markdown]
# ## The loop
#
# Nothing special, except that the criterion is an argument. It is given the row numbers too; plain cross-entropy
# ignores them here.


# %%
def train(criterion):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.2)
    history = []
    for _ in range(epochs):
        model.train()
        for rows in torch.randperm(len(labels)).split(10):
            loss = criterion(model(data.x[rows]), labels[rows], rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        scheduler.step()
        model.eval()
        with torch.no_grad():
            test = (model(data.x_test).argmax(1) == data.y_test).float().mean().item()
            memorised = (model(data.x).argmax(1) == labels)[noisy].float().mean().item()
        history.append((test, memorised))
    return model, history


def cross_entropy(logits, y, rows):
    return nn.functional.cross_entropy(logits, y)


# %% [markdown]
# ## Plain training, and the one line

# %%
_, plain = train(cross_entropy)
criterion = adaptivek.Selection(rows=len(labels))  # the one line
model, ours = train(criterion)
for name, history in (("cross-entropy", plain), (f"Selection(), {criterion.method.name}", ours)):
    test, memorised = history[-1]
    print(f"{name}: test accuracy {test:.1%}, noisy labels memorised {memorised:.1%}")

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3), sharex=True, sharey=True)
for axes, column, title in ((left, 0, "test accuracy"), (right, 1, "noisy labels memorised")):
    axes.plot(range(1, epochs + 1), [row[column] for row in ours], label="Selection()")
    axes.plot(range(1, epochs + 1), [row[column] for row in plain], "--", label="cross-entropy")
    axes.set(title=title, xlabel="epoch")
left.legend(loc="lower right")

# %% [markdown]
# Both learn the digits first. Then plain training goes on to memorise the noisy labels, and its accuracy falls.
#
# ## What the criterion knows
#
# After a step, `criterion.confidence` has its confidence in each label of the batch. Here for all rows at once, in
# evaluation mode of the network. We made the noise, so we can colour them by the truth, which the criterion never sees.

# %%
with torch.no_grad():
    criterion(model(data.x), labels, torch.arange(len(labels)))
confidence = criterion.confidence
print(f"noise ratio found {criterion.noise_ratio:.1%}, true {noisy.float().mean():.1%}")
print(f"mean confidence in clean labels {confidence[~noisy].mean():.2f}, in noisy ones {confidence[noisy].mean():.2f}")

# %%
figure, axes = plt.subplots(figsize=(7.2, 2.8))
axes.hist([confidence[~noisy], confidence[noisy]], bins=20, range=(0, 1), stacked=True, label=["clean", "noisy"])
axes.set(xlabel="confidence in the observed label", ylabel="rows")
axes.legend()

# %% [markdown]
# **Next**: [Train in plain PyTorch](../guides/pytorch.md) has the rest: row numbers from a `DataLoader`, accumulation,
# mixed precision, checkpoints.
