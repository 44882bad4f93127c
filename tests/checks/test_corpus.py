import io
import json
import math
from collections import Counter

import numpy as np
import pytest

from anaume.checks.corpus import check_corpus
from anaume.checks.overlap import OverlapFinder, units
from anaume.data.corpus.entropy import unigram_entropy
from anaume.errors import DataError, SettingsError
from anaume.tokenization import Tokenizer

TEXT = ["The cat sat on the mat. It was a fine day, and nobody came.", "A dog ran. Then it slept.", "吾輩は猫である。"]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([*TEXT[:2], "cat dog mat day\n"], vocab_size=80, min_frequency=1)


def write(folder, rows, name="train.jsonl"):
    path = folder / name
    path.write_text("".join(json.dumps(row if isinstance(row, dict) else {"text": row}) + "\n" for row in rows))
    return path


def test_it_counts_what_there_is(tmp_path, tokenizer):
    check = check_corpus(write(tmp_path, [*TEXT, TEXT[0], ""]), tokenizer=tokenizer)
    assert (check.documents, check.sentences, check.duplicates) == (4, 5, 1)
    assert check.duplicate_share == 0.25
    assert check.characters == sum(map(len, [*TEXT, TEXT[0]]))
    assert check.notes == ("documents left out because they are empty: 1",)
    counts = check.counts
    assert counts is not None
    encodings = [tokenizer.encode(text) for text in TEXT]
    ids = [token_id for encoding in encodings for token_id in encoding.token_ids[1:-1]]
    assert counts.tokens == len(ids)
    assert counts.words == sum(len(set(encoding.word_ids) - {None}) for encoding in encodings)
    assert counts.unknown == ids.count(tokenizer.unk_id) > 0
    shares = [count / len(ids) for count in Counter(ids).values()]
    assert counts.entropy_floor == pytest.approx(-sum(share * math.log(share) for share in shares))
    assert counts.first_loss == pytest.approx(math.log(tokenizer.vocab_size))
    assert counts.pieces_per_word == counts.tokens / counts.words


def test_scripts_are_told_apart(tmp_path):
    check = check_corpus(write(tmp_path, ["Abé ｶﾀ カー漢字々 12。 \u3000\n", "русский ok"]))
    total = 3 + 4 + 3 + 3 + 7 + 2
    assert check.scripts == {
        "latin": pytest.approx(5 / total),
        "kana": pytest.approx(4 / total),
        "kanji": pytest.approx(3 / total),
        "other": pytest.approx(10 / total),
    }
    assert check.counts is None


def test_documents_that_do_not_fit_are_counted(tmp_path, tokenizer):
    rows = [" ".join(["cat"] * count) for count in (5, 6, 7, 20)]
    check = check_corpus(write(tmp_path, rows), tokenizer=tokenizer, max_length=8)
    assert check.counts is not None
    assert (check.counts.long_documents, check.counts.long_share) == (2, 0.5)


def test_a_vocabulary_can_be_learned_for_the_counts(tmp_path):
    check = check_corpus(write(tmp_path, TEXT[:2] * 3), vocab_size=60)
    assert check.counts is not None
    assert check.counts.learned
    assert check.counts.vocab_size <= 60
    assert check.counts.unknown == 0


def test_labels_are_counted_where_there_are_any(tmp_path):
    rows = [{"text": f"text {number}", "label": "yes" if number % 4 else "no"} for number in range(20)]
    assert check_corpus(write(tmp_path, rows)).labels == {"yes": 15, "no": 5}
    assert check_corpus(write(tmp_path, rows), label_column="other").labels == {}
    some = [{"text": "no label"}, {"text": "nor here", "label": None}, *rows, {"text": "none at the end"}]
    assert check_corpus(write(tmp_path, some)).labels == {"yes": 15, "no": 5, "(none)": 3}
    (tmp_path / "a.txt").write_text("A text.")
    assert check_corpus(tmp_path / "a.txt").labels == {}


def test_stdin_is_read_once(monkeypatch):
    class Stdin:
        buffer = io.BytesIO(b"One. Two.")

    monkeypatch.setattr("sys.stdin", Stdin())
    assert check_corpus("-").sentences == 2


def test_wrong_use_is_refused(tmp_path, tokenizer):
    path = write(tmp_path, TEXT)
    with pytest.raises(SettingsError, match="a tokenizer is given"):
        check_corpus(path, tokenizer=tokenizer, vocab_size=50)
    with pytest.raises(SettingsError, match=r"expected a Tokenizer; got 'B': a bundle's is its \.tokenizer"):
        check_corpus(path, tokenizer="B")
    with pytest.raises(SettingsError, match="max_length must be at least 3"):
        check_corpus(path, max_length=2)
    with pytest.raises(DataError, match="no text in it"):
        check_corpus(write(tmp_path, [" "]))


@pytest.mark.parametrize(
    ("counts", "entropy"), [([0, 0], 0.0), ([7], 0.0), ([1, 1, 0], math.log(2)), ([5] * 8, math.log(8))]
)
def test_unigram_entropy(counts, entropy):
    found = unigram_entropy(np.array(counts, dtype=np.int64))
    assert found == pytest.approx(entropy)
    assert math.copysign(1.0, found) == 1.0  # "-0.00" would be shown


