"""A plain PyTorch loop on digits with 40 % noisy labels: the network memorises them."""

import sys

import torch
from torch import nn

from adaptivek.experiments.data import load
from adaptivek.noise import Directed, corrupt

torch.set_num_threads(1)  # the network is too small to share
torch.manual_seed(0)
epochs = int(sys.argv[1]) if len(sys.argv) > 1 else 50

data = load("digits")
labels, _ = corrupt(data.y, Directed(0.4), classes=10, seed=0)

model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=20, gamma=0.2)
steps_per_epoch = len(labels) // 10
criterion = nn.CrossEntropyLoss()

for _ in range(epochs):
    model.train()
    for rows in torch.randperm(len(labels))[: 10 * steps_per_epoch].view(-1, 10):
        loss = criterion(model(data.x[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    scheduler.step()

model.eval()
with torch.no_grad():
    accuracy = (model(data.x_test).argmax(1) == data.y_test).float().mean().item()
print(f"test accuracy {accuracy:.3f}")
