"""Words in, tags out: the rows, the decoding and the scores of tagged words."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.config import HeadConfig
from anaume.data.labelled import TaggedExample
from anaume.errors import AnaumeWarning, DataError
from anaume.tasks.features import IGNORED, Features, Ragged, TaskBatch
from anaume.tasks.ner import Ner, TaggedPrediction
from helpers import make_tokenizer
from tiny_tags import by_token, letters, say, tagged, taught

BIO = Ner.fit([tagged("a b c d", "B-PER I-PER B-LOC B-ORG")])
AWKWARD = st.text(st.sampled_from("aB,. \u00a0\u3000\t\n\x00\u200b\u0301éﾀﾞ東京😀👨‍👩‍👧\ufeff㍿"), max_size=12)


def test_a_word_is_learned_at_its_first_piece_only() -> None:
    task = Ner.fit([tagged("Ann saw", "B-PER O")])
    features = task.features([tagged("Ann saw", "B-PER O")], letters(), 16, learn=True)
    target = features.targets["labels"]
    assert isinstance(target, Ragged)
    assert target[0].tolist() == [IGNORED, 1, IGNORED, IGNORED, 0, IGNORED, IGNORED, IGNORED]
    assert (features.rows, features.pieces, features.unknown) == (1, 6, 0)
    assert features.coverage.tolist() == [1.0]


def test_entities_are_slices_of_the_original() -> None:
    """NER-02: labels of words joined to entities, two beginnings to two entities, scores as means."""
    anna = say(BIO, tagged("Anna Meier visited New York"), "B-PER I-PER O B-LOC I-LOC", sure=0.8)
    assert [(one.label, one.text, one.start, one.end) for one in anna.entities] == [
        ("PER", "Anna Meier", 0, 10),
        ("LOC", "New York", 19, 27),
    ]
    assert [one.score for one in anna.entities] == pytest.approx([0.8, 0.8])
    assert anna.tags == ("B-PER", "I-PER", "O", "B-LOC", "I-LOC")
    assert anna.probabilities == pytest.approx([0.8] * 5)
    two = say(BIO, tagged("Paris Berlin"), "B-LOC B-LOC")
    assert [one.text for one in two.entities] == ["Paris", "Berlin"]


def test_a_stray_inside_tag_begins_an_entity_and_says_so() -> None:
    """NER-02, NER-03: lenient by default; the tags given back spell what was found."""
    found = say(BIO, tagged("saw Ann Lee"), "O I-PER I-PER")
    assert [(one.text, one.strict) for one in found.entities] == [("Ann Lee", False)]
    assert found.tags == ("O", "B-PER", "I-PER")
    fine = say(BIO, tagged("saw Ann Lee"), "O B-PER I-PER")
    assert [(one.text, one.strict) for one in fine.entities] == [("Ann Lee", True)]


def test_pieces_that_disagree_never_split_a_word() -> None:
    """NER-02: 'Rome' with B-LOC on its first piece and I-ORG behind is one LOC."""
    example = tagged("Rome")
    features = BIO.features([example], letters(), 16, learn=False)
    labels = BIO.head.labels
    logits = 9 * np.eye(len(labels), dtype=np.float32)[[0, labels.index("B-LOC"), *[labels.index("I-ORG")] * 3, 0]]
    (found,) = BIO.decode([logits], features, [example])
    assert found.tags == ("B-LOC",)
    assert [one.text for one in found.entities] == ["Rome"]


def test_punctuation_glued_to_a_word_is_not_in_the_entity() -> None:
    """NER-02: 'York,' is a word and a comma, in text as in files of words."""
    example = BIO.example("New York, now", "text 1")
    assert example.words == ("New", "York", ",", "now")
    found = say(BIO, example, "B-LOC I-LOC O O")
    assert [(one.text, one.start, one.end) for one in found.entities] == [("New York", 0, 8)]


def test_scores_name_both_readings() -> None:
    """NER-03."""
    task = Ner.fit([tagged("a b", "B-FOOD I-FOOD")])
    gold = tagged("fried rice now", "B-FOOD I-FOOD O")
    scores = task.score([say(task, gold, "I-FOOD I-FOOD O")], [gold])
    assert (scores["f1"], scores["reading"], scores["accuracy"]) == (1.0, "lenient", 1.0)
    assert (scores["lenient"]["f1"], scores["strict"]["f1"]) == (1.0, 0.0)
    assert scores["strict"]["types"]["FOOD"]["fn"] == 1


def test_a_score_that_is_not_defined_says_why() -> None:
    """No entity on either side: a small held-out part may be so."""
    gold = tagged("a b", "O O")
    scores = BIO.score([say(BIO, gold, "O O")], [gold])
    assert (scores["f1"], scores["reason"]) == (None, "no entities: neither tagged nor predicted")
    assert "reason" not in BIO.score([say(BIO, gold, "B-PER O")], [gold])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_f1_does_not_depend_on_batches(size: int) -> None:
    """TRN-04, from the rows of example scores, as they come from batches of any size."""
    gold = [
        tagged("a b c d", "B-PER O O B-LOC"),
        tagged("a b c", "B-ORG I-ORG O"),
        tagged("a b c", "O O B-PER"),
    ]
    said = ["B-PER O O O", "B-ORG I-ORG O", "O O B-LOC"]
    predictions = [say(BIO, one, labels) for one, labels in zip(gold, said, strict=True)]
    assert BIO.score(predictions, gold)["f1"] == pytest.approx(4 / 7)
    parts = [BIO.example_scores(predictions[at : at + size], gold[at : at + size]) for at in range(0, 3, size)]
    assert np.concatenate(parts).tolist() == [[1, 1, 2], [1, 1, 1], [0, 1, 1]]
    assert BIO.score_of(np.concatenate(parts)) == pytest.approx(4 / 7)


def test_plain_tags_are_scored_by_accuracy() -> None:
    task = Ner.fit([tagged("a b c", "DT NN VB")])
    gold = [tagged("the dog barks", "DT NN VB"), tagged("dog", "NN"), tagged("", "")]
    said = [say(task, gold[0], "DT NN NN"), say(task, gold[1], "NN"), say(task, gold[2], "")]
    assert task.score(said, gold) == {"accuracy": 0.75, "majority": 0.5, "words": 4}
    assert task.score_of(task.example_scores(said, gold)) == 0.75
    assert said[0].entities == ()
    assert task.score_of(np.empty((0, 2))) == 0.0


@pytest.mark.parametrize("scheme", ["iob1", "bio", "bioes", "bilou"])
def test_tags_come_back_in_the_scheme_of_the_file(scheme: str) -> None:
    rows = {
        "iob1": "I-PER I-PER O I-LOC B-LOC",
        "bio": "B-PER I-PER O B-LOC B-LOC",
        "bioes": "B-PER E-PER O S-LOC S-LOC",
        "bilou": "B-PER L-PER O U-LOC U-LOC",
    }
    task = Ner.fit([tagged("Ann Lee saw Rome Bonn", rows[scheme])])
    for other in rows.values():  # a file of any scheme is learned and scored
        examples = [tagged("Ann Lee saw Rome Bonn", other)]
        features = task.features(examples, letters(), 40, learn=True)
        predictions = task.decode(taught(features, len(task.head.labels)), features, examples)
        assert predictions[0].tags == tuple(rows[scheme].split())
        assert task.score(predictions, examples)["strict"]["f1"] == 1.0


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ("O B-PER I-PER E-PER S-PER", "B-PER E-PER O S-PER"),
        ("U-PER L-PER O I-PER B-PER", "B-PER L-PER O U-PER"),
        ("O I-PER", "I-PER I-PER O I-PER"),
        ("I-PER O B-PER", "B-PER I-PER O B-PER"),
        ("[CLS] O I-PER B-PER X", "B-PER I-PER X B-PER"),
    ],
)
def test_a_foreign_head_is_read_in_its_own_scheme(labels: str, said: str) -> None:
    head = HeadConfig(kind="token-classification", labels=tuple(labels.split()), dropout=0.2)
    task = Ner.restore(head, {})
    assert task.head == head
    example = tagged("Ann Lee saw Bob", "B-PER I-PER O B-PER")
    found = say(task, example, said)
    assert [(one.text, one.strict) for one in found.entities] == [("Ann Lee", True), ("Bob", True)]
    assert found.tags == tuple(said.replace("X", "O").split())
    assert task.score([found], [example])["f1"] == 1.0
    features = task.features([example], letters(), 40, learn=True)
    assert task.decode(taught(features, len(head.labels)), features, [example])[0].entities != ()


def test_japanese_without_blanks() -> None:
    """JA-03: half-width kana under NFKC; the entity is the slice of the original, the blank is in no word."""
    text = "東京都に住むﾀﾅｶさん　です"
    spans = ((0, 3), (3, 4), (4, 6), (6, 9), (9, 11), (12, 14))
    tags = ("B-LOC", "O", "O", "B-PER", "O", "O")
    for rules in ({"subwords": "character"}, {}):
        tokenizer = letters(nfkc=True, **rules)
        example = TaggedExample(text=text, spans=spans, tags=tags)
        task = Ner.fit([example])
        features = task.features([example], tokenizer, 40, learn=True)
        (found,) = task.decode(taught(features, len(task.head.labels)), features, [example])
        assert found.tags == tags
        assert [(one.text, one.start, one.end) for one in found.entities] == [("東京都", 0, 3), ("ﾀﾅｶ", 6, 9)]


def test_words_finer_than_the_pieces_go_together_and_are_told() -> None:
    """A piece over several words: the entity that ends within it can't be told from the word beside it."""
    tokenizer = make_tokenizer("東京都 は", split_cjk=False)
    together = TaggedExample(
        text="東京都 は", spans=((0, 1), (1, 2), (2, 3), (4, 5)), tags=("B-LOC", "I-LOC", "I-LOC", "O"), place="r 1"
    )
    task = Ner.fit([together])
    features = task.features([together], tokenizer, 16, learn=True)
    assert features.details[0].tolist() == [[0, 1, 2, 3], [1, 1, 1, 2]]
    (found,) = task.decode(taught(features, 3), features, [together])
    assert found.tags == together.tags
    within = TaggedExample(text="東京都", spans=((0, 2), (2, 3)), tags=("B-LOC", "O"), place="r 2")
    with pytest.warns(AnaumeWarning, match=r"^1 of 2 entities can't be learned as they are tagged \(first: r 2\)"):
        features = task.features([together, within], tokenizer, 16, learn=True)
    assert task.decode(taught(features, 3), features, [together, within])[1].tags == ("B-LOC", "I-LOC")


