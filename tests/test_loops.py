"""The criterion in a plain loop: accumulation, mixed precision, stops in mid-epoch, row numbers; for every method."""

from __future__ import annotations

import copy
import io

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import adaptivek

from .reference import ONE_EACH
from .tiny import answered, judge, swept

ROWS, CLASSES = 96, 5
CLEAN = torch.arange(ROWS) % 3 > 0


def make(text: str, warmup: int = 1) -> adaptivek.Selection:
    truth = {"clean": CLEAN} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=warmup, rows=ROWS, classes=CLASSES, **truth)
    if criterion.method.needs_epochs:
        criterion.start_epoch(0, swept(criterion.method, ROWS))
    return criterion


def network(dropout: float = 0.0) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(dropout), nn.Linear(16, CLASSES)).double()


def data() -> TensorDataset:
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(ROWS, 6, generator=generator, dtype=torch.float64) * 4
    return TensorDataset(x, torch.randint(CLASSES, (ROWS,), generator=generator))


def loader(size: int) -> DataLoader:
    return DataLoader(adaptivek.indexed(data()), batch_size=size)


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad.clone() for p in model.parameters()]


def assert_same_memory(one: adaptivek.Selection, other: adaptivek.Selection) -> None:
    for name, value in other.state_dict().items():
        torch.testing.assert_close(one.state_dict()[name], value)


@pytest.mark.parametrize("text", ONE_EACH)
def test_a_window_run_again_is_the_step_of_one_big_batch(text):
    big, small, partial = network(), network(), 0
    whole, parts = make(text), make(text)
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (big, small)]
    for x, y, index in loader(32):
        expected = whole(answered(whole.method, big(x)), y, index)
        window = [(part,) for part in x.split(12)]  # the last one is smaller
        found = parts(answered(whole.method, adaptivek.rerun(lambda b: small(b[0]), window)), y, index)
        for loss, optimizer in zip((expected, found), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close(found, expected)
        assert torch.equal(parts.kept, whole.kept)
        torch.testing.assert_close(parts.confidence, whole.confidence)
        torch.testing.assert_close(gradients(small), gradients(big))
        partial += 0 < float(whole.confidence.sum()) < len(y)
    assert_same_memory(parts, whole)
    method = whole.method  # those that go by epochs have seen none, those that remember rows have seen each once
    waits = method.needs_epochs or method.uses_rows or method.full_pass
    assert partial > 0 or not method.leaves_out or waits


def test_running_again_holds_one_micro_batch_and_repeats_its_dropout():
    model, calls = network(dropout=0.5), []
    model[0].register_forward_hook(lambda *_: calls.append("forward"))
    model[0].weight.register_hook(lambda g: calls.append("backward"))
    criterion = make("adaptive-k", warmup=0)
    x, y = data()[:8]
    window = list(zip(x.split(4), y.split(4), strict=True))
    criterion.reduce(adaptivek.rerun(lambda b: F.cross_entropy(model(b[0]), b[1], reduction="none"), window))
    assert calls == ["forward", "forward"]
    torch.manual_seed(7)
    held = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: held.append(t.shape) or t, lambda t: t):
        losses = adaptivek.rerun(lambda b: F.cross_entropy(model(b[0]), b[1], reduction="none"), window)
    assert not [shape for shape in held if shape == (4, 16)]  # no activation of the hidden layer
    losses.sum().backward()
    found = gradients(model)
    torch.manual_seed(7)
    model.zero_grad()
    torch.cat([F.cross_entropy(model(a), b, reduction="none") for a, b in window]).sum().backward()
    torch.testing.assert_close(found, gradients(model))


@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("scale", [1, 2**10])
def test_a_window_judged_in_parts_is_the_mean_over_all_that_was_kept(text, scale):
    """Against the sums of the kept losses, divided once. ``scale``: as a loss scaler has it."""
    model, twin = network(), network()
    criterion, reference = make(text), make(text)
    accumulate = adaptivek.Accumulation(criterion, model.parameters())
    batches = list(loader(8))
    for window in (batches[:4], batches[4:7], batches[7:]):  # of different lengths
        model.zero_grad()
        twin.zero_grad()
        accumulate.start()
        total, number, value = 0.0, 0, 0.0
        for x, y, index in window:
            part = accumulate(criterion(answered(criterion.method, model(x)), y, index))
            (scale * part).backward()
            value += part.item()
            kept, weight = judge(reference, twin(x), y, index)
            assert torch.equal(reference.kept, criterion.kept)
            total, number = total + kept, number + weight.item()
        (total / max(number, 1)).backward()
        torch.testing.assert_close([g / scale for g in gradients(model)], gradients(twin))
        assert value == pytest.approx(total.item() / max(number, 1), rel=1e-6)


