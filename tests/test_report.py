"""The numbers of the report against plain sums, and what becomes of text from outside."""

from __future__ import annotations

import csv
import dataclasses
import html.parser
import io
import math
import random
import re

import pytest

from adaptivek.cli import main
from adaptivek.experiments.report.claims import claims, claims_of_default
from adaptivek.experiments.report.closeups import choose
from adaptivek.experiments.report.page import page
from adaptivek.experiments.report.tables import Setting, failures, median_gap_closed, rows
from adaptivek.experiments.report.text import gaps, markdown, to_csv
from adaptivek.experiments.store import Result, Store

from .made_results import CEILINGS, METHODS, SHORT, grid, result, setting

HOSTILE = '<img src=x onerror="alert(1)">|$a_b$`c`'
NASTY = "RuntimeError: <script>alert(2)</script>\n\x1b[31mred\x07 \u202eback|wards"


@pytest.fixture(scope="module")
def many():
    """All of the paper's settings, shuffled as a folder may have them."""
    results = grid(list(CEILINGS), (0.1, 0.2, 0.3, 0.4))
    random.Random(0).shuffle(results)
    return results


def test_means_and_spreads_are_those_of_plain_sums(many):
    table = rows(many)
    assert len(table) == 28
    for row in table:
        for method in METHODS:
            runs = [
                each
                for each in many
                if (each.spec.dataset, each.spec.noise_rate, each.spec.method)
                == (row.setting.dataset, row.setting.rate, method)
            ]
            for measure, values in (
                ("last", [each.epochs[-1].test_accuracy for each in runs]),
                ("best", [max(record.test_accuracy for record in each.epochs) for each in runs]),
            ):
                mean = sum(values) / 3
                spread = math.sqrt(sum((value - mean) ** 2 for value in values) / 2)
                assert row.stat(method, measure) == pytest.approx((mean, spread, 3), rel=1e-9)


def test_claims_are_counted_as_by_hand(many):
    for measure, pick in (("last", "test_accuracy"), ("best", "best_test_accuracy")):
        sums: dict[tuple[str, float], dict[str, float]] = {}
        for each in many:
            cell = sums.setdefault((each.spec.dataset, each.spec.noise_rate), dict.fromkeys(METHODS, 0.0))
            cell[each.spec.method] += getattr(each.epochs[-1], pick)
        beats = [sum(cell["adaptive-k"] > cell[rival] for cell in sums.values()) for rival in ("vanilla", "mkl")]
        closest = sum(
            min((abs(cell["oracle"] - cell[name]), name) for name in METHODS[1:])[1] == "adaptive-k"
            for cell in sums.values()
        )
        counted = claims(rows(many), measure)
        assert [(claim.holds, claim.settings) for claim in counted] == [(n, 28) for n in (*beats, closest)]
        assert [claim.paper for claim in counted] == [21, 27, 18]
        assert [len(claim.against) for claim in counted] == [28 - claim.holds for claim in counted]


def test_a_setting_counts_only_with_noise_and_with_all_that_is_compared():
    runs = [
        *setting(0.0, oracle=0.9, vanilla=0.1, mkl=0.1, vanilla_mkl=0.1, adaptive_k=0.8),
        *setting(0.1, oracle=0.9, vanilla=0.7, mkl=0.85, vanilla_mkl=0.6, adaptive_k=0.8),  # MKL is better
        *setting(0.2, oracle=0.9, vanilla=0.7, mkl=0.7, adaptive_k=0.8),  # no Vanilla+MKL
        *setting(0.3, vanilla=0.7, adaptive_k=0.7),  # a tie is no win
        *setting(0.4, oracle=0.8, vanilla=0.7, mkl=0.7, vanilla_mkl=0.81, adaptive_k=0.85),  # above Oracle, not closest
    ]
    counted = claims(rows(runs), "last")
    assert [(claim.holds, claim.settings) for claim in counted] == [(3, 4), (2, 3), (0, 2)]
    assert [each.rate for each in counted[0].against] == [0.3]


