"""Figures of training and of an audit: what is drawn is what was measured, and text from data is only text."""

from __future__ import annotations

import dataclasses
import json
import warnings

import matplotlib as mpl
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from matplotlib import pyplot
from PIL import Image

import adaptivek
from adaptivek import plots
from adaptivek.auditing.data import AuditData
from adaptivek.experiments.spec import RunSpec
from adaptivek.training.history import metrics, numbers

from .made_audit import HOSTILE, audit, picture
from .made_results import SHORT, made


@pytest.fixture(autouse=True)
def _no_window():
    with mpl.rc_context({"backend": "agg"}):
        yield
    pyplot.close("all")


def train(every: int = 1, steps: int = 8, write=None, losses: bool = True) -> tuple[adaptivek.History, list]:
    """Adaptive-k on losses that are drawn, and what was kept at each step, by hand."""
    criterion = adaptivek.Selection("adaptive-k", warmup=3)
    history = adaptivek.History(criterion, every=every, write=write)
    draws = torch.Generator().manual_seed(0)
    seen = []
    for _ in range(steps):
        logits, y = torch.randn(16, 4, generator=draws) * 3, torch.randint(4, (16,), generator=draws)
        criterion(logits, y)
        plain = F.cross_entropy(logits, y, reduction="none")
        history(plain if losses else None)
        seen.append((plain, criterion.kept, criterion.noise_ratio, criterion.kept_share, criterion.threshold))
    return history, seen


def lines(ax) -> dict[str, np.ndarray]:
    return {line.get_label(): np.asarray(line.get_ydata(), dtype=float) for line in ax.get_lines()}


def test_a_history_holds_what_the_criterion_said_after_each_step():
    history, seen = train()
    assert history.steps == list(range(1, 9))
    kept_loss = [float(losses[kept].mean()) for losses, kept, *_ in seen]
    left_out = [float(losses[~kept].mean()) for losses, kept, *_ in seen]
    np.testing.assert_allclose(history.values["kept_loss"], kept_loss, rtol=1e-6)
    np.testing.assert_allclose(history.values["left_out_loss"], left_out, rtol=1e-6)
    assert any(np.isfinite(left_out))  # or nothing was left out
    np.testing.assert_allclose(history.values["noise_ratio"], [ratio for *_, ratio, _, _ in seen], rtol=1e-6)
    np.testing.assert_allclose(history.values["kept_share"], [share for *_, share, _ in seen], rtol=1e-6)
    assert np.isnan(history.values["threshold"][:3]).all()  # warm-up
    np.testing.assert_allclose(history.values["threshold"][3:], [threshold for *_, threshold in seen[3:]], rtol=1e-6)
    for found, of in zip(history.losses, (lambda kept: kept, lambda kept: ~kept), strict=True):
        assert torch.equal(found, torch.cat([losses[of(kept)] for losses, kept, *_ in seen]))


def test_a_history_writes_every_few_steps_what_is_known():
    written = []
    train(every=3, steps=9, write=lambda values, /, *, step: written.append((step, values)))
    assert [step for step, _ in written] == [3, 6, 9]
    assert written[0][1].keys() == {"kept_share", "kept_loss"}  # warm-up
    assert written[1][1].keys() == {"kept_share", "kept_loss", "left_out_loss", "noise_ratio", "threshold"}
    assert all(np.isfinite(list(values.values())).all() for _, values in written)


def test_a_history_of_a_method_that_relabels_goes_by_confidence():
    criterion = adaptivek.Selection("label-memory", rows=8)
    history = adaptivek.History(criterion, every=1)
    logits = torch.eye(4).repeat(2, 1) * 9
    y = torch.tensor([0, 1, 2, 3, 0, 1, 2, 0])  # the last one is contradicted
    for _ in range(30):
        criterion(logits, y, torch.arange(8))
        history(criterion.loss(logits, y))
    assert criterion.kept.all()
    assert len(history.losses[1]) > 0
    assert float(history.losses[1].min()) == pytest.approx(9.0, abs=0.01)


def test_metrics_wait_for_nothing_and_numbers_are_the_same():
    history, _ = train()
    found = metrics(history.criterion)
    assert all(isinstance(value, torch.Tensor) for value in found.values())
    assert {name: float(value) for name, value in found.items()} == pytest.approx(numbers(history.criterion))


def test_what_a_history_cannot_use_is_named():
    with pytest.raises(TypeError, match="History: criterion must be a Selection, got CrossEntropyLoss"):
        adaptivek.History(torch.nn.CrossEntropyLoss())
    criterion = adaptivek.Selection("mkl")
    with pytest.raises(ValueError, match="every must be a whole number of at least 1, got 0"):
        adaptivek.History(criterion, every=0)
    history = adaptivek.History(criterion)
    with pytest.raises(RuntimeError, match="must be called after a training step"):
        history()
    criterion(torch.randn(4, 3), torch.zeros(4).long())
    with pytest.raises(ValueError, match=r"one entry per sample, \(4,\), got \(3,\)"):
        history(torch.zeros(3))


def test_losses_are_counted_and_the_threshold_is_marked():
    history, _ = train()
    ax = plots.losses(history, bins=10)
    counts = [sum(bar.get_height() for bar in bars) for bars in ax.containers]
    assert counts == [len(part) for part in history.losses]
    assert lines(ax)[f"threshold ({history.values['threshold'][-1]:.2f})"].size
    assert ax.get_xlabel() == "loss"


