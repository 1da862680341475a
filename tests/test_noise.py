"""Label noise: how much, to where, reproducibly, and written down."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from adaptivek.noise import NOISES, Directed, InstanceDependent, Manifest, Matrix, PairFlip, Symmetric, corrupt

ROWS, CLASSES = 20_000, 10
CLEAN = np.random.default_rng(0).integers(0, CLASSES, ROWS)
FEATURES = np.random.default_rng(1).normal(size=(ROWS, 5)) + CLEAN[:, None] % 3
KINDS = [Directed, Symmetric, PairFlip, InstanceDependent]


def noisy(noise, exact=False, seed=3, labels=CLEAN, classes=CLASSES, features=FEATURES):
    found, manifest = corrupt(labels, noise, classes=classes, seed=seed, exact=exact, features=features)
    return found.numpy(), manifest


def test_every_kind_is_listed():
    assert set(NOISES.values()) == {*KINDS, Matrix}
    assert all(name == kind.name for name, kind in NOISES.items())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [0.0, 0.05, 0.4, 0.9, 1.0])
def test_each_row_flips_with_the_rate(kind, rate):
    flips = (noisy(kind(rate))[0] != CLEAN).sum()
    # two-sided, at a level that the fixed seed either meets or not
    assert stats.binomtest(int(flips), ROWS, rate).pvalue > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@given(rate=st.floats(0, 1), seed=st.integers(0, 1000), rows=st.integers(1, 300))
def test_exact_flips_the_rounded_number(kind, rate, seed, rows):
    found, manifest = noisy(kind(rate), True, seed, CLEAN[:rows], features=FEATURES[:rows])
    flips = int((found != CLEAN[:rows]).sum())
    assert flips == len(manifest.rows)
    if kind is InstanceDependent:  # its chances add up to the rate times the rows but for what is clipped
        assert abs(flips - rate * rows) <= 1 + 0.02 * rows
    else:
        assert flips == round(rate * rows)


def test_exact_draws_each_row_with_its_own_chance():
    """Systematic sampling keeps the chances: class 0 never, class 1 in 20 %, class 2 in 70 %."""
    labels = np.random.default_rng(2).integers(0, 3, 3_000)
    noise = Matrix([[1, 0, 0], [0.1, 0.8, 0.1], [0.0, 0.7, 0.3]])
    counts = np.zeros(3)
    for seed in range(30):
        found, _ = noisy(noise, True, seed, labels, 3, None)
        counts += np.bincount(labels[found != labels], minlength=3)
    share = counts / 30 / np.bincount(labels)
    np.testing.assert_allclose(share, [0, 0.2, 0.7], atol=0.01)


def test_where_labels_go():
    flipped = {kind: noisy(kind(1.0))[0] for kind in KINDS}
    assert (flipped[Directed] == (CLEAN + 2) % CLASSES).all()
    assert (flipped[PairFlip] == (CLEAN + 1) % CLASSES).all()
    assert (noisy(Directed(1.0, shift=3))[0] == (CLEAN + 3) % CLASSES).all()
    for found in flipped.values():
        assert (found != CLEAN).all()
    shifts = np.bincount((flipped[Symmetric] - CLEAN) % CLASSES, minlength=CLASSES)[1:]
    assert stats.chisquare(shifts).pvalue > 1e-3


def test_two_classes_flip_to_the_other():
    labels = CLEAN % 2
    for kind in KINDS:
        assert (noisy(kind(1.0), labels=labels, classes=2)[0] == 1 - labels).all()


def test_matrix_is_what_comes_out():
    table = np.random.default_rng(4).dirichlet(np.ones(CLASSES), CLASSES)
    found, _ = noisy(Matrix(table))
    for label in range(CLASSES):
        counts = np.bincount(found[label == CLEAN], minlength=CLASSES)
        assert stats.chisquare(counts, table[label] * counts.sum()).pvalue > 1e-4


def test_instance_noise_depends_on_the_features():
    """Rows that look alike flip alike; with the features shuffled that is gone."""

    def purity(features):
        found, _ = noisy(InstanceDependent(1.0), features=features)
        near = FEATURES[CLEAN == 0][:, 0] > np.median(FEATURES[CLEAN == 0][:, 0])
        targets = found[CLEAN == 0]
        tables = [np.bincount(targets[side], minlength=CLASSES)[1:] for side in (near, ~near)]
        return stats.chi2_contingency(np.array(tables) + 1).pvalue

    assert purity(FEATURES) < 1e-6
    assert purity(np.random.default_rng(5).permutation(FEATURES)) > 1e-3


@pytest.mark.parametrize("kind", KINDS)
def test_seeded_and_independent_of_global_random_state(kind):
    first, _ = noisy(kind(0.4))
    torch.manual_seed(99)
    np.random.seed(99)  # noqa: NPY002
    before = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    again, _ = noisy(kind(0.4))
    assert (first == again).all()
    assert (first != noisy(kind(0.4), seed=4)[0]).any()
    assert torch.equal(before[0], torch.get_rng_state())
    assert (before[1] == np.random.get_state()[1]).all()  # noqa: NPY002


@pytest.mark.parametrize("kind", KINDS)
def test_manifest_tells_all_and_survives_a_file(kind, tmp_path):
    found, manifest = noisy(kind(0.3))
    manifest.save(tmp_path / "noise.json")
    loaded = Manifest.load(tmp_path / "noise.json")
    assert loaded == manifest
    rows = np.flatnonzero(found != CLEAN)
    assert loaded.rows == rows.tolist()
    assert loaded.before == CLEAN[rows].tolist()
    assert loaded.after == found[rows].tolist()
    assert (loaded.noise, loaded.parameters["rate"], loaded.seed) == (kind.name, 0.3, 3)
    assert (loaded.apply(CLEAN).numpy() == found).all()
    assert (loaded.undo(found).numpy() == CLEAN).all()
    with pytest.raises(ValueError, match="must be the clean ones it was made for"):
        loaded.apply(found)
    with pytest.raises(ValueError, match="must be the clean ones it was made for"):
        loaded.apply(CLEAN[:10])


def test_manifest_that_is_not_one(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(ValueError, match="must hold after, before, classes"):
        Manifest.load(tmp_path / "other.json")


def test_the_matrix_in_a_manifest_survives_too(tmp_path):
    _, manifest = noisy(Matrix(torch.full((10, 10), 0.1)))
    manifest.save(tmp_path / "noise.json")
    assert Manifest.load(tmp_path / "noise.json").rows == manifest.rows


def test_the_input_is_left_alone():
    labels = torch.from_numpy(CLEAN).clone()
    corrupt(labels, Symmetric(0.5), classes=CLASSES, seed=0)
    assert (labels.numpy() == CLEAN).all()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: Directed(1.2), "Directed: rate must be a number in [0, 1], got 1.2"),
        (lambda: Symmetric(-0.1), "Symmetric: rate must be a number in [0, 1], got -0.1"),
        (lambda: Directed(0.2, shift=0), "Directed: shift must be a whole number of at least 1, got 0"),
        (lambda: noisy(Directed(0.2, shift=10)), "Directed: shift must not be a multiple of the 10 classes, got 10"),
        (lambda: Matrix([[1, 0]]), "Matrix: rows must be square, got shape (1, 2)"),
        (lambda: Matrix([[0.5, 0.4], [0, 1]]), "Matrix: rows must be at least 0 and each add up to 1, got "),
        (lambda: noisy(Matrix([[1, 0], [0, 1]])), "Matrix: rows must be 10 for 10 classes, got 2"),
        (
            lambda: noisy(InstanceDependent(0.2), features=None),
            "InstanceDependent: features must be given to corrupt(), one row per label, got None",
        ),
        (
            lambda: noisy(InstanceDependent(0.2), features=FEATURES[:5]),
            "corrupt: features must have one row per label, 20000, got 5",
        ),
        (lambda: noisy(Directed(0.2), classes=5), "corrupt: labels must be from 0 to 4, got 0 to 9"),
        (lambda: noisy(Directed(0.2), classes=1), "corrupt: classes must be a whole number of at least 2, got 1"),
        (lambda: noisy(Directed(0.2), seed=-1), "corrupt: seed must be a whole number of at least 0, got -1"),
        (lambda: noisy(Directed(0.2), labels=[0.5, 1.0]), "labels must be one whole number per row, got float64"),
        (lambda: noisy(Directed(0.2), labels=[]), "corrupt: labels must have at least one row, got none"),
    ],
)
def test_bad_input_is_named(use, message):
    with pytest.raises(ValueError, match="must") as error:
        use()
    assert str(error.value).startswith(message)
