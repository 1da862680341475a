"""Texts to numbers of words."""

from __future__ import annotations

from adaptivek.support.text import LENGTH, tokenise, words


def test_of_long_texts_the_ends_are_kept():
    long = [f"w{i}" for i in range(LENGTH + 50)]
    x, _, _ = tokenise([" ".join(long), " ".join(long)], ["w0"])
    numbers = {word: number for number, word in enumerate(sorted(long), 2)}
    half = LENGTH // 2
    assert x[0].tolist() == [numbers[word] for word in long[:half] + long[-half:]]


def test_length_follows_most_texts():
    x, x_test, _ = tokenise(["a b c"] * 500 + ["a " * 200], ["a " * 200, ""])
    assert x.shape == (501, 3)
    assert x_test.tolist() == [[2, 2, 2], [1, 0, 0]]


def test_words():
    assert words("Don't STOP, Zoë -- now?!") == ["don't", "stop", "zoë", "now", "?", "!"]
