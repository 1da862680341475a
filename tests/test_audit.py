"""The audit: its run stopped and gone on with, every kind of data, what is wrong said at once."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from datasets import ClassLabel, Features, Value
from datasets import Dataset as HubDataset
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import roc_auc_score
from torch import nn
from torch.utils.data import TensorDataset

import adaptivek
from adaptivek import auditing
from adaptivek.auditing.criterion import criterion
from adaptivek.auditing.dynamics import AveragePredictions, Dynamics
from adaptivek.auditing.networks import standardised
from adaptivek.auditing.schedules import cosine
from adaptivek.auditing.table_features import encode_table
from adaptivek.auditing.training import Plan, Run
from adaptivek.noise import Directed, Symmetric, corrupt

CPU = torch.device("cpu")


def blobs(
    rows: int = 300, rate: float = 0.0, classes: int = 3, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Points that are easy to tell apart; their classes; labels."""
    x, y = make_blobs(rows, 5, centers=classes, cluster_std=1.5, random_state=seed)
    labels = corrupt(y, Symmetric(rate), classes=classes, seed=seed)[0].numpy()
    return x.astype(np.float32), y, labels


def test_of_many_classes_the_highest_averages_are_kept():
    torch.manual_seed(0)
    rows, classes, kept = torch.arange(50), 40, AveragePredictions(50, 40, CPU)
    usual = torch.randn(50, classes) * 3
    mean = torch.zeros(50, classes)
    for _ in range(6):
        p = (usual + torch.randn(50, classes)).softmax(1)
        kept.add(rows, p)
        mean += p / 6
    p, classes_of = kept.tables()
    assert p.shape == (50, 8)
    best = classes_of[np.arange(50), p.argmax(1)]
    assert (best == mean.argmax(1).numpy()).mean() > 0.9
    exact = np.take_along_axis(mean.numpy(), best[:, None], 1)[:, 0]
    assert np.abs(p.max(1) - exact).mean() < 0.05


@pytest.mark.parametrize("classes", [2, 10, 11, 1_000])
def test_ten_million_rows_fit_in_a_gigabyte(classes):
    dynamics = Dynamics(100, classes, CPU).bytes_per_row()
    method = Plan().chosen(10_000_000, classes)
    assert (method == "elr") == (classes <= 10)
    assert dynamics + (4 * classes if method == "elr" else 0) <= 100


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    labels = corrupt(y, Directed(0.2), classes=10, seed=0)[0].numpy()
    return adaptivek.audit(x.reshape(-1, 1, 8, 8).astype(np.float32), labels), y, labels


def test_noisy_digits_are_found_counted_and_corrected(digits):
    result, y, labels = digits
    noisy = labels != y
    assert roc_auc_score(noisy, -result.score) > 0.99
    assert result.noise_ratio == pytest.approx(noisy.mean(), abs=0.03)
    assert result.noise_ratio_low <= noisy.mean() <= result.noise_ratio_high
    assert result.is_issue.sum() == round(result.noise_ratio * len(y))
    assert (result.suggested_label[result.is_issue] != labels[result.is_issue]).all()
    assert (result.suggested_label[~result.is_issue] == labels[~result.is_issue]).all()
    assert (result.suggested_label == y).mean() > 0.95
    assert result.warnings == []
    # noise goes to the class after next, and the matrix shows it
    off = result.transition * (1 - np.eye(10))
    assert (off.argmax(1) == (np.arange(10) + 2) % 10).all()
    np.testing.assert_allclose(result.transition.sum(1), 1)
    np.testing.assert_allclose(result.noise_per_class, 0.2, atol=0.12)


def test_other_tools_find_the_columns_they_know(digits):
    frame = digits[0].to_datalab()
    assert list(frame.columns) == ["is_label_issue", "label_score", "given_label", "predicted_label"]
    assert frame["is_label_issue"].sum() == digits[0].summary["n_flagged"]
    assert json.loads(json.dumps(digits[0].summary)) == digits[0].summary


def test_clean_data_has_no_noise():
    x, y, _ = blobs()
    assert adaptivek.audit(x, y).noise_ratio < 0.02


def test_a_rare_class_is_not_simply_flagged():
    x, y, _ = blobs(2_000, classes=2)
    keep = (y == 0) | (np.cumsum(y) <= 15)
    result = adaptivek.audit(x[keep], y[keep], epochs=15)
    assert result.is_issue[y[keep] == 1].mean() < 0.2
    assert result.noise_ratio < 0.02


