"""Two stages on digits of which 40 % have a noisy label: plain training, the default, and two stages.

    python examples/two_stages.py

About a minute on two cores. The network and the loop are the same each time; what changes is the criterion.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import adaptivek
from adaptivek.noise import Directed, corrupt

epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 30
images, digits = load_digits(return_X_y=True)
x, y = torch.tensor(images / 16, dtype=torch.float32), torch.tensor(digits)
order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
rows, test = order[:1_200], order[1_200:]
labels = corrupt(y[rows], Directed(0.4), classes=10, seed=0)[0]
data = TensorDataset(x[rows], labels)


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))


def train(name: str, criterion: adaptivek.Selection) -> None:
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(epochs):
        for inputs, observed, index in DataLoader(adaptivek.indexed(data), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            criterion(model(inputs), observed, index).backward()
            optimizer.step()
    accuracy = (model(x[test]).argmax(1) == y[test]).float().mean()
    print(f"{name:12}  test accuracy {accuracy:.3f}")


train("plain", adaptivek.Selection("vanilla"))
train("the default", adaptivek.Selection(rows=len(data)))

# the first stage: the same network, cross-trained on halves of the rows
first = adaptivek.audit(data, model=network(), epochs=epochs)
second = adaptivek.audit(data, model=network(), epochs=epochs, start=first)  # once more, from there
print(f"audit         {first.noise_ratio:.0%} of the labels look noisy")
train("two stages", adaptivek.Selection(start=first))
train("two rounds", adaptivek.Selection(start=second))

# the same in one call, with a network of the library's
fitted = adaptivek.fit(None, x[rows].numpy(), labels.numpy(), measured=False, epochs=epochs)
predicted = torch.tensor([int(name) for name in fitted.predict(x[test].numpy())])
print(f"fit           test accuracy {(predicted == y[test]).float().mean():.3f}")
