"""What two processes must agree on; run by `test_distributed` under torchrun. Not a test file by itself.

Every check compares with the same work on the whole batch in one process (``distributed=False``).
"""

from __future__ import annotations

import copy
import warnings
from contextlib import nullcontext
from datetime import timedelta
from tempfile import TemporaryDirectory

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler

import adaptivek

from . import tiny
from .reference import ONE_EACH

ROWS, CLASSES = 200, 5
CLEAN = torch.arange(ROWS) % 3 > 0
#: samples of the two ranks at each step: alike, as at the end of an epoch, one with nothing at all
SIZES = [(32, 32), (32, 32), (32, 32), (40, 24), (32, 32), (64, 0), (32, 32), (5, 59)]


def make(text: str, **options: object) -> adaptivek.Selection:
    truth = {"clean": CLEAN} if text == "oracle" else {}
    criterion = adaptivek.Selection(text, warmup=2, rows=ROWS, classes=CLASSES, **truth, **options)
    if criterion.method.needs_epochs:
        criterion.start_epoch(0, tiny.swept(criterion.method, ROWS))
    return criterion


def batch(seed: int, size: int = 64) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The whole batch, the same on all ranks. Its second half is hopeless: nothing of it is kept by loss."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(size, 6, generator=generator, dtype=torch.float64)
    x[size // 2 :] *= 30
    y = torch.randint(CLASSES, (size,), generator=generator)
    return x, y, torch.randperm(ROWS, generator=generator)[:size]


def part(sizes: tuple[int, int]) -> slice:
    return slice(0, sizes[0]) if dist.get_rank() == 0 else slice(sizes[0], sum(sizes))


def gradients(model: nn.Module) -> list[torch.Tensor]:
    return [p.grad for p in model.parameters()]


def same(found: adaptivek.Selection, expected: adaptivek.Selection) -> None:
    for name, value in expected.state_dict().items():
        torch.testing.assert_close(found.state_dict()[name], value, msg=lambda text, n=name: f"{n}: {text}")


def every_method_step_by_step() -> None:
    for text in ONE_EACH:
        torch.manual_seed(0)
        alone = nn.Linear(6, CLASSES).double()
        shared = DistributedDataParallel(copy.deepcopy(alone))
        whole, ours = make(text, distributed=False), make(text)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in (alone, shared)]
        starved = 0
        for step, sizes in enumerate(SIZES):
            (x, y, index), mine = batch(step), part(sizes)
            expected = whole(tiny.answered(whole.method, alone(x)), y, index)
            found = ours(tiny.answered(ours.method, shared(x[mine])), y[mine], index[mine])
            for loss, optimizer in zip((expected, found), optimizers, strict=True):
                optimizer.zero_grad()
                loss.backward()
            torch.testing.assert_close(found, expected)
            assert torch.equal(ours.kept, whole.kept[..., mine]), (text, step)
            torch.testing.assert_close(gradients(shared), gradients(alone))
            for optimizer in optimizers:
                optimizer.step()
            same(ours, whole)
            starved += whole.kept.any() and not ours.kept.any()
        torch.testing.assert_close(list(shared.parameters()), list(alone.parameters()))
        if text.startswith("adaptive-k") and dist.get_rank() == 1:
            assert starved, "no step in which one rank keeps nothing"


def a_class_lost_on_one_rank_is_lost_on_all() -> None:
    """Each sees one class of two; only the first sees the one that is being lost."""
    ours = make("mkl:keep=0.5")
    watch = adaptivek.ClassMonitor(ours, classes=2, least=0.5, every=5, plain=3)
    labels = torch.full((8,), dist.get_rank())
    logits = torch.tensor([[0.0, 5.0, 0, 0, 0]]).repeat(8, 1)
    for step in range(10):
        ours(logits, labels)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            watch(labels)
        assert bool(heard) == (step == 4)
        assert ours.kept.all() == (step < 2 or dist.get_rank() == 1 or 4 < step < 8)
    assert watch.shares.tolist() == pytest.approx([3 / 5, 1.0])


def tokens_and_masks() -> None:
    """Losses of any shape; a mask on one rank alone; losses that are not numbers."""
    whole, ours = make("mkl:keep=0.5", distributed=False), make("mkl:keep=0.5")
    for seed in range(4):
        losses = torch.rand(8, 6, generator=torch.Generator().manual_seed(seed)).double()
        mask = torch.ones(8, 6, dtype=torch.bool)
        mask[6:, 3:] = False
        mine = part((5, 3))
        expected = whole.reduce(losses, mask=mask)
        found = ours.reduce(losses[mine], mask=mask[mine] if dist.get_rank() else None)
        torch.testing.assert_close(found, expected)
        assert torch.equal(ours.kept, whole.kept[mine])
    same(ours, whole)
    assert found.dtype == torch.float64


def one_big_batch() -> None:
    """Micro-batches on two ranks, judged together, make the step of the whole batch in one process."""
    for text in ONE_EACH:
        torch.manual_seed(0)
        alone = nn.Linear(6, CLASSES).double()
        shared = DistributedDataParallel(copy.deepcopy(alone))
        whole, ours = make(text, distributed=False), make(text)

        for step in range(4):
            (x, y, index), mine = batch(step), part((40, 24))
            alone.zero_grad()
            shared.zero_grad()
            whole(tiny.answered(whole.method, alone(x)), y, index).backward()
            output = tiny.answered(ours.method, adaptivek.rerun(shared, x[mine].split(10)))
            ours(output, y[mine], index[mine]).backward()
            torch.testing.assert_close(gradients(shared), gradients(alone))
            same(ours, whole)


