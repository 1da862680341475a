"""What only a GPU can show. Skipped without one; run by hand and noted when the step changes."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F

import adaptivek
from adaptivek.backend import fitting
from adaptivek.experiments.data import Split, load
from adaptivek.experiments.session import Session, prepare
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.stack import Stack

from .reference import ONE_EACH
from .tiny import answered, swept

pytestmark = pytest.mark.gpu
ROWS = 200


def make(text: str) -> adaptivek.Selection:
    clean = torch.arange(ROWS) % 3 > 0
    truth = {"clean": clean} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=2, rows=ROWS, classes=5, **truth).cuda()
    if criterion.method.needs_epochs:
        criterion.start_epoch(0, swept(criterion.method, ROWS))
    return criterion


def batches(number: int):
    generator = torch.Generator().manual_seed(0)
    for _ in range(number):
        x = torch.randn(32, 6, generator=generator) * 3
        y = torch.randint(5, (32,), generator=generator)
        yield x, y, torch.randperm(ROWS, generator=generator)[:32]


def _set_sync_debug(mode: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the mode is a prototype
        torch.cuda.set_sync_debug_mode(mode)


@pytest.mark.parametrize("text", ONE_EACH)
def test_gpu_equals_cpu(text):
    on_gpu, on_cpu = make(text), make(text).cpu()
    for x, y, index in batches(30):
        logits = answered(on_cpu.method, x[:, :5])
        found = on_gpu(logits.cuda(), y.cuda(), index.cuda())
        expected = on_cpu(logits, y, index)
        torch.testing.assert_close(found.cpu(), expected)
        assert torch.equal(on_gpu.kept.cpu(), on_cpu.kept)


@pytest.mark.parametrize(
    "text", ["elr", "label-agreement", "label-memory", "label-posterior", "lccn", "plc", "sat", "selc", "sop"]
)
def test_packed_rows_replay_and_equal_the_cpu(text, monkeypatch):
    monkeypatch.setattr(fitting, "kept_classes", lambda rows, classes, wanted: 4)
    test_a_step_never_waits_for_the_device(text)
    on_gpu, on_cpu = make(text), make(text).cpu()
    for x, y, index in batches(30):
        found = on_gpu(x[:, :5].cuda().requires_grad_(), y.cuda(), index.cuda())
        torch.testing.assert_close(found.cpu(), on_cpu(x[:, :5], y, index), rtol=1e-3, atol=1e-4)
    assert on_gpu._replay._graphs
    assert any(value.dtype == torch.int16 for value in on_gpu.memory.state)


def test_nobody_has_to_move_the_criterion():
    criterion = adaptivek.Selection("adaptive-k", warmup=0)
    x, y, _ = (t.cuda() for t in next(batches(1)))
    for _ in range(5):
        criterion(x[:, :5].requires_grad_(), y).backward()
    assert criterion.state_m.is_cuda
    assert criterion.tally_step == 5


@pytest.mark.parametrize("text", ONE_EACH)
def test_a_step_never_waits_for_the_device(text):
    criterion = make(text)
    data = [tuple(t.cuda() for t in b) for b in batches(5)]
    for x, y, index in data:  # until the step is a graph: capturing one does wait, once
        criterion(answered(criterion.method, x[:, :5]).requires_grad_(), y, index).backward()
    assert criterion._replay._graphs
    _set_sync_debug("error")
    try:
        for x, y, index in data:
            criterion(answered(criterion.method, x[:, :5]).requires_grad_(), y, index).backward()
    finally:
        _set_sync_debug("default")
    assert criterion.tally_step == 10


@pytest.mark.parametrize("text", ONE_EACH)
def test_replayed_equals_eager(text, monkeypatch):
    """With two calls before one backward, a shape that comes and goes, and buffers that are replaced."""
    replayed, eager = make(text), make(text)
    for number, b in enumerate(batches(30)):
        x, y, index = (t.cuda() for t in b)
        size = 20 if number % 5 == 4 else 32
        if number == 15:
            state = {name: value.clone() for name, value in replayed.state_dict().items()}
            replayed.load_state_dict(state, assign=True)
        found, expected = x[:, :5].clone().requires_grad_(), x[:, :5].clone().requires_grad_()
        for logits, criterion, allowed in ((found, replayed, True), (expected, eager, False)):
            with monkeypatch.context() as patch:
                if not allowed:
                    patch.setattr(adaptivek.criterion, "replayable", lambda x: False)
                output = answered(criterion.method, logits[:size])
                first = criterion(output, y[:size], index[:size])
                second = criterion(output * 2, y[:size], index[:size])
            (first + 3 * second).backward()
        assert torch.equal(replayed.kept, eager.kept)
        torch.testing.assert_close(found.grad, expected.grad)
    assert len(replayed._replay._graphs) == 4  # two shapes, twice
    assert not eager._replay._graphs
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(replayed.state_dict()[name], value)
    again = copy.deepcopy(replayed)
    again(answered(again.method, x[:, :5]), y, index)
    assert again.tally_step == replayed.tally_step + 1


@pytest.mark.parametrize("text", ONE_EACH)
def test_captured_in_a_cuda_graph(text):
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 5).cuda()
    twin = copy.deepcopy(model)
    criterion, eager = make(text), make(text)
    optimizer, other = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (model, twin))
    x, y, index = (t.cuda() for t in next(batches(1)))

    def step(model, criterion, optimizer, x, y, index):
        optimizer.zero_grad(set_to_none=False)
        loss = criterion(answered(criterion.method, model(x)), y, index)
        loss.backward()
        optimizer.step()
        return loss

    # warm up on a side stream, as PyTorch asks, then put everything back
    state = copy.deepcopy((model.state_dict(), criterion.state_dict()))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            step(model, criterion, optimizer, x, y, index)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step(model, criterion, optimizer, x, y, index)
    model.load_state_dict(state[0])
    criterion.load_state_dict(state[1])

    partial = 0
    for number, new in enumerate(batches(20)):
        if number % 5 == 0 and eager.method.needs_epochs:  # for those that leave nothing out at first
            for each in (criterion, eager):
                each.start_epoch(number, swept(each.method, ROWS))
        for target, value in zip((x, y, index), new, strict=True):
            target.copy_(value)
        graph.replay()
        expected = step(twin, eager, other, *(t.cuda() for t in new))
        torch.testing.assert_close(loss, expected)
        assert torch.equal(criterion.kept, eager.kept)
        torch.testing.assert_close(criterion.confidence, eager.confidence)  # counted in any order on a GPU
        partial += 0 < float(eager.confidence.sum()) < eager.confidence.numel()
    torch.testing.assert_close(model.weight, twin.weight)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(criterion.state_dict()[name], value)
    assert partial > 0 or not eager.method.leaves_out


@pytest.mark.filterwarnings("ignore::UserWarning:torch")  # its advice on matrix precision
@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
def test_compiled_equals_eager(text, mode):
    torch._dynamo.reset()
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 5).cuda()
    twin = copy.deepcopy(model)
    eager, compiled = make(text), make(text)
    step = torch.compile(lambda x, y, i: compiled(answered(compiled.method, twin(x)), y, i), fullgraph=True, mode=mode)
    for b in batches(12):
        x, y, index = (t.cuda() for t in b)
        torch.compiler.cudagraph_mark_step_begin()
        expected, found = eager(answered(eager.method, model(x)), y, index), step(x, y, index)
        model.zero_grad()
        twin.zero_grad()
        expected.backward()
        found.backward()
        torch.testing.assert_close(found, expected)
        assert torch.equal(eager.kept, compiled.kept)
        torch.testing.assert_close(twin.weight.grad, model.weight.grad)
    for name, value in eager.state_dict().items():
        torch.testing.assert_close(compiled.state_dict()[name], value)


def test_second_derivatives_are_right_or_refused():
    x = torch.randn(8, 5, device="cuda", requires_grad=True)
    y = torch.randint(5, (8,), device="cuda")
    replayed = make("vanilla")
    for _ in range(3):
        loss = replayed(x, y)
    with pytest.raises(RuntimeError, match="cuda_graph=False"):
        torch.autograd.grad(loss, x, create_graph=True)
    plain = adaptivek.Selection("vanilla", cuda_graph=False).cuda()
    found, expected = (
        torch.autograd.grad(torch.autograd.grad(f(x, y), x, create_graph=True)[0].square().sum(), x)[0]
        for f in (plain, F.cross_entropy)
    )
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("text", ONE_EACH)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_with_a_scaler(text, dtype):
    """fp16 with loss scaling: selection sees unscaled losses, an overflow is left out, training goes on."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 5).cuda()
    criterion, reference = make(text), make(text)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cuda", enabled=dtype == torch.float16)
    for number, b in enumerate(batches(20)):
        x, y, index = (t.cuda() for t in b)
        if number == 10:
            x[0] = 1e5  # overflows in fp16
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype):
            logits = answered(criterion.method, model(x))
            loss = criterion(logits, y, index)
        assert (logits.dtype, loss.dtype) == (dtype, torch.float32)
        torch.testing.assert_close(loss, reference(logits.detach().float(), y, index))
        assert torch.equal(criterion.kept, reference.kept)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert torch.isfinite(loss)
    assert torch.isfinite(model.weight).all()
    if criterion.tally_nonfinite:
        with pytest.warns(UserWarning, match="NaN or infinite"):
            ratio = criterion.noise_ratio
        assert 0 <= ratio <= 1 or criterion.noise_ratio_reason


