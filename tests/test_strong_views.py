"""Strong views: distortions against Pillow, targets against the criterion's own loss, the average against its sum."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adaptivek import METHODS, Selection, StrongViews
from adaptivek.method import outputs
from adaptivek.training.distortions import CHANCES, FACTOR, KINDS, strong_view

Image = pytest.importorskip("PIL.Image")
ImageEnhance = pytest.importorskip("PIL.ImageEnhance")
ImageOps = pytest.importorskip("PIL.ImageOps")

ENHANCED = {"brightness": "Brightness", "contrast": "Contrast", "colour": "Color"}


def pictures(number: int, channels: int = 3, side: int = 16) -> Tensor:
    """Bytes, smooth enough to be turned, with black and white in each."""
    coarse = torch.rand(number, channels, 5, 5, generator=torch.Generator().manual_seed(1))
    x = (F.interpolate(coarse, (side, side), mode="bilinear") * 255).round()
    x[..., 0, 0], x[..., 0, 1] = 0, 255
    return x.to(torch.uint8)


def only(kind: str, amount: float, number: int) -> Tensor:
    """Chances of which nothing follows but this, by an amount between -1 and 1; the square is outside."""
    chances = torch.ones(number, CHANCES)
    place = KINDS.index(kind)
    chances[:, place], chances[:, len(KINDS) + place], chances[:, -2:] = 0, (amount + 1) / 2, 9
    return chances


def pillow(x: Tensor) -> list[Image.Image]:
    return [Image.fromarray(image.permute(1, 2, 0).numpy()) for image in x]


def tensor(images: list[Image.Image]) -> Tensor:
    return torch.stack([torch.from_numpy(np.array(image)) for image in images]).permute(0, 3, 1, 2)


@pytest.mark.parametrize("kind", ENHANCED)
@pytest.mark.parametrize("amount", [-0.8, 0.5])
def test_enhancing_is_as_in_pillow(kind: str, amount: float) -> None:
    x = pictures(3)
    enhanced = [getattr(ImageEnhance, ENHANCED[kind])(image).enhance(1 + FACTOR * amount) for image in pillow(x)]
    found = strong_view(x, only(kind, amount, 3), 1)
    assert (found.int() - tensor(enhanced).int()).abs().max() <= 2  # Pillow rounds its grey first


@pytest.mark.parametrize(("amount", "bits"), [(0.2, 7), (-0.6, 5), (0.99, 4)])
def test_posterising_is_as_in_pillow(amount: float, bits: int) -> None:
    x = pictures(3)
    wanted = tensor([ImageOps.posterize(image, bits) for image in pillow(x)])
    assert torch.equal(strong_view(x, only("posterise", amount, 3), 1), wanted)


def test_solarising_is_as_in_pillow() -> None:
    x = pictures(3)
    wanted = tensor([ImageOps.solarize(image, 154) for image in pillow(x)])
    assert torch.equal(strong_view(x, only("solarise", -0.398, 3), 1), wanted)  # from 153.5 on


def test_stretching_is_as_in_pillow() -> None:
    x = pictures(3) // 2 + 30
    wanted = tensor([ImageOps.autocontrast(image) for image in pillow(x)])
    assert (strong_view(x, only("stretch", 0.3, 3), 1).int() - wanted.int()).abs().max() <= 1


def test_turning_is_as_in_pillow() -> None:
    x = pictures(3, side=32)
    wanted = tensor([image.rotate(15, Image.Resampling.BILINEAR) for image in pillow(x)])
    found = strong_view(x, only("rotate", 0.5, 3), 1)
    inner = (..., slice(8, 24), slice(8, 24))
    turned, other = (found[inner].int() - wanted[inner].int()).abs(), (x[inner].int() - wanted[inner].int()).abs()
    assert turned.max() <= 3 < other.max()


@pytest.mark.parametrize(("kind", "matrix"), [("shear_x", (1, 0.3, 0, 0, 1, 0)), ("shear_y", (1, 0, 0, 0.3, 1, 0))])
def test_shearing_is_as_in_pillow(kind: str, matrix: tuple[float, ...]) -> None:
    x, middle = pictures(3, side=32), 16
    a, b, _, d, e, _ = matrix
    about = (a, b, middle - a * middle - b * middle, d, e, middle - d * middle - e * middle)
    wanted = [
        image.transform((32, 32), Image.Transform.AFFINE, about, Image.Resampling.BILINEAR) for image in pillow(x)
    ]
    inner = (..., slice(8, 24), slice(8, 24))
    found = strong_view(x, only(kind, 1, 3), 1)
    assert (found[inner].int() - tensor(wanted)[inner].int()).abs().max() <= 3


@pytest.mark.parametrize(("kind", "axis"), [("shift_x", 3), ("shift_y", 2)])
def test_shifting_moves_whole_pixels_and_brings_in_the_mean(kind: str, axis: int) -> None:
    x = pictures(2, side=20)
    found = strong_view(x, only(kind, -0.5, 2), 1)  # by half of 0.3 * 20 pixels
    assert torch.equal(found.narrow(axis, 3, 17), x.narrow(axis, 0, 17))
    mean = x.float().mean((0, 2, 3)).view(1, 3, 1, 1)
    assert (found.narrow(axis, 0, 3) - mean).abs().max() <= 1


def test_sharpness_is_away_from_the_mean_of_the_neighbours() -> None:
    x = pictures(2, 1, 9).float()
    found = strong_view(x, only("sharpness", -1, 2), 1)
    near = torch.stack([x[..., 3 + i, 4 + j] for i in (0, 1, 2) for j in (0, 1, 2)]).mean(0)
    torch.testing.assert_close(found[..., 4, 5], near + (1 - FACTOR) * (x[..., 4, 5] - near), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_nothing_changes_but_the_square(channels: int) -> None:
    x = pictures(4, channels)
    chances = torch.rand(4, CHANCES)
    chances[:, -2:] = 0.5
    for images in (x, x.float() / 50 - 2, x.half()):
        found = strong_view(images, chances, 0)
        assert found.dtype == images.dtype
        changed = (found.float() - images.float()).abs() > 0.02
        assert not changed[..., :4, :].any()
        assert not changed[..., :4].any()
        hidden = found[..., 4:12, 4:12].float()
        assert (hidden - images.float().mean((0, 2, 3)).view(-1, 1, 1)).abs().max() < 1


def test_an_image_is_distorted_by_its_own_chances() -> None:
    x, chances = pictures(6), torch.rand(6, CHANCES)
    chances[:, : len(KINDS)] = torch.eye(len(KINDS))[5:11] * -1 + 1  # of each one kind, none that moves it
    chances[:, -2:] = 9
    together = strong_view(x, chances, 1)
    alone = torch.cat([strong_view(x[i : i + 1], chances[i : i + 1], 1) for i in range(6)])
    assert (together.int() - alone.int()).abs().max() <= 1
    assert (together != x).flatten(1).any(1).sum() >= 5


JUDGING = [name for name, kind in METHODS.items() if outputs(kind) == 1 and not kind.own_loss and not kind.privileged]


@pytest.mark.parametrize("name", JUDGING)
def test_what_is_to_be_learned_is_what_the_criterion_minimises(name: str) -> None:
    torch.manual_seed(0)
    learning = Selection(name, warmup=0, rows=40, classes=4, cuda_graph=False)
    judging = copy.deepcopy(learning)
    for epoch in range(4):
        if not learning.method.full_pass:
            for criterion in (learning, judging):
                criterion.start_epoch(epoch)
        elif epoch == 0:
            pytest.skip("goes by a pass over all rows, which the loop does")
        logits, labels, rows = 3 * torch.randn(16, 4), torch.randint(4, (16,)), torch.randperm(40)[:16]
        loss = learning(logits, labels, rows)
        targets, weights = judging.judge(logits, labels, rows)
        mean = -(weights * (targets * logits.log_softmax(-1)).sum(-1)).sum() / weights.sum()
        torch.testing.assert_close(loss, mean)
        assert learning.weights is not None
        assert judging.confidence is not None
        torch.testing.assert_close(learning.weights, judging.weights)
        torch.testing.assert_close(learning.confidence, judging.confidence)
    for mine, other in zip(learning.buffers(), judging.buffers(), strict=True):
        torch.testing.assert_close(mine, other, equal_nan=True)


@pytest.mark.parametrize(("name", "shape"), [("elr", (3, 2)), ("co-teaching", (3, 2)), ("label-memory", (3, 2, 5))])
def test_judging_is_refused_where_it_means_nothing(name: str, shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="Selection: judge"):
        Selection(name, warmup=0, rows=3, classes=2).judge(torch.zeros(shape), torch.zeros(3, dtype=torch.long))


def test_judging_goes_where_the_logits_are() -> None:
    criterion = Selection(rows=3, classes=2)
    logits, labels, rows = (torch.zeros(3, *more, dtype=kind, device="meta") for more, kind in
                            (((2,), torch.float32), ((), torch.long), ((), torch.long)))  # fmt: skip
    targets, weights = criterion.judge(logits, labels, rows)
    assert targets.is_meta
    assert weights.is_meta
    assert criterion.tally_step.is_meta


@pytest.mark.parametrize("name", ["elr", "co-teaching"])
def test_methods_that_cannot_judge_are_refused_at_once(name: str) -> None:
    with pytest.raises(ValueError, match=f"StrongViews: criterion needs a method.*got {name}"):
        StrongViews(network(), Selection(name, warmup=0, rows=3, classes=2))
    with pytest.raises(ValueError, match=r"StrongViews: criterion needs .*got the loss <function mse_loss"):
        StrongViews(network(), Selection("mkl:keep=0.5", loss=F.mse_loss, warmup=0))


def network(*extra: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), *extra, nn.Flatten(), nn.Linear(144, 3))


def batch(number: int = 12) -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(number, 1, 8, 8), torch.randint(3, (number,)), torch.arange(number)


def test_the_average_judges_weak_views_without_dropout_by_the_statistics_of_the_network() -> None:
    torch.manual_seed(0)
    model = network(nn.Dropout(0.5))
    views = StrongViews(model, Selection(rows=12, classes=3), decay=0.9)
    images, labels, rows = batch()
    views(images, labels, rows)
    views.update()
    alone = copy.deepcopy(views.average)
    alone[1].load_state_dict({**alone[1].state_dict(), **{k: v.clone() for k, v in model[1].named_buffers()}})
    views(images, labels, rows)
    with torch.no_grad():
        torch.testing.assert_close(views.weak_logits, alone(images))
    assert not torch.equal(alone[1].running_mean, torch.zeros(4))
    assert not torch.equal(views.average[1].running_mean, model[1].running_mean)  # it has trained since
    views.update()
    torch.testing.assert_close(views.average[1].running_mean, model[1].running_mean)
    assert not views.average.training
    assert model.training


def test_the_average_is_that_of_the_weights() -> None:
    torch.manual_seed(0)
    model = network()
    views = StrongViews(model, Selection(rows=12, classes=3), decay=0.5)
    optimizer, seen = torch.optim.SGD(model.parameters(), 0.1), []
    for _ in range(5):
        optimizer.zero_grad()
        views(*batch()).backward()
        optimizer.step()
        views.update()
        seen.append(model[0].weight.detach().clone())
    mean = seen[0]
    for weight in seen[1:]:
        mean = 0.5 * mean + 0.5 * weight
    torch.testing.assert_close(views.average[0].weight.data, mean)
    assert all(weight.grad is None for weight in views.average.parameters())


def test_the_loss_is_the_cross_entropy_of_mixed_views_and_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A slow transcription, one sample at a time, with the chances that are drawn."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
    views = StrongViews(model, Selection(rows=12, classes=3))
    images, labels, rows = batch()
    views(images, labels, rows)  # so that something is remembered
    criterion = copy.deepcopy(views.criterion)
    monkeypatch.setattr("adaptivek.training.views.draw_share", lambda alpha: 0.3)
    torch.manual_seed(5)
    loss = views(images, labels, rows)
    torch.manual_seed(5)
    strong, partners = strong_view(images, torch.rand(12, CHANCES)), torch.randperm(12)
    judged = model(images).detach()
    targets, _ = criterion.judge(judged, labels, rows)
    total = 0.0
    for i, j in enumerate(partners.tolist()):
        logits = model(0.3 * strong[i : i + 1] + 0.7 * strong[j : j + 1])[0].detach()
        total += float(-((0.3 * targets[i] + 0.7 * targets[j]) * logits.log_softmax(-1)).sum())
    assert float(loss.detach()) == pytest.approx(total / 12, rel=1e-5)


def test_it_goes_on_from_a_checkpoint() -> None:
    torch.manual_seed(0)
    model = network()
    views = StrongViews(model, Selection(rows=12, classes=3))
    views(*batch())
    views.update()
    again = StrongViews(network(), Selection(rows=12, classes=3))
    again.load_state_dict(copy.deepcopy(views.state_dict()))
    images, _, _ = batch()
    assert torch.equal(again.average(images), views.average(images))


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"decay": 1.0}, "decay"), ({"alpha": -1}, "alpha"), ({"changes": 0.5}, "changes")],
)
def test_settings_are_checked(settings: dict[str, float], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=f"StrongViews: {message}"):
        StrongViews(network(), Selection(rows=12, classes=3), **settings)


def test_images_are_checked() -> None:
    views = StrongViews(network(), Selection(rows=12, classes=3))
    with pytest.raises(ValueError, match="StrongViews: images must be"):
        views(torch.zeros(3, 64), torch.zeros(3, dtype=torch.long))
