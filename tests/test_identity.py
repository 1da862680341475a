"""The name of a run: what tells runs apart, and what does not."""

from __future__ import annotations

import dataclasses

from adaptivek.experiments.spec import RECIPES, Recipe, Resolved, RunSpec
from adaptivek.methods import METHODS


def test_identity_tells_runs_apart_and_nothing_else():
    spec = RunSpec("digits", "mkl", noise_rate=0.2, recipe=RECIPES["digits"])
    changed = [
        *(dataclasses.replace(spec, **{key: value}) for key, value in {
            "dataset": "mnist", "method": "rt", "noise": "symmetric", "noise_rate": 0.3, "exact_noise": True,
            "seed": 1, "reforward": True, "ratio_error": 0.1, "text": "body", "label": "mood", "audit": "1234abcd",
        }.items()),
        *(dataclasses.replace(spec, recipe=dataclasses.replace(spec.recipe, **{key: value})) for key, value in {
            "network": "notebook-cnn", "epochs": 7, "warmup_epochs": 7, "batch_size": 7, "optimizer": "adam",
            "learning_rate": 0.7, "momentum": 0.7, "weight_decay": 0.7, "decay_every": 7, "decay_factor": 0.7,
            "decay_early": True, "augment": True, "precision": "bfloat16", "average": 0.7, "hold_out": 0.7,
            "views": 2,
        }.items()),
    ]  # fmt: skip
    assert len(changed) == len(dataclasses.fields(RunSpec)) - 1 + len(dataclasses.fields(Recipe))
    assert len({one.identity() for one in [spec, *changed]}) == 1 + len(changed)
    assert RunSpec("digits", noise_rate=1).identity() == RunSpec("digits", noise_rate=1.0).identity()
    # written down once: it must be the same in every version that is to read old results
    recorded = Resolved("mkl", {"keep": 0.6}, 1)
    assert RunSpec("mnist", "mkl", noise_rate=0.4, seed=2).identity(recorded) == "b74b5f49dedd3bc6"


def test_a_run_is_what_its_method_resolves_to_however_it_is_written(monkeypatch):
    def identity(method: str, rate: float = 0.4, **more: float) -> str:
        return RunSpec("digits", method, noise_rate=rate, **more).identity()

    assert identity("mkl") == identity("mkl:keep=0.6") == identity("mkl", ratio_error=0.0)
    assert identity("mkl", 0.7) == identity("mkl:keep=0.3", 0.7)  # though 1 - 0.7 is not quite 0.3
    assert identity("mkl", ratio_error=0.2) == identity("mkl:keep=0.4")
    assert identity("adaptive-k") == identity("adaptive-k:beta1=0.9,threshold=paper")
    assert identity("mkl", 0) == identity("mkl:keep=1", 0.0)
    assert RunSpec("digits", seed=10**15).identity() != RunSpec("digits", seed=10**15 + 1).identity()
    before = [identity("adaptive-k"), identity("adaptive-k:beta1=0.8"), identity("mkl")]
    monkeypatch.setattr(METHODS["mkl"], "revision", METHODS["mkl"].revision + 1)

    @dataclasses.dataclass(frozen=True)
    class Other(METHODS["adaptive-k"]):
        beta1: float = 0.8

    monkeypatch.setitem(METHODS, "adaptive-k", Other)  # the same method with another default
    after = [identity("adaptive-k"), identity("adaptive-k:beta1=0.8"), identity("mkl")]
    assert after[0] == after[1] == before[1]
    assert before[0] not in after
    assert before[2] not in after
