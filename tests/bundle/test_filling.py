"""Filling blanks and scoring texts, on a tiny model whose numbers are worked out by hand from its own logits."""

from __future__ import annotations

import copy
import math
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from anaume import Bundle, BundleError, DataError, EncoderConfig, SettingsError, Tokenizer
from anaume.config import EmbeddingConfig
from anaume.errors import AnaumeWarning

TEXTS = ["the dog is cute", "the cat is small", "my dog plays", "dogs and cats play outside"]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    tokenizer = Tokenizer.train(TEXTS * 3, vocab_size=120)
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=16, num_hidden_layers=1, num_attention_heads=2)
    made = Bundle.new(tokenizer, config, heads=["mlm"], seed=3)
    with torch.no_grad():
        for parameter in made.model.parameters():
            parameter.mul_(8.0)  # fresh weights are nearly uniform
    return made


def log_probabilities(bundle: Bundle, token_ids: list[int], place: int) -> torch.Tensor:
    model = bundle.model.eval()
    with torch.no_grad():
        states = model(torch.tensor([token_ids]), None).last_hidden_state
        return model.head_logits("mlm", states, None)[0, place].log_softmax(-1)


def test_a_blank_gets_the_head_s_most_probable_tokens(bundle: Bundle) -> None:
    filled = bundle.fill("the [MASK] is cute", top_k=4)
    tokenizer = bundle.tokenizer
    ids = tokenizer.encode("the dog is cute").token_ids
    place = ids.index(tokenizer.encode("dog").token_ids[1])
    expected = log_probabilities(bundle, [*ids[:place], tokenizer.mask_id, *ids[place + 1 :]], place)
    expected[:5] = -math.inf  # special tokens are no answers
    best = expected.topk(4)
    (blank,) = filled.blanks
    assert blank.place == 4
    assert [guess.tokens for guess in blank.guesses] == [(tokenizer.vocab[i],) for i in best.indices.tolist()]
    assert [guess.probability for guess in blank.guesses] == pytest.approx(best.values.exp().tolist(), rel=1e-4)
    assert filled.best == f"the {blank.guesses[0].text} is cute"


def test_several_blanks_are_guessed_with_the_others_hidden(bundle: Bundle) -> None:
    filled = bundle.fill("[MASK] dog [MASK]")
    tokenizer = bundle.tokenizer
    ids = [
        tokenizer.cls_id,
        tokenizer.mask_id,
        *tokenizer.encode("dog").token_ids[1:-1],
        tokenizer.mask_id,
        tokenizer.sep_id,
    ]
    assert [blank.place for blank in filled.blanks] == [0, 11]
    for blank, place in zip(filled.blanks, (1, len(ids) - 2), strict=True):
        token_id = tokenizer.token_to_id(blank.guesses[0].tokens[0])
        assert blank.guesses[0].probability == pytest.approx(
            math.exp(log_probabilities(bundle, ids, place)[token_id]), rel=1e-4
        )


def test_words_of_several_pieces_are_one_word_and_have_the_product_of_their_pieces(bundle: Bundle) -> None:
    filled = bundle.fill("the [MASK] is cute", top_k=200, max_pieces=2)
    pairs = [guess for guess in filled.blanks[0].guesses if len(guess.tokens) == 2]
    assert pairs
    tokenizer = bundle.tokenizer
    for guess in pairs[:5]:
        first, second = (tokenizer.token_to_id(token) for token in guess.tokens)
        assert not guess.tokens[0].startswith("##")
        assert guess.tokens[1].startswith("##")
        assert guess.text == guess.tokens[0] + guess.tokens[1][2:]
        frame = tokenizer.encode("the is cute").token_ids
        hidden = [*frame[:2], tokenizer.mask_id, tokenizer.mask_id, *frame[2:]]
        half = [*frame[:2], first, tokenizer.mask_id, *frame[2:]]
        expected = log_probabilities(bundle, hidden, 2)[first] + log_probabilities(bundle, half, 3)[second]
        assert guess.probability == pytest.approx(math.exp(expected), rel=1e-3)
    probabilities = [guess.probability for guess in filled.blanks[0].guesses]
    assert probabilities == sorted(probabilities, reverse=True)


def test_only_the_given_words_are_ranked(bundle: Bundle) -> None:
    filled = bundle.fill("the [MASK] is cute", candidates=["dog", "cat", "dogs"])
    assert {guess.text for guess in filled.blanks[0].guesses} == {"dog", "cat", "dogs"}
    free = {guess.text: guess.probability for guess in bundle.fill("the [MASK] is cute", top_k=200).blanks[0].guesses}
    for guess in filled.blanks[0].guesses:
        if len(guess.tokens) == 1:
            assert guess.probability == pytest.approx(free[guess.text], rel=1e-4)


