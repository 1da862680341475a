"""Label posterior beside what the reference covers: where it is plain training, its bound, and that it helps soon."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import adaptivek
from adaptivek.experiments.data import load
from adaptivek.noise import Directed, corrupt

ROWS, CLASSES = 12, 4


def seen(predictions: torch.Tensor, confusion: torch.Tensor, visits: float = 3.0) -> adaptivek.Selection:
    """A criterion that has seen every row this often."""
    criterion = adaptivek.Selection("label-posterior", rows=ROWS, classes=CLASSES)
    criterion.state_predictions.copy_(predictions)
    criterion.state_visits.fill_(visits)
    criterion.state_confusion.copy_(confusion)
    return criterion


def test_the_first_visit_is_plain_training():
    criterion = seen(torch.zeros(ROWS, CLASSES), 20 * torch.rand(CLASSES, CLASSES), visits=0)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.arange(ROWS) % CLASSES
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


def test_labels_of_a_class_that_is_hardly_found_again_are_left_alone():
    confusion = torch.full((CLASSES, CLASSES), 30.0).fill_diagonal_(10.0)
    criterion = seen(torch.rand(ROWS, CLASSES).softmax(1), confusion)
    logits, labels = 9 * torch.randn(ROWS, CLASSES), torch.randint(CLASSES, (ROWS,))
    torch.testing.assert_close(criterion(logits, labels, torch.arange(ROWS)), F.cross_entropy(logits, labels))


@pytest.mark.parametrize("share", [0.9, 1.0])
def test_however_common_a_mistake_the_label_is_twice_as_likely(share):
    """With nothing but the odds to go by: predictions that say nothing, and all of class 1 labelled 0."""
    confusion = 50 * torch.eye(CLASSES)
    confusion[1, 0], confusion[1, 1] = 50 * share, 50 * (1 - share)
    criterion = seen(torch.full((ROWS, CLASSES), 1 / CLASSES), confusion)
    criterion(torch.zeros(1, CLASSES), torch.tensor([0]), torch.tensor([5]))
    # 1 for the label, a half for class 1, next to nothing for the others
    torch.testing.assert_close(criterion.confidence, torch.tensor([1 / 1.5]), rtol=0.01, atol=0)


def test_eight_epochs_are_enough_to_be_above_plain_training_and_the_default():
    data = load("digits")
    labels, _ = corrupt(data.y, Directed(0.4), classes=10, seed=0)

    def accuracy(text: str) -> float:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
        criterion = adaptivek.Selection(text, rows=len(labels), classes=10)
        for _ in range(8):
            for index in torch.randperm(len(labels)).split(16):
                optimizer.zero_grad()
                criterion(model(data.x[index]), labels[index], index).backward()
                optimizer.step()
        return (model.eval()(data.x_test).argmax(1) == data.y_test).float().mean().item()

    found = {text: accuracy(text) for text in ("vanilla", "label-memory", "label-posterior")}
    assert found["label-posterior"] > max(found["vanilla"], found["label-memory"]) + 0.02
