"""Texts through a sentence encoder before they are audited."""

from __future__ import annotations

import json
import pickle
import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

import adaptivek
from adaptivek.auditing import text_embeddings
from adaptivek.auditing.sources import load
from adaptivek.cli import main

CLASSES = {"no": ["bad", "awful", "poor", "nasty"], "yes": ["good", "great", "lovely", "nice"]}
OTHER = ["it", "was", "a", "film", "in", "town"]


@pytest.fixture(scope="module")
def library() -> ModuleType:
    """Takes seconds to import, so not before it is needed."""
    found: ModuleType = pytest.importorskip("sentence_transformers")
    return found


@pytest.fixture(scope="module")
def encoder(library: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT that has learned nothing, its token vectors averaged."""
    from sentence_transformers.base.modules import Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling
    from transformers import BertConfig, BertModel, BertTokenizerFast

    folder = tmp_path_factory.mktemp("encoder")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *CLASSES["no"], *CLASSES["yes"], *OTHER]
    (folder / "vocab.txt").write_text("\n".join(words))
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    with torch.random.fork_rng([]):
        torch.manual_seed(0)
        bert = BertModel(BertConfig(vocab_size=len(words), max_position_embeddings=32, **size))
    bert.save_pretrained(folder / "bert")
    BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder / "bert")
    parts = [Transformer(str(folder / "bert")), Pooling(32, "mean")]
    library.SentenceTransformer(modules=parts, device="cpu").save(str(folder / "whole"))
    return folder / "whole"


def made(rows: int = 600, rate: float = 0.2) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Texts, their labels, and which of these are noisy."""
    rng = np.random.default_rng(0)
    true = rng.integers(0, 2, rows)
    names = list(CLASSES)
    texts = [" ".join(rng.permutation([*rng.choice(CLASSES[names[y]], 3), *rng.choice(OTHER, 4)])) for y in true]
    noisy = rng.random(rows) < rate
    return texts, np.array(names)[np.where(noisy, 1 - true, true)], noisy


def test_inputs_are_the_embeddings_of_the_library_scaled(library, encoder, monkeypatch):
    texts, labels, _ = made(50)
    texts[7] = "..."
    monkeypatch.setattr(text_embeddings, "AT_ONCE", 20)
    told: list[tuple[int, int]] = []
    data = text_embeddings.embed_texts(load(texts, labels), encoder, "cpu", lambda *n: told.append(n))
    expected = library.SentenceTransformer(str(encoder), device="cpu").encode(texts[:7] + texts[8:])
    assert told == [(20, 49), (40, 49), (49, 49)]
    assert data.inputs == 32
    np.testing.assert_allclose(data.fetch(np.arange(49)), StandardScaler().fit_transform(expected), atol=1e-4)


def test_noisy_labels_are_found_and_the_rest_is_as_with_texts(encoder, tmp_path):
    texts, labels, noisy = made()
    texts[3] = ""
    result = adaptivek.audit(texts, labels, encoder=encoder, folder=tmp_path, device="cpu")
    assert roc_auc_score(np.delete(noisy, 3), -result.score) > 0.97
    assert result.skipped == [(3, "empty text")]
    assert result.warnings == []
    assert result.settings["encoder"] == str(encoder)
    assert (result.settings["kind"], result.settings["model"]) == ("text", "linear + words")
    assert texts[4] in (tmp_path / "report.html").read_text()
    assert len(pd.read_csv(tmp_path / "clean.csv")) == 600 - result.is_issue.sum()


def test_stopped_and_gone_on_with_the_same_encoder_only(encoder, tmp_path):
    texts, labels, _ = made(200)
    asked = {"epochs": 6, "device": "cpu"}
    whole = adaptivek.audit(texts, labels, encoder=encoder, **asked)

    def stop(done: int, total: int) -> None:
        if done > total / 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        adaptivek.audit(texts, labels, encoder=encoder, folder=tmp_path / "out", progress=stop, **asked)
    shutil.copytree(encoder, tmp_path / "other")
    for other in (None, tmp_path / "other"):
        with pytest.raises(ValueError, match="other data or settings"):
            adaptivek.audit(texts, labels, encoder=other, folder=tmp_path / "out", resume=True, **asked)
    resumed = adaptivek.audit(texts, labels, encoder=encoder, folder=tmp_path / "out", resume=True, **asked)
    np.testing.assert_array_equal(resumed.score, whole.score)


def test_as_a_command(encoder, tmp_path, monkeypatch, capsys):
    texts, labels, _ = made(200)
    pd.DataFrame({"review": texts, "sentiment": labels}).to_csv(tmp_path / "reviews.csv", index=False)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "500")
    command = ["audit", "reviews.csv", "--label", "sentiment", "--device", "cpu", "--epochs", "2"]
    main([*command, "--encoder", str(encoder), "--out", "out"])
    settings = json.loads((tmp_path / "out/summary.json").read_text())["settings"]
    assert (settings["encoder"], settings["text"], settings["network"]) == (str(encoder), "review", "mlp")
    with pytest.raises(SystemExit) as stopped:
        main([*command, "--encoder", str(tmp_path / "gone"), "--out", "none"])
    assert stopped.value.code == 2
    assert "gone cannot be loaded" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_only_texts_are_encoded(encoder):
    with pytest.raises(ValueError, match=r"encoder must be left out where the data are not texts, got .* for features"):
        adaptivek.audit(np.zeros((30, 2)), [0, 1] * 15, encoder=encoder)


