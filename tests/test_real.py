"""The benchmark of real noise: its files, its runs and its tables, on tiny data."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from adaptivek.methods import METHODS

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.exists(), reason="a source distribution has no benchmarks")
if BENCHMARKS.exists():
    sys.path.append(str(BENCHMARKS))
    import real
    import real_prepare
    import two_stages
    from real_encoder import Encoder
    from real_settings import NETWORKS, FineTuning, Job, Setting, all_methods, jobs, settings, version
    from real_train import accuracies, load, make_criterion, observed, train
    from real_workers import run_all

ROWS, TEST, CLASSES = 96, 40, 3
OWN = ("own", 0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Prepared files of each form: rows of numbers that tell the class, dense and sparse, and rows of tokens."""
    folder = tmp_path_factory.mktemp("prepared")
    rng = np.random.default_rng(0)
    gold, y_test = rng.integers(0, CLASSES, ROWS), rng.integers(0, CLASSES, TEST)
    noisy = np.where(rng.random(ROWS) < 0.3, (gold + 1) % CLASSES, gold)
    labels = {"labels": noisy, "gold": gold, "y_test": y_test, "classes": np.array(CLASSES)}
    dense = {"x": 3 * np.eye(8)[gold] + rng.normal(size=(ROWS, 8)), "x_test": 3 * np.eye(8)[y_test]}
    np.savez(folder / "perceptron-dense.npz", **labels, **{key: x.astype(np.float16) for key, x in dense.items()})
    sparse = {}
    for key, x in dense.items():
        rows, columns = np.nonzero(x)
        sparse |= {f"{key}_rows": rows.astype(np.uint16), f"{key}_columns": columns.astype(np.uint16)}
        sparse |= {f"{key}_values": x[rows, columns].astype(np.float16), f"{key}_shape": np.array(x.shape)}
    np.savez(folder / "perceptron-sparse.npz", **labels, **sparse)
    tokens = {key: np.stack([2 + y, 10 + y, np.zeros_like(y)], 1) for key, y in (("x", gold), ("x_test", y_test))}
    tokens = {key: x.astype(np.uint16) for key, x in tokens.items()}
    for network in ("text-bag", "encoder"):
        np.savez(folder / f"{network}-texts.npz", **labels, **tokens, vocabulary=np.array(20))
    weights = {name: value.numpy().astype(np.float16) for name, value in tiny_bert().state_dict().items()}
    np.savez(folder / "encoder.npz", heads=np.array(2), **weights)
    return folder


def tiny_bert() -> torch.nn.Module:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=60, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
        max_position_embeddings=16,
    )  # fmt: skip
    return BertModel(config, add_pooling_layer=False)


def test_the_encoder_is_bert_with_a_mean_over_its_tokens():
    bert = tiny_bert().eval()
    encoder = Encoder(bert.state_dict(), heads=2, classes=CLASSES).eval()
    tokens = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0]])
    there = (tokens > 0).long()
    last = bert(input_ids=tokens, attention_mask=there).last_hidden_state
    mean = torch.stack([last[0].mean(0), last[1, :2].mean(0)])
    torch.testing.assert_close(encoder(tokens), encoder.head(mean))
    assert all(parameter.requires_grad for parameter in encoder.parameters())


@pytest.mark.parametrize("method", all_methods() if BENCHMARKS.exists() else [])
def test_every_method_runs(method, folder):
    line = train(Job(Setting("perceptron", "dense", *OWN, 2), method, 0), folder, "cpu")
    assert len(line["accuracy"]) == len(line["averaged_balanced"]) == 2
    assert 0 < line["accuracy"][-1] <= 100
    assert line["true_noise_ratio"] == pytest.approx(0.3, abs=0.1)
    assert json.loads(json.dumps(line)) == line


def test_only_methods_with_a_single_network_are_compared():
    found = all_methods()
    assert found[:2] == ["vanilla", "oracle"]
    assert {"label-memory", "elr", "mkl"} <= set(found) < set(METHODS)
    assert not {"co-teaching", "augdesc", "itlm", "beta-mixture"} & set(found)
    with pytest.raises(ValueError, match="must train a single network in one go, got co-teaching"):
        jobs(["vanilla", "co-teaching"], 1)


