"""A head that has learned every label, on public data: what the pieces and windows leave of the entities."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from anaume.data.labelled import TaggedExample, read_tagged
from anaume.errors import AnaumeWarning
from anaume.tasks.ner import Ner, spans_of
from anaume.tokenization import Tokenizer
from helpers import public_data
from tiny_tags import taught

pytestmark = pytest.mark.real


def scores(task: Ner, examples: list[TaggedExample], tokenizer: Tokenizer, max_length: int) -> dict[str, object]:
    features = task.features(examples, tokenizer, max_length, learn=True)
    predictions = task.decode(taught(features, len(task.head.labels)), features, examples)
    assert [one.words for one in predictions] == [one.words for one in examples]
    return task.score(predictions, examples)


@pytest.fixture(scope="module")
def cased() -> Tokenizer:
    return Tokenizer.from_vocab(public_data("vocab/bert-base-cased-vocab.txt"), lower_case=False)


@pytest.mark.parametrize("max_length", [512, 32])
def test_conll_testa(cased: Tokenizer, max_length: int) -> None:
    """IOB1, a third of the sentences in windows of 30 pieces; 5,942 entities, as published."""
    examples = list(read_tagged(public_data("conll2003/eng.testa.gz")))
    assert len(examples) == 3250
    task = Ner.fit(examples)
    assert task.scheme == "iob1"
    found = scores(task, examples, cased, max_length)
    assert (found["f1"], found["accuracy"], found["entities"], found["words"]) == (1.0, 1.0, 5942, 51_362)
    assert found["strict"]["f1"] == 1.0  # type: ignore[index]


def test_parts_of_speech_are_plain_tags(cased: Tokenizer) -> None:
    examples = list(read_tagged(public_data("conll2003/eng.testa.gz"), tags=2))
    task = Ner.fit(examples)
    assert (task.scheme, task.main) == ("plain", "accuracy")
    found = scores(task, examples, cased, 64)
    assert (found["accuracy"], found["words"]) == (1.0, 51_362)
    commonest = max(Counter(tag for example in examples for tag in example.tags or ()).values())
    assert found["majority"] == commonest / 51_362


@pytest.fixture(scope="module")
def japanese() -> list[TaggedExample]:
    examples = list(read_tagged(public_data("ner_wikipedia_ja/ner.json.gz")))
    assert sum(len(spans_of(one.tags or ())) for one in examples) == 13_185
    return random.Random(0).sample(examples, 1500)


def test_japanese_characters_tell_every_entity(japanese: list[TaggedExample]) -> None:
    vocab = public_data("vocab/deberta-v2-large-japanese-char-wwm/vocab.txt")
    tokenizer = Tokenizer.from_vocab(vocab, subwords="character", nfkc=True, lower_case=False)
    assert scores(Ner.fit(japanese), japanese, tokenizer, 128)["f1"] == 1.0


def test_mecabs_words_leave_out_what_ends_within_one_and_say_so(japanese: list[TaggedExample]) -> None:
    pytest.importorskip("fugashi")
    vocab = public_data("vocab/bert-base-japanese-v3/vocab.txt")
    tokenizer = Tokenizer.from_vocab(vocab, words="mecab", lower_case=False)
    with pytest.warns(AnaumeWarning, match=r"^(\d+) of 3,\d+ entities can't be learned as they are tagged") as said:
        found = scores(Ner.fit(japanese), japanese, tokenizer, 128)
    lost = int(str(said[0].message).split()[0])
    lenient: dict[str, int] = found["lenient"]  # type: ignore[assignment]
    assert lenient["fn"] == lost
    assert 0 < lost < 0.03 * lenient["tp"]
