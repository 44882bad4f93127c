"""Labelled files looked at before training: labels, baselines, copies, leaks, lengths, entities against tokens."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest

from anaume.checks.copies import ContentTally
from anaume.checks.labelled import LabelledCheck, check_labelled
from anaume.errors import DataError, SettingsError
from helpers import make_tokenizer


def write(folder: Path, rows: list[dict[str, object]], name: str = "train.jsonl") -> Path:
    path = folder / name
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def texts(folder: Path, pairs: list[tuple[str, object]], name: str = "train.jsonl") -> Path:
    return write(folder, [{"text": text, "label": label} for text, label in pairs], name)


def noted(check: LabelledCheck, part: str) -> bool:
    return any(part in note for note in check.notes)


def refused(check: LabelledCheck, part: str) -> bool:
    return any(part in line for line in check.refusals)


def test_pairs_for_vectors_and_for_ranking(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"query": "a b", "positive": "c d e"},
        {"query": "a b", "positive": "c d e", "negatives": ["f g"]},
        {"query": "a b", "positive": "c d e"},
    ]
    path = write(tmp_path, rows)
    tokenizer = make_tokenizer("a b c d e f")
    alone = check_labelled("similarity", path, tokenizer=tokenizer, max_length=5)
    assert alone.train.labels == {"without negatives": 2, "with negatives": 1}
    assert (alone.train.long, alone.train.copies.duplicates) == (0, 1)
    together = check_labelled("ranking", path, tokenizer=tokenizer, max_length=5)
    assert together.train.long == 3
    scored = write(tmp_path, [{"sentence1": "a", "sentence2": "b", "score": s} for s in (1, 3)], "scored.jsonl")
    numbers = check_labelled("similarity", scored).train
    assert numbers.numbers is not None
    assert (numbers.numbers.mean, numbers.copies.conflicts) == (2.0, 1)


def test_classes_their_baseline_and_what_leaked(tmp_path: Path) -> None:
    train = texts(tmp_path, [("a b", "x"), ("A  b!", "x"), ("c", "y"), ("c.", "x"), ("d", "x"), (" ", "y")])
    dev = texts(tmp_path, [("ａ b", "x"), ("D?", "y"), ("e", "z"), ("f", "x")], "dev.jsonl")
    check = check_labelled("classification", train, dev=dev)
    assert check.dev is not None
    assert check.train.labels == {"x": 4, "y": 2}
    assert (check.train.examples, check.dev.examples, check.train.blank) == (6, 4, 1)
    assert (check.train.copies.duplicates, check.train.copies.conflicts) == (2, 1)
    assert check.train.copies.conflict == (f"{train}: row 3", f"{train}: row 4")
    assert check.majority is not None
    assert (check.majority.label, check.majority.accuracy) == ("x", 0.5)
    assert (check.overlap, check.overlap_conflicts) == (2, 1)
    assert check.dev_only_labels == ("z",)
    assert (check.train.long, check.train.split_entities, check.train.numbers) == (None, None, None)
    assert noted(check, "2 of 4 dev examples have contents that train has too")
    assert noted(check, "train: contents that occur with different labels: 1, such as")
    assert check.refusals == (
        f"{train}: row 6: a blank text, one of 1; give them a text or leave them out",
        f"{dev}: row 3: the labels of the data and of the model differ: the data has x, y, z; the model knows x, y",
    )
    assert noted(check, "labels with fewer than 8 examples in train: 'x', 'y'")


def test_one_class_or_one_number_is_nothing_to_learn(tmp_path: Path) -> None:
    check = check_labelled("text-classification", texts(tmp_path, [("a", "x"), ("b", "x")]))
    assert check.task == "classification"
    assert refused(check, "needs at least two labels; the training examples, from")
    check = check_labelled("regression", texts(tmp_path, [("a", 2), ("b", 2.0)]))
    assert refused(check, "have 2 every time")
    for labels, said in ([], "has one"), (["x"], "all have x"):
        same = write(tmp_path, [{"text": text, "labels": labels} for text in "ab"])
        assert refused(check_labelled("multi-label", same), said)
    bare = write(tmp_path, [{"words": [word], "tags": ["O"]} for word in "ab"])
    assert refused(check_labelled("ner", bare), "every word has the tag 'O'")


@pytest.mark.parametrize("odd", ["y", "2"])
@pytest.mark.parametrize("row", [0, 999, 1000, 4321, 4999])
def test_one_row_anywhere_decides_what_is_refused(tmp_path: Path, row: int, odd: str) -> None:
    """Whether a part is kept whole or the few examples that stand for it; a label, and a number."""
    labels = ["1"] * 5000
    train = texts(tmp_path, [(f"text {number}", label) for number, label in enumerate(labels)])
    labels[row] = odd
    other = texts(tmp_path, [(f"text {number}", label) for number, label in enumerate(labels)], "dev.jsonl")
    tasks = ["classification", "regression"] if odd == "2" else ["classification"]
    for task in tasks:
        assert check_labelled(task, train, dev=train).refusals
        assert not check_labelled(task, other, dev=other).refusals
        assert not check_labelled(task, other).refusals
    assert refused(check_labelled("classification", other, dev=train), "") is False
    assert refused(check_labelled("classification", train, dev=other), "only '1'")
    more = texts(tmp_path, [("a", "1"), ("b", "x")], "more.jsonl")
    assert refused(check_labelled("classification", more, dev=other), f"dev.jsonl: row {row + 1}: the labels")


def test_a_vocabulary_made_for_other_text_is_told(tmp_path: Path) -> None:
    """JA-05."""
    train = texts(tmp_path, [("a 東京", "x"), ("a", "y")])
    check = check_labelled("classification", train, dev=train, tokenizer=make_tokenizer("a"))
    for part in ("train", "dev"):
        assert noted(check, f"{part}: 50.0% of the tokens are unknown to the vocabulary")
    assert not noted(check_labelled("classification", train, tokenizer=make_tokenizer("a 東 京")), "unknown")


def test_kana_that_lose_their_voicing_are_told(tmp_path: Path) -> None:
    """JA-01: known pieces, of other words."""
    train = texts(tmp_path, [("バスで", "x"), ("バス", "y")])
    words = "ハ ス ##ス て ハス"
    check = check_labelled("classification", train, tokenizer=make_tokenizer(words))
    assert check.train.voiced == 3
    assert noted(check, "train: the tokenizer strips the voicing marks of 3 kana")
    kept = check_labelled("classification", train, tokenizer=make_tokenizer(words, strip_accents=False))
    assert kept.train.voiced == 0
    assert not noted(kept, "voicing")


def test_features_are_looked_at_as_the_labels_that_are_there(tmp_path: Path) -> None:
    assert check_labelled("features", texts(tmp_path, [("a", "x"), ("b", "y")])).task == "classification"
    assert check_labelled("features", write(tmp_path, [{"words": ["a"], "tags": ["O"]}])).task == "ner"


def test_numbers(tmp_path: Path) -> None:
    check = check_labelled("regression", texts(tmp_path, [("a", 1), ("b", 2), ("c", "6")]))
    numbers = check.train.numbers
    assert numbers is not None
    assert (numbers.lowest, numbers.highest, numbers.mean) == (1.0, 6.0, 3.0)
    assert numbers.deviation == pytest.approx((14 / 3) ** 0.5)
    assert (check.majority, check.train.labels, check.notes, check.refusals) == (None, {}, (), ())


def test_several_labels(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": text, "labels": labels} for text, labels in (("a", "x|y"), ("b", "x"), ("c", ""))
    ]
    check = check_labelled("multi-label", write(tmp_path, rows))
    assert (check.train.labels, check.train.without, check.majority) == ({"x": 2, "y": 1}, 1, None)


def test_entities_are_counted_and_those_that_split_a_token(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"text": "york a", "entities": [[0, 4, "LOC"]]},
        {"text": "a bc", "entities": [[2, 3, "X"]]},
        {"text": "york", "entities": [[0, 2, "LOC"]]},
        {"text": "a york", "entities": [[0, 1, "X"], [4, 6, "LOC"]]},
    ]
    tokenizer = make_tokenizer("york a b ##c")
    check = check_labelled("ner", write(tmp_path, rows), tokenizer=tokenizer)
    assert check.train.labels == {"LOC": 3, "X": 2}
    assert check.train.split_entities == 2
    assert noted(check, "entities that begin or end inside a token: 2")
    assert check.majority is not None
    assert check.majority.label == "O"
    assert check.majority.accuracy == pytest.approx(5 / 10)


def test_tags_that_are_no_entities_are_the_labels(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("a DET\nb NOUN\n\nc NOUN\n")
    check = check_labelled("ner", path)
    assert (check.train.labels, check.train.without) == ({"NOUN": 2, "DET": 1}, 0)
    assert check.majority is not None
    assert check.majority.accuracy == pytest.approx(2 / 3)


def test_questions_leak_by_their_contexts(tmp_path: Path) -> None:
    def row(question: str, context: str, *, answer: bool) -> dict[str, object]:
        answers = [{"text": context, "answer_start": 0}] if answer else []
        return {"question": question, "context": context, "answers": answers}

    train = write(tmp_path, [row("q", "c", answer=True), row("q 2", "c", answer=False), row("q", "C", answer=True)])
    dev = write(tmp_path, [row("q 3", "c", answer=False), row("q", "d", answer=True)], "dev.jsonl")
    check = check_labelled("extractive-qa", train, dev=dev)
    assert check.train.labels == {"an answer": 2, "no answer": 1}
    assert (check.train.copies.duplicates, check.overlap, check.overlap_conflicts) == (1, 1, 0)
    assert check.refusals == ()
    only = write(tmp_path, [row("q", "c", answer=True)], "only.jsonl")
    assert noted(check_labelled("question-answering", only, dev=dev), "dev has questions without an answer")
    never = write(tmp_path, [row("q", "c", answer=False), row("q", "d", answer=False)], "never.jsonl")
    assert refused(check_labelled("question-answering", never), "there is nothing to learn")
    assert check.majority is not None
    assert (check.majority.label, check.majority.accuracy) == ("no answer", 0.5)


def test_choices(tmp_path: Path) -> None:
    rows: list[dict[str, object]] = [
        {"question": f"q {number}", "options": ["a", "b", "c"][: 2 + number % 2], "label": number % 2}
        for number in range(3)
    ]
    path = write(tmp_path, rows)
    check = check_labelled("multiple-choice", path, dev=path)
    assert check.train.labels == {"0": 2, "1": 1}
    first = write(tmp_path, [{**row, "label": 0} for row in rows])  # options are scored one by one: no label is learned
    assert check_labelled("multiple-choice", first, dev=path).refusals == ()


def test_lengths_count_special_tokens_pairs_and_every_option(tmp_path: Path) -> None:
    tokenizer = make_tokenizer("a")
    one = texts(tmp_path, [("a a a", 0), ("a a a a", 1)])
    found = check_labelled("classification", one, tokenizer=tokenizer, max_length=5).train
    assert (found.long, found.long_share, found.unknown_share) == (1, 0.5, 0.0)
    pair = write(tmp_path, [{"text": "a a", "pair": "a", "label": 0}, {"text": "a", "pair": "b", "label": 1}])
    assert check_labelled("pair-classification", pair, tokenizer=tokenizer, max_length=6).train.long == 0
    found = check_labelled("pair-classification", pair, tokenizer=tokenizer, max_length=5).train
    assert (found.long, found.unknown_share) == (1, 0.2)
    choices = write(tmp_path, [{"question": "a", "options": ["a", "a a a"], "label": 0}])
    assert check_labelled("multiple-choice", choices, tokenizer=tokenizer, max_length=6).train.long == 1
    assert check_labelled("multiple-choice", choices, tokenizer=tokenizer, max_length=7).train.long == 0


def test_what_can_not_be_learned_from_is_an_error_with_its_row(tmp_path: Path) -> None:
    path = texts(tmp_path, [("a", "x"), ("b", None)])
    with pytest.raises(DataError, match="row 2: field 'label' is null"):
        check_labelled("classification", path)
    many = texts(tmp_path, [("a", str(number)) for number in range(10_500)])
    with pytest.raises(DataError, match="more than 10,000 different labels"):
        check_labelled("classification", many)
    path.write_text("")
    with pytest.raises(DataError, match=r"train\.jsonl: no "):
        check_labelled("classification", path)
    with pytest.raises(DataError, match=r"train\.jsonl: no examples in it"):
        check_labelled("multiple-choice", path)
    with pytest.raises(SettingsError, match="did you mean 'classification'"):
        check_labelled("clasification", path)
    with pytest.raises(SettingsError, match="max_length must be at least 3"):
        check_labelled("classification", path, max_length=2)


def test_memory_grows_by_hashes_not_by_texts(tmp_path: Path) -> None:
    path = tmp_path / "train.tsv"
    with path.open("w") as file:
        file.write("sentence\tlabel\n")
        file.writelines(f"a rather long text of some words number {number}\t{number % 2}\n" for number in range(20_000))
    tracemalloc.start()
    try:
        check = check_labelled("classification", path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert check.train.labels == {"0": 10_000, "1": 10_000}
    assert peak < 4_000_000  # of which a chunk of examples is a good part


def test_places_are_told_whole() -> None:
    tally = ContentTally()
    for content, label, place in (
        ("a", "x", "f 1: row 2"),
        ("b", "x", "f"),
        ("a", "y", "g: question 003"),
        ("b", "y", ""),
    ):
        tally.add(content, label, place)
    copies = tally.copies()
    assert (copies.duplicates, copies.conflicts) == (2, 2)
    assert copies.conflict in {("f 1: row 2", "g: question 3"), ("f", "")}
    assert ContentTally().copies().conflict is None