def test_a_score_is_the_sum_of_each_token_s_log_probability_with_it_alone_hidden(bundle: Bundle) -> None:
    score = bundle.score("the dog is cute")
    ids = bundle.tokenizer.encode("the dog is cute").token_ids
    expected = []
    for place in range(1, len(ids) - 1):
        hidden = [*ids[:place], bundle.tokenizer.mask_id, *ids[place + 1 :]]
        expected.append(float(log_probabilities(bundle, hidden, place)[ids[place]]))
    assert list(score.log_probabilities) == pytest.approx(expected, abs=1e-4)
    assert score.total == pytest.approx(sum(expected), abs=1e-4)
    assert score.perplexity == pytest.approx(math.exp(-np.mean(expected)), rel=1e-4)
    assert bundle.score("").perplexity == 1.0


@pytest.mark.parametrize(
    ("text", "options", "error", "says"),
    [
        ("no blank here", {}, DataError, r"no blank to fill: write \[MASK\]"),
        ("the [MASK]", {"top_k": 0}, SettingsError, "at least 1"),
        ("the [MASK]", {"candidates": []}, SettingsError, "at least one word"),
        ("the [MASK]", {"candidates": ["犬"]}, DataError, "can't spell the candidate '犬'"),
        ("dog " * 600 + "[MASK]", {}, DataError, "and the model takes 512: shorten it"),
    ],
)
def test_what_can_t_be_filled_is_refused(
    bundle: Bundle, text: str, options: dict[str, object], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        bundle.fill(text, **options)


def test_a_bundle_without_the_head_says_what_it_has() -> None:
    tokenizer = Tokenizer.train(TEXTS, vocab_size=80)
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8, num_hidden_layers=1)
    with pytest.raises(SettingsError, match="needs a masked-word head, and this bundle has: none"):
        Bundle.new(tokenizer, config).fill("the [MASK]")


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (None, {}, "the text must be a string; got NoneType"),
        (["the [MASK]"], {}, "the text must be a string; got list"),
        ("the [MASK]", {"top_k": 2.5}, "top_k must be a whole number and at least 1; got 2.5"),
        ("the [MASK]", {"max_pieces": "2"}, "max_pieces must be a whole number and at least 1; got '2'"),
        ("the [MASK]", {"candidates": "dog"}, "candidates must be a list of words; got 'dog'"),
        ("the [MASK]", {"candidates": 3}, "candidates must be a list of words; got 3"),
    ],
)
def test_arguments_of_another_type_are_refused(bundle: Bundle, text: Any, options: dict[str, Any], says: str) -> None:
    """A single word would be taken for its letters."""
    with pytest.raises(SettingsError, match=says):
        bundle.fill(text, **options)


def test_candidates_may_come_one_by_one(bundle: Bundle) -> None:
    words = ["dog", "cat"]
    filled = bundle.fill("[MASK] and [MASK]", candidates=words)
    assert bundle.fill("[MASK] and [MASK]", candidates=(word for word in words)) == filled
    assert bundle.fill("[MASK] and [MASK]", candidates=np.array(words)) == filled


def test_no_rows_have_no_log_probabilities(bundle: Bundle) -> None:
    assert bundle.token_log_probabilities([], []).shape == (0, bundle.config.vocab_size)


def test_weights_that_give_no_numbers_are_refused(bundle: Bundle) -> None:
    broken = copy.deepcopy(bundle)
    with torch.no_grad():
        broken.model.embeddings.layer_norm.weight.fill_(float("nan"))
    for use in (lambda: broken.fill("the [MASK]"), lambda: broken.score("the dog")):
        with pytest.raises(BundleError, match="gives NaN or infinite numbers for"):
            use()


def test_a_text_longer_than_the_rows_is_said(bundle: Bundle) -> None:
    short = Bundle(replace(bundle.parts, embedding=EmbeddingConfig(max_length=8)), device="cpu")
    calls = (lambda text: short.fill(f"{text} [MASK]"), lambda text: short.score(f"{text} cat"))
    for call in calls:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            call("dog " * 5)
        with pytest.warns(AnaumeWarning, match="has 9 tokens, and rows of this bundle have 8") as told:
            call("dog " * 6)
        assert told[0].filename == __file__