@pytest.mark.parametrize("name", ["", "empty", "file", "gone/gone/gone"])
def test_what_is_no_encoder_is_an_error(name, library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("no encoder")
    with pytest.raises(ValueError, match=f"audit: encoder must be the folder .*; {name} cannot be loaded: .+"):
        text_embeddings.load_encoder(name, "cpu")


def test_encoders_bring_numbers_only(encoder, tmp_path):
    """Neither code beside them is run, nor what a pickle would call."""
    ran = tmp_path / "ran"
    shutil.copytree(encoder, tmp_path / "code")
    (tmp_path / "code/mine.py").write_text(f"open({str(ran)!r}, 'w').close()\nclass Mine: pass\n")
    (tmp_path / "code/modules.json").write_text('[{"idx": 0, "name": "0", "path": "", "type": "mine.Mine"}]')

    class Call:
        def __reduce__(self) -> tuple[object, tuple[str, str]]:
            return open, (str(ran), "w")

    shutil.copytree(encoder, tmp_path / "pickled")
    (tmp_path / "pickled/model.safetensors").unlink()
    (tmp_path / "pickled/pytorch_model.bin").write_bytes(pickle.dumps(Call()))
    for folder, reason in (("code", "mine.Mine"), ("pickled", "safetensors")):
        with pytest.raises(ValueError, match=f"cannot be loaded: .*{reason}"):
            text_embeddings.load_encoder(tmp_path / folder, "cpu")
    assert not ran.exists()


def test_numbers_that_are_none_are_an_error(monkeypatch):
    nothing = SimpleNamespace(encode=lambda texts, **_: np.full((len(texts), 2), np.nan))
    monkeypatch.setattr(text_embeddings, "load_encoder", lambda name, device: nothing)
    with pytest.raises(ValueError, match="finite numbers, got NaN or infinite ones from broken"):
        adaptivek.audit(*made(20)[:2], encoder="broken")


@pytest.mark.parametrize("found", [None, SimpleNamespace(__version__="5.7.1")])
def test_without_the_library_or_with_one_too_old(found, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentence_transformers", found)
    with pytest.raises(ImportError, match=r"pip install 'adaptivek\[encoder\]'"):
        adaptivek.audit(*made(20)[:2], encoder="any")


def test_where_nothing_is_learned_from_texts_an_encoder_is_named(encoder):
    texts, labels = made(300)[0], np.random.default_rng(1).integers(0, 2, 300)
    for chosen, named in ((None, True), (encoder, False)):
        warning = adaptivek.audit(texts, labels, encoder=chosen, epochs=3, device="cpu").warnings[0]
        assert "learned next to nothing" in warning
        assert ("--encoder" in warning) is named