def test_curves_are_the_numbers_of_a_history():
    history, _ = train(steps=12)
    drawn = lines(plots.threshold(history)) | lines(plots.noise_ratio(history))
    np.testing.assert_array_equal(drawn["threshold"], history.values["threshold"])
    np.testing.assert_array_equal(drawn["loss: kept"], history.values["kept_loss"])
    np.testing.assert_array_equal(drawn["estimated noise ratio"], history.values["noise_ratio"])
    np.testing.assert_allclose(drawn["left out"], 1 - np.array(history.values["kept_share"]))
    assert "true noise ratio" not in drawn  # nobody knows it
    assert len(plots.overview(history).axes) == 3
    assert len(plots.overview(train(losses=False)[0]).axes) == 2


def test_curves_of_a_run_know_the_truth(tmp_path):
    records = made(RunSpec("digits", "adaptive-k", noise_rate=0.3, recipe=SHORT)).epochs
    drawn = lines(plots.noise_ratio(records)) | lines(plots.threshold(records))
    np.testing.assert_array_equal(drawn["true noise ratio"], [record.true_noise_ratio for record in records])
    np.testing.assert_array_equal(drawn["loss: noisy labels"], [record.noisy_loss_mean for record in records])
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(record.to_json()) + "\n" for record in records))
    from_folder = lines(plots.noise_ratio(tmp_path))
    np.testing.assert_array_equal(from_folder["estimated noise ratio"], drawn["estimated noise ratio"])
    assert len(plots.overview(str(tmp_path)).axes) == 2


def test_figures_go_where_they_are_told_and_say_what_they_lack(tmp_path):
    _, ax = pyplot.subplots()
    history, _ = train()
    assert plots.noise_ratio(history, ax=ax) is ax
    with pytest.raises(ValueError, match=r"read_records: .* must be the folder of a run"):
        plots.threshold(tmp_path)
    with pytest.raises(ValueError, match="a source without an entry"):
        plots.threshold(adaptivek.History(history.criterion))
    with pytest.raises(ValueError, match="history must hold losses, got none"):
        plots.losses(train(losses=False)[0])
    with pytest.raises(TypeError, match="losses: history must be a History"):
        plots.losses(tmp_path)


def test_a_transition_matrix_has_its_numbers_and_names():
    matrix = np.array([[0.9, 0.1, 0.0], [0.25, 0.75, 0.0], [0.0, 0.5, 0.5]])
    result = audit([0, 1, 2], [0, 1, 2], [0.9] * 3, ["cat", "$dog_{1}$", "<emu>"], transition=matrix)
    ax = plots.transition_matrix(result)
    np.testing.assert_array_equal(ax.images[0].get_array(), matrix)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["cat", "$dog_{1}$", "<emu>"]
    assert [text.get_text() for text in ax.texts] == [f"{share:.2f}".removeprefix("0") for share in matrix.flatten()]
    ax.figure.canvas.draw()  # mathematics that makes no sense would raise here
    assert not plots.transition_matrix(np.eye(50)).texts
    with pytest.raises(ValueError, match=r"an audit or a \(K, K\) matrix, got shape \(2, 3\)"):
        plots.transition_matrix(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="classes must be 2 names, got 1"):
        plots.transition_matrix(np.eye(2), classes=["one"])


def given(kind: str, content: object) -> AuditData:
    return AuditData(kind, None, 1, np.zeros(1), [], np.zeros(1), [], None, content)  # type: ignore[arg-type]


SCORES = [0.3, 0.1, 0.9, 0.2]  # the third is not flagged


def test_suspicious_images_are_a_contact_sheet_the_lowest_score_first():
    result = audit([0, 1, 0, 1], [1, 0, 0, 0], SCORES, ["cat", "$\\frac"], row=np.arange(10, 14))
    result = dataclasses.replace(result, given=given("image", lambda place: picture(60 * place)))
    figure = plots.suspicious(result, columns=2)
    shown = [ax for ax in figure.axes if ax.images]
    assert [int(np.asarray(ax.images[0].get_array()).max()) for ax in shown] == [60, 180, 0]
    assert [ax.get_title() for ax in shown] == ["$\\frac\n→ cat", "$\\frac\n→ cat", "cat\n→ $\\frac"]
    assert [ax.texts[0].get_text() for ax in shown] == [
        "row 11, score 0.10", "row 13, score 0.20", "row 10, score 0.30",
    ]  # fmt: skip
    figure.canvas.draw()
    assert len([ax for ax in plots.suspicious(result, rows=1).axes if ax.images]) == 1


@pytest.mark.parametrize(
    ("kind", "content", "expected"),
    [
        ("text", ["a $5 coffee", "plain", "clean", "x" * 500], ["plain", "x" * 69, "a $5 coffee"]),
        ("table", [{"age": 3, "job": f"j{n}"} for n in range(4)], ["age=3, job=j1", "age=3, job=j3"]),
        ("features", None, ["11", "13"]),
    ],
)
def test_suspicious_texts_and_tables_are_a_table(kind, content, expected):
    result = audit([0, 1, 0, 1], [1, 0, 0, 0], SCORES, ["cat", "dog"], row=np.arange(10, 14))
    figure = plots.suspicious(dataclasses.replace(result, given=given(kind, content)))
    drawn = " ".join(text.get_text() for text in figure.axes[0].texts)
    places = [drawn.find(part) for part in expected]
    assert places == sorted(places)
    assert places[0] >= 0
    figure.canvas.draw()


def test_hostile_rows_are_drawn_and_nothing_flagged_is_said(tmp_path):
    size = len(HOSTILE)
    result = audit([0] * size, [1] * size, [0.1] * size, [HOSTILE[0], "$"])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the font has no Arabic
        plots.suspicious(dataclasses.replace(result, given=given("text", list(HOSTILE)))).savefig(tmp_path / "x.png")
    with Image.open(tmp_path / "x.png") as drawn:
        assert drawn.size[0] == 1000
    with pytest.raises(ValueError, match="must have flagged rows, got none"):
        plots.suspicious(audit([0], [0], [0.9], ["a", "b"]))
