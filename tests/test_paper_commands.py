"""The commands behind docs/results.md: the plain phase by the rule, tables between marks, numbers older than code."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from adaptivek.experiments.bench import Grid
from adaptivek.experiments.data import Split
from adaptivek.experiments.spec import RECIPES, RunSpec
from adaptivek.experiments.store import Store

from .made_results import grid, made

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="a source distribution has no benchmarks")
if BENCHMARKS.exists():
    sys.path.append(str(BENCHMARKS))
    import doc_numbers
    import measurements
    import paper
    import paper_stages
    import paper_tables
    import sensitivity
    import strong_views
    import text_recipes
    from measurements import read_lines, stored, with_stand_ins


def validated(spec, accuracies):
    """A run with these accuracies on held-out rows, and the last of them to the end."""
    run = made(spec, batches=3)
    curve = [*accuracies, *[accuracies[-1]] * (len(run.epochs) - len(accuracies))]
    epochs = [
        dataclasses.replace(record, validation_accuracy=value) for record, value in zip(run.epochs, curve, strict=True)
    ]
    return dataclasses.replace(run, epochs=epochs)


def test_the_plain_phase_ends_at_the_earliest_peak_of_the_mean_over_seeds(tmp_path):
    store = Store(tmp_path)
    assert paper.plain_epochs("sarcasm", tmp_path) is None
    curves = {0.1: ([0.5, 0.6, 0.9, 0.6], [0.5, 0.6, 0.8, 0.6]), 0.4: ([0.5, 0.8, 0.6, 0.5], [0.9, 0.7, 0.6, 0.5])}
    for spec in paper.held_out(Grid(datasets=("sarcasm",), noise_rates=tuple(curves), seeds=2)):
        assert (spec.method, spec.recipe.hold_out) == ("vanilla", 0.1)
        store.write(validated(spec, curves[spec.noise_rate][spec.seed]))
    assert paper.held_out_peaks("sarcasm", tmp_path) == {0.1: 3, 0.4: 2}
    assert paper.plain_epochs("sarcasm", tmp_path) == 2


def test_only_what_has_been_replaced_is_outdated(tmp_path, monkeypatch):
    monkeypatch.setattr(paper, "FIXED", tmp_path / "fixed")
    monkeypatch.setattr(paper, "BY_RULE", tmp_path / "rule")
    monkeypatch.setattr(paper, "PHASES", {"fixed": (paper.fixed, tmp_path / "fixed")})
    store = Store(tmp_path / "fixed")
    today = paper.fixed(Grid(datasets=("mnist",), noise_rates=(0.1,), methods=("vanilla", "mkl"), seeds=1))
    before = [dataclasses.replace(each, recipe=dataclasses.replace(each.recipe, decay_early=False)) for each in today]
    for spec in (*before, today[0]):
        store.write(made(spec, batches=3))
    assert paper.outdated() == [store.path(before[0])]
    runs = len(paper.METHODS) * 7 * 4 * 3
    assert f"{runs - 1} of {runs} runs are missing" in paper.missing(Grid(methods=paper.METHODS))


def test_a_text_gets_the_best_on_clean_labels_of_the_recipes_that_memorise(tmp_path):
    store, names = Store(tmp_path), list(text_recipes.CANDIDATES)
    best, steady = names[1], names[2]

    def do(runs):
        for spec in runs:
            name = next(each for each in names if text_recipes.recipe(each) == spec.recipe)
            clean = {best: 0.8, steady: 0.9}.get(name, 0.7)
            falls = 0.0 if name == steady else 0.02
            store.write(validated(spec, [clean] if spec.noise_rate == 0 else [0.5, 0.5 - falls]))

    runs = text_recipes.wanted("hotel", store)
    assert [spec.noise_rate for spec in runs] == [0] * len(names)
    do(runs[:-1])
    assert text_recipes.wanted("hotel", store) == runs[-1:]
    do(runs[-1:])
    for name in (steady, best):  # the best on clean labels is looked at first, and does not memorise
        assert text_recipes.choose("hotel", store) is None
        (spec,) = text_recipes.wanted("hotel", store)
        assert (spec.recipe, spec.noise_rate) == (text_recipes.recipe(name), 0.4)
        do([spec])
    assert text_recipes.wanted("hotel", store) == []
    assert text_recipes.choose("hotel", store) == best
    assert text_recipes.on_noisy("hotel", steady, store) == pytest.approx((0.5, 0.5))


def test_tables_go_between_their_marks_and_nowhere_else():
    page = "above\n<!-- one -->\nold\n<!-- end one -->\nbetween 1\n<!-- two -->\n<!-- end two -->\nbelow"
    filled = paper_tables.filled(page, {"one": r"| a \1 |", "two": "b"})
    assert filled == (
        "above\n<!-- one -->\n\n| a \\1 |\n\n<!-- end one -->\nbetween 1\n<!-- two -->\n\nb\n\n<!-- end two -->\nbelow"
    )
    assert paper_tables.filled(filled, {"one": r"| a \1 |", "two": "b"}) == filled
    with pytest.raises(ValueError, match="marks must be one; the page has one, two"):
        paper_tables.filled(page, {"one": "a"})
    with pytest.raises(ValueError, match="mark two must have one end, got 0"):
        paper_tables.filled(page.replace("<!-- end two -->", ""), {"one": "a", "two": "b"})


def test_the_page_has_a_mark_for_every_table():
    results = grid(["mnist", "imdb"], (0.3, 0.4), seeds=(0,))
    texts = {
        "status": paper_tables.status(results),
        "claims": paper_tables.claims(results),
        "summary": paper_tables.summary(results),
        "by-dataset": paper_tables.by_dataset(results),
        "figures": paper_tables.figures(results),
        "plain": paper_tables.plain(results, [], {}),
        "sensitivity": "",
        "stages": paper_stages.table([], results),
        **paper_tables.tables(results),
        "missing": paper_tables.missing(results),
    }
    page = paper_tables.filled(paper.PAGE.read_text(), texts)
    assert "4 of 28 settings with all five methods: 20 of 420 runs" in page
    assert "Nothing: every method of a data set has all of its seeds." in page


def test_two_stages_stand_beside_the_runs_in_one():
    results = grid(["mnist"], (0.3,), seeds=(0, 1))
    lines = [
        {"dataset": "mnist", "rate": 0.3, "seed": seed, "accuracy": end, "ratio": 0.31}
        for seed, end in enumerate((90, 93))
    ]
    *_, row = paper_stages.table(lines, results).splitlines()
    vanilla, default, elr, oracle = row.split(" | ")[2:6]
    assert row.startswith("| MNIST | 30 % |")
    assert row.endswith("| 91.5 | 2 | 31 % |")
    assert (default, elr) == ("-", "-")  # not among these results
    for method, found in (("vanilla", vanilla), ("oracle", oracle)):
        ends = [run.epochs[-1].test_accuracy for run in results if run.spec.method == method]
        assert float(found) == pytest.approx(100 * sum(ends) / 2, abs=0.06)


def test_a_run_in_two_stages_learns_digits(monkeypatch):
    recipe = dataclasses.replace(RECIPES["digits"], epochs=8, batch_size=50, learning_rate=0.1)
    monkeypatch.setitem(paper_stages.RECIPES, "digits", recipe)
    line = paper_stages.run("digits", 0.2, 0, None, "cpu")
    assert line["true"] == pytest.approx(0.2, abs=0.03)
    assert line["accuracy"] > 90
    assert line["held_out"] > 85


def test_class_imbalance_shrinks_the_classes_by_equal_factors():
    y = torch.arange(300) % 3
    data = Split(torch.arange(300.0)[:, None], y, torch.zeros(3, 1), torch.arange(3), 3)
    less = sensitivity.imbalanced(data, 80, 0.25)
    assert torch.bincount(less.y).tolist() == [80, 40, 20]
    assert (less.x.flatten().long() % 3 == less.y).all()
    with pytest.raises(ValueError, match="largest must be at most the rows of a class, got 101"):
        sensitivity.imbalanced(data, 101, 1.0)


def test_points_of_several_sweeps_that_are_one_run_are_done_once():
    trials = list(sensitivity.trials("mnist", 0))
    base = RunSpec("mnist", "adaptive-k", "directed", 0.4, recipe=RECIPES["mnist"])
    as_it_is = [trial for trial in trials if trial.spec == base and not trial.imbalance]
    assert {trial.sweep for trial in as_it_is} >= {"start", "batch", "rate", "optimiser", "noise"}
    assert len({trial.identity for trial in as_it_is}) == 1
    beta = next(trial for trial in trials if (trial.sweep, trial.value) == ("beta1", "0.9"))
    assert beta.identity == as_it_is[0].identity
    assert len({trial.identity for trial in trials if trial.sweep == "imbalance"}) == 4 * len(sensitivity.METHODS)


def test_numbers_older_than_their_code_are_found(tmp_path, monkeypatch):
    def git(*arguments):
        who = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", "-C", str(tmp_path), *who, *arguments], check=True, capture_output=True)

    def write(name, text, message):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        git("add", "-A")
        git("commit", "-qm", message)

    monkeypatch.setattr(doc_numbers, "ROOT", tmp_path)
    git("init", "-q")
    write("src/adaptivek/noise.py", '"""Noise."""\n\nrate = 1\n', "code")
    write("benchmarks/run.py", "from adaptivek.noise import rate\nimport other\n", "command")
    write("benchmarks/other.py", "import run\n", "another, in a circle")
    text = "# A\n\nNothing.\n\n## B\n\n`python benchmarks/run.py`\n\n| 1 |\n\n### C\n\nstill 2 of B\n\n## D\n\n3\n"
    write("docs/page.md", text, "numbers")

    (section,) = doc_numbers.sections(tmp_path / "docs/page.md")
    assert (section.title, section.commands, section.numbers()) == ("B", ("run",), [9, 13])
    files = doc_numbers.code_of("run")
    assert {path.name for path in files} == {"run.py", "other.py", "noise.py"}
    commit, _ = doc_numbers.dated(section)
    assert doc_numbers.since(commit, files) == []
    write("src/adaptivek/noise.py", '"""Noise, said better."""\n\nrate = 1  # of all\n', "words")
    assert doc_numbers.since(commit, files) == []
    write("src/adaptivek/noise.py", '"""Noise."""\n\nrate = 2\n', "another rate")
    assert doc_numbers.since(commit, files) == ["noise.py"]
    write("docs/page.md", text.replace("2 of B", "4 of B"), "numbers printed again")
    (section,) = doc_numbers.sections(tmp_path / "docs/page.md")
    assert doc_numbers.since(doc_numbers.dated(section)[0], files) == []


def test_the_page_of_strong_views_has_the_tables_that_are_printed():
    results, page = BENCHMARKS.parent / "results/beyond", BENCHMARKS.parent / "docs/strong-views.md"
    lines = read_lines(results / "strong_views.jsonl")
    text = page.read_text()
    assert strong_views.table(lines, read_lines(results / "human_labels.jsonl")) in text
    assert strong_views.course(lines) in text
    assert not any("seconds" in line or "times_plain" in line for line in lines)  # others were at work


def test_seeds_of_a_variant_are_averaged_and_other_labels_left_out():
    line = {"column": "worse_label", "variant": "memory", "epochs": 80, "network": 0.9, "average": 0.8, "targets": 0.7}
    other = line | {"network": 0.91, "times_plain": 2.5}
    without = {"column": "worse_label", "method": "elr", "accuracy": 0.85}
    found = strong_views.table([line, other, line | {"column": "aggre_label", "network": 0.1}], [without])
    assert found.splitlines()[2:] == [
        "| elr, no views | 40 | 1 | 85.0 | - | - | - |",
        "| memory | 80 | 2 | 90.5 | 80.0 | 70.0 | 2.5 |",
    ]


def test_an_earlier_revision_stands_in_where_there_is_none_of_today_and_is_named(tmp_path, monkeypatch):
    specs = [RunSpec("mnist", "label-agreement", "directed", rate) for rate in (0.1, 0.2, 0.3)]
    here = specs[0].resolved().revision
    monkeypatch.setattr(measurements, "EARLIER", {"label-agreement": here - 1})
    store = Store(tmp_path)

    def write(spec, revision):
        run = dataclasses.replace(made(spec, batches=3), recorded=spec.resolved()._replace(revision=revision))
        store.write(run)

    write(specs[0], here)
    write(specs[0], here - 1)
    write(specs[1], here - 1)
    write(specs[2], here - 2)
    found = [stored(store, spec) for spec in specs]
    assert [run and run.ran.revision for run in found] == [here, here - 1, None]
    shown = [run.spec.noise_rate for run in with_stand_ins(store.read_all()) if not run.apart]
    assert sorted(shown) == [0.1, 0.2]
    assert f"Label agreement: revision {here - 1}, 1 runs" in paper_tables.standing_in(store.read_all())
    assert paper_tables.standing_in([found[0]]) == ""
