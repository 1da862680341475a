"""The tables of the benchmark of real noise, against numbers by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from adaptivek.methods import METHODS

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="a source distribution has no benchmarks")
if BENCHMARKS.exists():
    sys.path.append(str(BENCHMARKS))
    from measurements import EARLIER
    from real_compare import Comparison, current
    from real_settings import Job, Setting, version
    from real_table import details, human_labels, summary, write


def line(data: str, method: str, seed: int, accuracy: float, averaged: float = 0.0, ratio: float | None = None):
    made = Job(Setting("encoder", data, "symmetric", 0.4, 3), method, seed).as_dict()
    numbers = {"accuracy": [1.0, accuracy], "averaged_accuracy": [2.0, averaged], "noise_ratio": ratio}
    return made | numbers | {"true_noise_ratio": 0.4, "version": version(method)}


@pytest.fixture
def comparison() -> Comparison:
    lines = [
        *(line("hotel", "vanilla", seed, 50 + seed) for seed in (0, 1)),
        *(line("hotel", "oracle", seed, 70 + seed) for seed in (0, 1)),
        *(line("hotel", "elr", seed, 60 + 3 * seed, 65, 0.3) for seed in (0, 1)),
        line("hotel", "gce", 0, 45, 45),
        *(line("imdb", method, 0, value) for method, value in (("vanilla", 80), ("oracle", 81), ("elr", 79))),
        line("imdb", "gce", 0, 80),
        line("imdb", "sce", 0, 99),
        line("imdb", "elr", 0, 79, 80, 0.1),
        line("imdb", "elr", 0, 12) | {"version": "elr r0"},
        line("imdb", "elr", 0, 12) | {"method": "gone"},
    ]
    return Comparison(current(lines), [Setting("encoder", data, "symmetric", 0.4, 3) for data in ("hotel", "imdb")])


def test_gaps_ranks_and_gains_are_right(comparison):
    hotel, imdb = comparison.settings
    assert comparison.gain(hotel, "elr") == pytest.approx(11)  # (60 - 50 + 63 - 51) / 2
    assert comparison.closed(hotel, "elr") == pytest.approx(55)
    assert comparison.closed(hotel, "elr", averaged=True) == pytest.approx(100 * 14.5 / 20)
    assert comparison.gain(hotel, "gce") == -5  # against the one seed that both have
    assert comparison.closed(imdb, "elr") is None  # a gap of a point
    assert comparison.mean_closed("elr") == pytest.approx(55)
    assert [comparison.rank(hotel, method) for method in ("elr", "vanilla", "gce")] == [1, 2, 3]
    assert [comparison.rank(imdb, method) for method in ("elr", "vanilla", "gce")] == [3, 1.5, 1.5]
    assert comparison.methods == ["oracle", "vanilla", "elr", "gce"]
    assert comparison.incomplete == ["sce"]
    assert comparison.least_gain("elr") == -1
    assert comparison.ratio_error("elr") == pytest.approx((10 + 10 + 30) / 3)
    assert comparison.ratio_error("gce") is None


def test_the_tables_show_them(comparison):
    rows = summary(comparison).splitlines()
    assert "| `elr` | 2.0 | 55 | 72 | 55 | - | -1.0 | 16.7 |" in rows
    assert "| `oracle`* | - | 100 |" in rows[2]
    assert rows[-1] == "Left out, for some of their runs are missing: `sce`."
    text = details(comparison)
    assert "**MiniLM fine-tuned for 3 epochs**" in text
    assert "| `elr` | 61.5 ± 2.1 (65.0) | 79.0 (80.0) |" in text
    assert "| `sce` | - | 99.0 (0.0) |" in text
    assert summary(Comparison({}, comparison.settings)) == "No results yet."


def test_a_method_has_no_line_in_a_table_of_settings_that_it_was_not_run_in():
    shorter = {"epochs": 1}
    lines = [line("hotel", method, 0, 50) for method in ("vanilla", "oracle", "elr")]
    lines += [line("hotel", method, 0, 50) | shorter for method in ("vanilla", "oracle")]
    kinds = [Setting("encoder", "hotel", "symmetric", 0.4, epochs) for epochs in (3, 1)]
    three, one = details(Comparison(current(lines), kinds)).split("**MiniLM fine-tuned for 1 epoch**")
    assert "`elr`" in three
    assert "`elr`" not in one


def test_human_labels_are_ranked_and_what_is_not_found_has_no_number():
    about = {"column": "worse_label", "seed": 0, "true": 0.402}
    found = {"elr": (0.85, None), "sat": (0.9, 0.3)}
    lines = [about | {"method": name, "accuracy": share, "ratio": ratio} for name, (share, ratio) in found.items()]
    *_, first, second = human_labels(lines).splitlines()
    assert first == "| worse_label | `sat` | 1 | 90.0 | 30.0 | 40.2 |"
    assert second == "| worse_label | `elr` | 1 | 85.0 | - | 40.2 |"


def test_human_labels_of_an_earlier_revision_stand_in_and_are_marked(monkeypatch):
    about = {"column": "worse_label", "method": "label-agreement", "true": 0.402, "ratio": 0.3}
    here = METHODS["label-agreement"].revision
    monkeypatch.setitem(EARLIER, "label-agreement", here - 1)
    runs = ((0, 0.8, here - 2), (0, 0.7, here - 1), (1, 0.72, here - 1))
    lines = [about | {"seed": seed, "accuracy": share, "revision": number} for seed, share, number in runs]
    assert human_labels(lines).splitlines()[-1] == "| worse_label | `label-agreement`† | 2 | 71.0 ± 1.4 | 30.0 | 40.2 |"
    lines.append(about | {"seed": 0, "accuracy": 0.9, "revision": here})
    assert human_labels(lines).splitlines()[-1] == "| worse_label | `label-agreement` | 1 | 90.0 | 30.0 | 40.2 |"


def test_blocks_are_written_between_their_marks(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- A -->\nold\n<!-- end of A -->\nafter\n")
    write(page, {"A": r"new \1"})
    assert page.read_text() == "before\n<!-- A -->\nnew \\1\n<!-- end of A -->\nafter\n"
    with pytest.raises(ValueError, match="must have <!-- B -->"):
        write(page, {"B": ""})
