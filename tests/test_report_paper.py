"""The page of the paper's figures: its verdicts against numbers by hand, and that they can go either way."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from adaptivek.cli import main
from adaptivek.experiments.records import BINS, Detail
from adaptivek.experiments.report import paper, verdicts
from adaptivek.experiments.report.claims import claims, paper_settings
from adaptivek.experiments.report.tables import rows
from adaptivek.experiments.store import Store

from .made_results import grid, setting

PAIR = ("adaptive-k", "mkl")


def changed(results, method, **values):
    """With these numbers in the last epoch of the runs of a method."""
    return [
        dataclasses.replace(each, epochs=[*each.epochs[:-1], dataclasses.replace(each.epochs[-1], **values)])
        if each.spec.method == method
        else each
        for each in results
    ]


def test_separation_is_the_area_under_the_roc_curve():
    draw = random.Random(0)
    clean, noisy = ([draw.randrange(20) for _ in range(BINS)] for _ in range(2))
    places = np.concatenate([np.repeat(np.arange(BINS), clean), np.repeat(np.arange(BINS), noisy)])
    truth = np.repeat([0, 1], [sum(clean), sum(noisy)])
    found = verdicts.separation(Detail(1, clean, noisy, [], []))
    assert found == pytest.approx(roc_auc_score(truth, places))


def test_quality_agrees_only_if_both_are_better():
    results = changed(grid(["mnist"], (0.4,), PAIR), "mkl", precision=0.7, recall=0.6)
    for precision, recall, agrees in ((0.8, 0.7, True), (0.8, 0.5, False), (0.6, 0.7, False)):
        (row,) = rows(changed(results, "adaptive-k", precision=precision, recall=recall))
        verdict = verdicts.quality(row)
        assert verdict.agrees is agrees
        assert f"{100 * precision:.1f} % (MKL 70.0 %)" in verdict.numbers


def test_the_share_kept_must_be_close_at_every_rate():
    results = grid(["mnist"], (0.1, 0.4), PAIR)
    for error, agrees in ((0.0, True), (0.019, True), (-0.03, False)):
        table = []
        for rate in (0.1, 0.4):
            mine = [each for each in results if each.spec.noise_rate == rate]
            off = error if rate == 0.4 else 0.0
            table += changed(mine, "adaptive-k", kept_share=1 - rate + off, true_noise_ratio=rate)
        assert verdicts.kept(rows(table)).agrees is agrees


def test_mini_batches_are_followed_or_not():
    made = grid(["mnist"], (0.4,), PAIR)
    (row,) = rows(made)
    details = [each.details[-1] for each in made if each.spec.method == "adaptive-k"]
    clean, kept = (
        np.array([getattr(each, name) for each in details]).ravel() for name in ("clean_share", "kept_share")
    )
    verdict = verdicts.batches(row)
    assert f"correlation {np.corrcoef(clean, kept)[0, 1]:.2f}" in verdict.numbers
    assert f"{100 * np.abs(clean - kept).mean():.1f} points off" in verdict.numbers
    assert verdict.agrees
    flat = [
        dataclasses.replace(each, details=[dataclasses.replace(each.details[-1], kept_share=[0.6] * 60)])
        for each in made
    ]
    assert not verdicts.batches(rows(flat)[0]).agrees


def test_the_threshold_must_lie_between_the_means():
    made = grid(["mnist"], (0.3,), ("adaptive-k",))
    assert verdicts.threshold(rows(made)[0]).agrees
    low = [
        dataclasses.replace(each, epochs=[dataclasses.replace(record, threshold=0.0) for record in each.epochs])
        for each in made
    ]
    assert verdicts.threshold(rows(low)[0]) == (False, "in 0.0 % of the epochs with selection")


def test_losses_that_move_together_do_not_agree():
    made = grid(["mnist"], (0.3,), ("adaptive-k", "vanilla"))
    assert verdicts.apart(rows(made)[0]).agrees
    backwards = [dataclasses.replace(each, details=[
        dataclasses.replace(detail, epoch=epoch)
        for detail, epoch in zip(each.details[::-1], [detail.epoch for detail in each.details], strict=True)
    ]) for each in made]  # fmt: skip
    assert not verdicts.apart(rows(backwards)[0]).agrees


def test_claims_of_another_method_are_counted_beside_all_of_the_papers():
    runs = [
        *setting(0.1, oracle=0.9, vanilla=0.7, mkl=0.8, vanilla_mkl=0.6, adaptive_k=0.85, label_memory=0.82),
        *setting(0.2, oracle=0.9, vanilla=0.7, mkl=0.88, vanilla_mkl=0.6, adaptive_k=0.7, label_memory=0.89),
    ]
    counted = claims(rows(runs), "last", "label-memory", "Ours")
    assert [(claim.text, claim.holds, claim.settings) for claim in counted] == [
        ("Ours beats Vanilla", 2, 2), ("Ours beats MKL", 2, 2), ("Ours is closest to Oracle", 1, 2),
    ]  # fmt: skip
    assert [claim.holds for claim in claims(rows(runs), "last")] == [1, 1, 1]


def test_the_page_has_every_data_set_and_says_what_it_found(tmp_path, capsys):
    store = Store(tmp_path)
    results = grid(["mnist", "imdb"], (0.3, 0.4), seeds=(0,))
    for each in results:
        store.write(each)
    assert paper_settings(rows(results)) == 4
    main(["report", str(tmp_path), "--paper"])
    assert "4 of the paper's 28 settings" in capsys.readouterr().out
    text = (tmp_path / "paper.html").read_text()
    figures = paper.paper_figures(rows(results))
    assert [figure.name for figure in figures] == ["quality", "batches", "losses", "kept", "histograms"]
    for figure in figures:
        assert len(figure.found) == 2
        assert figure.claim in text
        assert all(verdict.numbers in text for _, verdict in figure.found)
        assert {panel.title.partition(":")[0].partition(",")[0] for panel in figure.panels} == {"MNIST", "IMDB"}
    names = [part.partition('"')[0] for part in text.split(' id="')[1:]]
    assert len(names) == len(set(names))  # drawings of several data sets do not share names
    assert "<script" not in text


def test_the_default_is_drawn_beside_the_methods_of_the_paper():
    figures = {
        each.name: each for each in paper.paper_figures(rows(grid(["mnist"], (0.4,), (*PAIR, "label-agreement"))))
    }
    assert "label agreement" in " ".join(key.label for key in figures["quality"].keys).lower()
