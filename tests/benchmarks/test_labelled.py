"""Labelled text: entities out of IOB1 tags, and the published sizes of the real sets."""

from __future__ import annotations

import pytest

from benchmarks.labelled import Sentence, conll, spans, sst2
from helpers import public_data


@pytest.mark.parametrize(
    ("tags", "found"),
    [
        ("O O", set()),
        ("I-PER I-PER O", {(0, 2, "PER")}),
        ("O I-LOC", {(1, 2, "LOC")}),
        ("I-PER I-LOC", {(0, 1, "PER"), (1, 2, "LOC")}),
        ("I-PER B-PER I-PER", {(0, 1, "PER"), (1, 3, "PER")}),
        ("I-ORG O I-ORG", {(0, 1, "ORG"), (2, 3, "ORG")}),
        ("PER PER O MISC", {(0, 2, "PER"), (3, 4, "MISC")}),
    ],
)
def test_entities_are_runs_of_one_type_cut_at_every_b(tags: str, found: set[tuple[int, int, str]]) -> None:
    assert spans(tags.split()) == found


def test_types_are_tags_without_what_joins_them() -> None:
    assert Sentence(("Ann", "Bo", "sat"), ("NNP", "NNP", "VBD"), ("I-PER", "B-PER", "O")).types == ("PER", "PER", "O")


@pytest.mark.real
def test_the_real_sets_have_their_published_sizes() -> None:
    public_data("conll2003")
    train, testa = conll("train"), conll("testa")
    assert (len(train), len(testa)) == (14_041, 3_250)
    assert sum(len(sentence.words) for sentence in testa) == 51_362
    assert sum(len(sentence.spans) for sentence in testa) == 5_942
    assert train[0].words[:3] == ("EU", "rejects", "German")
    texts, labels = sst2("dev")
    assert (len(texts), sum(labels)) == (872, 444)
    assert len(sst2("train")[0]) == 67_349