# Overlap with evaluation sets


def overlap(train, evaluation, sentences=None):
    finder = OverlapFinder([("eval", evaluation)])
    for text in train:
        finder.show(text, text.split(". ") if sentences is None else sentences)
    return finder.overlaps()[0]


@pytest.mark.parametrize(
    ("train", "evaluation", "whole", "part"),
    [
        ("The cat sat. A dog ran", "a dog ran", 1, 0),  # a sentence
        ("The cat\nA dog ran fast\nEnd", "A DOG, ran fast!", 1, 0),  # a line
        ("a dog ran. the cat sat", "A dog ran the cat sat", 1, 0),  # a document
        ("I saw a dog ran fast here", "a dog ran fast", 0, 1),
        ("I saw a dog ran fast here", "dog ran slowly", 0, 0),
        ("I saw a hotdog ran fast here", "dog ran fast", 0, 0),  # not from the middle of a word
        ("ｔｈｅ　ＣＡＴ sat", "the cat sat", 1, 0),
        ("今日は良い天気ですね", "良い天気", 0, 1),
        ("今日は良い天気ですね", "良い 天気!", 0, 1),
        ("anything", "?!", 0, 0),
        ("short", "a text that is longer than the document", 0, 0),
        ("one two three four five six seven eight nine ten", "two three four five six seven eight nine", 0, 1),
        ("one two three four five six seven eight nine ten", "two three four five six seven eight nine eleven", 0, 0),
    ],
)
def test_overlap(train, evaluation, whole, part):
    found = overlap([train], [evaluation])
    assert (found.whole, found.part) == (whole, part)


def test_texts_that_begin_alike_and_copies_are_told_apart():
    start = "one two three four five six seven eight "
    evaluation = [start + "nine", start + "ten", start + "nine", start + "nine and more", "nine"]
    found = overlap([f"so {start}nine and more of it"], evaluation)
    assert (found.texts, found.whole, found.part, found.short_part) == (4, 0, 3, 1)


def test_many_texts_are_found_as_the_slow_way_finds_them():
    draw = np.random.default_rng(0)
    vocabulary = [f"w{number}" for number in range(12)]

    def text(size):
        return " ".join(draw.choice(vocabulary, size=size))

    train = [text(60) for _ in range(40)]
    evaluation = [text(int(size)) for size in draw.integers(1, 14, size=400)]
    evaluation += [" ".join(train[place].split()[place : place + 11]) for place in range(30)]
    evaluation += train[:5]
    found = overlap(train, evaluation, sentences=[])
    distinct = set(evaluation)
    whole = {one for one in distinct if one in train}
    part = {one for one in distinct - whole if any(f" {one} " in f" {document} " for document in train)}
    assert (found.texts, found.whole, found.part) == (len(distinct), len(whole), len(part))
    assert found.part > 50


def test_files_to_check_against_are_rows_or_lines(tmp_path):
    train = write(tmp_path, ["The cat sat on the mat. It was a fine day.", "Nothing here."])
    lines = tmp_path / "eval.txt"
    lines.write_text("It was a fine day.\n\nthe cat sat on\nno such text\n")
    table = tmp_path / "pairs.tsv"
    table.write_text('sentence1\tsentence2\nsome "bare quote\tNOTHING here\nx y z\tcat sat on the\n')
    with pytest.raises(DataError, match=r"choose one with against_columns= \(--against-column\)"):
        check_corpus(train, against=[table])
    check = check_corpus(train, against=[lines])
    (found,) = check.overlaps
    assert (found.source, found.texts, found.whole, found.part) == (str(lines), 3, 1, 1)
    assert found.whole_share == pytest.approx(1 / 3)
    assert any("1 of 3 texts occur whole in the training text, and 1 more as a part" in note for note in check.notes)
    (found,) = check_corpus(train, against=[table], against_columns=["sentence1", "sentence2"]).overlaps
    assert (found.texts, found.whole, found.part) == (4, 1, 1)
    for one in (str(table), table):  # one file and one column need no lists
        (found,) = check_corpus(train, against=one, against_columns="sentence1").overlaps
        assert (found.source, found.texts) == (str(table), 2)
    bare = tmp_path / "bare.tsv"
    bare.write_text("It was a fine day.\t1\nno such text\t0\n")
    (found,) = check_corpus(train, against=[bare], against_columns=["1"], header=False).overlaps
    assert (found.texts, found.whole) == (2, 1)
    clean = tmp_path / "clean.txt"
    clean.write_text("entirely unrelated words\n")
    assert check_corpus(train, against=[clean]).notes == ()


def test_units():
    assert units("It's_so 日本ab カ\u3099 ﾊﾟ Straße") == ["it", "s", "so", "日", "本", "ab", "ガ", "パ", "strasse"]
    assert units("I DON'T, can’t") == units("i do n't ca n't") == units("I do n 't ca n’ t") == ["i", "dont", "cant"]