def test_where_nothing_can_be_learned_it_says_so():
    rng = np.random.default_rng(0)
    result = adaptivek.audit(rng.standard_normal((300, 4)), rng.integers(0, 3, 300), epochs=10)
    assert "not to be trusted" in result.warnings[0]


@pytest.mark.parametrize("share", [0.2, 0.6, 0.9])  # before, between and after the updates of the posteriors
def test_stopped_and_gone_on_with_it_comes_to_the_same_end(tmp_path, share):
    x, _, labels = blobs(rate=0.2)
    whole = adaptivek.audit(x, labels, epochs=8)

    def stop(done: int, total: int) -> None:
        if done > share * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adaptivek.audit(x, labels, epochs=8, folder=tmp_path, progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint.pt"]
    with pytest.raises(ValueError, match="other data or settings"):
        adaptivek.audit(x, labels, epochs=7, folder=tmp_path, resume=True)
    steps: list[int] = []
    resumed = adaptivek.audit(x, labels, epochs=8, folder=tmp_path, resume=True, progress=lambda a, b: steps.append(a))
    assert steps[0] > 1
    np.testing.assert_array_equal(resumed.score, whole.score)
    assert resumed.noise_ratio == whole.noise_ratio
    assert not (tmp_path / "checkpoint.pt").exists()
    assert (tmp_path / "report.html").exists()


def test_all_kinds_of_data_give_the_same_scores_once_they_are_scaled_the_same():
    """Arrays are scaled by mean and deviation, columns of a table by their quartiles, a data set's rows not at all."""
    x, _, labels = blobs(120, rate=0.1)
    y, names = torch.from_numpy(labels), np.array(["a", "b", "c"])[labels]
    columns = pd.DataFrame(x, columns=list("vwxyz"))
    table = columns.assign(label=names)
    alike = [
        [
            (x, labels),
            (torch.from_numpy(x), y),
            (TensorDataset(standardised(torch.from_numpy(x)), y), None),
        ],
        [
            (table, "label"),
            (columns, names),
            (HubDataset.from_pandas(table), "label"),
            (TensorDataset(encode_table(columns), y), None),
        ],
    ]
    for kinds in alike:
        results = [adaptivek.audit(data, label, epochs=3) for data, label in kinds]
        for found in results:
            assert np.array_equal(found.label, labels)
            assert np.array_equal(found.score, results[0].score)
            assert np.array_equal(found.suggested_label, results[0].suggested_label)
    assert results[0].classes == ["a", "b", "c"]
    assert results[-1].classes == ["0", "1", "2"]


def test_names_of_classes_come_from_the_hub_and_unlabelled_rows_are_skipped():
    features = Features({"x": Value("float32"), "label": ClassLabel(names=["cat", "dog"])})
    data = HubDataset.from_dict({"x": list(range(20)), "label": [0] * 8 + [1] * 11 + [-1]}, features=features)
    found = adaptivek.audit(data, "label", epochs=2)
    assert found.classes == ["cat", "dog"]
    assert found.skipped == [(19, "no label")]


def test_your_own_network_is_copied_and_left_alone():
    x, _, labels = blobs(120)
    model = nn.Linear(5, 3)
    before = model.weight.clone()
    result = adaptivek.audit(x, labels, model, epochs=3, method="gce")
    assert result.settings["network"] == "Linear"
    assert torch.equal(model.weight, before)
    with pytest.raises(ValueError, match=r"logits of shape \(\d+, 3\), got \(\d+, 7\)"):
        adaptivek.audit(x, labels, nn.Linear(5, 7), epochs=3)


class Spy(nn.Module):
    """Remembers the rows it saw, as inputs, in training and in evaluation."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.rows = nn.Linear(1, 2), {True: set[float](), False: set[float]()}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.rows[self.training] |= set(x.flatten().tolist())
        return self.linear(x)


def test_a_row_is_never_scored_by_the_network_that_trained_on_it():
    labels = np.arange(41) % 2
    run = Run(
        lambda rows: torch.from_numpy(rows[:, None]).float(),
        labels,
        2,
        lambda _: Spy(),
        Plan(epochs=1, batch_size=8),
        "cpu",
    )
    run.epoch()
    first, second = (model.rows for model in run.models)
    assert first[True] | second[True] == set(range(41))
    assert not first[True] & second[True]
    assert first[False] == second[True]
    assert second[False] == first[True]
    assert abs(len(first[True]) - len(second[True])) <= 1


def test_two_networks_in_a_step_learn_what_each_would_alone():
    x, _, labels = blobs(64)
    inputs = torch.from_numpy(x)

    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Linear(5, 3)

    run = Run(lambda rows: inputs[rows], labels, 3, make, Plan(epochs=2, batch_size=8, seed=3), "cpu")
    alone = [make(3), make(4)]
    optimizers = [torch.optim.AdamW(model.parameters(), weight_decay=0.0) for model in alone]
    rules = [adaptivek.Selection("elr", rows=64, classes=3) for _ in alone]
    for epoch in range(2):
        for at, (rows, first) in enumerate(list(run._batches())):
            for model, optimizer, rule, mine in zip(
                alone, optimizers, rules, torch.from_numpy(rows).tensor_split((first,)), strict=True
            ):
                optimizer.param_groups[0]["lr"] = 1e-3 * cosine(epoch * run.steps + at, 2 * run.steps)
                optimizer.zero_grad()
                rule(model(inputs[mine]), torch.from_numpy(labels)[mine], mine).backward()
                optimizer.step()
        run.epoch()
    for model, same in zip(run.models, alone, strict=True):
        torch.testing.assert_close(model.weight, same.weight)


def test_the_gradient_written_out_is_that_of_elr():
    torch.manual_seed(0)
    name = "elr:strength=2,beta=0.6"
    rule, same = criterion(name, 30, 4, 100), adaptivek.Selection(name, rows=30, classes=4)
    for _ in range(4):
        rows, labels = torch.randint(30, (12,)), torch.randint(4, (12,))  # some rows twice
        logits = (torch.randn(12, 4) * 6).requires_grad_()  # some so confident that ELR holds them back no more
        (expected,) = torch.autograd.grad(same(logits, labels, rows), logits)
        found = rule.gradient(logits.detach(), labels, rows) / 2  # of two networks, the mean over half of the rows
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(rule.targets, same.state_targets)


def test_a_network_that_gives_no_numbers_is_an_error():
    model = nn.Linear(5, 3)
    nn.init.constant_(model.weight, torch.inf)
    with pytest.raises(ValueError, match="finite logits"):
        adaptivek.audit(*blobs(60)[::2], model, epochs=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epochs": 0}, "epochs must be a whole number of at least 1"),
        ({"method": "oracle"}, "method must be one that needs no truth"),
        ({"method": "best"}, "method must be one of"),
        ({"speed": 3}, "argument must be one of"),
        ({"resume": True}, "folder must be given"),
        ({"labels": [0.5] * 30}, "must be classes, not fractions"),
        ({"labels": [0] * 30}, "at least two classes"),
        ({"labels": [0] * 29}, "one for each of the 30 rows"),
        ({"labels": list(range(30))}, "30 different values in 30 rows"),
        ({"labels": [0] * 15 + [1] * 14 + [2]}, "two rows in every class; one only in 2"),
        ({"labels": np.eye(30)}, "one for each row"),
        ({"labels": None}, "label must be given"),
        ({"data": np.full((30, 2), np.nan)}, "finite"),
        ({"data": np.zeros((30, 2, 2))}, "must have shape"),
        ({"data": np.array([["a"]] * 30)}, "must be numbers"),
        ({"data": [""] * 30}, "only empty ones"),
    ],
)
def test_what_is_wrong_is_said_at_once(arguments, message):
    arguments = {"data": np.zeros((30, 2)), "labels": [0, 1] * 15} | arguments
    with pytest.raises(ValueError, match=message):
        adaptivek.audit(**arguments)


def test_the_audit_stands_without_the_experiments():
    for path in Path(auditing.__file__).parent.glob("*.py"):
        assert "experiments" not in path.read_text(), path.name


@pytest.mark.gpu
def test_an_audit_takes_images_that_are_on_the_device():
    """As if they were on the host: the same rows are alike, and training reads them where they are."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(120) % 3
    images = torch.randn(120, 1, 8, 8, generator=draw) + labels.view(-1, 1, 1, 1)
    images[1] = images[0]
    noise = labels.clone()
    noise[:9] = (noise[:9] + 1) % 3
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3))
    plan = {"epochs": 4, "batch_size": 20, "learning_rate": 1e-2, "precision": "float32", "device": "cuda"}
    found = [
        adaptivek.audit(torch.utils.data.TensorDataset(x, noise), None, network, **plan)
        for x in (images, images.cuda())
    ]
    np.testing.assert_allclose(found[0].predictions, found[1].predictions, atol=1e-5)
    assert found[0].noise_ratio == pytest.approx(found[1].noise_ratio, abs=1e-3)