@pytest.mark.parametrize("text", ONE_EACH)
def test_accumulation_replayed_equals_eager(text):
    """Both ways; the one that judges micro-batches runs as a graph after two of them."""
    torch.manual_seed(0)
    model = torch.nn.Linear(6, 5).cuda()
    twin = copy.deepcopy(model)
    criterion, eager = make(text), make(text)
    eager.cuda_graph = False
    pairs = [(adaptivek.Accumulation(c, m.parameters()), c, m) for c, m in ((criterion, model), (eager, twin))]
    for number, b in enumerate(batches(12)):
        x, y, index = (t.cuda() for t in b)
        for accumulate, judge, net in pairs:
            if number % 4 == 0:
                net.zero_grad()
                accumulate.start()
            accumulate(judge(answered(judge.method, net(x)), y, index)).backward()
        torch.testing.assert_close(model.weight.grad, twin.weight.grad)
    assert criterion._replay._graphs
    assert not eager._replay._graphs
    whole, parts = make(text), make(text)
    for b in batches(6):
        x, y, index = (t.cuda() for t in b)
        model.zero_grad()
        twin.zero_grad()
        whole(answered(whole.method, model(x)), y, index).backward()
        parts(answered(parts.method, adaptivek.rerun(twin, x.split(10))), y, index).backward()
        assert torch.equal(whole.kept, parts.kept)
        torch.testing.assert_close(model.weight.grad, twin.weight.grad)