@pytest.mark.parametrize("network", ["encoder", "text-bag"])
def test_texts_are_trained_on(network, folder):
    job = Job(Setting(network, "texts", "symmetric", 0.4, 3), "vanilla", 1)
    once, again = ({**train(job, folder, "cpu"), "seconds": 0} for _ in range(2))
    assert once == again
    assert once["true_noise_ratio"] == pytest.approx(0.4, abs=0.15)


def test_sparse_rows_are_those_that_were_kept(folder):
    dense, sparse = (load(folder / f"perceptron-{form}.npz") for form in ("dense", "sparse"))
    assert torch.equal(dense.x, sparse.x)
    assert torch.equal(dense.x_test, sparse.x_test)


def test_labels_are_the_same_for_all_methods_and_differ_by_seed(folder):
    data = load(folder / "perceptron-dense.npz")
    setting = Setting("perceptron", "dense", "symmetric", 0.4, 1)
    one, other, third = (observed(Job(setting, m, s), data) for m, s in (("elr", 0), ("gce", 0), ("gce", 1)))
    assert torch.equal(one, other)
    assert not torch.equal(one, third)
    assert torch.equal(observed(Job(Setting("perceptron", "dense", *OWN, 1), "elr", 5), data), data.labels)


def test_methods_are_told_what_they_need():
    clean = torch.arange(10) < 7
    assert make_criterion("mkl", clean, 2, 0.3, 80).method.keep == pytest.approx(0.7)
    assert make_criterion("adaptive-k", clean, 2, 0.3, 80).warmup == 30
    assert make_criterion("label-memory", clean, 2, 0.3, 80).warmup == 0
    assert torch.equal(make_criterion("oracle", clean, 2, 0.3, 80).state_clean, clean)


def test_balanced_accuracy_is_the_mean_over_the_classes_that_occur():
    predicted, y = torch.tensor([0, 0, 0, 1]), torch.tensor([0, 0, 1, 1])
    assert accuracies(predicted, y, 3) == (0.75, 0.75)
    assert accuracies(predicted[:3], y[:3], 3) == pytest.approx((2 / 3, 0.5))


def test_the_learning_rate_of_fine_tuning_rises_and_falls():
    rates = [FineTuning(1.0, (3,), rising=0.1).learning_rate_at(step, 100, 0) for step in range(100)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] > 0.9
    assert rates[-1] == pytest.approx(0.01)
    assert NETWORKS["text-bag"].learning_rate_at(0, 1, 6) < NETWORKS["text-bag"].learning_rate_at(0, 1, 5)


@pytest.mark.parametrize("workers", [1, 2])
def test_what_is_done_is_not_done_again(workers, folder, tmp_path, capsys):
    out = tmp_path / "new" / "results.jsonl"
    wanted = [Job(Setting("perceptron", "dense", *OWN, 1), method, 0) for method in ("vanilla", "elr")]
    assert run_all(wanted[:1], folder, out, 1, options={"device": "cpu"}) == 0
    broken = Job(Setting("perceptron", "nowhere", *OWN, 1), "vanilla", 0)
    assert run_all([*wanted, broken], folder, out, workers, options={"device": "cpu"}) == 1
    assert "2 of 3 runs to do" in capsys.readouterr().out
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["method"] for line in lines] == ["vanilla", "elr"]
    assert [Job.from_dict(line) for line in lines] == wanted
    run_all(wanted, folder, out, 1, limit_s=0, options={"device": "cpu"})
    assert "0 of 2 runs to do" in capsys.readouterr().out
    # with other parameters it is another run
    lines[0]["version"] = "vanilla r0"
    out.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run_all(wanted, folder, out, 1, limit_s=0, options={"device": "cpu"})
    assert "0 done, 0 failed, 1 left" in capsys.readouterr().out


def test_the_grid_is_listed_and_filtered(capsys):
    real.main(["list", "--methods", "elr:strength=7", "--seeds", "2", "--pool", "development", "--epochs", "3"])
    found = [Job.from_dict(json.loads(line)) for line in capsys.readouterr().out.splitlines()]
    assert {job.setting.data for job in found} == {"sarcasm", "20newsgroups", "weak_agnews"}
    assert len(found) == len(set(found)) == 2 * (3 + 5 + 1)  # two seeds; 20, 40, 0 %, of news groups also directed
    assert len(jobs(["vanilla"], 1)) == len(list(settings())) == len(set(settings()))


