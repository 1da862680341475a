"""The network for texts: against plain NumPy, stacked against alone, and what it can learn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch.func import functional_call, grad, stack_module_state, vmap

from adaptivek.experiments.data import Split
from adaptivek.experiments.session import Session
from adaptivek.experiments.spec import Recipe, RunSpec
from adaptivek.networks import make_model
from adaptivek.networks.dropout import draw_keys, set_keys

LENGTH, VOCABULARY, CLASSES = 7, 30, 3


def texts(rows: int, seed: int = 0) -> torch.Tensor:
    """Token numbers with padding behind, from one word to all."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(1, VOCABULARY, (rows, LENGTH), generator=generator, dtype=torch.int32)
    lengths = torch.randint(1, LENGTH + 1, (rows, 1), generator=generator)
    return tokens * (torch.arange(LENGTH) < lengths)


def test_it_is_a_weighted_sum_of_words():
    model, x = make_model("text-bag", VOCABULARY, CLASSES), texts(5)
    torch.nn.init.normal_(model.words.weight)
    torch.nn.init.normal_(model.importance.weight)
    words, importance, matrix, bias = (p.detach().numpy() for p in model.parameters())
    for row, logits in zip(x.numpy(), model(x).detach().numpy(), strict=True):
        weights = {token: np.exp(importance[token, 0]) for token in row if token}
        norm = np.sqrt(sum(weights[token] ** 2 for token in row if token))
        pooled = sum(weights[token] / norm * words[token] for token in row if token)
        np.testing.assert_allclose(logits, matrix @ pooled + bias, rtol=1e-4, atol=1e-5)


def test_rare_words_weigh_more_from_the_start():
    assert (make_model("text-bag", VOCABULARY, CLASSES).importance.weight.diff(dim=0) > 0).all()


def test_padding_changes_nothing_and_nothing_but_padding_is_finite():
    model, x = make_model("text-bag", VOCABULARY, CLASSES), texts(5)
    longer = F.pad(x, (0, 4))
    torch.testing.assert_close(model(longer), model(x))
    empty = model(torch.zeros(2, 3, dtype=torch.int32))
    torch.testing.assert_close(empty, model.out.bias.expand(2, -1))
    empty.sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters())


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_stacked_runs_equal_single_ones(dtype):
    """Parameters and inputs both stacked, logits and gradients."""
    models = [make_model("text-bag", VOCABULARY, CLASSES) for _ in range(3)]
    parameters, _ = stack_module_state(models)
    x = torch.stack([texts(6, seed) for seed in range(3)]).to(dtype)
    y = torch.arange(18).view(3, 6) % CLASSES

    def loss(weights, tokens, labels):
        return F.cross_entropy(functional_call(models[0], weights, (tokens,)), labels)

    with torch.no_grad():
        logits = vmap(lambda weights, tokens: functional_call(models[0], weights, (tokens,)))(parameters, x)
    gradients = vmap(grad(loss))(parameters, x, y)
    for run, model in enumerate(models):
        found = model(x[run])
        torch.testing.assert_close(logits[run], found)
        F.cross_entropy(found, y[run]).backward()
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(gradients[name][run], parameter.grad)


def test_words_are_left_out_while_training_only():
    """With half of the words at each step, drawn by the key; what is kept is scaled to length 1 as ever."""
    dropped, plain = (make_model(name, VOCABULARY, CLASSES) for name in ("text-bag-dropout", "text-bag"))
    x = texts(6)
    torch.nn.init.normal_(plain.words.weight)
    dropped.load_state_dict(plain.state_dict())
    torch.testing.assert_close(dropped.eval()(x), plain(x))
    dropped.train()
    torch.testing.assert_close(_with_key(dropped, x, 1), _with_key(dropped, x, 1))
    assert (_with_key(dropped, x, 1) != _with_key(dropped, x, 2)).any()
    one_word = x.clone()
    one_word[:, 1:] = 0
    texts_of_one = torch.stack([_with_key(dropped, one_word, number) for number in range(400)])
    left_out = (texts_of_one == dropped.out.bias).all(-1).float().mean()
    assert 0.45 < left_out < 0.55


def _with_key(model, x, number):
    set_keys(model, draw_keys(1, 1, np.random.default_rng(number))[0])
    return model(x)


def test_a_wide_bag_has_more_numbers_a_word():
    assert make_model("text-bag-wide", VOCABULARY, CLASSES).words.weight.shape == (VOCABULARY, 128)


@pytest.mark.parametrize("network", ["text-bag", "text-bag-dropout", "text-bag-wide"])
def test_a_session_learns_which_word_decides(network):
    x = texts(400)
    x = torch.where(x > 0, x.clamp(min=5), 0)
    x[:, 0] = torch.arange(400) % CLASSES + 2
    y = (torch.arange(400) % CLASSES).long()
    data = Split(x[:300], y[:300], x[300:], y[300:], CLASSES, VOCABULARY)
    recipe = Recipe(network, epochs=4, warmup_epochs=2, optimizer="adam", learning_rate=0.02)
    records = list(Session(RunSpec("texts", "vanilla", recipe=recipe), data, "cpu"))
    assert records[-1].test_accuracy > 0.9


def test_noise_by_what_a_text_looks_like_is_refused():
    x, y = texts(60), torch.arange(60) % CLASSES
    data = Split(x, y, x, y, CLASSES, VOCABULARY)
    spec = RunSpec("sarcasm", noise="instance", noise_rate=0.3, recipe=Recipe(network="text-bag"))
    with pytest.raises(ValueError, match="noise must not be instance for texts"):
        Session(spec, data, "cpu")
