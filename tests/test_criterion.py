"""The criterion as users write it, and every way in which a batch can be odd."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import adaptivek


def test_the_five_lines_of_the_readme():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(8, 4), torch.randint(3, (8,))
    criterion = adaptivek.Selection(adaptivek.AdaptiveK(), warmup=1)
    loss = criterion(model(x), y)
    torch.testing.assert_close(loss, F.cross_entropy(model(x), y))  # warm-up is plain training
    losses = F.cross_entropy(model(x) * 20, y, reduction="none")
    loss = criterion.reduce(losses)
    loss.backward()
    assert model.weight.grad.abs().sum() > 0
    left_out = (losses > 0.1 * losses.mean() / (0.001 * losses.mean() ** 2) ** 0.5).float().mean()
    assert 0 < left_out < 1
    assert criterion.noise_ratio == pytest.approx(left_out.item())
    assert criterion.kept.sum() == 8 * (1 - left_out)


def test_replaces_cross_entropy_to_the_last_digit_while_warming_up():
    torch.manual_seed(0)
    criterion = adaptivek.Selection("adaptive-k", warmup=100)
    for shape in [(8, 5), (2, 5, 7), (2, 5, 3, 4)]:
        logits, target = torch.randn(shape), torch.randint(5, (shape[0], *shape[2:]))
        target.view(-1)[0] = -100
        ours, theirs = logits.clone().requires_grad_(), logits.clone().requires_grad_()
        loss, expected = criterion(ours, target), F.cross_entropy(theirs, target)
        loss.backward()
        expected.backward()
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_class_probabilities_as_targets():
    torch.manual_seed(0)
    logits, target = torch.randn(6, 3), torch.rand(6, 3).softmax(1)
    criterion = adaptivek.Selection("vanilla")
    torch.testing.assert_close(criterion(logits, target), F.cross_entropy(logits, target))


def test_any_loss_of_output_and_target():
    criterion = adaptivek.Selection("mkl:keep=0.5", loss=nn.MSELoss(reduction="none"))
    assert criterion(torch.tensor([0.0, 0.0]), torch.tensor([1.0, 5.0])).item() == 1


def test_tokens_with_a_mask():
    losses = torch.tensor([[1.0, 9.0, 5.0], [2.0, 7.0, 0.5]], requires_grad=True)
    mask = torch.tensor([[1, 1, 0], [1, 1, 0]])
    criterion = adaptivek.Selection("mkl:keep=0.5")
    loss = criterion.reduce(losses, mask=mask)
    loss.backward()
    assert loss.item() == 1.5
    assert criterion.kept.tolist() == [[True, False, False], [True, False, False]]
    assert losses.grad.tolist() == [[0.5, 0, 0], [0.5, 0, 0]]


def test_nothing_kept_gives_zero_and_training_goes_on():
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    # the published threshold is at most 7, so losses of hundreds are all left out
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    x = torch.ones(4, 3)
    before = model.weight.clone()
    loss = criterion.reduce(100 + model(x).sum(1) ** 2)
    assert loss.item() == 0
    assert loss.requires_grad
    loss.backward()
    assert model.weight.grad.tolist() == [[0, 0, 0], [0, 0, 0]]
    optimizer.step()
    assert torch.equal(model.weight, before)
    assert criterion.tally_empty == 1
    assert criterion.noise_ratio == 1
    optimizer.zero_grad()
    (2**16 * criterion.reduce(100 + model(x).sum(1) ** 2)).backward()  # as a loss scaler does
    assert model.weight.grad.tolist() == [[0, 0, 0], [0, 0, 0]]
    criterion.reduce(model(x).sum(1) ** 2 / 100).backward()
    optimizer.step()
    assert not torch.equal(model.weight, before)
    assert criterion.tally_empty == 2


@pytest.mark.parametrize("method", ["vanilla", "mkl", "adaptive-k"])
def test_a_batch_of_one(method):
    criterion = adaptivek.Selection(method, warmup=0)
    loss = criterion.reduce(torch.tensor([0.7], requires_grad=True))
    loss.backward()
    assert loss.item() == pytest.approx(0.7)
    assert criterion.kept.tolist() == [True]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("method", ["vanilla", "mkl:keep=0.99", "adaptive-k", "adaptive-k:threshold=mean"])
def test_losses_that_are_not_numbers_are_as_if_removed(method, bad):
    with_bad = torch.tensor([1.0, bad, 0.5, bad], requires_grad=True)
    without = torch.tensor([1.0, 0.5], requires_grad=True)
    one, other = adaptivek.Selection(method, warmup=0), adaptivek.Selection(method, warmup=0)
    for _ in range(3):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            loss = one.reduce(with_bad)
        expected = other.reduce(without)
        assert loss.item() == expected.item()
    loss.backward()
    expected.backward()
    assert with_bad.grad.tolist() == [without.grad[0], 0, without.grad[1], 0]
    assert one.tally_nonfinite == 6
    for name, value in other.memory.state._asdict().items():
        assert torch.equal(value, getattr(one, f"state_{name}")), name


def test_logits_that_overflowed_do_not_poison_the_gradient():
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(6, 4), torch.randint(3, (6,))
    spoil = torch.zeros(6, 3)
    spoil[1, 0], spoil[4, 2] = math.nan, math.inf
    criterion = adaptivek.Selection("vanilla")
    with pytest.warns(UserWarning, match="2 of the losses were NaN or infinite"):
        criterion(model(x) + spoil, y).backward()
    found = model.weight.grad.clone()
    model.zero_grad()
    rest = [0, 2, 3, 5]
    F.cross_entropy(model(x[rest]), y[rest]).backward()
    torch.testing.assert_close(found, model.weight.grad)


def test_masked_classes_with_minus_infinity_are_fine():
    logits = torch.tensor([[0.0, 1.0, -math.inf], [2.0, -math.inf, 0.0]])
    target = torch.tensor([1, 0])
    torch.testing.assert_close(adaptivek.Selection("vanilla")(logits, target), F.cross_entropy(logits, target))


def test_the_warning_comes_once():
    criterion = adaptivek.Selection("vanilla")
    with pytest.warns(UserWarning, match="1 of the losses were NaN or infinite"):
        criterion.reduce(torch.tensor([1.0, math.nan]))
    criterion.reduce(torch.tensor([1.0, math.nan]))  # warnings are errors here: a second one would fail
    assert criterion.noise_ratio == 0
    assert criterion.state_dict()["tally_nonfinite"] == 2


@pytest.mark.parametrize("look", [lambda c: c.noise_ratio, lambda c: c.state_dict()])
def test_where_a_step_must_not_look_the_warning_comes_at_the_next_look(look, monkeypatch):
    """As on a GPU, where reading a value in the step would wait for the device."""
    monkeypatch.setattr(adaptivek.criterion, "has_values", lambda x: False)
    criterion = adaptivek.Selection("vanilla")
    criterion.reduce(torch.tensor([1.0, math.nan]))
    with pytest.warns(UserWarning, match="1 of the losses were NaN or infinite"):
        look(criterion)
    look(criterion)


def test_a_batch_in_which_nothing_counts_leaves_the_averages_alone():
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    criterion.reduce(torch.tensor([1.0, 2.0]))
    before = criterion.state_m.clone(), criterion.state_v.clone(), criterion.noise_ratio
    loss = criterion.reduce(torch.tensor([3.0, 4.0]), mask=torch.tensor([False, False]))
    assert loss.item() == 0
    assert (criterion.state_m, criterion.state_v, criterion.noise_ratio) == before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_precision_of_the_losses(dtype):
    torch.manual_seed(0)
    logits = (torch.randn(64, 10) * 3).to(dtype).requires_grad_()
    target = torch.randint(10, (64,))
    criterion, exact = (adaptivek.Selection("adaptive-k", warmup=0) for _ in range(2))
    loss = criterion(logits, target)
    loss.backward()
    assert loss.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert logits.grad.dtype == dtype
    reference = F.cross_entropy(logits.double(), target, reduction="none")
    expected = exact.reduce(reference)
    assert expected.dtype == torch.float64
    assert torch.equal(criterion.kept, exact.kept)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_changes_nothing(dtype):
    torch.manual_seed(0)
    logits, target = torch.randn(64, 10) * 3, torch.randint(10, (64,))
    inside, outside = (adaptivek.Selection("adaptive-k", warmup=0) for _ in range(2))
    with torch.autocast("cpu", dtype):
        loss = inside(logits, target)
    assert torch.equal(loss, outside(logits, target))
    assert loss.dtype == torch.float32


def test_half_precision_losses_are_summed_in_full_precision():
    criterion = adaptivek.Selection("vanilla")
    losses = torch.full((10_000,), 1.001, dtype=torch.float16)  # the sum is far beyond what adds up in half
    assert criterion.reduce(losses).item() == pytest.approx(losses[0].item(), rel=1e-6)


def test_moving_to_half_keeps_the_averages_in_full_precision():
    model = nn.ModuleDict({"net": nn.Linear(2, 2), "criterion": adaptivek.Selection("adaptive-k", warmup=0)})
    model["criterion"].reduce(torch.tensor([1.0, 2.0]))
    before = model["criterion"].state_dict()
    model.half()
    assert model["net"].weight.dtype == torch.float16
    after = model["criterion"].state_dict()
    for name, value in before.items():
        assert after[name].dtype == value.dtype
        assert torch.equal(after[name], value)


def test_moves_with_the_model():
    criterion = adaptivek.Selection("adaptive-k", warmup=3).to("meta")
    assert {buffer.device.type for buffer in criterion.buffers()} == {"meta"}


def test_follows_the_losses_to_their_device():
    """As nn.CrossEntropyLoss() in a loop on a GPU: nobody moves that. The meta device stands for the other one."""
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    criterion(torch.empty(4, 3, device="meta"), torch.empty(4, dtype=torch.int64, device="meta"))
    assert {buffer.device.type for buffer in criterion.buffers()} == {"meta"}


def test_losses_without_gradient():
    criterion = adaptivek.Selection("mkl:keep=0.5")
    loss = criterion.reduce(torch.tensor([1.0, 3.0]))
    assert loss.item() == 1
    assert not loss.requires_grad


def test_eval_is_the_plain_mean_and_remembers_nothing():
    criterion = adaptivek.Selection("mkl:keep=0.5").eval()
    assert criterion.reduce(torch.tensor([1.0, 3.0])).item() == 2
    assert criterion.reduce(torch.tensor([1.0, 3.0]), mask=torch.tensor([True, False])).item() == 1
    assert criterion.tally_step == 0
    assert criterion.kept is None


def test_noise_ratio_starts_after_warmup_and_forgets():
    criterion = adaptivek.Selection("mkl:keep=0.5", warmup=2, window=10)
    for _ in range(2):
        criterion.reduce(torch.rand(4))
    assert math.isnan(criterion.noise_ratio)
    criterion.reduce(torch.rand(4))
    assert criterion.noise_ratio == pytest.approx(0.5)
    criterion.method = adaptivek.MKL(keep=0.75)
    for _ in range(100):
        criterion.reduce(torch.rand(4))
    assert criterion.noise_ratio == pytest.approx(0.25, abs=1e-4)


def test_noise_ratio_weighs_batches_by_their_size():
    criterion = adaptivek.Selection("mkl:keep=0.5", window=1_000_000)
    criterion.reduce(torch.rand(100))
    criterion.reduce(torch.rand(1))  # keeps its only sample
    assert criterion.noise_ratio == pytest.approx(50 / 101)


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda c: c.reduce(torch.tensor(1.0)), 'got a single number: compute the loss with reduction="none"'),
        (lambda c: c(torch.zeros(3), torch.tensor(1)), r"logits must have shape \(batch, classes, ...\), got \(3,\)"),
        (lambda c: c.reduce(torch.tensor([1, 2])), "losses must be floating point, got torch.int64"),
        (
            lambda c: c.reduce(torch.zeros(3), mask=torch.ones(2, dtype=torch.bool)),
            r"mask must have the shape of the losses, \(3,\), got \(2,\)",
        ),
        (
            lambda c: c.reduce(torch.zeros(3), index=torch.zeros(2, dtype=torch.int64)),
            r"index must have the shape of the losses, \(3,\), got \(2,\)",
        ),
    ],
)
def test_wrong_use_says_what_to_do(use, message):
    with pytest.raises(ValueError, match=message):
        use(adaptivek.Selection("vanilla"))


def test_a_loss_that_averages_by_itself_is_named():
    criterion = adaptivek.Selection("vanilla", loss=nn.CrossEntropyLoss())
    with pytest.raises(ValueError, match='reduction="none"'):
        criterion(torch.zeros(2, 3), torch.tensor([0, 1]))


def test_oracle_needs_truth_and_rows():
    with pytest.raises(ValueError, match="clean must be one bool per training row"):
        adaptivek.Selection("oracle")
    with pytest.raises(ValueError, match="clean is for Oracle alone"):
        adaptivek.Selection("vanilla", clean=torch.ones(3))
    criterion = adaptivek.Selection("oracle", clean=torch.tensor([True, False, True]))
    with pytest.raises(ValueError, match=r"oracle needs row numbers: criterion\(output, target, index\)"):
        criterion.reduce(torch.zeros(2))
    assert criterion.reduce(torch.tensor([4.0, 2.0]), index=torch.tensor([1, 2])).item() == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"warmup": -1}, "Selection: warmup must be a whole number of at least 0, got -1"),
        ({"warmup": 1.5}, "Selection: warmup must be a whole number of at least 0, got 1.5"),
        ({"window": 0, "warmup": 0}, "Selection: window must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_options_are_named_at_construction(options, message):
    with pytest.raises(ValueError, match=message):
        adaptivek.Selection("adaptive-k", **options)


def test_not_a_method():
    with pytest.raises(TypeError, match="method must be a method or the name of one, got 3"):
        adaptivek.Selection(3)


def test_a_method_that_wants_warmup_says_so_when_none_is_given():
    with pytest.warns(UserWarning, match="give warmup=, in steps"):
        adaptivek.Selection("adaptive-k")
    adaptivek.Selection("adaptive-k", warmup=0)  # meant
    adaptivek.Selection("mkl")  # starts at once by design