@pytest.mark.parametrize("text", ["vanilla", "oracle"])
def test_methods_that_judge_samples_one_by_one_need_no_second_pass(text):
    """For them a window judged in parts is the big batch already."""
    model, twin = network(), network()
    criterion, whole = make(text, warmup=0), make(text, warmup=0)
    accumulate = adaptivek.Accumulation(criterion, model.parameters())
    for x, y, index in loader(8):
        accumulate(criterion(model(x), y, index)).backward()
    ((x, y, index),) = loader(ROWS)
    whole(twin(x), y, index).backward()
    torch.testing.assert_close(gradients(model), gradients(twin))


def test_a_window_in_which_nothing_is_kept_makes_no_step():
    model = network()
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    accumulate = adaptivek.Accumulation(criterion, model.parameters())
    for x, _, _ in loader(48):
        loss = accumulate(criterion.reduce(100 + model(x).sum(1) ** 2))
        loss.backward()
        assert loss.item() == 0
    assert all((g == 0).all() for g in gradients(model))


def test_a_window_without_backward_is_refused():
    model, criterion = network(), make("vanilla")
    accumulate = adaptivek.Accumulation(criterion, model.parameters())
    x, y = data()[:8]
    accumulate(criterion(model(x), y))
    with pytest.raises(RuntimeError, match="must have gradients after the first micro-batch, got none"):
        accumulate(criterion(model(x), y))


@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_mixed_precision_judges_the_losses_of_the_outputs_as_they_are(text, dtype):
    """fp16 with a loss scaler that starts too high: the steps that it skips are judged all the same."""
    model = network().float()
    criterion, reference = make(text), make(text)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**40, enabled=dtype == torch.float16)
    skipped = 0
    for _ in range(12):
        for x, y, index in loader(32):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype):
                logits = answered(criterion.method, model(x.float()))
                loss = criterion(logits, y, index)
            assert (logits.dtype, loss.dtype) == (dtype, torch.float32)
            expected = reference(logits.float(), y, index)
            torch.testing.assert_close(loss, expected)
            assert torch.equal(criterion.kept, reference.kept)
            scaler.scale(loss).backward()
            before = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            skipped += scaler.get_scale() < before
    assert all(torch.isfinite(p).all() for p in model.parameters())
    assert_same_memory(criterion, reference)
    assert 0 < skipped < 30 or dtype == torch.bfloat16


class Resumable:
    """A run of a plain loop, its place in the epoch included."""

    def __init__(self, text: str) -> None:
        self.model, self.criterion, self.step = network(dropout=0.3), make(text, warmup=4), 0
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.parts = {"model": self.model, "criterion": self.criterion, "optimizer": self.optimizer}
        torch.manual_seed(3)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            epoch, place = divmod(self.step, 6)
            order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch))
            x, y, index = next(iter(DataLoader(adaptivek.indexed(data()), ROWS)))
            rows = order[16 * place : 16 * place + 16]
            self.optimizer.zero_grad()
            output = answered(self.criterion.method, self.model(x[rows]))
            self.criterion(output, y[rows], index[rows]).backward()
            self.optimizer.step()
            self.step += 1

    def save(self) -> io.BytesIO:
        file = io.BytesIO()
        state = {name: part.state_dict() for name, part in self.parts.items()}
        torch.save(state | {"step": self.step, "rng": torch.get_rng_state()}, file)
        file.seek(0)
        return file

    def load(self, file: io.BytesIO) -> None:
        state = torch.load(file, weights_only=True)
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
        self.step = state["step"]
        torch.set_rng_state(state["rng"])


@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("stop", [3, 8])
def test_stopping_in_the_middle_of_an_epoch_changes_no_bit(text, stop):
    whole = Resumable(text)
    whole.run(14)
    first = Resumable(text)
    first.run(stop)
    file = first.save()
    second = Resumable(text)
    second.load(file)
    second.run(14 - stop)
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)
    for name, value in whole.criterion.state_dict().items():
        assert torch.equal(value, second.criterion.state_dict()[name]), name


