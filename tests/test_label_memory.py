"""Label memory beside what the reference covers: when it is plain training, and that it helps without a warm-up."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.noise import Directed, corrupt

ROWS, CLASSES = 12, 4


def knowing(predictions: torch.Tensor, confusion: torch.Tensor) -> adaptivek.Selection:
    """A criterion that remembers this already."""
    criterion = adaptivek.Selection("label-memory", rows=ROWS, classes=CLASSES)
    criterion.state_predictions.copy_(predictions)
    criterion.state_confusion.copy_(confusion)
    return criterion


def test_it_begins_as_plain_training():
    criterion = adaptivek.Selection("label-memory", rows=ROWS, classes=CLASSES)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.arange(ROWS) % CLASSES
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


@given(seed=st.integers(0, 1000), share=st.floats(0, 0.24))
def test_labels_of_a_class_that_is_hardly_found_again_are_left_alone(seed, share):
    torch.manual_seed(seed)
    confusion = torch.full((CLASSES, CLASSES), 100 * (1 - share) / (CLASSES - 1)).fill_diagonal_(100 * share)
    criterion = knowing(torch.rand(ROWS, CLASSES).softmax(1), confusion)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


@pytest.mark.parametrize("remembered", [0.1, 0.3])
def test_a_contested_label_is_held_back_by_how_much_predictions_make_up(remembered):
    predictions = torch.zeros(ROWS, CLASSES)
    predictions[:, 1] = remembered
    criterion = knowing(predictions, 50 * torch.eye(CLASSES) + 10)
    logits = torch.tensor([[0.0, 3.0, 0.0, 0.0]], requires_grad=True)
    label, row = torch.tensor([0]), torch.tensor([5])
    criterion(logits, label, row).backward()
    plain = logits.detach().clone().requires_grad_()
    F.cross_entropy(plain, label).backward()
    torch.testing.assert_close(logits.grad, (1 - remembered) * plain.grad)
    torch.testing.assert_close(criterion.confidence, torch.tensor([1 - remembered]))


@pytest.mark.parametrize("rows", [True, False])
def test_without_a_warmup_at_a_high_rate_it_is_far_above_plain_training(rows):
    data = load("digits")
    labels, _ = corrupt(data.y, Directed(0.4), classes=10, seed=0)
    told = adaptivek.Selection("label-memory", rows=len(labels) if rows else None, classes=10)

    def accuracy(criterion: nn.Module) -> float:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(20):
            for index in torch.randperm(len(labels))[:1430].view(-1, 10):
                extra = (index,) if rows and criterion is told else ()
                optimizer.zero_grad()
                criterion(model(data.x[index]), labels[index], *extra).backward()
                optimizer.step()
        return (model.eval()(data.x_test).argmax(1) == data.y_test).float().mean().item()

    assert accuracy(told) > accuracy(nn.CrossEntropyLoss()) + 0.05
    assert 0.25 < told.noise_ratio < 0.45