def test_from_the_data_folder_to_the_page(tmp_path, monkeypatch):
    pyarrow = pytest.importorskip("pyarrow")
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers

    root, weights, out, page = tmp_path / "data", tmp_path / "weights/model", tmp_path / "out", tmp_path / "real.md"
    names = {"encoder": ("sarcasm",), "text-bag": ("sarcasm",)}
    names["perceptron"] = ("product_pairs_amt", "weak_sms", "cifar10n_worst", "cifar10n_aggregate")
    monkeypatch.setattr(real_prepare, "DATA", names)
    rng = np.random.default_rng(0)
    gold = rng.integers(0, 2, 150)
    texts = [f"{'a good' if y else 'the bad'} {'word ' * rng.integers(0, 30)}end" for y in gold]
    noisy = np.where(rng.random(150) < 0.2, 1 - gold, gold)
    spam = {"text": texts, "label": [("ham", "spam")[y] for y in noisy], "gold": [("ham", "spam")[y] for y in gold]}
    tables = {
        "sarcasm/train": {"text": texts, "label": gold},
        "real/weak_sms/train": spam,
        "real/weak_sms/test": {"text": texts[:9], "label": spam["gold"][:9]},
        "real/product_pairs_amt/train": {"near": gold + 0.1, "far": rng.normal(size=150), "text": texts,
                                         "label": noisy, "majority": gold, "gold": gold},
        "cifar10/train": {"img": [pixels(y, rng) for y in gold], "label": gold},
        "cifar10/test": {"img": [pixels(y, rng) for y in gold[:20]], "label": gold[:20]},
        "cifar10n/train": {"clean_label": gold, "worse_label": noisy, "aggre_label": gold},
    }  # fmt: skip
    for name, columns in tables.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pyarrow.parquet.write_table(pyarrow.table(columns), root / f"{name}.parquet")
    weights.mkdir(parents=True)
    save_file(tiny_bert().state_dict(), weights / "model.safetensors")
    torch.save(tiny_mobilenet(), weights / "mobilenetv2_tiny.pt")
    (weights / "config.json").write_text('{"num_attention_heads": 2}')
    words = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "a", "good", "the", "bad", "word", "end"])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(weights / "tokenizer.json"))
    monkeypatch.setattr(real_prepare, "LENGTHS", {"sarcasm": 8})

    assert real.main(["prepare", "--data-root", str(root), "--weights", str(weights.parent), "--out", str(out)]) == 0
    texts_of = load(out / "encoder-sarcasm.npz")
    assert texts_of.labels is None
    assert len(texts_of.y_test) == 15  # the share of the paper
    assert texts_of.x.shape[1] == 8
    long = texts_of.x[texts_of.x[:, -1] > 0]
    assert (long[:, -1] == words["end"]).all()  # the end of a long text is kept, and its beginning
    assert {words["a"], words["the"]} == set(long[:, 0].tolist())
    pairs = load(out / "perceptron-product_pairs_amt.npz")
    assert pairs.x.shape == (100, 2)  # neither text nor majority is a feature
    assert len(pairs.y_test) == 50
    assert float((pairs.labels != pairs.gold).float().mean()) == pytest.approx(0.2, abs=0.1)
    assert load(out / "perceptron-weak_sms.npz").x.shape[1] == len(words) - 3  # one letter is no word there

    worst, aggregate = (load(out / f"perceptron-cifar10n_{name}.npz") for name in ("worst", "aggregate"))
    assert worst.x.shape == (150, 6)
    assert torch.equal(worst.x, aggregate.x)
    assert torch.equal(aggregate.labels, aggregate.gold)
    order = [int(row) for row in np.flatnonzero(noisy != gold)]
    assert torch.nonzero(worst.labels != worst.gold).flatten().tolist() == order
    assert abs(np.corrcoef(worst.x[:, 0], worst.gold)[0, 1]) > 0.9  # features stand by the labels of their images

    results = tmp_path / "results"
    options = ["--folder", str(out), "--device", "cpu", "--seeds", "1", "--methods", "vanilla", "oracle", "elr"]
    options += ["--networks", "perceptron", "--data", "product_pairs_amt", "weak_sms"]
    assert real.main(["train", *options, "--out", str(results / "one.jsonl")]) == 0
    page.write_text((BENCHMARKS.parent / "docs/real.md").read_text())
    real.main(["table", "--results", str(results), "--page", str(page), "--human-labels", str(tmp_path / "none")])
    assert page.read_text().count("| `elr` |") == 4  # a summary and a table of each pool
    assert (tmp_path / "figures/real.svg").stat().st_size > 1_000