class Words(Dataset):
    def __len__(self) -> int:
        return 5

    def __getitem__(self, row: int) -> dict[str, int]:
        return {"input_ids": row * 10, "labels": row % 2}


class Batched(Words):
    """As Hugging Face's: many rows in one go."""

    def __getitem__(self, row: int) -> dict[str, int]:
        raise AssertionError("one at a time is slow")

    def __getitems__(self, rows: list[int]) -> list[dict[str, int]]:
        return [super(Batched, self).__getitem__(row) for row in rows]


class Endless(IterableDataset):
    def __iter__(self):
        return iter(range(3))


def test_row_numbers_in_samples_of_every_kind():
    pairs = adaptivek.indexed(data())
    x, _, row = pairs[7]
    assert row == 7
    assert torch.equal(x, data()[7][0])
    assert pairs[-1][2] == ROWS - 1
    assert len(pairs) == ROWS
    assert adaptivek.indexed(Words())[3] == {"input_ids": 30, "labels": 1, "index": 3}
    assert adaptivek.indexed(["a", "b"])[1] == ("b", 1)
    assert adaptivek.indexed(Subset(data(), [5, 6, 7]))[2][2] == 2  # rows of what is trained on
    with pytest.raises(IndexError):
        pairs[ROWS]


@pytest.mark.parametrize("dataset", [Words(), Batched()])
def test_row_numbers_through_a_shuffling_loader(dataset):
    torch.manual_seed(0)
    seen = []
    for batch in DataLoader(adaptivek.indexed(dataset), batch_size=2, shuffle=True):
        assert batch["index"].dtype == torch.int64
        assert torch.equal(batch["input_ids"], 10 * batch["index"])
        seen += batch["index"].tolist()
    assert sorted(seen) == list(range(5))
    assert seen != sorted(seen)


def test_data_sets_that_cannot_have_row_numbers():
    with pytest.raises(TypeError, match="dataset must have a length and rows by number, got Endless"):
        adaptivek.indexed(Endless())
    with pytest.raises(ValueError, match="samples must not have 'index' already"):
        adaptivek.indexed(adaptivek.indexed(Words()))[0]


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda c, x, y: c(x, y[:-1]), r"labels must have shape \(8,\), got \(7,\)"),
        (lambda c, x, y: c(x, y[:, None]), r"labels must have shape \(8,\), got \(8, 1\)"),
        (lambda c, x, y: c(x, y + CLASSES), "labels must be from 0 to 4, or -100 for what does not count; got"),
        (lambda c, x, y: c(x, y - 1 - CLASSES), "labels must be from 0 to 4, or -100 for what does not count; got"),
        (
            lambda c, x, y: c(x, torch.rand(8, 3)),
            r"class probabilities of shape \(8, 5\); got torch.float32 of shape \(8, 3\)",
        ),
        (lambda c, x, y: c(x, y, torch.rand(8)), "index must be whole numbers, got torch.float32"),
        (
            lambda c, x, y: c.reduce(F.cross_entropy(x, y)),
            'got a single number: compute the loss with reduction="none"',
        ),
    ],
)
def test_broken_use_is_named_at_the_first_step(use, message):
    criterion = make("adaptive-k")
    x, y = torch.randn(8, CLASSES), torch.randint(CLASSES, (8,))
    with pytest.raises(ValueError, match=message):
        use(criterion, x, y)
    assert criterion.tally_step == 0
    y[0] = -100
    copy.deepcopy(criterion)(x, y)  # and nothing is spoilt by it


def test_missing_row_numbers_are_named_with_the_way_to_get_them():
    with pytest.raises(ValueError, match=r"oracle needs row numbers.*adaptivek.indexed\(dataset\) adds them"):
        make("oracle")(torch.randn(8, CLASSES), torch.randint(CLASSES, (8,)))


def test_a_plain_validation_loss_needs_no_row_numbers():
    assert make("oracle").eval().reduce(torch.tensor([1.0, 3.0])).item() == 2


def test_kept_share_of_the_last_batch():
    criterion = adaptivek.Selection("mkl:keep=0.5", warmup=1)
    mask = torch.tensor([True, True, True, True, False])
    criterion.reduce(torch.rand(5), mask=mask)
    assert criterion.kept_share == 1
    criterion.reduce(torch.rand(5), mask=mask)
    assert criterion.kept_share == 0.5