def test_the_default_is_counted_where_it_and_its_rival_are():
    runs = [
        *setting(0.0, vanilla=0.1, label_agreement=0.8),  # no noise
        *setting(0.1, vanilla=0.7, mkl=0.85, label_agreement=0.8),
        *setting(0.2, vanilla=0.8, mkl=0.7, adaptive_k=0.8, label_agreement=0.8),  # a tie is no win
        *setting(0.3, vanilla=0.7, adaptive_k=0.9),
    ]
    counted = claims_of_default(rows(runs), "last")
    assert [claim.text.split()[-1] for claim in counted] == ["Vanilla", "MKL", "Adaptive-k"]
    assert [(claim.holds, claim.settings, claim.paper) for claim in counted] == [
        (1, 2, 0),
        (1, 2, 0),
        (0, 1, 0),
    ]
    assert [each.rate for each in counted[0].against] == [0.2]
    text = page(runs)
    assert text.count("the paper, likewise") == text.count("--paper-part: ")
    assert "Label agreement beats Adaptive-k" in text


def test_the_gap_closed_and_where_there_is_none():
    runs = [
        *setting(0.1, oracle=0.9, vanilla=0.5, mkl=0.4, adaptive_k=0.8),
        *setting(0.2, oracle=0.7, vanilla=0.7, adaptive_k=0.8),
        *setting(0.3, vanilla=0.5, adaptive_k=0.8),
        *(
            result("oracle", value, 0.4, seed) for seed, value in enumerate((0.70, 0.80))
        ),  # 0.75 with a spread of 0.0707
        *(result("vanilla", value, 0.4, seed) for seed, value in enumerate((0.70, 0.70))),
        *(result("adaptive-k", value, 0.4, seed) for seed, value in enumerate((0.72, 0.74))),
    ]
    by_rate = {row.setting.rate: row for row in rows(runs)}
    assert by_rate[0.1].gap_closed("adaptive-k", "last") == pytest.approx(0.75)
    assert by_rate[0.1].gap_closed("mkl", "last") == pytest.approx(-0.25)
    assert [by_rate[rate].gap_closed("adaptive-k", "last") for rate in (0.2, 0.3, 0.4)] == [None] * 3
    assert median_gap_closed(rows(runs), "adaptive-k", "last") == pytest.approx(0.75)
    assert median_gap_closed(rows(runs), "vanilla+mkl", "last") is None
    assert by_rate[0.1].distance("mkl", "last") == pytest.approx(0.5)
    assert by_rate[0.3].distance("adaptive-k", "last") is None


def test_the_best_of_a_row_is_never_oracle_and_may_be_several():
    (row,) = rows(setting(oracle=0.9, vanilla=0.8, mkl=0.8, adaptive_k=0.5))
    assert row.winners("last") == ["vanilla", "mkl"]


def test_failed_and_missing_runs_are_out_of_the_means_and_named():
    runs = [result(method, 0.8, rate, seed) for method in METHODS for rate in (0.1, 0.2) for seed in (0, 1)]
    runs = [each for each in runs if (each.spec.method, each.spec.noise_rate, each.spec.seed) != ("mkl", 0.1, 1)]
    broken = dataclasses.replace(runs[0], epochs=[], failure="CUDA out of memory")  # Oracle at 0.1, seed 0
    short = dataclasses.replace(runs[1], epochs=runs[1].epochs[:2])  # seed 1: never came to its last epoch
    table = rows([broken, short, *runs[2:]])
    oracle, mkl = table[0].cells["oracle"], table[0].cells["mkl"]
    assert (len(oracle.results), oracle.failed, oracle.missing) == (0, 2, (0, 1))
    assert (len(mkl.results), mkl.failed, mkl.missing) == (1, 0, (1,))
    assert [each.reason for each in failures([broken, short])] == ["CUDA out of memory", "stopped after 2 of 6 epochs"]
    assert gaps(table) == [
        "Digits, directed 10 %, Oracle: no seed finished (2 failed)",
        "Digits, directed 10 %, MKL: missing seed 1",
    ]
    assert claims(table, "last")[2].settings == 1


def test_runs_that_differ_in_more_than_the_seed_are_never_averaged():
    other = dataclasses.replace(SHORT, learning_rate=0.1)
    table = rows([*grid(["digits"], (0.2,)), *grid(["digits"], (0.2,), recipe=other), *grid(["mnist"], (0.2,))])
    assert [row.setting.variant for row in table] == ["", "learning rate 0.05", "learning rate 0.1"]
    assert [row.setting.dataset for row in table] == ["mnist", "digits", "digits"]
    assert all(row.stat(method, "last").number == 3 for row in table for method in METHODS)


