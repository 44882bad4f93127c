"""Tagged words out of columns, lists and character spans; and how raw text is cut into words."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.labelled import cut_words, read_tagged
from anaume.errors import DataError, SettingsError


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        if isinstance(data, list):
            data = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in data)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def rows(path, **how):
    return [(list(example.words), example.tags and list(example.tags)) for example in read_tagged(path, **how)]


def refused(path, **how):
    with pytest.raises(DataError) as error:
        list(read_tagged(path, **how))
    assert str(path) in str(error.value)
    return str(error.value)


# Words of raw text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("York, (U.S.)", ["York", ",", "(", "U", ".", "S", ".", ")"]),
        ("don't a_b ABC社１２", ["don", "'", "t", "a", "_", "b", "ABC", "社", "１２"]),
        ("e\u0301te\u0301 हिन्दी में", ["e\u0301te\u0301", "हिन्दी", "में"]),
        ("東京都に住むﾀﾅｶさん\u3000です", list("東京都に住むﾀﾅｶさんです")),
        ("サハ\u3099 ﾊﾞｯｸﾞ 々", ["サ", "ハ\u3099", "ﾊﾞ", "ｯ", "ｸﾞ", "々"]),
        ("한국어 ไทย", ["한", "국", "어", "ไ", "ท", "ย"]),
        ("😀a👍🏽", ["😀", "a", "👍", "🏽"]),
        ("", []),
        (" \u00a0\u3000\n", []),
    ],
)
def test_words(text, words):
    assert [text[start:end] for start, end in cut_words(text)] == words


@given(st.text(st.sampled_from("aé\u0301 .\u3000日ﾞカ😀\u200d\n한")), st.sets(st.integers(-1, 20)))
def test_words_hold_every_character_that_is_no_blank_and_end_at_the_bounds(text, bounds):
    spans = cut_words(text, bounds)
    held = [place for start, end in spans for place in range(start, end)]
    assert held == [place for place, character in enumerate(text) if not character.isspace()]
    assert not any(start < bound < end for start, end in spans for bound in bounds)


# Columns

CONLL = "-DOCSTART- -X- O O\n\nEU NNP I-NP I-ORG\nrejects VBZ I-VP O\n\n\nNew NNP I-NP I-LOC\nYork NNP I-NP I-LOC\n"


@pytest.mark.parametrize("change", [str, lambda text: text.replace("\n", "\r\n"), lambda text: "\ufeff" + text])
@pytest.mark.parametrize("name", ["eng.train", "a.txt", "a.conll", "a.tsv"])
def test_columns(put, change, name):
    path = put(name, change(CONLL))
    assert rows(path) == [(["EU", "rejects"], ["I-ORG", "O"]), (["New", "York"], ["I-LOC", "I-LOC"])]
    first, second = read_tagged(path)
    assert (first.place, second.place) == (f"{path}: row 3", f"{path}: row 7")
    assert (first.text, first.spans) == ("EU rejects", ((0, 2), (3, 10)))
    assert first.fields == {"words": ["EU", "rejects"], "tags": ["I-ORG", "O"]}
    assert rows(path, tags=2)[0][1] == rows(path, tags="-3")[0][1] == ["NNP", "VBZ"]
    assert rows(path, format="conll", labelled=False)[0] == (["EU", "rejects"], None)


def test_columns_by_tabs_hold_blanks_and_comments_are_skipped(put):
    path = put("a.conll", "# text = New York\nNew York\tB-LOC\n\n# a\n#\tO\n# \tO\nx\tO\n\n# last\n")
    assert rows(path) == [(["New York"], ["B-LOC"]), (["#", "# ", "x"], ["O", "O", "O"])]
    assert rows(put("b.conll", "# O\na O\n")) == [(["#", "a"], ["O", "O"])]
    assert rows(put("c.conll", "# a\na O\n")) == [(["a"], ["O"])]
    assert rows(put("d.conll", "a\u00a0b O\n")) == [(["a\u00a0b"], ["O"])]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a O\nb\n", "line 2: 1 columns, expected 2 as before: 'b'"),
        ("a O\nb c O\n", "line 2: 3 columns, expected 2"),
        ("a\tO\n\tO\n", "line 2: an empty word"),
        ("a\tO\nb\t \n", "line 2: an empty tag"),
        ("a\nb\n", "words and tags are both its column 1 of 1"),
    ],
)
def test_a_ragged_line_is_an_error_with_its_number(put, text, told):
    assert told in refused(put("a.conll", text))


def test_a_column_that_is_not_there_is_wrong_use(put):
    path = put("a.conll", "a O\n")
    for number in (3, 0, -3, "x"):
        with pytest.raises(SettingsError, match="column"):
            list(read_tagged(path, tags=number))
    assert "csv holds no tagged words" in refused(put("a.csv", "word,tag\n"))


# Lists


def test_lists_of_words_and_tags(put):
    for names in (("words", "ner"), ("tokens", "ner_tags"), ("words", "tags")):
        path = put("a.jsonl", [dict(zip(names, (["a", "b"], ["O", "B-X"]), strict=True))])
        assert rows(path) == [(["a", "b"], ["O", "B-X"])]
    other = put("b.json", json.dumps([{"w": ["a"], "t": ["O"], "id": 7}]))
    assert rows(other, words="w", tags="t") == [(["a"], ["O"])]
    assert next(read_tagged(other, words="w", tags="t")).fields["id"] == 7
    table = pa.table({"tokens": [["a", "b"]], "ner_tags": [[0, 2]]})
    pq.write_table(table, other.with_suffix(".parquet"))
    assert rows(other.with_suffix(".parquet"), names=["O", "B-X", "I-X"]) == [(["a", "b"], ["O", "I-X"])]


@pytest.mark.parametrize(
    ("row", "how", "told"),
    [
        ({"tags": [0, 1]}, {}, "holds numbers (0, 1, ...), not the names of tags"),
        ({"tags": [0, 3]}, {"names": ["O", "B-X"]}, "tag 3 has no name; 2 are given"),
        ({"tags": ["O"]}, {}, "1 tags for 2 words"),
        ({"tags": None}, {}, "field 'tags' is null"),
        ({"tags": ["O", None]}, {}, "expected names of tags"),
        ({"words": ["a", 1], "tags": ["O", "O"]}, {}, "expected a list of words"),
        ({"words": ["a", " "], "tags": ["O", "O"]}, {}, "word 1 (from 0) is blank"),
        ({"words": [], "tags": []}, {}, "has no words"),
        ({}, {}, "no field 'tags'"),
    ],
)
def test_lists_that_do_not_fit_are_errors_with_their_row(put, row, how, told):
    path = put("a.jsonl", [{"words": ["a", "b"], "tags": ["O", "O"]}, {"words": ["a", "b"], **row}])
    message = refused(path, **({"names": ["O"]} | how if "names" in how else how))
    assert "row 1" in message or "row 2" in message
    assert told in message


def test_missing_fields_are_named(put):
    path = put("a.jsonl", [{"words": ["a"], "other": 1}])
    assert "no tags ('tags', 'ner_tags', 'ner', 'labels', 'pos_tags') among its fields: 'words'" in refused(path)
    assert "neither words" in refused(put("b.jsonl", [{"x": 1, "y": 2}]))
    assert "did you mean 'words'" in refused(path, words="word")


# Spans


@pytest.mark.parametrize(
    "entities",
    [
        [{"name": "田中", "span": [0, 2], "type": "PER"}, {"name": "York", "span": [5, 9], "type": "LOC"}],
        [{"start": 5, "end": 9, "label": "LOC"}, {"start": 0, "end": 2, "label": "PER", "text": "田中"}],
        [{"start_offset": 0, "end_offset": 2, "label": "PER"}, {"start_offset": 5, "end_offset": 9, "label": "LOC"}],
        [[0, 2, "PER"], [5, 9, "LOC"]],
    ],
)
def test_spans_become_tags_of_words(put, entities):
    path = put("a.jsonl", [{"text": "田中です Yorkshire 😀", "entities": entities}])
    example = next(read_tagged(path))
    assert example.words == ("田", "中", "で", "す", "York", "shire", "😀")
    assert example.tags == ("B-PER", "I-PER", "O", "O", "B-LOC", "O", "O")
    assert next(read_tagged(path, labelled=False)).words == ("田", "中", "で", "す", "Yorkshire", "😀")


def test_neighbouring_spans_stay_two(put):
    row = {"text": "ab  cd", "entities": [[0, 1, "X"], [1, 2, "X"], [3, 6, "X"]]}
    assert rows(put("a.jsonl", [row])) == [(["a", "b", "cd"], ["B-X", "B-X", "B-X"])]
    assert rows(put("b.jsonl", [{"text": "ab", "entities": []}])) == [(["ab"], ["O"])]


@pytest.mark.parametrize(
    ("entity", "told"),
    [
        ([3, 9, "X"], "span [3, 9) is not within the text's 7 characters"),
        ([-1, 2, "X"], "not within"),
        ([2, 2, "X"], "not within"),
        ([2, 1, "X"], "not within"),
        ([2, 3, "X"], "holds only blanks"),
        ([0, 1, ""], "expected the name of a kind"),
        ([0, 1, 3], "expected the name of a kind"),
        ([0, "1", "X"], "expected whole numbers"),
        ([True, 1, "X"], "expected whole numbers"),
        ({"name": "ac", "span": [0, 2], "type": "X"}, "is 'ab' in the text, not 'ac'"),
        ({"start": 0, "type": "X"}, "no 'end'"),
        ("X", "expected {span"),
        ([5, 7, "X"], "'de' [4, 6) Y and 'ef' [5, 7) X overlap"),
    ],
)
def test_spans_that_do_not_fit_are_errors_with_row_and_field(put, entity, told):
    entities = [[4, 6, "Y"], entity] if "overlap" in told else [entity]
    rows = [{"text": "ab", "entities": []}, {"text": "ab xdef", "entities": entities}]
    message = refused(put("a.jsonl", rows))
    assert "row 2: field 'entities" in message or "row 2: field entities[0]" in message
    assert told in message


def test_texts_to_be_predicted_come_back_in_order_blank_ones_too(put):
    texts = ["a b", "", "田中", " "]
    expected = [(["a", "b"], None), ([], None), (["田", "中"], None), ([], None)]
    assert rows(put("a.txt", "\n".join([*texts, ""])), labelled=False) == expected
    assert rows(put("a.csv", "text\na b\n\n田中\n \n"), labelled=False) == expected
    assert rows(put("a.jsonl", [{"text": text} for text in texts]), labelled=False) == expected
    assert "blank" in refused(put("b.jsonl", [{"text": " ", "entities": []}]))


COLUMNS = ["a O\nb B-X\nc O\n", "# id 1\na NN O\nb NN O\nc NN I-X\n", "-DOCSTART- O\n\na B-X\nb O\nc O\n"]


@pytest.mark.parametrize("text", COLUMNS)
def test_columns_to_be_predicted_are_not_read_as_texts(put, text):
    """The same file, labelled, is read in columns: as texts, its tags would be words."""
    path = put("a.txt", text)
    told = refused(path, labelled=False)
    assert "words with their tags, and without a format a text a line is read" in told
    assert "format='conll' (--format conll) reads the words, format='txt' (--format txt) each line as a text" in told
    assert rows(path, labelled=False, format="conll") == [(words, None) for words, _ in rows(path)]
    assert rows(path, labelled=False, format="txt")[0][1] is None
    tabs = text.replace(" ", "\t")
    assert "--format conll" in refused(put("b.txt", tabs), labelled=False)
    for name in ("c.tsv", "d.csv"):
        assert "--format conll" in refused(put(name, tabs.partition("\n\n")[2] or tabs), labelled=False)


def test_lines_that_look_a_little_like_columns_are_texts(put):
    for text in ("group B\ngroup E\ngroup S\n", "a O\nb O\n", "a O\nb O\nsaid I to B\n", "a\tb\nc\td\n"):
        assert len(rows(put("a.txt", text), labelled=False)) == text.count("\n")


def test_blanks_around_a_tag_are_none_of_it(put):
    assert rows(put("a.jsonl", [{"words": ["a", "b"], "tags": ["B-X ", " O"]}])) == [(["a", "b"], ["B-X", "O"])]
    spans = [{"text": "ab c", "entities": [[0, 2, " X "], [3, 4, "X"]]}]
    assert rows(put("b.jsonl", spans)) == [(["ab", "c"], ["B-X", "B-X"])]
