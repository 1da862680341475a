# %% [markdown]
# # From a dirty CSV to a better model
#
# A CSV with mislabelled rows comes in. The audit finds them; a model trained on what is left does better. It takes a
# minute or two on a laptop.

# %%
import matplotlib.pyplot as plt
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import adaptivek
from adaptivek.noise import Directed, corrupt

# %% tags=["parameters"]
rows = 1797  # of the data set
epochs = 0  # of the audit; 0: as many as suit the data

# %% [markdown]
# ## A dirty file
#
# Yours exists already. Here we make one from scikit-learn's handwritten digits, 64 pixels each, so that we know the
# truth: 30 % of the labels become another digit, always the same one. The test rows stay clean.

# %%
pixels, digits = load_digits(return_X_y=True)
pixels, test_pixels, digits, test_digits = train_test_split(
    pixels[:rows], digits[:rows], test_size=0.25, random_state=0, stratify=digits[:rows]
)
noisy = corrupt(digits, Directed(0.3), classes=10, seed=0)[0].numpy()
columns = [f"pixel_{place}" for place in range(64)]
dirty = pd.DataFrame(pixels, columns=columns).assign(label=[f"digit {label}" for label in noisy])
dirty.to_csv("dirty.csv", index=False)
print(f"{len(dirty)} rows, {(noisy != digits).mean():.1%} of them mislabelled")

# %% [markdown]
# ## The audit
#
# On the command line this is `adaptivek audit dirty.csv --label label --out audit`.

# %%
plan = {"epochs": epochs} if epochs else {}
result = adaptivek.audit("dirty.csv", "label", folder="audit", **plan)
print(
    f"noise ratio {result.noise_ratio:.1%}, between {result.noise_ratio_low:.1%} and {result.noise_ratio_high:.1%}; "
    f"{result.is_issue.sum()} rows are flagged"
)
for warning in result.warnings:
    print("warning:", warning)

# %% [markdown]
# Since we made the noise, we can tell how good the list is. With your own data you look at it instead:
# `audit/report.html` is made for that.

# %%
wrong = (noisy != digits)[result.row]
found = wrong[result.is_issue]
print(f"of the flagged rows {found.mean():.1%} are mislabelled")
print(f"of the mislabelled rows {found.sum() / wrong.sum():.1%} are flagged")

# %% [markdown]
# The ten most suspicious rows, each with its label in the file and the label that the audit suggests:

# %%
figure, panels = plt.subplots(2, 5, figsize=(7.2, 3.6))
for axes, place in zip(panels.flat, result.score.argsort()[:10], strict=True):
    axes.imshow(pixels[result.row[place]].reshape(8, 8), cmap="gray_r")
    observed, suggested = (result.classes[labels[place]] for labels in (result.label, result.suggested_label))
    axes.set_title(f"{observed}\n→ {suggested}", fontsize=9, fontweight="normal")
    axes.axis("off")

# %% [markdown]
# ## Better models
#
# `audit/clean.csv` is the file without the flagged rows whose pixels speak against the label. We could also put the
# suggested labels in the place of all flagged ones. Three common models, trained on each and tested on clean rows:

# %%
clean = pd.read_csv("audit/clean.csv")
fixed = dirty.copy()
flagged = result.row[result.is_issue]
fixed.loc[flagged, "label"] = [result.classes[label] for label in result.suggested_label[result.is_issue]]
truth = [f"digit {label}" for label in test_digits]
models = {
    "nearest neighbour": KNeighborsClassifier(1),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)),
    "random forest": RandomForestClassifier(random_state=0),
}
accuracy = pd.DataFrame(
    {
        name: {
            kind: 100 * model.fit(data[columns].to_numpy(), data["label"]).score(test_pixels, truth)
            for kind, data in (("dirty.csv", dirty), ("clean.csv", clean), ("suggested labels", fixed))
        }
        for name, model in models.items()
    }
).T
print(accuracy.round(1).to_string())

# %%
axes = accuracy.plot.barh(figsize=(7.2, 3), xlim=(40, 100), width=0.75)
axes.set_xlabel("test accuracy, %")
axes.legend(loc="upper left", bbox_to_anchor=(1, 1))

# %% [markdown]
# A model that memorises, such as the nearest neighbour, gains most. The random forest is robust to some noise by
# itself.
#
# **Next**: [Clean a data set](../guides/clean.md) says how to decide on rows; [the audit in full](../audit.md) says
# when not to trust it.