def test_a_word_that_leaves_no_piece_gets_a_tag() -> None:
    example = tagged(["\x00", "Ann", "\u200b", "Lee", "\x00"], "O B-PER I-PER I-PER O")
    task = Ner.fit([example])
    features = task.features([example], letters(), 16, learn=True)
    (found,) = task.decode(taught(features, 3), features, [example])
    assert found.tags == example.tags
    assert [value > 0 for value in found.probabilities] == [False, True, False, True, False]
    assert found.entities[0].score > 0.9
    plain = Ner.fit([tagged("a b", "NN VB")])
    features = plain.features([tagged(["\x00", "a", "\x00"]), tagged(["\x00"])], letters(), 16, learn=False)
    found, nothing = plain.decode(
        by_token(features, lambda token: 1, 2), features, [tagged(["\x00", "a", "\x00"]), tagged(["\x00"])]
    )
    assert found.tags == ("VB", "VB", "VB")
    assert nothing.tags == ("NN",)


@settings(max_examples=40)
@given(words=st.lists(AWKWARD, max_size=6), data=st.data())
def test_words_in_labels_out(words: list[str], data: st.DataObject) -> None:
    tags = data.draw(st.lists(st.sampled_from(["O", "B-PER", "I-PER"]), min_size=len(words), max_size=len(words)))
    example = tagged(words, tags)
    features = BIO.features([example, tagged("")], letters(), data.draw(st.integers(6, 30)), learn=False)
    labels = len(BIO.head.labels)
    logits = by_token(features, lambda token: token % labels, labels)
    found, nothing = BIO.decode(logits, features, [example, tagged("")])
    assert len(found.tags) == len(found.probabilities) == len(words)
    assert found.words == tuple(words)
    assert all(one.text == example.text[one.start : one.end] and 0 <= one.score <= 1 for one in found.entities)
    assert (nothing.tags, nothing.entities, nothing.coverage) == ((), (), 1.0)
    assert set(found.tags) <= set(BIO.head.labels)


