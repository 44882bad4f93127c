"""What is settled from training examples, and what is refused."""

from __future__ import annotations

import re

import pytest

from anaume.config import HeadConfig
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tasks.ner import Ner
from tiny_tags import letters, tagged


@pytest.mark.parametrize(
    ("tags", "scheme", "labels"),
    [
        ("I-PER I-PER O I-LOC B-LOC", "iob1", "O B-LOC I-LOC B-PER I-PER"),
        ("I-PER I-PER O I-LOC O", "iob1", "O B-LOC I-LOC B-PER I-PER"),
        ("B-PER I-PER O B-LOC B-LOC", "bio", "O B-LOC I-LOC B-PER I-PER"),
        ("B-PER E-PER O S-LOC S-LOC", "bioes", "O B-LOC I-LOC B-PER I-PER"),
        ("B-PER L-PER O U-LOC U-LOC", "bilou", "O B-LOC I-LOC B-PER I-PER"),
        ("B I O B O", "bio", "O B I"),
        ("B E O S O", "bioes", "O B I"),
        ("NNP NNP VBD NNP .", "plain", ". NNP VBD"),
        ("B-人名 I-人名 O O O", "bio", "O B-人名 I-人名"),
    ],
)
def test_the_scheme_is_recognised_and_labels_are_bio(tags: str, scheme: str, labels: str) -> None:
    task = Ner.fit([tagged("a b c d e", tags)])
    assert task.scheme == scheme
    assert task.head == HeadConfig(kind="token-classification", labels=tuple(labels.split()))
    assert task.main == ("accuracy" if scheme == "plain" else "f1")
    again = Ner.restore(task.head, task.settings())
    assert again == task


def test_labels_do_not_depend_on_the_order_of_rows() -> None:
    rows = [tagged("a b", "B-PER B-LOC"), tagged("a b", "I-ORG O"), tagged("a", "B-AGE")]
    with pytest.warns(AnaumeWarning):
        one, other = Ner.fit(rows), Ner.fit(rows[::-1])
    assert one == other


@pytest.mark.parametrize("tag", ["b-per", "X", "PER", "B", "M-PER", "B_PER", "", "o"])
def test_a_tag_that_is_none_is_refused_with_its_place(tag: str) -> None:
    """NER-04."""
    rows = [tagged("a b", "B-PER O", "t.txt: line 1"), tagged(["a", "York"], ["I-PER", tag], "t.txt: line 4")]
    told = rf"^t\.txt: line 4, word 2 \('York'\): {re.escape(repr(tag))} is no entity tag; expected O or one of B-TYPE "
    with pytest.raises(DataError, match=told):
        Ner.fit(rows)
    assert Ner.fit([tagged(["a", "b"], ["B-PER", tag or "-"])], scheme="plain").scheme == "plain"


def test_a_tag_of_another_scheme_than_the_one_given_is_refused() -> None:
    with pytest.raises(DataError, match=r"example 1, word 1 \('a'\): 'S-PER' .* B-TYPE I-TYPE \(scheme bio\)"):
        Ner.fit([tagged("a", "S-PER")], scheme="bio")
    with pytest.raises(
        DataError, match=r"mix the letters of bioes .* E at example 1, word 2 \('b'\); U at example 1, "
    ):
        Ner.fit([tagged("a b c", "B-PER E-PER U-PER")])


def test_broken_tags_are_counted_and_read_leniently() -> None:
    rows = [tagged("a b c d", "B-PER I-PER O B-LOC", "row 1"), tagged("a b", "O I-PER", "row 2")]
    with pytest.warns(AnaumeWarning, match=r"^1 of 3 entities are not spelled as bio spells them \(first: row 2\)"):
        task = Ner.fit(rows)
    assert task.scheme == "bio"
    assert task.tagset.right(1, rows) == ["O", "B-PER"]


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([], "got 0 examples without any word"),
        ([tagged("")], "no tags"),
        ([tagged("", "")], "got 1 examples without any word"),
        ([tagged("a b", "O O")], "nothing to learn: every word has the tag 'O'"),
        ([tagged("a b", "NN NN")], "nothing to learn: every word has the tag 'NN'"),
        ([tagged("a b")], "example 1: no tags; expected one for each of its 2 words"),
        ([tagged("a b", "O", "x: row 7")], "x: row 7: expected one tag for each word; got 1 tags and 2 words"),
    ],
)
def test_nothing_to_learn_from(rows: list[object], told: str) -> None:
    with pytest.raises(DataError, match=told):
        Ner.fit(rows)  # type: ignore[arg-type]


def test_a_type_the_head_does_not_know_is_refused_with_both_lists() -> None:
    task = Ner.fit([tagged("a b", "B-PER B-LOC")])
    rows = [tagged("a", "B-PER"), tagged("a b", "O S-ORG", "dev.txt: line 9")]
    told = r"dev\.txt: line 9, word 2 \('b'\): the head does not know the tag 'S-ORG'; .* here: ORG, PER; .* LOC, PER$"
    with pytest.raises(DataError, match=told):
        task.features(rows, letters(), 16, learn=True)
    plain = Ner.fit([tagged("a b", "NN VB")])
    with pytest.raises(DataError, match=r"example 1, word 1 \('a'\): .*'O'; the tags here: O; the head's: NN, VB$"):
        plain.features([tagged("a", "O")], letters(), 16, learn=True)


def test_class_weights() -> None:
    rows = [tagged("a b c d", "B-PER O O O")]
    assert Ner.fit(rows).class_weights is None
    assert Ner.fit(rows, class_weights="none").class_weights is None
    assert Ner.fit(rows, class_weights="balanced").class_weights == pytest.approx((4 / 6, 4 / 2, 1.0))
    assert Ner.fit(rows, class_weights={"B-PER": 3}).class_weights == (1.0, 3.0, 1.0)
    with pytest.raises(SettingsError, match=r"there is no label 'B-PRE' \(did you mean 'B-PER'\?\)"):
        Ner.fit(rows, class_weights={"B-PRE": 3})
    for wrong in ("balance", {"O": -1}, {"O": float("nan")}, 3):
        with pytest.raises(SettingsError, match="class_weights"):
            Ner.fit(rows, class_weights=wrong)  # type: ignore[arg-type]


def test_wrong_options_are_refused() -> None:
    rows = [tagged("a", "B-PER")]
    for wrong in (1.0, -0.1, True, "x", float("nan")):
        with pytest.raises(SettingsError, match=r"task\.label_smoothing must be at least 0 and below 1"):
            Ner.fit(rows, label_smoothing=wrong)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"task\.scheme must be one of iob1, bio, .*did you mean 'bioes'\?\)"):
        Ner.fit(rows, scheme="bioe")
    with pytest.raises(SettingsError, match=r"task\.shceme means nothing to ner \(did you mean 'scheme'\?\)"):
        Ner.fit(rows, shceme="bio")
