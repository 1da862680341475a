"""Hugging Face's stock Trainer: the same run as the plain loop, per sequence and per token, stopped and gone on."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

import adaptivek
from adaptivek.integrations.huggingface import attach

from .tiny import (
    CLASSES,
    IN_FRAMEWORKS,
    ROWS,
    SIZE,
    STARTED,
    CountsEpochs,
    Net,
    Recorder,
    Rows,
    distance,
    make,
    optimizer,
    plain_loop,
)

RESUMES = pytest.mark.skipif(
    torch.__version__ < "2.6", reason="Transformers goes on from a checkpoint from PyTorch 2.6 on"
)
SMALL = {"vocab_size": 50, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


def trainer(tmp_path, model: nn.Module, dataset, criterion: adaptivek.Selection | None = None, **options) -> Trainer:
    settings = {
        "output_dir": str(tmp_path),
        "per_device_train_batch_size": SIZE,
        "num_train_epochs": 3,
        "train_sampling_strategy": "sequential",
        "remove_unused_columns": False,
        "max_grad_norm": 0.0,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "dataloader_pin_memory": False,
    }
    step = optimizer(model)
    made = Trainer(
        model=model,
        args=TrainingArguments(**(settings | options)),
        train_dataset=dataset,
        optimizers=(step, torch.optim.lr_scheduler.LambdaLR(step, lambda _: 1.0)),
    )
    if criterion is not None:
        attach(made, criterion)
    return made


@pytest.mark.parametrize("text", [*IN_FRAMEWORKS, STARTED])
@pytest.mark.parametrize("window", [1, 4])  # six batches an epoch: the second window is shorter
def test_the_same_selections_and_weights_as_the_plain_loop(text, window, tmp_path):
    expected, reference, kept = plain_loop(text, epochs=3, window=window)
    model, criterion = Net(), make(text)
    recorder = Recorder(criterion)
    data = adaptivek.indexed(Rows())
    trainer(tmp_path, model, data, criterion, gradient_accumulation_steps=window).train()
    assert recorder.kept == kept
    assert recorder.partial or not recorder.criterion.method.leaves_out
    torch.testing.assert_close(list(model.parameters()), list(expected.parameters()))
    for name, value in reference.state_dict().items():
        torch.testing.assert_close(criterion.state_dict()[name], value)


def test_mixed_precision_is_the_plain_loops(tmp_path):
    expected, _, kept = plain_loop("adaptive-k", epochs=1, window=4, half=torch.bfloat16)
    model, criterion = Net(), make("adaptive-k")
    recorder = Recorder(criterion)
    trainer(tmp_path, model, Rows(), criterion, gradient_accumulation_steps=4, bf16=True, num_train_epochs=1).train()
    assert recorder.kept == kept
    torch.testing.assert_close(list(model.parameters()), list(expected.parameters()), rtol=0.01, atol=1e-3)


ON_GPU = {"gradient_accumulation_steps": 4, "num_train_epochs": 4, "use_cpu": False}


@pytest.mark.gpu
@pytest.mark.parametrize("text", IN_FRAMEWORKS)
@pytest.mark.parametrize(("precision", "allowed"), [({}, 0.02), ({"bf16": True}, 0.2), ({"fp16": True}, 0.05)])
def test_on_a_gpu_it_learns_what_the_plain_loop_learns(text, precision, allowed, tmp_path):
    """In fp16 with a loss scaler that begins where no step is skipped, so that there is something to compare with."""
    expected, _, _ = plain_loop(text, epochs=4, window=4)
    model, criterion, data = Net(), make(text), adaptivek.indexed(Rows())
    made = trainer(tmp_path, model, data, criterion, **ON_GPU, **precision)
    if "fp16" in precision:
        made.accelerator.scaler = torch.amp.GradScaler("cuda", init_scale=1.0)
    made.train()
    assert criterion.tally_step == 4 * ROWS // SIZE
    assert distance(model, expected) < allowed


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")  # after a skipped first step
def test_steps_that_a_loss_scaler_skips_on_a_gpu_are_judged_all_the_same(tmp_path):
    model, criterion = Net(), make("adaptive-k")
    made = trainer(tmp_path, model, adaptivek.indexed(Rows()), criterion, **ON_GPU, fp16=True)
    made.accelerator.scaler = torch.amp.GradScaler("cuda", init_scale=2.0**60)
    made.train()
    assert criterion.tally_step == 4 * ROWS // SIZE
    torch.testing.assert_close(list(model.cpu().parameters()), list(Net().parameters()), rtol=0, atol=0)


def test_what_is_logged_is_the_windows_loss_and_norm_and_what_the_criterion_did(tmp_path):
    model, criterion = Net(), make("mkl", warmup=0)
    options = {"gradient_accumulation_steps": 3, "max_steps": 1, "logging_steps": 1, "max_grad_norm": 0.01}
    made = trainer(tmp_path, model, Rows(), criterion, **options)
    made.train()
    logged = {k: v for entry in made.state.log_history for k, v in entry.items()}
    twin, judge, data = Net(), make("mkl", warmup=0), Rows()
    kept = []
    for x, y in list(zip(data.x.split(SIZE), data.y.split(SIZE), strict=True))[:3]:
        losses = judge.loss(twin(x)["logits"], y)
        judge.reduce(losses)
        kept.append(losses[judge.kept])
    loss = torch.cat(kept).mean()
    loss.backward()
    norm = torch.cat([p.grad.flatten() for p in twin.parameters()]).norm()
    assert logged["loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert logged["grad_norm"] == pytest.approx(norm.item(), rel=1e-4)  # clipping saw the normalised gradients
    assert logged["kept_share"] == pytest.approx(7 / 12)
    assert logged["noise_ratio"] == pytest.approx(5 / 12)
    assert "threshold" not in logged  # mkl has none


@RESUMES
@pytest.mark.parametrize("text", ["oracle", "mkl", "adaptive-k", "adaptive-k:threshold=mean"])  # one of each kind
def test_a_checkpoint_in_mid_epoch_brings_the_criterion_back(text, tmp_path):
    class Dropping(Net):
        def __init__(self) -> None:
            super().__init__()
            self.layers.append(nn.Dropout(0.2))

    whole, second = Dropping(), Dropping()
    expected, criterion = make(text), make(text)
    data = adaptivek.indexed(Rows())
    options = {"save_strategy": "steps", "save_steps": 8, "train_sampling_strategy": "random"}
    trainer(tmp_path, whole, data, expected, **options).train()
    trainer(tmp_path, second, data, criterion, **options).train(resume_from_checkpoint=f"{tmp_path}/checkpoint-8")
    assert criterion.tally_step == 3 * ROWS // SIZE
    for name, value in expected.state_dict().items():
        assert torch.equal(value, criterion.state_dict()[name]), name
    for a, b in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(a, b)


@RESUMES
def test_methods_that_go_by_epochs_are_told_once_of_each(tmp_path):
    options = {"save_strategy": "steps", "save_steps": 8}  # in mid-epoch
    whole, second = (adaptivek.Selection(CountsEpochs()) for _ in range(2))
    trainer(tmp_path, Net(), Rows(), whole, **options).train()
    trainer(tmp_path, Net(), Rows(), second, **options).train(resume_from_checkpoint=f"{tmp_path}/checkpoint-8")
    for criterion in (whole, second):
        assert (criterion.state_begun, criterion.tally_epoch) == (3, 2)


def test_going_on_from_a_checkpoint_of_a_plain_trainer_is_refused(tmp_path):
    (tmp_path / "checkpoint-6").mkdir()
    with pytest.raises(ValueError, match=r"checkpoint-6 must hold selection.pt, got none"):
        trainer(tmp_path, Net(), Rows(), make("mkl")).train(resume_from_checkpoint=True)


def test_evaluation_gives_the_plain_mean_and_is_not_remembered(tmp_path):
    model, criterion, data = Net(), make("mkl", warmup=0), Rows()
    made = trainer(tmp_path, model, data, criterion, num_train_epochs=1)
    made.train()
    found = made.evaluate(data)["eval_loss"]
    with torch.no_grad():
        assert found == pytest.approx(F.cross_entropy(model(data.x)["logits"], data.y).item(), rel=1e-5)
    assert criterion.tally_step == ROWS // SIZE


class Sentences(torch.utils.data.Dataset):
    """Token numbers; labels per sequence, or per token with some that do not count."""

    def __init__(self, kind: str) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(1, 50, (24, 10), generator=generator)
        if kind == "sequence":
            self.labels = torch.randint(CLASSES, (24,), generator=generator)
        else:
            self.labels = self.tokens.clone() if kind == "language" else self.tokens % CLASSES
            self.labels[torch.rand(24, 10, generator=generator) < 0.3] = -100

    def __len__(self) -> int:
        return 24

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.tokens[row], "labels": self.labels[row]}


def transformer(kind: str) -> nn.Module:
    torch.manual_seed(0)
    if kind == "language":
        return LlamaForCausalLM(LlamaConfig(**SMALL))
    model = BertForSequenceClassification if kind == "sequence" else BertForTokenClassification
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return model(BertConfig(**SMALL, **quiet, num_labels=CLASSES))


class FirstGradients(TrainerCallback):
    def on_pre_optimizer_step(self, args, state, control, model=None, **_):
        if state.global_step == 0:
            self.gradients = [p.grad.clone() for p in model.parameters()]


@pytest.mark.parametrize("kind", ["sequence", "token", "language"])
def test_transformers_train_as_with_their_own_loss_while_warming_up(kind, tmp_path):
    """Whatever they do with shifts and masks, in one big batch. After that something is left out."""
    model, criterion, data = transformer(kind), make("mkl:keep=0.5", warmup=2), Sentences(kind)
    recorder, found = Recorder(criterion), FirstGradients()
    made = trainer(tmp_path, model, data, criterion, gradient_accumulation_steps=2, max_steps=2)
    made.add_callback(found)
    made.train()
    plain = transformer(kind)
    plain(input_ids=data.tokens, labels=data.labels).loss.backward()
    torch.testing.assert_close(found.gradients, [p.grad for p in plain.parameters()])
    assert criterion.kept.shape == data.labels[:SIZE].shape
    shifted = F.pad(data.labels, (0, 1), value=-100)[:, 1:] if kind == "language" else data.labels
    counted = int((shifted[SIZE:] != -100).sum())
    assert sum(recorder.kept[1]) == counted
    assert sum(recorder.kept[3]) == round(counted / 2)


def test_tokens_of_a_row_have_its_number(tmp_path):
    """The oracle drops all tokens of a sequence that is marked as wrong."""
    clean = torch.arange(24) % 2 == 0
    criterion = adaptivek.Selection("oracle", clean=clean)
    trainer(tmp_path, transformer("token"), adaptivek.indexed(Sentences("token")), criterion, max_steps=1).train()
    labels = Sentences("token").labels[:SIZE]
    assert torch.equal(criterion.kept, (labels != -100) & clean[:SIZE, None])


def test_other_tasks_bring_their_own_loss(tmp_path):
    """Several labels at once: floats, one loss per sample."""

    class Many(Rows):
        def __getitem__(self, row):
            return {"x": self.x[row], "labels": F.one_hot(self.y[row], CLASSES).float()}

    def loss(logits, labels):
        return F.binary_cross_entropy_with_logits(logits, labels, reduction="none").mean(-1)

    criterion = adaptivek.Selection("mkl:keep=0.5", loss=loss)
    trainer(tmp_path, Net(), Many(), criterion, max_steps=1).train()
    assert criterion.kept.sum() == SIZE // 2
    with pytest.raises(ValueError, match=r"labels must be whole numbers, got torch.float32.*Selection\(loss=...\)"):
        trainer(tmp_path, Net(), Many(), make("mkl")).train()


class Odd(Rows):
    def __init__(self, change) -> None:
        super().__init__()
        self.change = change

    def __getitem__(self, row: int) -> dict[str, torch.Tensor]:
        return self.change(super().__getitem__(row))


class Averaging(Net):
    def forward(self, x):
        return {"loss": super().forward(x)["logits"].mean()}


@pytest.mark.parametrize(
    ("text", "model", "change", "message"),
    [
        ("mkl", Net, lambda s: s | {"labels": s["labels"] + 7}, "labels must be from 0 to 4.*; got"),
        ("mkl", Net, lambda s: s | {"labels": s["labels"].expand(2)}, r"shape \(12,\), got \(12, 2\)"),
        ("mkl", Net, lambda s: {"x": s["x"]}, "batches must have labels, got none"),
        ("mkl", Averaging, lambda s: s, "the model must give logits of shape .* not a loss; got dict"),
        ("oracle", Net, lambda s: s, r"oracle needs row numbers.*adaptivek.indexed\(dataset\).*remove_unused_columns"),
        ("label-memory", Net, lambda s: s, r"label-memory needs row numbers.*adaptivek.indexed\(dataset\).*remove_unu"),
    ],
)
def test_broken_use_is_named_at_the_first_step(text, model, change, message, tmp_path):
    criterion = make(text)
    with pytest.raises(ValueError, match=message):
        trainer(tmp_path, model(), Odd(change), criterion).train()
    assert criterion.tally_step == 0


@pytest.mark.parametrize(
    ("options", "criterion", "error", "message"),
    [
        ({}, nn.CrossEntropyLoss(), TypeError, r"criterion must be a Selection, got CrossEntropyLoss\(\)"),
        ({}, make("jocor"), ValueError, "criterion must have a method with one network, .* on one view.*; got jocor"),
        ({}, make("mixup"), ValueError, "criterion must have a method with .* trained plainly .*; got mixup"),
        ({"label_smoothing_factor": 0.1}, make("mkl"), ValueError, "label_smoothing_factor must be 0.*got 0.1"),
    ],
)
def test_what_cannot_be_attached(options, criterion, error, message, tmp_path):
    model = transformer("sequence") if options else Net()
    with pytest.raises(error, match=message):
        trainer(tmp_path, model, Rows(), criterion, **options)


def test_attaching_twice_is_refused(tmp_path):
    made = trainer(tmp_path, Net(), Rows(), make("mkl"))
    with pytest.raises(ValueError, match="the trainer must have no compute_loss_func"):
        attach(made, make("mkl"))
