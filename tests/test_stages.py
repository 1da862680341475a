"""Two stages: what an audit knows, kept and begun with; one call that trains, predicts, and is saved and loaded."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs
from torch import nn
from torch.utils.data import TensorDataset

import adaptivek
from adaptivek.auditing.best_epochs import BestEpochs
from adaptivek.auditing.schedules import linear
from adaptivek.auditing.sources import load
from adaptivek.auditing.text_embeddings import tokenised
from adaptivek.cli import main
from adaptivek.noise import Symmetric, corrupt
from adaptivek.stages.inputs import encode, learn_inputs
from adaptivek.support.files import write_whole

CPU = torch.device("cpu")
WORDS = {
    "sport": ["goal", "referee", "league", "pitch", "coach"],
    "food": ["oven", "butter", "flour", "garlic", "pastry"],
}


def blobs(rows: int = 240, rate: float = 0.3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = make_blobs(rows, 5, centers=3, cluster_std=1.5, random_state=0)
    return x.astype(np.float32), y, corrupt(y, Symmetric(rate), classes=3, seed=0)[0].numpy()


def texts(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    topics = [["sport", "food"][number % 2] for number in range(rows)]
    sentences = [" ".join(rng.choice([*WORDS[topic], "the", "a", "today"], 8)) for topic in topics]
    return pd.DataFrame({"sentence": sentences, "topic": topics})


@pytest.fixture(scope="module")
def result() -> adaptivek.AuditResult:
    x, _, labels = blobs()
    x[7, 0] = np.nan  # one row that cannot be read
    return adaptivek.audit(x, labels, epochs=6)


def test_targets_are_bayes_rule_over_prediction_label_and_matrix(result):
    _, _, labels = blobs()
    predictions, targets, model = result.predictions, result.targets, result.for_training.model
    for row in range(0, 240, 29):
        if row == 7:
            continue
        p = np.maximum(predictions[row].astype(np.float64), 1e-4) ** model.power
        joint = p / p.sum() * model.class_weights
        joint = joint / joint.sum() * model.transition[:, labels[row]]
        np.testing.assert_allclose(targets[row], joint / joint.sum(), atol=2e-3)
    for table in (predictions, targets):
        assert table.shape == (240, 3)
        assert (table[7] == 0).all()
        np.testing.assert_allclose(np.delete(table, 7, 0).sum(1), 1, atol=1e-5)


def test_targets_come_back_from_disk_and_nothing_is_unpickled(result, tmp_path):
    result.save(tmp_path)
    again = adaptivek.load_audit(tmp_path)
    np.testing.assert_array_equal(again.predictions, result.predictions)
    np.testing.assert_allclose(again.targets, result.targets, atol=1e-6)
    assert again.classes == result.classes
    assert (tmp_path / "targets.npz").stat().st_size < 240 * 3 * 4 + 4_000
    with pytest.raises(FileNotFoundError, match="must be the folder of an audit"):
        adaptivek.load_audit(tmp_path / "nowhere")
    np.savez(tmp_path / "targets.npz", p=np.array([object()], dtype=object))
    with pytest.raises(ValueError, match="must be a file that an audit has written"):
        adaptivek.load_audit(tmp_path)
    write_whole(tmp_path / "targets.npz", b"no zip")
    with pytest.raises(ValueError, match="must be a file that an audit has written"):
        adaptivek.load_audit(tmp_path)


def test_of_many_classes_predictions_are_kept_in_part():
    classes = 12
    x = np.repeat(np.eye(classes, dtype=np.float32), 20, 0) * 4 + np.random.default_rng(0).normal(size=(240, 12))
    result = adaptivek.audit(x, np.repeat(np.arange(classes), 20), epochs=6)
    assert result.for_training.held_out.p.shape == (240, 8)
    np.testing.assert_allclose(result.predictions.sum(1), 1, atol=1e-5)
    assert (result.targets.argmax(1) == np.repeat(np.arange(classes), 20)).mean() > 0.9


@pytest.mark.parametrize("classes", [3, 12])
def test_the_best_epochs_are_averaged_and_the_others_forgotten(classes):
    torch.manual_seed(0)
    labels, rows = torch.arange(400) % classes, torch.arange(400)
    kept, given = BestEpochs(400, classes, CPU), []
    for right in (0.2, 0.8, 0.81, 0.3):  # of the labels, in each epoch
        p = torch.full((400, classes), 0.1 / classes)
        predicted = torch.where(torch.arange(400) < right * 400, labels, (labels + 1) % classes)
        p[rows, predicted] += 0.9
        given.append(p)
        kept.add(rows, p, labels)
        kept.end()
    found, codes = kept.tables()
    mean = ((given[1] + given[2]) / 2).numpy()
    best = found.argmax(1) if codes is None else codes[np.arange(400), found.argmax(1)]
    clear = mean.max(1) > 0.6  # in the others the two epochs differ
    assert clear.sum() == 396
    np.testing.assert_array_equal(best[clear], mean.argmax(1)[clear])
    np.testing.assert_allclose(found.max(1), mean.max(1), atol=0.05)
    other = BestEpochs(400, classes, CPU)
    other.load_state_dict(kept.state_dict())
    assert other.best == kept.best
    np.testing.assert_array_equal(other.tables()[0], found)


@pytest.mark.parametrize("name", ["label-agreement", "label-memory", "label-posterior", "elr", "selc", "sat"])
def test_a_memory_begins_with_earlier_predictions(name):
    torch.manual_seed(0)
    start = torch.rand(6, 3).softmax(1)
    start[2] = 0  # nothing is known of this row
    criterion = adaptivek.Selection(name, warmup=0, start=start)
    state = criterion.memory.state
    table = state.targets if name == "elr" else state.predictions
    torch.testing.assert_close(table, start)
    other = adaptivek.Selection(name, warmup=0, rows=6, classes=3)
    for row in (2, 4):
        logits = torch.randn(1, 3)
        losses = [one(logits, torch.tensor([1]), torch.tensor([row])) for one in (criterion, other)]
        same = torch.allclose(criterion.memory.state[0][row], other.memory.state[0][row])
        assert same == (row == 2)
        assert all(loss.isfinite() for loss in losses)


def test_a_label_that_earlier_predictions_contradict_is_replaced_at_once():
    """Once the confusion counts know the classes, a row that was always predicted as another class is relabelled."""
    rows = 60
    y = torch.arange(rows) % 3
    labels = y.clone()
    labels[:6] = (y[:6] + 1) % 3
    start = torch.full((rows, 3), 0.01)
    start[torch.arange(rows), y] = 0.98
    criterion = adaptivek.Selection(start=start)
    logits = torch.zeros(rows, 3)  # a fresh network knows nothing
    for part in torch.arange(rows).flip(0).split(20):
        criterion(logits[part], labels[part], part)
    assert criterion.confidence.flip(0)[:6].max() < 0.5
    assert criterion.confidence.flip(0)[6:].min() > 0.5


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"start": torch.ones(4)}, "shape"),
        ({"start": torch.ones(4, 3)}, "add up to 1 in each row"),
        ({"start": torch.full((4, 2), 0.5), "rows": 5}, "5 rows that rows= says, got 4"),
        ({"start": torch.full((4, 2), 0.5), "classes": 3}, "3 classes"),
        ({"start": "audit"}, "must be the result of an audit"),
        ({"method": "vanilla", "start": torch.full((4, 2), 0.5)}, "vanilla, which remembers no predictions"),
    ],
)
def test_what_is_no_start_is_said(options, error):
    with pytest.raises((ValueError, TypeError), match=error):
        adaptivek.Selection(**options)


def test_an_audit_goes_on_from_another(result):
    x, _, labels = blobs()
    x[7, 0] = np.nan
    again = adaptivek.audit(x, labels, epochs=6, start=result)
    assert again.settings["method"] == "label-memory"
    assert again.noise_ratio == result.noise_ratio
    with pytest.raises(ValueError, match="an audit of the same rows"):
        adaptivek.audit(x, (labels + 1) % 3, epochs=6, start=result)


def test_a_schedule_and_a_precision_of_ones_own():
    x, _, labels = blobs(120)
    seen: list[float] = []

    def mine(step: int, steps: int) -> float:
        seen.append(linear(step, steps))
        return seen[-1]

    own = adaptivek.audit(x, labels, epochs=2, schedule=mine, precision="float32")
    same = adaptivek.audit(x, labels, epochs=2, schedule="linear")
    np.testing.assert_array_equal(own.score, same.score)
    assert own.settings["schedule"].endswith("mine")
    assert max(seen) <= 1
    assert seen[-1] < 0.1
    with pytest.raises(ValueError, match="schedule must be one of constant, cosine, linear"):
        adaptivek.audit(x, labels, schedule="steep")


def test_frozen_weights_are_held_once_and_tokenised_texts_are_taken_as_they_are():
    transformers = pytest.importorskip("transformers")
    from datasets import Dataset

    frame = texts(60)
    numbers = {word: place for place, word in enumerate(sorted({w for s in frame["sentence"] for w in s.split()}), 1)}
    ids = [
        [numbers[word] for word in sentence.split()][: 4 + row % 5] for row, sentence in enumerate(frame["sentence"])
    ]
    data = Dataset.from_dict(
        {"input_ids": ids, "text": frame["sentence"], "label": (frame["topic"] == "food").astype(int)}
    )
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, num_labels=2
    )
    model = transformers.BertForSequenceClassification(config)
    for weight in model.bert.embeddings.parameters():
        weight.requires_grad_(False)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    result = adaptivek.audit(data, "label", model, epochs=2, learning_rate=5e-3)
    assert result.settings["network"] == "BertForSequenceClassification"
    assert result.given.content == frame["sentence"].tolist()
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    batch = result.given.fetch(np.array([0, 4]))
    assert batch.shape == (2, 2, 8)
    assert batch[0, 1].tolist() == [1] * 4 + [0] * 4  # what is padding is masked
    samples = [{"input_ids": row["input_ids"], "labels": row["label"]} for row in data]
    np.testing.assert_array_equal(
        adaptivek.audit(samples, model=model, epochs=2, learning_rate=5e-3).score, result.score
    )
    with pytest.raises(ValueError, match="model must be given for tokenised texts"):
        adaptivek.audit(data, "label")


def test_frozen_weights_are_shared_by_both_networks():
    from adaptivek.auditing.training import Plan, Run

    x, _, labels = blobs(60)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3))
    model[0].requires_grad_(False)
    run = Run(
        lambda rows: torch.from_numpy(x[rows]), labels, 3, lambda _: model, Plan(epochs=1, batch_size=8), "cpu",
        shared=True,
    )  # fmt: skip
    first, second = run.models
    assert first[0].weight is second[0].weight
    assert first[2].weight is not second[2].weight
    run.epoch()
    assert not torch.equal(first[2].weight, second[2].weight)


def test_new_rows_are_encoded_as_the_old_ones_were(tmp_path):
    """Of every kind: what `encode` makes of the training rows is what was trained on."""
    x, _, labels = blobs(60)
    table = pd.DataFrame(x, columns=list("abcde")).assign(f=[f"c{k % 4}" for k in range(60)], g=np.arange(60) // 7)
    table.loc[3, "a"] = np.nan
    frame = texts(60)
    images = np.random.default_rng(0).integers(0, 255, (60, 3, 16, 16), dtype=np.uint8)
    frame.to_csv(tmp_path / "texts.csv", index=False)
    for data, given in ((x, labels), (table, labels), (images, labels), (str(tmp_path / "texts.csv"), "topic")):
        loaded = tokenised(load(data, given, None))
        settings = json.loads(json.dumps(learn_inputs(loaded, data)))
        new = encode(settings, data)
        torch.testing.assert_close(new.x, loaded.fetch(np.arange(60)), atol=1e-5, rtol=1e-4)
        np.testing.assert_array_equal(new.row, np.arange(60))


def test_one_call_fits_predicts_and_comes_back_from_disk(tmp_path):
    frame = texts()
    noisy = frame.copy()
    noisy.loc[::5, "topic"] = noisy.loc[::5, "topic"].map({"sport": "food", "food": "sport"})
    said: list[str] = []
    fitted = adaptivek.fit(
        None, noisy, "topic", epochs=12, learning_rate=0.01, rounds=1, folder=tmp_path,
        progress=lambda what, done, total: said.append(what),
    )  # fmt: skip
    assert list(dict.fromkeys(said)) == ["measuring", "cross-training", "training"]
    assert (np.array(fitted.predict(frame["sentence"].tolist())) == frame["topic"]).mean() > 0.9
    assert fitted.gain.rows == 120
    assert 0 <= fitted.gain.plain <= 1
    assert (tmp_path / "audit" / "report.html").exists()
    again = adaptivek.load_fitted(tmp_path)
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))
    assert again.gain == pytest.approx(fitted.gain, abs=1e-5)
    assert fitted.predict(["", "goal pitch coach"])[0] is None
    with pytest.raises(ValueError, match="must have the columns sentence"):
        fitted.predict(pd.DataFrame({"other": ["x"]}))
    (tmp_path / "fit.json").write_text('{"format": 99, "version": "9"}')
    with pytest.raises(ValueError, match="format 99, made by adaptivek 9"):
        adaptivek.load_fitted(tmp_path)


def test_a_network_of_ones_own_is_fitted_and_its_weights_come_back(tmp_path):
    x, y, labels = blobs(120)
    torch.manual_seed(0)
    model = nn.Linear(5, 3)
    before = model.weight.clone()
    data = TensorDataset(torch.from_numpy(x), torch.from_numpy(labels))
    fitted = adaptivek.fit(model, data, epochs=8, learning_rate=0.05, measured=False, rounds=1, folder=tmp_path)
    assert torch.equal(model.weight, before)
    assert fitted.gain is None
    predicted = np.array(fitted.predict(torch.from_numpy(x)), dtype=int)
    assert (predicted == y).mean() > 0.9
    with pytest.raises(ValueError, match="model must be given"):
        adaptivek.load_fitted(tmp_path)
    again = adaptivek.load_fitted(tmp_path, nn.Linear(5, 3))
    assert again.predict(torch.from_numpy(x)) == fitted.predict(torch.from_numpy(x))


def test_what_does_not_do_is_said_before_anything_is_trained():
    x, _, labels = blobs(120)
    for options, error in (
        ({"rounds": 3}, "rounds must be 1, 2 or None"),
        ({"trusted": []}, "trusted must be numbers of rows"),
        ({"trusted": [999]}, "rows that can be read"),
        ({"epoch": 3}, "argument must be one of"),
        ({"epochs": 0}, "epochs must be a whole number"),
    ):
        with pytest.raises(ValueError, match=error):
            adaptivek.fit(None, x, labels, **options)


def test_fit_and_predict_from_the_shell(tmp_path, capsys):
    frame = texts(80)
    frame.to_csv(tmp_path / "old.csv", index=False)
    frame[["sentence"]].iloc[:10].to_csv(tmp_path / "new.csv", index=False)
    options = ["--out", str(tmp_path / "fitted"), "--label", "topic", "--no-measured"]
    options += ["--epochs", "12", "--learning-rate", "0.01", "--rounds", "1"]
    main(["fit", str(tmp_path / "old.csv"), *options])
    main(["predict", str(tmp_path / "fitted"), str(tmp_path / "new.csv"), "--out", str(tmp_path / "p.csv")])
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found.columns) == ["row", "predicted", "probability"]
    assert (found["predicted"] == frame["topic"][:10]).mean() > 0.8
    assert "10 rows" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["predict", str(tmp_path / "fitted"), str(tmp_path / "none.csv"), "--out", str(tmp_path / "q.csv")])
    assert "not found" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["fit", str(tmp_path / "old.csv"), *options])
    assert "another folder" in capsys.readouterr().err


def test_only_a_network_goes_on_from_an_earlier_audit(result):
    x, _, labels = blobs()
    x[7, 0] = np.nan
    assert adaptivek.audit(x, labels).settings["model"] == "trees"
    assert adaptivek.audit(x, labels, start=result).settings["model"] == "network"
    with pytest.raises(ValueError, match="start must be left out with model trees"):
        adaptivek.audit(x, labels, "trees", start=result)
