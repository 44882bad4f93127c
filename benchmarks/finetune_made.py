"""Made-up examples of every task and a tiny bundle: what `--quick` and the tests run on, without any data."""

from __future__ import annotations

import random
from typing import Any

from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig, EncoderConfig
from anaume.data.labelled import Answer, ChoiceExample, QuestionExample, TaggedExample, TextExample
from anaume.data.labelled.conll import joined
from anaume.tokenization import Tokenizer

KINDS = ("pair-classification", "regression", "ner", "classification", "question-answering", "multiple-choice")
TRAIN, DEV = 24, 12

_THINGS = ("cat", "dog", "ship", "house", "river", "garden")
_NAMES = ("Anna", "Ben", "Clara", "David")
_CITIES = ("Paris", "Kyoto", "Oslo", "Rome")
_GOOD, _BAD = ("fine", "lovely"), ("dull", "sad")


def examples(kind: str) -> tuple[list[Any], list[Any]]:
    """Return examples of a task to learn from, and to score on."""
    draw = random.Random(kind)
    made = [_example(kind, number, draw) for number in range(TRAIN + DEV)]
    return made[:TRAIN], made[TRAIN:]


def bundle() -> Bundle:
    """Return an encoder of one layer, always the same, whose vocabulary holds these examples' words."""
    words = " ".join([*_THINGS, *_NAMES, *_CITIES, *_GOOD, *_BAD, "a the is and lives in where does live"])
    tokenizer = Tokenizer.train([words] * 3, vocab_size=200)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, **shape)  # type: ignore[arg-type]
    return Bundle.new(tokenizer, config, embedding=EmbeddingConfig(max_length=48))


def _example(kind: str, number: int, draw: random.Random) -> Any:
    thing, name, city = draw.choice(_THINGS), draw.choice(_NAMES), draw.choice(_CITIES)
    place, right = f"made {number + 1}", bool(number % 2)
    if kind == "classification":
        word = draw.choice(_GOOD if right else _BAD)
        return TextExample(place=place, text=f"the {thing} is {word}", label="good" if right else "bad")
    if kind == "pair-classification":
        other = thing if right else draw.choice([one for one in _THINGS if one != thing])
        label = "same" if right else "other"
        return TextExample(place=place, text=f"a {thing} in {city}", pair=f"the {other} is {city}", label=label)
    if kind == "regression":
        count = draw.randrange(4)
        return TextExample(
            place=place, text=" ".join([thing] * count + ["the"]), pair=f"a {thing}", label=float(count) + 0.1 * right
        )
    if kind == "ner":
        text, spans = joined([name, "lives", "in", city])
        return TaggedExample(place=place, text=text, spans=spans, tags=("B-PER", "O", "O", "B-LOC"))
    if kind == "question-answering":
        context = f"{name} lives in {city} and the {thing} is lovely"
        answers = (Answer(city, context.index(city)),) if right else ()
        question = f"where does {name if right else 'the river'} live"
        return QuestionExample(
            place=place, id=place, question=question, context=context, answers=answers, title=f"made {number}"
        )
    options = draw.sample(_THINGS, 3)
    chosen = draw.randrange(3)
    return ChoiceExample(place=place, question=f"the {options[chosen]} is", options=tuple(options), label=chosen)