def windows() -> None:
    """Micro-batches judged one by one: the same on two ranks, whose gradients meet at the last one."""
    for text in ONE_EACH:
        torch.manual_seed(0)
        alone = nn.Linear(6, CLASSES).double()
        shared = DistributedDataParallel(copy.deepcopy(alone))
        whole, ours = make(text, distributed=False), make(text)
        for seeds in ((0, 1, 2), (3, 4, 5)):
            alone.zero_grad()
            shared.zero_grad()
            expected = adaptivek.Accumulation(whole, alone.parameters())
            found = adaptivek.Accumulation(ours, shared.parameters())
            for seed in seeds:
                (x, y, index), mine = batch(seed), part((40, 24))
                expected(whole(tiny.answered(whole.method, alone(x)), y, index)).backward()
                with nullcontext() if seed == seeds[-1] else shared.no_sync():
                    output = tiny.answered(ours.method, shared(x[mine]))
                    found(ours(output, y[mine], index[mine])).backward()
            torch.testing.assert_close(gradients(shared), gradients(alone))
            same(ours, whole)


def sharded() -> None:
    """FSDP averages as DDP does; what it hides between micro-batches is refused, not miscounted."""
    torch.manual_seed(0)
    alone = nn.Linear(6, CLASSES).double()
    model = fully_shard(copy.deepcopy(alone), mesh=init_device_mesh("cpu", (2,)))
    whole, ours = make("adaptive-k", distributed=False), make("adaptive-k")
    optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (alone, model)]
    for step, sizes in enumerate(SIZES[:5]):
        (x, y, _), mine = batch(step), part(sizes)
        for loss, optimizer in zip((whole(alone(x), y), ours(model(x[mine]), y[mine])), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        torch.testing.assert_close([p.full_tensor() for p in model.parameters()], list(alone.parameters()))
    same(ours, whole)
    model.zero_grad()
    model.set_requires_gradient_sync(False)
    accumulate = adaptivek.Accumulation(ours, model.parameters())
    accumulate(ours(model(x[mine]), y[mine])).backward()
    with pytest.raises(RuntimeError, match="under FSDP let gradients be reduced with every micro-batch"):
        accumulate(ours(model(x[mine]), y[mine]))


def broken_use_stops_every_rank() -> None:
    with pytest.raises(ValueError, match=r"index must be given on every rank or on none, got it on ranks \[1\]"):
        make("vanilla").reduce(torch.rand(3), index=torch.arange(3) if dist.get_rank() else None)


def compiled_with_a_break() -> None:
    torch._dynamo.reset()
    ours, whole = make("adaptive-k"), make("adaptive-k", distributed=False)
    model = nn.Linear(6, CLASSES).double()
    step = torch.compile(lambda x, y: ours(model(x), y), backend="eager")
    for seed, sizes in enumerate(SIZES[:5]):
        (x, y, _), mine = batch(seed), part(sizes)
        torch.testing.assert_close(step(x[mine], y[mine]), whole(model(x), y))
    same(ours, whole)


class Halves(Sampler):
    """Of each batch of the plain loop, one half for each rank."""

    def __len__(self) -> int:
        return tiny.ROWS // 2

    def __iter__(self):
        half = tiny.SIZE // 2
        for start in range(dist.get_rank() * half, tiny.ROWS, tiny.SIZE):
            yield from range(start, start + half)


def lightning_and_hugging_face() -> None:
    """Two ranks of each make the weights of the plain loop in one process."""
    from . import test_huggingface, test_lightning

    rows = adaptivek.indexed(tiny.Rows())
    options = {"strategy": "ddp", "devices": 2, "use_distributed_sampler": False}
    for text, window in (("mkl", 1), ("adaptive-k:threshold=mean", 3), ("oracle", 3)):
        expected, _, _ = tiny.plain_loop(text, epochs=3, window=window)
        module = test_lightning.Module(tiny.make(text))
        loader = DataLoader(rows, tiny.SIZE // 2, sampler=Halves())
        test_lightning.trainer(3, accumulate_grad_batches=window, **options).fit(module, loader)
        torch.testing.assert_close(list(module.net.parameters()), list(expected.parameters()))

        model, steps = (
            tiny.Net(),
            {"gradient_accumulation_steps": window, "per_device_train_batch_size": tiny.SIZE // 2},
        )
        with TemporaryDirectory() as folder:
            trainer = test_huggingface.trainer(folder, model, rows, tiny.make(text), ddp_backend="gloo", **steps)
            trainer.train()
            found = trainer.evaluate(tiny.Rows())["eval_loss"]
        torch.testing.assert_close(list(model.parameters()), list(expected.parameters()))
        with torch.no_grad():
            plain = F.cross_entropy(model(rows.dataset.x)["logits"], rows.dataset.y)
        assert found == pytest.approx(plain.item(), rel=1e-4)


CHECKS = (
    every_method_step_by_step,
    a_class_lost_on_one_rank_is_lost_on_all,
    tokens_and_masks,
    one_big_batch,
    windows,
    sharded,
    broken_use_stops_every_rank,
    compiled_with_a_break,
    lightning_and_hugging_face,
)


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    for check in CHECKS:
        check()
        dist.barrier()
        if dist.get_rank() == 0:
            print("passed", check.__name__, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
