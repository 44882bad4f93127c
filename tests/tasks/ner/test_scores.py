"""Scores of entities, on cases counted by hand."""

from __future__ import annotations

import pytest

from anaume.tasks.ner import entity_scores, spans_of
from anaume.tasks.ner.schemes import Span


def test_f1_is_of_all_examples_at_once() -> None:
    """TRN-04: 2 of 3 found are right, 2 of 4 wanted are found; the mean of sentences would be 0.555556."""
    gold = [[Span("PER", 0, 1), Span("LOC", 3, 4)], [Span("ORG", 0, 2)], [Span("PER", 2, 3)]]
    found = [[Span("PER", 0, 1)], [Span("ORG", 0, 2)], [Span("LOC", 2, 3)]]
    scores = entity_scores(gold, found)
    assert scores["precision"] == pytest.approx(2 / 3)
    assert scores["recall"] == 0.5
    assert scores["f1"] == pytest.approx(4 / 7)
    assert (scores["tp"], scores["fp"], scores["fn"]) == (2, 1, 2)
    assert scores["types"]["LOC"] == {"precision": 0.0, "recall": 0.0, "f1": 0.0, "tp": 0, "fp": 1, "fn": 1}
    assert scores["types"]["PER"]["recall"] == 0.5
    assert scores["macro_f1"] == pytest.approx((0 + 1 + 2 / 3) / 3)


def test_bare_tags_and_a_beginning_inside_an_entity() -> None:
    """NER-04."""
    bare = [spans_of(["B", "I", "O"])]
    assert entity_scores(bare, bare)["f1"] == 1.0
    assert list(entity_scores(bare, bare)["types"]) == ["entity"]
    gold, found = ["B-LAW", "I-LAW", "I-LAW", "I-LAW"], ["B-LAW", "I-LAW", "B-LAW", "I-LAW"]
    split = entity_scores([spans_of(gold)], [spans_of(found)])
    assert split["f1"] == 0.0
    assert (split["tp"], split["fp"], split["fn"]) == (0, 2, 1)


def test_what_is_not_defined_is_none() -> None:
    nothing = entity_scores([[]], [[]])
    assert (nothing["precision"], nothing["recall"], nothing["f1"], nothing["macro_f1"]) == (None, None, None, None)
    silent = entity_scores([[Span("PER", 0, 1)]], [[]])
    assert (silent["precision"], silent["recall"], silent["f1"]) == (None, 0.0, 0.0)
