"""Questions in SQuAD's form and flat; offsets of the original; misplaced answers."""

import csv
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data.labelled import Answer, read_questions
from anaume.errors import AnaumeWarning, DataError, SettingsError

CONTEXT = "Она живёт в\u00a0Осло .\r\n  Naïve 😀 plan"


def squad(*qas, context=CONTEXT, title="T"):
    return {"version": "v2.0", "data": [{"title": title, "paragraphs": [{"context": context, "qas": list(qas)}]}]}


def qa(answers=None, **more):
    return {"id": "q1", "question": "Where?", **({} if answers is None else {"answers": answers}), **more}


def answer(text, context=CONTEXT):
    return {"text": text, "answer_start": context.index(text)}


@pytest.fixture
def put(tmp_path):
    def write(name, data):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        return path

    return write


def test_offsets_count_characters_of_the_context_as_it_is(put):
    """Case QA-06: beyond the BMP, a non-breaking blank, CRLF."""
    texts = ["Осло", "Она", "😀 plan", "\r\n  Naïve"]
    path = put("a.json", squad(qa([answer(text) for text in texts])))
    (example,) = read_questions(path)
    assert example.context == CONTEXT
    assert example.answers == tuple(Answer(text, CONTEXT.index(text)) for text in texts)
    assert all(CONTEXT[one.start : one.start + len(one.text)] == one.text for one in example.answers)
    assert (example.place, example.id, example.question, example.title) == (f"{path}: question 1", "q1", "Where?", "T")
    assert example.fields["id"] == "q1"


def test_the_forms_say_the_same(put, tmp_path):
    one = answer("Осло")
    flat = {"id": "q1", "question": "Where?", "context": CONTEXT}
    columns = {**flat, "answers": {"text": [one["text"]], "answer_start": [one["answer_start"]]}}
    paths = [
        put("a.json", squad(qa([one]), title="")),
        put("b.json", squad(qa([one]), title="")["data"]),
        put("c.json", {"version": 2.0, "data": [columns]}),
        put("d.json", [{**flat, "answers": [one]}]),
        put("e.jsonl", columns),
    ]
    pq.write_table(pa.Table.from_pylist([columns]), tmp_path / "f.parquet")
    found = [next(read_questions(path)) for path in [*paths, tmp_path / "f.parquet"]]
    assert {(each.id, each.question, each.context, each.answers) for each in found} == {
        ("q1", "Where?", CONTEXT, (Answer("Осло", one["answer_start"]),))
    }


def write_csv(path, *rows):
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)
    return path


def test_tables_hold_answers_as_json_or_one_a_row(tmp_path):
    row = {"id": "q1", "question": "Where?", "context": CONTEXT}
    place = CONTEXT.index("Осло")
    lists = {"text": ["Осло"], "answer_start": [place]}
    forms = [
        ({"answers": json.dumps(lists)}, {"answers": "[]"}),
        ({"answers": json.dumps([answer("Осло")])}, {"answers": json.dumps({"text": [], "answer_start": []})}),
        ({"answer": "Осло", "answer_start": place}, {"answer": "", "answer_start": ""}),
        ({"answers": "Осло", "answer_start": place}, {"answers": "", "answer_start": -1}),
        (
            {"answers": json.dumps(lists), "is_impossible": "False"},
            {"answers": json.dumps(lists), "is_impossible": "True"},
        ),
    ]
    for given, none in forms:
        path = write_csv(tmp_path / "t.csv", {**row, **given}, {**row, **none})
        assert [one.answers for one in read_questions(path)] == [(Answer("Осло", place),), ()]
    named = write_csv(tmp_path / "n.csv", {**row, "span": "Осло", "answer_start": place})
    assert next(read_questions(named, answers="span")).answers == (Answer("Осло", place),)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"answers": "Осло"}, "expected a list of objects"),
        ({"answers": ""}, "expected a list of objects"),
        ({"answers": "Осло", "answer_start": "x"}, "answer_start of 'Осло' must be a whole number, came str 'x'"),
        ({"answer": "Осло", "answer_start": ""}, "must be a whole number"),
        ({"answer": "Осло", "answer_start": "²"}, "must be a whole number"),
        ({"answer": "Осло"}, "no field 'answers'"),
    ],
)
def test_cells_that_hold_no_answers_are_errors(tmp_path, given, told):
    path = write_csv(tmp_path / "t.csv", {"question": "Where?", "context": CONTEXT, **given})
    with pytest.raises(DataError, match=r"t\.csv: row 2: .*" + told):
        list(read_questions(path))


