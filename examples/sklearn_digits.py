"""scikit-learn on digits with 40 % noisy labels: a pipeline, its Vanilla twin, and the labels to look at again."""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from adaptivek.integrations.sklearn import NoisyLabelClassifier
from adaptivek.noise import Directed, corrupt

torch.set_num_threads(1)  # the network is too small to share
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 40

x, y = load_digits(return_X_y=True)
x, x_test, y, y_test = train_test_split(x, y, test_size=0.2, stratify=y, random_state=0)
labels = corrupt(y, Directed(0.4), classes=10, seed=0)[0].numpy()


def train(name: str, **options: object) -> NoisyLabelClassifier:
    classifier = NoisyLabelClassifier(epochs=epochs, random_state=0, **options)
    accuracy = make_pipeline(StandardScaler(), classifier).fit(x, labels).score(x_test, y_test)
    print(f"{name:10}  test accuracy {accuracy:.3f}, noise found {classifier.noise_ratio_:.3f}")
    return classifier


train("vanilla", method="vanilla")
classifier = train("selection")
suspects = np.argsort(classifier.label_quality_)[:100]
print(f"of the 100 labels of lowest quality {np.mean(labels[suspects] != y[suspects]):.0%} are noisy")
