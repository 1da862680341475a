"""From a run's records to the theory, and the files that the command writes."""

from __future__ import annotations

import base64
import dataclasses
import html.parser
import json
import re

import numpy as np
import pytest

from adaptivek.cli import main
from adaptivek.experiments.records import EpochRecord, read_records
from adaptivek.theory import Mixture
from adaptivek.theory.fit import fit, fit_run
from adaptivek.theory.page import Picture, Setting, Table, report, write

FIGURES = {
    "mixture", "mkl", "adaptive-k", "sgd-against-mkl", "mkl-against-adaptive-k", "thresholds", "clean-ratio",
    "published-threshold", "mixing",
}  # fmt: skip


def record(epoch: int, threshold: float | None, seed: int = 0, tau: float = 0.3) -> EpochRecord:
    """What `adaptivek train` would write if losses were just as the theory has them."""
    losses, noisy = Mixture(0.4, 0.3, 2.0, 0.8, tau).sample(50_000, seed)
    cut = np.inf if threshold is None else threshold
    kept = losses <= cut
    return EpochRecord(
        epoch=epoch, selecting=threshold is not None, train_loss=float(losses.mean()), test_accuracy=0.9,
        best_test_accuracy=0.9, kept_share=float(kept.mean()), precision=float((~noisy)[kept].mean()),
        recall=float(kept[~noisy].mean()), threshold=np.nan if threshold is None else threshold,
        clean_loss_mean=float(losses[~noisy].mean()), clean_loss_std=float(losses[~noisy].std()),
        noisy_loss_mean=float(losses[noisy].mean()) if noisy.any() else np.nan,
        noisy_loss_std=float(losses[noisy].std()) if noisy.any() else np.nan,
        noise_ratio=float(1 - kept.mean()), true_noise_ratio=float(noisy.mean()), empty_steps=0, nonfinite=0,
        samples_per_second=1.0,
    )  # fmt: skip


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    lines = [json.dumps(each.to_json()) + "\n" for each in (record(1, None), record(2, 1.0, 1), record(3, 0.7, 2))]
    (folder / "records.jsonl").write_text("".join(lines) + '{"epoch": 4, "trunc')
    return folder


def test_a_run_with_normal_losses_is_predicted(run):
    fits = fit_run(read_records(run))
    assert [each.epoch for each in fits] == [2, 3]
    for each in fits:
        for name in ("kept_share", "precision", "recall"):
            # 50,000 samples: a share is known to 0.0023 at worst, one standard error
            assert getattr(each.predicted, name) == pytest.approx(getattr(each.measured, name), abs=0.012)
    assert fits[0].mixture.mu2 == pytest.approx(2.0, abs=0.03)


def test_without_noise_everything_kept_is_clean():
    (only,) = fit_run([record(1, 0.5, tau=0.0)])
    assert only.predicted.precision == 1
    assert only.predicted.kept_share == only.predicted.recall


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"has no records\.jsonl"):
        read_records(tmp_path)
    (tmp_path / "records.jsonl").write_text('{"epoch": 1}\n')
    with pytest.raises(ValueError, match="must hold a record per line"):
        read_records(tmp_path)
    with pytest.raises(ValueError, match="must have an epoch with a threshold"):
        fit_run([record(1, None)])
    with pytest.raises(ValueError, match="sigma1 must be a number above 0"):
        fit(dataclasses.replace(record(1, 1.0), clean_loss_std=0.0))


class Links(html.parser.HTMLParser):
    """All that a page would load, and all tags that are opened but not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.sources: list[str] = []
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.sources += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_command_writes_every_figure_and_a_page_of_its_own(run, tmp_path, capsys):
    out = tmp_path / "out"
    main(["theory", "--out", str(out), "--run", str(run)])
    printed = capsys.readouterr().out
    for error in ("12.200000", "1.930214", "0.931742"):
        assert error in printed
    names = FIGURES | {"run"}
    assert {path.name for path in out.iterdir()} == {
        "theory.html", *(f"{name}.{kind}" for name in names for kind in ("svg", "png")),
    }  # fmt: skip
    for name in names:
        assert (out / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "<svg" in (out / f"{name}.svg").read_text()
    page = (out / "theory.html").read_text()
    parser = Links()
    parser.feed(page)
    assert not parser.open
    assert len(parser.sources) == len(names)
    images = [source.removeprefix("data:image/svg+xml;base64,") for source in parser.sources]
    assert all(b"<svg" in base64.b64decode(image) for image in images)
    assert "1.930214" in page
    assert not re.search(r"https?://", page)


def test_tables_follow_the_parameters():
    tables, pictures = report(Setting(1, 2, 6, 3, 0.25, 8, 5))
    assert {picture.name for picture in pictures} == FIGURES
    mixture = Mixture(1, 2, 6, 3, 0.25)
    values = [row[-1] for row in tables[0].rows]
    assert values == [f"{kept.mse:.6f}" for kept in (mixture.sgd(), mixture.mkl(8, 5), mixture.adaptive_k())]
    for table in tables:
        assert table.rows
        assert all(len(row) == len(table.header) for row in table.rows)


def test_the_page_shows_text_from_outside_as_text(tmp_path):
    table = Table("<script>alert(1)</script>", "a & b", ("<b>",), (("<i>",),))
    write(tmp_path, [table], [])
    page = (tmp_path / "theory.html").read_text()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "<td>&lt;i&gt;</td>" in page


def test_the_same_numbers_give_the_same_figure(tmp_path):
    from adaptivek.theory.figures import densities

    for name in ("one", "two"):
        write(tmp_path / name, [], [Picture("mixture", "", densities(Mixture(0, 1, 5, 2, 0.4)))])
    assert (tmp_path / "one/mixture.svg").read_bytes() == (tmp_path / "two/mixture.svg").read_bytes()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--sigma2", "0"], "sigma2 must be a number above 0, got 0.0"),
        (["--tau", "1.4"], "tau must be a number in [0, 1], got 1.4"),
        (["--k", "11"], "k must be a whole number in [1, 10], got 11"),
        (["--run", "nowhere"], "nowhere must be the folder of a run"),
    ],
)
def test_bad_parameters_are_one_line_and_exit_code_2(args, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit) as exit:
        main(["theory", "--out", str(tmp_path / "out"), *args])
    assert exit.value.code == 2
    assert message in capsys.readouterr().err.replace("\n", " ")
    assert not (tmp_path / "out").exists()