def test_blank_texts_pass_where_nothing_is_learned(put):
    """QA-03."""
    path = put("a.jsonl", qa(context=" ", question=""))
    (example,) = read_questions(path, labelled=False)
    assert (example.context, example.question) == (" ", "")
    with pytest.raises(DataError, match="field 'question' is blank"):
        list(read_questions(put("b.jsonl", qa([], context=" ", question=""))))


def test_questions_without_an_answer_and_without_labels(put):
    impossible = qa([], is_impossible=True, plausible_answers=[answer("Она")])
    path = put("a.json", squad(impossible, qa([]), qa([answer("Она")])))
    assert [example.answers for example in read_questions(path)] == [(), (), (Answer("Она", 0),)]
    bare = put("b.jsonl", {"question": "Where?", "context": CONTEXT})
    (example,) = read_questions(bare, labelled=False)
    assert (example.answers, example.id) == (None, "1")
    with pytest.raises(DataError, match="row 1: no field 'answers'"):
        list(read_questions(bare))
    named = put("c.jsonl", {"q": "Where?", "c": CONTEXT, "id": 7})
    with pytest.raises(DataError, match=r"it has 'q', 'c', 'id'; choose with context= \(--column context=NAME\)"):
        list(read_questions(named))
    with pytest.raises(DataError, match=r"choose with question= \(--column question=NAME\)"):
        list(read_questions(named, context="c"))
    with pytest.raises(DataError, match=r"choose with answers= \(--column answers=NAME\)"):
        list(read_questions(named, context="c", question="q"))
    assert next(read_questions(named, question="q", context="c", labelled=False)).id == "7"


def test_a_sep_in_a_context_stays_where_it_is(put):
    context = "梅雨 [SEP] 梅雨は雨である。"
    (example,) = read_questions(put("a.json", squad(qa([answer("雨である", context)]), context=context)))
    assert (example.context, example.answers[0].start) == (context, 12)


def test_misplaced_answers_are_counted_told_once_and_left_out(put):
    wrong = {"text": "Осло", "answer_start": 3}
    path = put(
        "a.json",
        squad(
            qa([answer("Она")]),
            qa([wrong, answer("Осло")], id="q2"),
            qa([wrong], id="q3"),
            qa([{"text": "plan", "answer_start": -4}], id="q4"),
        ),
    )
    with pytest.warns(AnaumeWarning) as told:
        found = list(read_questions(path))
    assert [example.id for example in found] == ["q1", "q2"]
    assert found[1].answers == (Answer("Осло", CONTEXT.index("Осло")),)
    assert [str(one.message) for one in told] == [
        f"{path}: 3 answers do not stand at their answer_start and were left out, and with them 2 questions that have "
        f"no other; the first: {path}: question 2 (id q2): 'Осло' should stand at 3, where there is ' жив'"
    ]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (qa("Осло"), "expected a list of objects"),
        (qa(["Осло"]), "expected a list of objects"),
        (qa({"text": ["a"], "answer_start": []}), "of one length"),
        (qa([{"text": "a"}]), "answer_start of 'a' must be a whole number, came null"),
        (qa([{"text": "", "answer_start": 0}]), "must be a text"),
        (qa([], question=" "), "field 'question' is blank"),
        (qa([], question=None), "field 'question' is null"),
        (qa([], id=[1]), "field 'id'"),
    ],
)
def test_questions_that_do_not_fit_are_errors_with_their_place(put, row, told):
    path = put("a.json", squad(qa([]), row))
    with pytest.raises(DataError) as error:
        list(read_questions(path))
    assert f"{path}: question 2: " in str(error.value)
    assert told in str(error.value)


def test_files_that_hold_none_are_refused(put):
    with pytest.raises(DataError, match="row 1: field 'paragraphs': expected a list of objects"):
        list(read_questions(put("a.json", {"data": [{"paragraphs": ["x"]}]})))
    with pytest.raises(DataError, match="row 1, paragraph 1: no field 'context'"):
        list(read_questions(put("b.json", {"data": [{"paragraphs": [{"qas": []}]}]})))
    with pytest.raises(SettingsError, match="a txt holds no questions"):
        read_questions(put("c.txt", b"a"))
