"""Strong views as part of a recipe: against the loop of one's own, in no stack, and refused where they cannot be."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from adaptivek import Selection, StrongViews
from adaptivek.experiments.bench import bench
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.executors import Settings, stacks, train_unit
from adaptivek.experiments.prepare import draws, fresh_network, prepare
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack

RECIPE = Recipe("digits-cnn", epochs=2, batch_size=20, momentum=0.9, learning_rate=0.05, augment=True, views=2)
SPEC = RunSpec("digits", "label-memory", noise_rate=0.3, recipe=RECIPE)
PLAIN = dataclasses.replace(SPEC, recipe=dataclasses.replace(RECIPE, views=1))


@pytest.fixture(scope="module")
def small() -> Split:
    data = load("digits")
    return Split(data.x[:200], data.y[:200], data.x_test[:100], data.y_test[:100], 10)


def test_a_run_is_the_loop_of_ones_own(small: Split) -> None:
    """Of a network without dropout, which draws keys of its own."""
    spec = dataclasses.replace(SPEC, recipe=dataclasses.replace(RECIPE, network="resnet9", augment=False, epochs=1))
    data = Split(small.x[:40], small.y[:40], small.x_test[:20], small.y_test[:20], 10)
    session = Session(spec, data, "cpu")
    (record,) = session
    job = prepare(spec, data)
    model, criterion = fresh_network(job, 0), Selection(rows=40, classes=10)
    views, losses = StrongViews(model, criterion), []
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    drawn = draws(job, 0, 0)
    for step, rows in enumerate(drawn.order):
        with torch.no_grad():
            losses.append(torch.nn.functional.cross_entropy(views.average(data.x[rows]), job.labels[rows]))
        optimizer.zero_grad()
        chances = drawn.chances[step], drawn.partners[step], drawn.shares[step]
        views.loss(data.x[rows], job.labels[rows], rows, *chances).backward()
        optimizer.step()
        views.update()
    for mine, other in zip(session.model.state_dict().values(), model.state_dict().values(), strict=True):
        torch.testing.assert_close(mine, other)
    assert record.train_loss == pytest.approx(float(torch.stack(losses).mean()), rel=1e-4)
    hits = model.eval()(data.x_test).argmax(1) == data.y_test
    assert record.test_accuracy == pytest.approx(float(hits.float().mean()))  # of the network, not of the averaged one


def test_what_is_drawn_is_drawn_anew_for_each_image_and_epoch(small: Split) -> None:
    first, second = (draws(prepare(SPEC, small), 2, epoch).chances for epoch in (0, 1))
    assert len({*first.flatten().tolist(), *second.flatten().tolist()}) > 0.99 * 2 * first.numel()
    assert 0 <= first.min() < 0.01 < 0.99 < first.max() < 1
    assert draws(prepare(PLAIN, small), 2, 0).chances.numel() == 10  # a number for each step: there must be something


def test_no_stack_takes_it_and_bench_trains_it_alone(small: Split) -> None:
    with pytest.raises(ValueError, match=r"Stack: views must be 1 .*got 2"):
        Stack([prepare(SPEC, small)], "cpu")
    specs = [dataclasses.replace(spec, seed=seed) for seed in (0, 1) for spec in (SPEC, PLAIN)]
    left = list(specs)

    class Work:
        def __len__(self) -> int:
            return len(left)

        def take(self, limit, alike):
            taken = [spec for spec in left if alike(spec) == alike(left[0])][:limit]
            for spec in taken:
                left.remove(spec)
            return tuple(taken)

    assert sorted(len(unit) for unit in stacks(Work(), None, 16, 1)) == [1, 1, 2]
    one = dataclasses.replace(RECIPE, epochs=1, batch_size=200)
    (found,) = train_unit((dataclasses.replace(SPEC, recipe=one),), "cpu")
    assert not found.failure


@pytest.mark.parametrize("method", ["elr", "co-teaching", "augdesc", "gce"])
def test_methods_that_cannot_judge_are_refused(method: str) -> None:
    with pytest.raises(ValueError, match=rf"RunSpec: views=2 needs a method that weighs or relabels .*got {method}"):
        dataclasses.replace(SPEC, method=method)


@pytest.mark.parametrize(
    ("method", "reforward"), [("mixup", False), ("pes", False), ("itlm:begin=anew,every=5", False), ("mkl", True)]
)
def test_what_changes_the_loop_itself_is_refused(method: str, reforward: bool) -> None:
    with pytest.raises(ValueError, match=rf"RunSpec: views must be 1 with reforward, .*got 2 with {method[:4]}"):
        RunSpec("digits", method, reforward=reforward, recipe=dataclasses.replace(RECIPE, epochs=40))


def test_what_is_not_an_image_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    lines = "".join(f"a text of {word},{word}\n" for word in ("good", "bad") * 40)
    (tmp_path / "texts" / "train.csv").write_text("text,label\n" + lines)
    recipe = Recipe("text-bag", epochs=1, views=2)
    spec = RunSpec(str(tmp_path / "texts"), "label-memory", recipe=recipe)
    words = "Recipe: views must be 1 for data that are not images, got 2"
    with pytest.raises(ValueError, match=words):
        Session(spec, device="cpu")
    with pytest.raises(ValueError, match=words):
        list(bench([spec], tmp_path / "out", settings=Settings("cpu", workers=1)))
    assert not list((tmp_path / "out").rglob("*.json.gz"))


@pytest.mark.parametrize("views", [0, 3, 2.0, True])
def test_there_are_one_or_two(views: float) -> None:
    with pytest.raises(ValueError, match=r"Recipe: views must be a whole number in \[1, 2\]"):
        dataclasses.replace(RECIPE, views=views)