@settings(max_examples=40)
@given(words=st.lists(st.sampled_from(["Ann", "in", "Springfield", ",", "東京", "x"]), max_size=40), data=st.data())
def test_windows_do_not_change_what_is_said_of_a_word(words: list[str], data: st.DataObject) -> None:
    """Where a head looks at the word alone. Every word is learned once, whole."""
    example = tagged(words, ["B-LOC" if word == "Springfield" else "O" for word in words])
    tokenizer = letters()

    def said(length: int) -> tuple[Features, TaggedPrediction]:
        features = BIO.features([example], tokenizer, length, learn=True)
        logits = by_token(features, lambda token: token % len(BIO.head.labels), len(BIO.head.labels))
        return features, BIO.decode(logits, features, [example])[0]

    max_length = data.draw(st.integers(60, 100))
    whole, cut = said(512), said(max_length)
    assert cut[1] == whole[1]
    assert whole[0].rows == 1
    counts = [np.concatenate([part.targets["labels"][row] for row in range(part.rows)]) for part in (whole[0], cut[0])]
    assert (counts[0] != IGNORED).sum() == (counts[1] != IGNORED).sum() == len(words)
    assert cut[0].token_ids.lengths.max() <= max_length
    for read, row in zip(cut[0].details, range(cut[0].rows), strict=True):
        for word, token in read.T:
            pieces = len(words[word]) if words[word] != "Springfield" else 11
            assert token + pieces < cut[0].token_ids.lengths[row], "the whole word is in the window that decides it"


