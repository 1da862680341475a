# %% [markdown]
# # Which method for my data
#
# No method is best everywhere. So compare a few, on your data or on data like it, with noise like yours, and with more
# than one seed. In the shell this is `adaptivek bench`; here we do it in Python to see the parts.

# %%
import dataclasses

import matplotlib.pyplot as plt
import pandas as pd

from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.methods import METHODS, needs

# %% tags=["parameters"]
methods = ["oracle", "label-agreement", "label-posterior", "elr", "gce", "adaptive-k", "vanilla"]
noises = ["directed", "symmetric"]
seeds = 2
epochs = 25

# %% [markdown]
# ## What may I use?
#
# First ask what a method needs. Whoever does not know the noise ratio cannot use a method that must be told it, and
# the Oracle, which knows the truth, is only there as a bound.

# %%
for name in methods:
    print(f"{name:16} needs {', '.join(needs(METHODS[name])) or 'nothing'}")

# %% [markdown]
# ## The runs
#
# A `RunSpec` says all that decides a run: data, method, noise, seed and recipe. A `Session` trains it, an epoch at a
# time, and records what happens. With one seed all methods see the same noisy labels, first weights and batches.
#
# `"digits"` comes with scikit-learn. Data of your own has a folder: see [Data sets](../data.md#data-of-your-own).

# %%
first = max(1, epochs * 2 // 5)  # plain training, for methods that want it; then the learning rate drops
recipe = dataclasses.replace(RECIPES["digits"], epochs=epochs, warmup_epochs=first, decay_every=first)
records = []
for noise in noises:
    for seed in range(seeds):
        for method in methods:
            for epoch, record in enumerate(Session(RunSpec("digits", method, noise, 0.4, seed=seed, recipe=recipe))):
                records.append(
                    {
                        "noise": noise,
                        "method": method,
                        "seed": seed,
                        "epoch": epoch + 1,
                        "accuracy": 100 * record.test_accuracy,
                        "noise found": 100 * record.noise_ratio,
                    }
                )
runs = pd.DataFrame(records)
last = runs[runs.epoch == epochs]
print(last.pivot_table("accuracy", "method", "noise").loc[methods].round(1).to_string())

# %% [markdown]
# ## Look at the curves, not only at the end
#
# A method that is good at its best epoch and bad at the last one is of no use: without clean data nobody knows which
# epoch was the best.

# %%
figure, panels = plt.subplots(1, len(noises), figsize=(7.2, 3.4), sharey=True, squeeze=False)
for axes, noise in zip(panels[0], noises, strict=True):
    for method in methods:
        curve = runs[(runs.noise == noise) & (runs.method == method)].groupby("epoch").accuracy.mean()
        axes.plot(curve.index, curve, "--" if method in ("oracle", "vanilla") else "-", label=method, lw=1.6)
    axes.set(title=f"{noise} noise, 40 %", xlabel="epoch")
panels[0][0].set_ylabel("test accuracy, %")
panels[0][-1].legend(fontsize=8, loc="lower left", bbox_to_anchor=(1, 0))

# %% [markdown]
# ## Is the difference real?
#
# Compare it with the spread between seeds. With two seeds this is a hint at best; take five before you decide.

# %%
spread = last.groupby(["noise", "method"]).accuracy.agg(["mean", "min", "max"]).round(1)
print(spread.to_string())

# %% [markdown]
# ## On your own labels
#
# Here the test labels are clean and the noise was made. On your data neither holds:
#
# - Add noise on top of what is there (`--noise-rates 0.2`), and see which method copes. Choose the kind that is most
#   like yours: symmetric if people slip, directed if two classes are confused.
# - Check a few hundred test labels by hand. Otherwise close calls mean nothing.
#
# **Next**: [Compare methods on your data](../guides/compare.md) does all of this in one command, with a report.
