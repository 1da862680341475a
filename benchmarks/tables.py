"""The scikit-learn classifier on small tables with noise of several kinds: which method suits few steps?"""

from __future__ import annotations

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from adaptivek.integrations.sklearn import NoisyLabelClassifier
from adaptivek.noise import Directed, Noise, Symmetric, corrupt

TABLES = {"digits": load_digits, "breast cancer": load_breast_cancer, "wine": load_wine}
NOISES: list[Noise] = [Symmetric(0.0), Symmetric(0.2), Directed(0.3)]
METHODS = {
    "vanilla": "vanilla",
    "as published": "adaptive-k",
    "quick averages": "adaptive-k:beta1=0.5,beta2=0.9",
    "mean threshold": "adaptive-k:threshold=mean",
    "label memory": "label-memory",
    "label memory, quick": "label-memory:beta=0.5",
    "label posterior": "label-posterior",
    "label agreement": "label-agreement",
}


def measure(method: str, name: str, noise: Noise, seed: int) -> tuple[float, float, float]:
    """Accuracy, noise found, and how well label quality ranks the noisy labels."""
    x, y = TABLES[name](return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, stratify=y, random_state=seed)
    labels = corrupt(y, noise, classes=len(np.unique(y)), seed=seed)[0].numpy()
    scaler = StandardScaler().fit(x)
    classifier = NoisyLabelClassifier(method, random_state=seed).fit(scaler.transform(x), labels)
    noisy = labels != y
    ranked = roc_auc_score(~noisy, classifier.label_quality_) if noisy.any() else np.nan
    return classifier.score(scaler.transform(x_test), y_test), classifier.noise_ratio_, ranked


def main() -> None:
    torch.set_num_threads(1)
    print("| table | noise |", " | ".join(METHODS), "|")
    print("|---|---|" + "---|" * len(METHODS))
    for name in TABLES:
        for noise in NOISES:
            cells = []
            for method in METHODS.values():
                accuracy, found, ranked = np.mean([measure(method, name, noise, seed) for seed in range(3)], axis=0)
                cells.append(f"{accuracy:.3f} / {found:.2f}" + ("" if np.isnan(ranked) else f" / {ranked:.3f}"))
            kind = f"{noise.name} {noise.rate:g}" if noise.rate else "none"
            print(f"| {name} | {kind} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
