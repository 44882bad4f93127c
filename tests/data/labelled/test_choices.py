"""Questions with options in their known layouts, and labels of every form."""

import json

import pytest

from anaume.data.labelled import read_choices
from anaume.errors import AnaumeWarning, DataError


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
    return [(example.question, example.options, example.label) for example in read_choices(path, **how)]


def test_swag_joins_the_second_sentence_with_each_ending(put):
    header = ",video-id,fold-ind,startphrase,sent1,sent2,gold-source,ending0,ending1,ending2,ending3,label"
    path = put("a.csv", f'{header}\n0,v,1,He sat. She,He sat.,She,gold,"runs, fast.",sits.,flies.,ends.,2\n')
    options = ("She runs, fast.", "She sits.", "She flies.", "She ends.")
    assert rows(path) == [("He sat.", options, 2)]
    assert rows(path, labelled=False) == [("He sat.", options, None)]


def test_arc_has_no_header_letters_and_numbers_from_one(put):
    path = put("a.csv", "Q one?,a,b,c,d,D\nQ two?,a,b,c,d,1\nQ three?,a,b,c,,B\n")
    assert rows(path) == [
        ("Q one?", ("a", "b", "c", "d"), 3),
        ("Q two?", ("a", "b", "c", "d"), 0),
        ("Q three?", ("a", "b", "c"), 1),
    ]


@pytest.mark.parametrize("names", ["A,B,C", "A,B,C,D", "A,B,C,D,E", "1,2,3,4"])
def test_a_header_that_ends_in_the_names_of_options_is_no_row_of_arc(put, names):
    """To be predicted, it was a question, and the last option of each row its key."""
    count = names.count(",") + 1
    path = put("a.csv", f"question,{names}\nQ?,{','.join('wxyzv'[:count])}\n")
    assert rows(path, options=names, labelled=False) == [("Q?", tuple("wxyzv"[:count]), None)]
    with pytest.raises(DataError, match=r"choose with options= .--column options=A,B,C,D"):
        rows(path, labelled=False)


@pytest.mark.parametrize("row", ["Q?,A,B,O,B", "Q?,2,3,1,3", "Q?,3,1,2", "Q?,B,A,B", "Q?,1,2,3,4,B"])
def test_options_that_are_letters_or_numbers_are_options(put, row):
    question, *options, _ = row.split(",")
    assert rows(put("a.csv", row + "\n"))[0][:2] == (question, tuple(options))


def test_a_label_that_is_one_options_number_and_anothers_text_is_told(put):
    path = put("a.csv", "question,choice0,choice1,choice2,answer\nQ,2,3,1,2\nQ,0,1,2,1\nQ,a,b,c,1\nQ,1,0,b,0\n")
    with pytest.warns(AnaumeWarning) as told:
        assert [label for _, _, label in rows(path)] == [2, 1, 1, 0]
    assert [str(one.message) for one in told] == [
        f"{path}: 2 labels are the number of one option and the text of another, and were read as numbers; the first: "
        f"{path}: row 2, answer '2'; where texts are meant, give the option's number"
    ]


def test_rows_without_a_right_option_are_left_out_and_counted(put):
    path = put("a.csv", "Q1?,a,b,c,d,A\nQ2?,,,,,3\nQ3?,a,b,c,d,E\nQ4?,a,b,c,,D\nQ5?,a,,c,d,D\n")
    with pytest.warns(AnaumeWarning) as told:
        found = rows(path)
    assert found == [("Q1?", ("a", "b", "c", "d"), 0), ("Q5?", ("a", "c", "d"), 2)]
    assert [str(one.message) for one in told] == [
        f"{path}: 3 rows were left out: 1 have no options, 2 a label that names none of theirs; the first: "
        f"{path}: row 2"
    ]
    with pytest.raises(DataError, match="row 2: 0 options, expected at least 2"):
        rows(path, labelled=False)


def test_numbered_options_and_lists_of_any_length(put):
    japanese = [{"q_id": 0, "question": "何？", "choice0": "あ", "choice1": "い", "label": 1}]
    assert rows(put("a.jsonl", japanese)) == [("何？", ("あ", "い"), 1)]
    lists = [
        {"question": "Q", "options": ["a", "b"], "label": 0},
        {"question": "Q", "options": ["a", "b", "c"], "label": "2"},
        {"question": "Q", "options": ["aa", "bb"], "label": "bb"},
        {"question": "Q", "options": ["aa", "bb"], "label": "b"},
    ]
    assert [(len(options), label) for _, options, label in rows(put("b.jsonl", lists))] == [
        (2, 0),
        (3, 2),
        (2, 1),
        (2, 1),
    ]
    copa = put("c.csv", "premise,choice1,choice2,label\nP,a,b,1\n")
    assert rows(copa) == [("P", ("a", "b"), 1)]
    named = [{"question": "Q", "choices": {"text": ["a", "b"], "label": ["1", "2"]}, "answerKey": "2"}]
    assert rows(put("d.jsonl", named)) == [("Q", ("a", "b"), 1)]
    objects = [
        {"question": "Q", "choices": [{"text": "a", "label": "A"}, {"text": "b", "label": "B"}], "answerKey": "B"}
    ]
    assert rows(put("e.jsonl", objects)) == [("Q", ("a", "b"), 1)]
    own = put("f.csv", "stem;\n".replace(";", ",x,y,right") + "S,a,b,1\n")
    assert rows(own, question="stem", options=["x", "y"], label="right") == [("S", ("a", "b"), 1)]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ({"options": ["a"]}, "1 options, expected at least 2"),
        ({"options": "ab"}, "expected a list of texts"),
        ({"label": None}, "field 'label' is null"),
        ({"label": ""}, "expected the right option's number"),
        ({"label": True}, "expected the right option's number"),
        ({"label": "maybe"}, "'maybe' is neither a number, a letter nor one of the 2 options"),
        ({"question": " "}, "field 'question' is blank"),
    ],
)
def test_rows_that_do_not_fit_are_errors(put, row, told):
    good = {"question": "Q", "options": ["a", "b"], "label": 0}
    path = put("a.jsonl", [good, {**good, **row}])
    with pytest.raises(DataError) as error:
        rows(path)
    assert f"{path}: row 2: " in str(error.value)
    assert told in str(error.value)


def test_missing_columns_are_named(put):
    with pytest.raises(DataError, match="no options among its fields: 'question', 'label'"):
        rows(put("a.csv", "question,label\nQ,1\n"))
    with pytest.raises(DataError, match="no question among its fields"):
        rows(put("b.csv", "choice0,choice1,label\na,b,1\n"))
    with pytest.raises(DataError, match="no label column"):
        rows(put("c.csv", "question,choice0,choice1\nQ,a,b\n"))