def test_who_finds_the_noise_out_makes_an_estimate_and_who_is_told_it_does_not():
    asked = (*METHODS, "adaptive-k:threshold=mean", "label-memory", "gce", "rt", "mkl:keep=0.6")
    results = grid(["digits"], (0.3,), methods=asked)
    (row,) = rows(results)
    found = ["adaptive-k", "adaptive-k:threshold=mean", "label-memory"]
    assert [name for name, cell in row.cells.items() if cell.estimate] == found
    section = page(results).partition('<table id="noise-ratio"')[2].partition("</table>")[0]
    assert section.count("<tr") == 1 + len(found)
    assert "Label memory" in section
    runs = [each for each in grid(["digits"], (0.3,)) if each.spec.method == "adaptive-k"]
    expected = sum(1 - each.epochs[-1].kept_share for each in runs) / 3
    assert row.cells["adaptive-k"].estimate == pytest.approx((expected, row.cells["adaptive-k"].estimate.std, 3))


def test_figures_take_the_papers_setting_or_the_nearest(many):
    table = rows(many)
    assert choose(table, 0.3, "adaptive-k").setting == Setting("mnist", "directed", 0.3)
    others = [row for row in table if row.setting.dataset == "hotel" and row.setting.rate < 0.3]
    assert choose(others, 0.4, "adaptive-k").setting == Setting("hotel", "directed", 0.2)
    assert choose(rows(setting(0.0, adaptive_k=0.9)), 0.4, "adaptive-k") is None
    assert choose(others, 0.4, "adaptive-k:threshold=mean") is None


def test_csv_has_a_line_for_every_cell_with_numbers_in_full(many):
    lines = list(csv.DictReader(io.StringIO(to_csv(rows(many)))))
    assert len(lines) == 28 * 5
    line = next(
        each for each in lines if (each["dataset"], each["noise_rate"], each["method"]) == ("imdb", "0.4", "adaptive-k")
    )
    runs = [each for each in many if (each.spec.dataset, each.spec.noise_rate) == ("imdb", 0.4)]
    means = {
        name: sum(each.epochs[-1].test_accuracy for each in runs if each.spec.method == name) / 3 for name in METHODS
    }
    assert float(line["last_mean"]) == pytest.approx(means["adaptive-k"], rel=1e-5)
    assert float(line["below_oracle"]) == pytest.approx(means["oracle"] - means["adaptive-k"], rel=1e-4)
    closed = (means["adaptive-k"] - means["vanilla"]) / (means["oracle"] - means["vanilla"])
    assert float(line["gap_closed"]) == pytest.approx(closed, rel=1e-4)
    assert line["seeds"] == "3"


def test_markdown_has_claims_both_measures_and_marks_the_best():
    runs = setting(oracle=0.95, vanilla=0.8, mkl=0.85, vanilla_mkl=0.7, adaptive_k=0.9)
    text = markdown(rows(runs))
    assert "| Adaptive-k beats Vanilla | 1 of 1 | 1 of 1 | 21 of 28 |" in text
    assert "| Digits | directed | 0.2 | 1 | 95.00 | 80.00 | 85.00 | 70.00 | **90.00** |" in text
    assert text.index("last epoch\n") < text.index("chosen on the test set (the paper's way)")
    assert "| Digits | directed | 0.2 | 33 % | -67 % | 67 % |" in text


@pytest.fixture(scope="module")
def hostile():
    """A name and a reason that would be tags, marks, formulas or terminal codes if one let them."""
    runs = grid([HOSTILE, "=cmd()"], (0.4,), seeds=(0,))
    return [dataclasses.replace(runs[0], epochs=[], failure=NASTY), *runs[1:]]


class Tags(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.text = ""

    def handle_starttag(self, tag, attrs):
        self.seen.append(tag)
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data):
        self.text += data


def test_text_from_outside_stays_text(hostile):
    parser = Tags()
    parser.feed(page(hostile))
    assert parser.seen.count("script") == 1
    assert "img" not in parser.seen
    assert HOSTILE in parser.text
    assert "RuntimeError: <script>alert(2)</script> [31mred back|wards" in parser.text
    text = markdown(rows(hostile), failures(hostile))
    assert "<img" not in text
    assert "<script" not in text
    first = next(line for line in text.splitlines() if "onerror" in line and line[0] == "|")
    assert len(re.findall(r"(?<!\\)\|", first)) == 10  # as many cells as in every other row
    assert {line["dataset"] for line in csv.DictReader(io.StringIO(to_csv(rows(hostile))))} == {HOSTILE, "'=cmd()"}


def test_the_terminal_gets_no_codes_and_no_markup(tmp_path, capsys):
    store = Store(tmp_path)
    for each in grid(["[bold red]\x1b[2Jx"], (0.4,), seeds=(0,)):
        store.write(each)
    main(["report", str(tmp_path)])
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "[bold red]" in printed