def test_rows_of_many_examples_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than are tokenized at once; some empty, some in windows."""
    monkeypatch.setattr("anaume.tasks.ner.rows._CHUNK", 8)
    examples = [tagged(["Ann"] * (number % 7), ["B-PER"] * (number % 7)) for number in range(30)]
    task = Ner.fit(examples)
    features = task.features(examples, make_tokenizer("ann"), 6, learn=True)
    predictions = task.decode(taught(features, 3), features, examples)
    assert [len(one.tags) for one in predictions] == [number % 7 for number in range(30)]
    assert task.score(predictions, examples)["f1"] == 1.0


def test_words_outside_the_text_or_out_of_order_are_refused() -> None:
    for spans in (((0, 9),), ((2, 3), (0, 1)), ((0, 2), (1, 3)), ((2, 1),)):
        with pytest.raises(DataError, match=r"x: row 2, word \d: its characters \["):
            BIO.features([TaggedExample(text="abcd", spans=spans, place="x: row 2")], letters(), 16, learn=False)


def test_what_a_user_hands_over() -> None:
    assert BIO.example(["New", "York,"], "text 1") == tagged("New York,", place="text 1")
    for wrong in (7, None, ["a", 1], {"text": "a"}):
        with pytest.raises(DataError, match=r"^text 3: ner reads a text, or a list of words; got "):
            BIO.example(wrong, "text 3")


def test_a_prediction_is_ready_for_json() -> None:
    record = say(BIO, tagged("Ann ran"), "B-PER O", sure=0.5).record()
    assert list(record) == ["entities", "tags", "words", "probabilities", "coverage"]
    assert record["entities"] == [
        {"label": "PER", "start": 0, "end": 3, "text": "Ann", "score": pytest.approx(0.5), "strict": True}
    ]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_loss_is_the_mean_over_labelled_words(weighted: bool, smoothing: float) -> None:
    rows = [tagged("a b c", "B-PER O O")]
    task = Ner.fit(rows, class_weights="balanced" if weighted else None, label_smoothing=smoothing)
    labels = torch.tensor([[IGNORED, 1, 0, IGNORED], [IGNORED, 0, IGNORED, IGNORED]])
    logits = torch.randn(2, 4, 3, generator=torch.Generator().manual_seed(0))
    weights = None if task.class_weights is None else torch.tensor(task.class_weights)
    wanted = torch.nn.functional.cross_entropy(logits.view(-1, 3), labels.view(-1), weights, label_smoothing=smoothing)
    whole, halves = _batch(labels), [_batch(labels[:1]), _batch(labels[1:])]
    assert task.loss(logits, whole, task.count(whole)).item() == pytest.approx(wanted.item(), abs=1e-6)
    count = task.count(halves[0]) + task.count(halves[1])
    parts = [task.loss(logits[row : row + 1], half, count) for row, half in enumerate(halves)]
    assert sum(parts).item() == pytest.approx(wanted.item(), abs=1e-6)  # type: ignore[union-attr]


def _batch(labels: torch.Tensor) -> TaskBatch:
    mask = torch.ones_like(labels, dtype=torch.bool)
    return TaskBatch(attention_mask=mask, unit_of_row=torch.arange(len(labels)), targets={"labels": labels})
