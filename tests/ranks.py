"""What two processes must agree on; run by `test_distributed` under torchrun. Not a test file by itself.

Every check compares with the same work on the whole batch in one process (``distributed=False``). Some of them take
any even number of processes:

    torchrun --nproc-per-node 8 -m tests.ranks every_method_step_by_step sharded resumed accelerated
"""

from __future__ import annotations

import copy
import io
import sys
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
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Sampler, TensorDataset

import adaptivek

from . import tiny
from .ranks_audit import audit_of_parquet_files
from .reference import ONE_EACH
from .test_host_tables import tables_on_the_host

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
    """Where this rank's samples are: the first half of the ranks shares the first number of them."""
    half = dist.get_world_size() // 2
    first, rank = dist.get_rank() < half, dist.get_rank() % half
    start, size = (0, sizes[0]) if first else sizes
    return slice(start + rank * size // half, start + (rank + 1) * size // half)


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
        if text.startswith("adaptive-k") and dist.get_rank() == dist.get_world_size() - 1:
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
    from torch.distributed.fsdp import fully_shard  # from PyTorch 2.6 on

    methods = {"label-posterior": {}, "label-agreement": {}, "label-memory": {"table_classes": 4}, "adaptive-k": {}}
    for text, options in methods.items():
        torch.manual_seed(0)
        alone = nn.Linear(6, CLASSES).double()
        model = fully_shard(copy.deepcopy(alone), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
        whole, ours = make(text, distributed=False, **options), make(text, **options)
        optimizers = [torch.optim.SGD(m.parameters(), lr=0.05) for m in (alone, model)]
        for step, sizes in enumerate(SIZES):
            (x, y, index), mine = batch(step), part(sizes)
            losses = whole(alone(x), y, index), ours(model(x[mine]), y[mine], index[mine])
            for loss, optimizer in zip(losses, optimizers, strict=True):
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            assert torch.equal(ours.kept, whole.kept[mine])
            torch.testing.assert_close(ours.confidence, whole.confidence[mine])
            torch.testing.assert_close([p.full_tensor() for p in model.parameters()], list(alone.parameters()))
        same(ours, whole)
    model.zero_grad()
    model.set_requires_gradient_sync(False)
    accumulate = adaptivek.Accumulation(ours, model.parameters())
    accumulate(ours(model(x[mine]), y[mine])).backward()
    with pytest.raises(RuntimeError, match="under FSDP let gradients be reduced with every micro-batch"):
        accumulate(ours(model(x[mine]), y[mine]))


def resumed() -> None:
    """Stopped and resumed on another number of processes, it is the run of one process that never stopped."""
    for text in ("label-posterior", "label-agreement", "label-memory:beta=0.5", "elr"):
        torch.manual_seed(0)
        models = [nn.Linear(6, CLASSES).double() for _ in range(2)]
        models[1].load_state_dict(models[0].state_dict())
        whole, ours = make(text, distributed=False), make(text)
        pairs = dist.new_subgroups(2)[0]
        for step, sizes in enumerate(SIZES):
            if step in (3, 5):  # all ranks, then each alone, then in pairs
                saved = io.BytesIO()
                torch.save([models[1].state_dict(), ours.state_dict()], saved)
                network, criterion = torch.load(io.BytesIO(saved.getvalue()), weights_only=True)
                models[1], ours = nn.Linear(6, CLASSES).double(), make(text, distributed=False if step == 3 else pairs)
                models[1].load_state_dict(network)
                ours.load_state_dict(criterion)
            ranks, mine = dist.group.WORLD, part(sizes)
            if 3 <= step < 5:
                ranks, mine = None, slice(None)
            elif step >= 5:
                ranks, mine = pairs, slice(0, sizes[0]) if dist.get_rank() % 2 == 0 else slice(sizes[0], None)
            x, y, index = batch(step)
            whole(models[0](x), y, index).backward()
            ours(models[1](x[mine]), y[mine], index[mine]).backward()
            with torch.no_grad():
                for parameter in models[1].parameters():  # what DDP does
                    if ranks is not None:
                        dist.all_reduce(parameter.grad, group=ranks)
                        parameter.grad /= dist.get_world_size(ranks)
                for model in models:
                    for parameter in model.parameters():
                        parameter -= 0.05 * parameter.grad
                    model.zero_grad()
            assert torch.equal(ours.kept, whole.kept[mine])
            torch.testing.assert_close(list(models[1].parameters()), list(models[0].parameters()))
            same(ours, whole)


def accelerated() -> None:
    """Hugging Face Accelerate, in a loop of one's own, with the default method."""
    from accelerate import Accelerator, DataLoaderConfiguration

    def run(loader, model, optimizer, criterion, backward) -> list[torch.Tensor]:
        for x, y, index in loader:
            optimizer.zero_grad()
            backward(criterion(model(x), y, index))
            optimizer.step()
        return list(model.parameters())

    rows = adaptivek.indexed(TensorDataset(*batch(0, size=200)[:2]))
    found = []
    for split in (False, True):
        torch.manual_seed(0)
        model = nn.Linear(6, CLASSES).double()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        criterion = adaptivek.Selection(rows=ROWS, classes=CLASSES, distributed=split)
        loader, backward = DataLoader(rows, 40), torch.Tensor.backward
        if split:
            accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(split_batches=True))
            loader, model, optimizer = accelerator.prepare(loader, model, optimizer)
            backward = accelerator.backward
        found.append([run(loader, model, optimizer, criterion, backward) for _ in range(3)][-1])
        found.append(list(criterion.memory.state))
    torch.testing.assert_close(found[2], found[0])
    torch.testing.assert_close(found[3], found[1])


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
    every_method_step_by_step, a_class_lost_on_one_rank_is_lost_on_all, tokens_and_masks, one_big_batch, windows,
    sharded, resumed, accelerated, broken_use_stops_every_rank, compiled_with_a_break, lightning_and_hugging_face,
    tables_on_the_host, audit_of_parquet_files,
)  # fmt: skip


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    named = sys.argv[1:] or [check.__name__ for check in CHECKS]
    for check in (check for check in CHECKS if check.__name__ in named):
        check()
        dist.barrier()
        if dist.get_rank() == 0:
            print("passed", check.__name__, flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