def test_the_page_is_the_same_again_and_needs_nothing():
    runs = grid(["digits"], (0.4,), seeds=(0, 1))
    text = page(runs)
    assert page(list(reversed(runs))) == text
    assert not re.search(r"""(src|href)=["'](?!#)|https?://|@import|url\((?!#)""", text)


@pytest.mark.parametrize(
    "runs",
    [
        grid(["digits"], (0.0,), seeds=(0,)),
        grid(["digits"], (0.3,), methods=("adaptive-k",), seeds=(0,)),
        grid(["digits"], (0.3,), methods=("vanilla", "mkl"), seeds=(4,), noise="symmetric"),
        grid(["digits"], (0.25,), methods=(*METHODS, *(f"adaptive-k:beta1=0.{n}" for n in range(1, 8))), seeds=(0,)),
        grid(["digits"], (0.2,), recipe=dataclasses.replace(SHORT, epochs=1, warmup_epochs=0)),
        [dataclasses.replace(each, epochs=[], details=[], failure="gone") for each in grid(["digits"], (0.2,))],
        [dataclasses.replace(each, details=[]) for each in grid(["digits"], (0.2,))],
    ],
    ids=["noise-free", "one method", "no adaptive-k", "many methods", "one epoch", "all failed", "no details"],
)
def test_whatever_is_there_makes_a_page(runs):
    text = page(runs)
    assert text.rstrip().endswith("</html>")
    assert ">nan" not in text.lower()
    assert "not a number" not in text


def test_runs_that_came_to_nothing_make_a_page_too():
    """Losses that are no numbers, and nothing kept: recorded as they were."""
    nothing = {
        "precision": math.nan, "recall": math.nan, "clean_loss_mean": math.nan, "clean_loss_std": math.nan,
        "noisy_loss_mean": math.nan, "noisy_loss_std": math.nan, "threshold": math.nan, "kept_share": 0.0,
        "noise_ratio": math.nan,
    }  # fmt: skip
    runs = [
        dataclasses.replace(each, epochs=[dataclasses.replace(record, **nothing) for record in each.epochs])
        for each in grid(["digits"], (0.4,))
    ]
    text = page(runs)
    assert "beats Vanilla" in text
    assert 'id="beside"' not in text  # no theory of losses that are none
    assert 'id="estimates"' not in text


def test_what_was_combined_with_a_method_is_a_column_beside_it():
    def with_(method: str, last: float, error: float = 0.0, **options: float) -> Result:
        run = result(method, last)
        recipe = dataclasses.replace(SHORT, **options)
        return dataclasses.replace(run, spec=dataclasses.replace(run.spec, recipe=recipe, ratio_error=error))

    runs = [
        with_("mkl", 0.7, -0.2), with_("vanilla", 0.5), with_("mkl", 0.9), with_("vanilla", 0.6, average=0.999),
        with_("oracle", 0.95, average=0.999, hold_out=0.1), with_("gce", 0.8), with_("mkl", 0.85, views=2),
    ]  # fmt: skip
    (row,) = rows(runs)  # one setting: nothing of this makes another
    assert {name: row.stat(name, "last").mean for name in row.cells} == {
        "oracle (averaged 0.999) (stopped early 0.1)": 0.95,
        "vanilla": 0.5,
        "vanilla (averaged 0.999)": 0.6,
        "mkl": 0.9,
        "mkl (ratio -20 points)": 0.7,
        "mkl (strong views)": 0.85,
        "gce": 0.8,
    }
    assert list(row.cells)[-1] == "gce"
    assert row.winners("last") == ["mkl"]  # Oracle, averaged or not, is no rival
    text = markdown(rows(runs))
    assert "| MKL (ratio -20 points) | ratio | 1 | 1 |" in text
    assert "| Vanilla (averaged 0.999) | nothing | 1 | 1 |" in text


def test_the_report_says_what_methods_need_and_cost():
    runs = [*setting(vanilla=0.5, itlm=0.6), result("co-teaching", 0.7), result("augdesc:ramp=3", 0.7)]
    text = markdown(rows(runs))
    assert "| co-teaching | ratio, logits, epochs, 2 networks | 2 | 2 |" in text
    assert "| augdesc:ramp=3 | ratio, logits, epochs, 2 views | 2 | 1 |" in text
    assert "| itlm | ratio, rows, epochs, full pass for losses | 1 | 1 |" in text
    assert "ratio, rows, epochs, full pass for losses" in page(runs)
