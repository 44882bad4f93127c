"""Probes: the vector of a word is its first piece's, kinds are chosen by training rows only, and real sets run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from benchmarks.frozen import kinds_of, text_vectors, word_vectors
from benchmarks.probes import QUICK, Labels, Task, baselines, commonest_of_word, probe
from helpers import public_data
from tiny_runs import tiny_bundle

SENTENCES = [["my", "dogs", "is", "open"], ["the", "bank", "of", "the", "river"], ["cat"]]


def logistic(strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength)


def task(labels: Labels, *strengths: float) -> Task:
    return Task("test", labels, len(labels) // 2, strengths, 0, lambda guesses: {})


def test_the_vector_of_a_word_is_that_of_its_first_piece() -> None:
    bundle = tiny_bundle()
    found = word_vectors(bundle, SENTENCES)
    assert found.shape == (4, 10, 16)
    assert kinds_of(bundle) == ["token table", "layer 1", "layer 2", "mean of layers"]
    (said,) = bundle.hidden_states(["my dogs is open"], layers=[1, 2])
    assert said.tokens == ("[CLS]", "my", "dog", "##s", "is", "open", "[SEP]")
    np.testing.assert_allclose(found[1:3, :4], said.vectors[:, [1, 2, 4, 5]], atol=1e-5)
    np.testing.assert_allclose(found[3], found[1:3].mean(axis=0), atol=1e-6)
    table = bundle.model.embeddings.token_embeddings.weight.detach().numpy()
    np.testing.assert_array_equal(found[0, 9], table[bundle.tokenizer.token_to_id("cat")])


def test_a_sentence_too_long_is_cut_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["cat", "dog"] * 30  # the tiny bundle takes 38 pieces
    assert word_vectors(tiny_bundle(), [words]).shape == (4, 60, 16)
    assert "cut at 1 places" in capsys.readouterr().err


def test_a_word_without_a_piece_is_named() -> None:
    with pytest.raises(ValueError, match=r"no piece for the word '\\x00'"):
        word_vectors(tiny_bundle(), [["my", "\0", "dog"]])


def test_the_vector_of_a_text_is_the_mean_of_its_tokens(capsys: pytest.CaptureFixture[str]) -> None:
    bundle = tiny_bundle()
    found = text_vectors(bundle, ["my dogs is open", "cat " * 50])
    (said,) = bundle.hidden_states(["my dogs is open"], layers=[2])
    np.testing.assert_allclose(found[2, 0], said.vectors[0].mean(axis=0), atol=1e-5)
    assert "1 of 2" in capsys.readouterr().err


def test_the_kind_is_chosen_on_the_second_half_and_fitted_on_both() -> None:
    chance = np.random.default_rng(0)
    labels = chance.integers(0, 2, 400)
    telling = labels[:, None] + 0.3 * chance.normal(size=(400, 3))
    cheating = np.where(np.arange(400)[:, None] < 200, labels[:, None], chance.normal(size=(400, 3)))  # first half only
    kind, model = task(labels, 1.0).fit({4: chance.normal(size=(400, 3)), 7: telling, 9: cheating}, logistic)
    assert kind == 7
    np.testing.assert_array_equal(model.coef_, logistic(1.0).fit(telling, labels).coef_)


def test_the_commonest_tag_of_a_word() -> None:
    labels = np.array([2, 2, 1, 3, 2])
    assert commonest_of_word([["The", "the", "the"], ["cat", "x"]], labels, [["THE", "Cat", "new"]]).tolist() == [
        2,
        3,
        2,
    ]


@pytest.mark.real
def test_real_sets_are_probed_and_the_same_numbers_come_again() -> None:
    public_data("conll2003")
    bundle = tiny_bundle()
    found = probe(bundle, QUICK)
    assert [(one.task, one.by == "token table") for one in found] == [
        (task, static) for task in ("pos", "entities", "sst2") for static in (True, False)
    ]
    assert found == probe(bundle, QUICK)
    scores = {(one.task, one.by): one.scores["accuracy"].value for one in baselines(QUICK)}
    assert scores["pos", "commonest tag of the word"] > scores["pos", "commonest label"]
