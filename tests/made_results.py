"""Results that look like those of real runs, made of formulas in no time."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Sequence

from adaptivek.experiments.records import BINS, REACH, Detail, EpochRecord
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.experiments.store import Result

METHODS = ("oracle", "vanilla", "mkl", "vanilla+mkl", "adaptive-k")
CEILINGS = {
    "mnist": 0.985, "fashion-mnist": 0.86, "cifar10": 0.93, "imdb": 0.88, "sarcasm": 0.85, "hotel": 0.6,
    "20newsgroups": 0.8,
}  # fmt: skip
HARM = {"oracle": 0.05, "vanilla": 0.6, "mkl": 0.35, "vanilla+mkl": 0.38}  # what noise does to each method
SHORT = Recipe(epochs=6, warmup_epochs=2, batch_size=10)


def made(spec: RunSpec, batches: int = 60) -> Result:
    """One run: accuracy falls with noise, and the more so the less a method knows."""
    chance = random.Random(spec.identity())
    recipe, method = spec.recipe, spec.method.partition(":")[0]
    rate = spec.noise_rate + chance.gauss(0, 0.005) * (spec.noise_rate > 0)
    noisy = rate > 0
    epochs: list[EpochRecord] = []
    details = []
    best = 0.0
    for epoch in range(1, recipe.epochs + 1):
        done = epoch / recipe.epochs
        starts_late = method in ("adaptive-k", "vanilla+mkl")
        selecting = not starts_late or epoch > recipe.warmup_epochs
        harm = HARM.get(method, 0.12) * rate**2 * 4 * done
        accuracy = CEILINGS.get(spec.dataset, 0.95) * (1 - math.exp(-8 * done)) - harm * 0.5 + chance.gauss(0, 0.003)
        best = max(best, accuracy)
        kept = {"vanilla": 1.0, "oracle": 1 - rate, "mkl": 1 - spec.noise_rate, "vanilla+mkl": 1 - spec.noise_rate}
        share = kept.get(method, 1 - 0.9 * rate - 0.02) if selecting else 1.0
        precision = 1.0 if method == "oracle" else 1 - rate * (1 - (0.8 if share < 1 else 0))
        has_cut = method == "adaptive-k" and selecting
        epochs.append(
            EpochRecord(
                epoch=epoch, selecting=selecting, train_loss=1 - 0.8 * done, test_accuracy=accuracy,
                best_test_accuracy=best, kept_share=share, precision=precision,
                recall=min(1.0, share * precision / (1 - rate)), threshold=1.5 - 0.5 * done if has_cut else math.nan,
                clean_loss_mean=0.9 - 0.7 * done, clean_loss_std=0.6 - 0.3 * done,
                noisy_loss_mean=2 + 2 * done if noisy else math.nan, noisy_loss_std=0.9 if noisy else math.nan,
                noise_ratio=1 - share if selecting else math.nan, true_noise_ratio=rate,
                noise_ratio_told=1 - share if selecting else math.nan, empty_steps=0, nonfinite=0,
                samples_per_second=1000.0,
            )
        )  # fmt: skip
        if epoch in recipe.stages():
            clean = [sum(chance.random() > rate for _ in range(10)) / 10 for _ in range(batches)]
            near = [min(1.0, max(0.0, value + chance.choice((-0.1, 0, 0, 0.1)))) for value in clean]
            details.append(
                Detail(
                    epoch, _bell(0.9 - 0.7 * done, 0.5, 3000), _bell(2 + 2 * done, 1.2, int(5000 * rate)), clean,
                    [round(value, 3) for value in near] if has_cut else [share] * batches,
                )
            )  # fmt: skip
    return Result(spec, epochs, details, 1.5, "local")


def grid(
    datasets: Sequence[str],
    rates: Sequence[float],
    methods: Sequence[str] = METHODS,
    seeds: Sequence[int] = (0, 1, 2),
    noise: str = "directed",
    recipe: Recipe = SHORT,
) -> list[Result]:
    return [
        made(RunSpec(dataset, method, noise, rate, seed=seed, recipe=recipe))
        for dataset in datasets
        for rate in rates
        for method in methods
        for seed in seeds
    ]


def _bell(centre: float, width: float, number: int) -> list[int]:
    middles = [(place + 0.5) * REACH / BINS for place in range(BINS)]
    heights = [math.exp(-(((middle - centre) / width) ** 2)) for middle in middles]
    return [round(number * height / sum(heights)) for height in heights]


def result(
    method: str, last: float, rate: float = 0.2, seed: int = 0, best: float | None = None, dataset: str = "digits"
) -> Result:
    """A run with these accuracies at its end."""
    run = made(RunSpec(dataset, method, "directed", rate, seed=seed, recipe=SHORT), batches=3)
    end = dataclasses.replace(run.epochs[-1], test_accuracy=last, best_test_accuracy=last if best is None else best)
    return dataclasses.replace(run, epochs=[*run.epochs[:-1], end])


def setting(rate: float = 0.2, **accuracies: float) -> list[Result]:
    names = {"vanilla_mkl": "vanilla+mkl", "adaptive_k": "adaptive-k", "label_memory": "label-memory",
             "label_agreement": "label-agreement"}  # fmt: skip
    return [result(names.get(name, name), value, rate) for name, value in accuracies.items()]
