"""Bits per character: a case computed by hand, and passages that no tokenizer decides."""

import math

import numpy as np
import pytest
import torch

from anaume.config import HeadConfig
from anaume.errors import DataError
from anaume.tokenization import Tokenizer
from benchmarks import held_words
from benchmarks.held_words import HeldWords, Passage, cut_passages
from helpers import make_tokenizer
from tiny_runs import tiny_bundle

TOKENIZER = make_tokenizer("the dog ##s cat sat . ,")


class Known(torch.nn.Module):
    """A model whose logits are the logarithms of given counts, at each place the next ones."""

    def __init__(self, counts, vocab_size):
        super().__init__()
        self.counts = torch.zeros(len(counts), vocab_size)
        for place, own in enumerate(counts):
            for token, count in own.items():
                self.counts[place, TOKENIZER.token_to_id(token)] = count

    def forward(self, token_ids, mask):
        self.seen = token_ids
        return self

    last_hidden_state = None

    def head_logits(self, name, states, mask, positions):
        self.positions = positions
        return (self.counts + 1e-30).log()[None]


class Fake:
    def __init__(self, model):
        self.model = model


def test_a_case_computed_by_hand():
    """ "the [dogs] sat, the [cat]": p(dog) 1/4, p(##s) 1/2, p(cat) 1/8: 2 + 1 + 3 bits over 4 + 3 characters."""
    text = "the dogs sat, the cat."
    passage = Passage(text, ((4, 8), (18, 21)))
    words = HeldWords([passage], TOKENIZER, max_length=16)
    model = Known([{"dog": 1, "cat": 3}, {"##s": 2, "the": 1, ".": 1}, {"cat": 1, "dog": 4, "the": 3}], 12)
    scores = words.score(Fake(model))
    assert (scores.words, scores.characters) == (2, 7)
    assert scores.bits_per_character == pytest.approx(6 / 7)
    assert scores.word_accuracy == 0.0
    assert model.positions.tolist() == [[2, 3, 7]]
    mask = TOKENIZER.mask_id
    assert model.seen[0].tolist() == [
        TOKENIZER.cls_id, TOKENIZER.token_to_id("the"), mask, mask, *map(TOKENIZER.token_to_id, ["sat", ",", "the"]),
        mask, TOKENIZER.token_to_id("."), TOKENIZER.sep_id,
    ]  # fmt: skip


def test_a_word_is_right_when_all_its_pieces_are():
    words = HeldWords([Passage("the dogs sat, the cat.", ((4, 8), (18, 21)))], TOKENIZER, max_length=16)
    for counts, share in (
        ([{"dog": 3, "cat": 1}, {"##s": 2}, {"dog": 1}], 0.5),
        ([{"dog": 3, "cat": 1}, {"the": 2}, {"cat": 1}], 0.5),
        ([{"dog": 3, "cat": 1}, {"##s": 2}, {"cat": 1}], 1.0),
    ):
        assert words.score(Fake(Known(counts, 12))).word_accuracy == share


def test_the_unigram_model_knows_how_often_pieces_occur():
    words = HeldWords([Passage("the dogs, the cat.", ((4, 8), (14, 17)))], TOKENIZER, max_length=16)
    counts = np.zeros(12, np.int64)
    for token, count in {"dog": 3, "##s": 1, "cat": 7, ",": 9}.items():
        counts[TOKENIZER.token_to_id(token)] = count
    total = 20 + 12  # one is added to each of twelve entries
    scores = words.unigram(counts)
    assert scores.bits_per_character == pytest.approx(-sum(math.log2(own / total) for own in (4, 2, 8)) / 7)
    assert scores.word_accuracy == 0.5, "it guesses the commonest word, cat, and no comma"


def test_a_uniform_model_needs_the_logarithm_of_the_vocabulary():
    texts = [f"the cat sat on the mat and the dog number {number} did not " * 12 for number in range(40)]
    tokenizer = Tokenizer.train(texts, vocab_size=80)
    bundle = tiny_bundle("mlm", vocab_size=tokenizer.vocab_size, max_position_embeddings=256)
    for parameter in bundle.model.parameters():
        torch.nn.init.zeros_(parameter)
    passages = cut_passages(texts)
    words = HeldWords(passages, tokenizer, max_length=256)
    expected = math.log2(tokenizer.vocab_size) * sum(map(len, words._answers)) / words.characters
    assert words.words > 50
    assert words.score(Fake(bundle.model)).bits_per_character == pytest.approx(expected, rel=1e-5)


def test_a_model_is_scored_alike_whatever_stands_in_its_batch(monkeypatch):
    texts = ["the cat sat, the dogs sat. the dog sat the cat, " * 10, "dogs dogs dogs cat " * 20]
    words = HeldWords(cut_passages(texts), TOKENIZER, max_length=128)
    bundle = tiny_bundle("mlm", vocab_size=TOKENIZER.vocab_size, max_position_embeddings=128)
    whole = words.score(bundle)
    monkeypatch.setattr(held_words, "AT_ONCE", 1)
    assert words.score(bundle).bits_per_character == pytest.approx(whole.bits_per_character, rel=1e-5)


def test_passages_are_fixed_and_about_the_promised_size():
    texts = [" ".join(f"word{number * step % 97}" for step in range(1, 500)) + "." for number in range(40)]
    passages = cut_passages(texts)
    assert passages == cut_passages(list(reversed(texts)))
    assert 150 < len(passages) <= 40 * 9
    words = [len(passage.text.split()) for passage in passages]
    assert max(words) == 60
    assert min(words) >= 30
    hidden = sum(len(passage.hidden) for passage in passages)
    assert 0.13 < hidden / sum(words) < 0.17
    assert len(cut_passages(texts, most=10)) == 10
    assert cut_passages(texts, most=10) == passages[:10]


def test_only_plain_words_are_hidden(monkeypatch):
    monkeypatch.setattr(held_words, "HIDDEN", 1.1)
    text = "Plain words, <unk> naïve snake_case ３ unk 42 " * 5
    (passage,) = cut_passages([text])
    shown = {passage.text[begin:end] for begin, end in passage.hidden}
    assert shown == {"Plain", "words", "unk", "42"}
    assert all(passage.text[begin - 1] != "<" for begin, end in passage.hidden if passage.text[begin:end] == "unk")


def test_what_a_vocabulary_cannot_spell_or_a_model_cannot_see_is_refused():
    passage = Passage("the bird.", ((4, 8),))
    with pytest.raises(DataError, match="can't spell the held-out word 'bird'"):
        HeldWords([passage], TOKENIZER, max_length=16)
    with pytest.raises(DataError, match="has 8 tokens, and the model was trained on 7"):
        HeldWords([Passage("the dogs sat, the", ((4, 8),))], TOKENIZER, max_length=7)


def test_a_bundle_is_scored_in_evaluation_mode():
    bundle = tiny_bundle("mlm", vocab_size=TOKENIZER.vocab_size, hidden_dropout=0.5)
    bundle.model.train()
    words = HeldWords([Passage("the dogs sat, the cat.", ((4, 8), (18, 21)))], TOKENIZER, max_length=16)
    assert words.score(bundle) == words.score(bundle)
    assert HeadConfig(kind="mlm") in bundle.model.head_configs.values()