def pixels(bright: int, rng: np.random.Generator) -> dict[str, object]:
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(rng.integers(0, 60, (32, 32, 3), np.uint8) + np.uint8(150 * bright)).save(file, "PNG")
    return {"bytes": file.getvalue(), "path": None}


def tiny_mobilenet() -> dict[str, torch.Tensor]:
    """Its layers, each of a few channels."""
    generator, weights = torch.Generator().manual_seed(0), {}

    def layer(name: str, place: int, *shape: int) -> None:
        drawn = torch.rand(shape, generator=generator)  # above 0: a bright image has large features
        weights[f"{name}{place}.weight"] = drawn / drawn[0].sum()
        ones, zeros = torch.ones(shape[0]), torch.zeros(shape[0])
        values = {"weight": ones, "bias": zeros, "running_mean": zeros, "running_var": ones}
        weights.update({f"{name}{place + 1}.{part}": value for part, value in values.items()})

    layer("features.0.", 0, 4, 3, 3, 3)
    for block in range(1, 18):
        name = f"features.{block}.conv."
        shapes = [(8, 4, 1, 1), (8, 1, 3, 3), (4, 8, 1, 1)] if block > 1 else [(4, 1, 3, 3), (4, 4, 1, 1)]
        for place, shape in enumerate(shapes):
            layer(name, 3 * place, *shape)
    layer("features.18.", 0, 6, 4, 1, 1)
    return weights


@pytest.mark.gpu
@pytest.mark.parametrize("method", ["vanilla", "label-memory", "elr", "adaptive-k"])
@pytest.mark.parametrize(("network", "data"), [("perceptron", "dense"), ("text-bag", "texts")])
def test_a_recorded_step_is_the_step(network, data, method, folder):
    job = Job(Setting(network, data, *OWN, 6), method, 0)
    recorded, eager = (train(job, folder, "cuda", graph) for graph in (True, False))
    for key in ("accuracy", "averaged_accuracy", "noise_ratio"):
        assert recorded[key] == pytest.approx(eager[key], abs=1e-3)


def test_two_stages_are_run_once_and_tabled(folder, tmp_path, capsys):
    out = tmp_path / "results" / "lines.jsonl"
    options = ["--folder", str(folder), "--out", str(out), "--seeds", "0", "--device", "cpu"]
    options += ["--cells", "perceptron/dense", "--epochs", "1", "--audit-epochs", "1"]
    two_stages.main(["run", *options])
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert {line["way"] for line in lines} == set(two_stages.WAYS)
    assert all(0 <= line["accuracy"] <= 100 for line in lines)
    two_stages.main(["run", *options])
    assert len(out.read_text().splitlines()) == len(lines)
    plain = next(line for line in lines if line["way"] == "plain")
    other = {"network": "perceptron", "data": "dense", "noise": "own", "rate": 0.0, "epochs": 15, "method": "vanilla"}
    other["version"] = version("vanilla")
    real = tmp_path / "real"
    real.mkdir()
    rows = [other | {"seed": seed, "accuracy": [1.0, 50.0], "balanced": [1.0, 50.0]} for seed in (0, 1)]
    (real / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    capsys.readouterr()
    two_stages.main(["table", "--results", str(out.parent), "--real", str(real)])
    shown = capsys.readouterr().out
    assert f"| perceptron/dense | 1 | {plain['accuracy']:.1f} |" in shown  # one's own line counts, no seed is added