def test_labels_out_of_range_are_named_before_they_reach_a_kernel():
    """There they would end the process's use of the GPU."""
    x, y, _ = (t.cuda() for t in next(batches(1)))
    with pytest.raises(ValueError, match="labels must be from 0 to 4, or -100 for what does not count; got"):
        adaptivek.Selection("vanilla")(x[:, :5], y + 5)
    assert torch.isfinite(adaptivek.Selection("vanilla")(x[:, :5], y))


def test_a_session_on_the_gpu_resumes_to_the_last_bit():
    spec = RunSpec("digits", noise_rate=0.4, recipe=Recipe(network="digits-cnn", epochs=4, warmup_epochs=1))
    whole, first, second = (Session(spec, device="cuda") for _ in range(3))
    torch.backends.cudnn.deterministic = True
    try:
        list(whole)
        for _, _record in zip(range(2), first, strict=False):
            pass
        second.load_state_dict(copy.deepcopy(first.state_dict()))
        list(second)
    finally:
        torch.backends.cudnn.deterministic = False
    for a, b in zip(whole.model.parameters(), second.model.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_stack_on_a_gpu_is_the_runs_alone_on_a_cpu(cuda_graph):
    """Every method, with and without the recorded graph; dropout and order do not depend on the device."""
    recipe = Recipe(network="digits-cnn", epochs=3, warmup_epochs=1, decay_every=2)
    data = load("digits")
    data = Split(data.x[:200], data.y[:200], data.x_test[:100], data.y_test[:100], 10)
    jobs = [
        prepare(RunSpec("digits", method, noise_rate=rate, recipe=recipe), data)
        for method in (
            *adaptivek.methods.METHODS,
            "augdesc:ramp=1",
            "co-teaching:ramp=1",
            "moit:neighbours=5,plain=1",
            "plc:plain=1",
        )
        for rate in (0.2, 0.4)
        if method != "pes"  # no stack trains it
    ]
    for job, records in zip(jobs, zip(*Stack(jobs, "cuda", cuda_graph), strict=True), strict=True):
        for ours, theirs in zip(records, Session(job.spec, data, "cpu"), strict=True):
            assert ours.train_loss == pytest.approx(theirs.train_loss, rel=0.01)
            assert ours.kept_share == pytest.approx(theirs.kept_share, abs=0.02)
            assert ours.test_accuracy == pytest.approx(theirs.test_accuracy, abs=0.03)


@pytest.mark.filterwarnings("default")  # the compiler touches what warns of itself
def test_a_large_network_alone_in_bfloat16():
    """Compiled, channels last, its step a graph: it learns what plain training learns, run after run."""
    draw = torch.Generator().manual_seed(0)
    y = torch.arange(512) % 4
    x = torch.randn(512, 3, 32, 32, generator=draw) + y[:, None, None, None]
    data = Split(x, y, x[:128], y[:128], 4)
    recipe = Recipe(
        network="resnet9", epochs=4, warmup_epochs=1, batch_size=64, learning_rate=0.02, momentum=0.9,
        augment=True, precision="bfloat16",
    )  # fmt: skip
    for method in ("vanilla", "mkl:keep=0.9"):  # the second through the network compiled for the first
        records = [epoch[0] for epoch in Stack([prepare(RunSpec("cifar10", method, recipe=recipe), data)], "cuda")]
        assert records[-1].test_accuracy > 0.8
        assert records[-1].train_loss < records[0].train_loss / 2
