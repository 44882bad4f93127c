"""What vectors of texts learn from, out of every kind of file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data.labelled import SimilarityExample, read_similar
from anaume.errors import AnaumeWarning, DataError, SettingsError
from helpers import public_data

Put = Callable[[str, Any], Path]


@pytest.fixture
def put(tmp_path: Path) -> Put:
    def write(name: str, content: Any) -> Path:
        path = tmp_path / name
        lines = content if isinstance(content, str) else "".join(f"{json.dumps(row)}\n" for row in content)
        path.write_text(lines, "utf-8")
        return path

    return write


def told(path: Path, **reading: Any) -> list[tuple[Any, ...]]:
    return [(one.text, one.positives, one.negatives, one.label) for one in read_similar(path, **reading)]


PAIR = ("a", ("b",), (), None)


@pytest.mark.parametrize(
    ("name", "content", "wanted"),
    [
        ("a.csv", "query,positive\na,b\n", PAIR),
        ("a.csv", "anchor,positive\na,b\n", PAIR),
        ("a.csv", "question,answer\na,b\n", PAIR),
        ("a.tsv", "sentence1\tsentence2\na\tb\n", PAIR),
        ("a.csv", "left,right\na,b\n", PAIR),
        ("a.csv", "anchor,positive,negative\na,b,c\n", ("a", ("b",), ("c",), None)),
        ("a.csv", "query,positive,negative_2,negative_1\na,b,c,d\n", ("a", ("b",), ("d", "c"), None)),
        ("a.csv", "query,positive,negative_1,negative_2\na,b,c,\n", ("a", ("b",), ("c",), None)),
        ("a.csv", "sentence1,sentence2,score\na,b,2.5\n", ("a", ("b",), (), 2.5)),
        ("a.tsv", "score\tsentence1\tsentence2\n3\ta\tb\n", ("a", ("b",), (), 3.0)),
        ("a.tsv", "1.5\ta\tb\n", ("a", ("b",), (), 1.5)),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\tneutral\n", ("a", ("b",), (), "neutral")),
        ("a.tsv", "premise\thypothesis\tlabel\na\tb\t2\n", ("a", ("b",), (), "2")),
        ("a.jsonl", [{"sentence1": "a", "sentence2": "b", "label": 2.4}], ("a", ("b",), (), 2.4)),
        ("a.jsonl", [{"query": "a", "pos": ["b", "c", "b"], "neg": ["d"]}], ("a", ("b", "c"), ("d",), None)),
        (
            "a.jsonl",
            [{"query": "a", "positive": "b", "negatives": ["c", "d"], "score": [1, 2.5]}],
            ("a", ("b",), ("c", "d"), (1.0, 2.5)),
        ),
        ("a.csv", "query,positive,negative,margin\na,b,c,7\n", ("a", ("b",), ("c",), (7.0,))),
        ("a.txt", "a\n", ("a", (), (), None)),
        ("a.txt", "sentence_A\tsentence_B\trelatedness_score\na\tb\t4.5\n", ("a", ("b",), (), 4.5)),
        ("a.csv", "text,label\na,x\n", ("a", (), (), None)),
    ],
)
def test_known_layouts(put: Put, name: str, content: Any, wanted: tuple[Any, ...]) -> None:
    assert told(put(name, content)) == [wanted]


def test_parquet(tmp_path: Path) -> None:
    pq.write_table(pa.table({"query": ["a"], "positive": ["b"], "negatives": [["c", "d"]]}), tmp_path / "a.parquet")
    assert told(tmp_path / "a.parquet") == [("a", ("b",), ("c", "d"), None)]


def test_columns_by_name_are_read_alone(put: Put) -> None:
    path = put("a.csv", "q,p,x,y,s,kind\na,b,c,d,1.5,z\n")
    assert told(path, query="q", positive="p") == [PAIR]
    assert told(path, query="q", positive="p", score="s") == [("a", ("b",), (), 1.5)]
    assert told(path, query="q", positive="p", label="kind") == [("a", ("b",), (), "z")]
    assert told(path, query="q", positive="p", negative="x,y") == [("a", ("b",), ("c", "d"), None)]
    assert told(path, query="q") == [("a", (), (), None)]
    sts = put("b.csv", "sentence1,sentence2,score\na,b,0\n")
    assert told(sts, query="sentence1", positive="sentence2") == [PAIR]
    assert told(sts, labelled=False) == [PAIR]


@pytest.mark.parametrize(
    ("content", "reading", "said"),
    [
        ("query,positive\na,\n", {}, "a.csv: row 2: field 'positive' is blank"),
        ("query,positive\n ,b\n", {}, "a.csv: row 2: field 'query' is blank"),
        ("query,positive,negative\na,b,b\n", {}, "row 2: the text 'b' is positive and negative at once"),
        ("query,positive,negative,score\na,b,c,x\n", {}, "row 2: field 'score': expected a number, came 'x'"),
        ("query,positive\na,b\n", {"negative": "neg"}, "a.csv: no column 'neg'"),
        ("query,positive\na,b\n", {"query": "qery"}, r"a.csv: no column 'qery' \(did you mean 'query'\?\)"),
        ("a,b,c\nx,y,z\n", {}, "which columns hold the texts"),
        ("a,positive\nx,y\n", {"positive": "positive"}, "'positive' is whose positive"),
        ("query,positive\n", {}, "a.csv: no rows in it"),
    ],
)
def test_errors_name_file_row_and_field(put: Put, content: str, reading: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError, match=said):
        told(put("a.csv", content), **reading)


def test_lists_are_checked(put: Put) -> None:
    for row, said in (
        ({"query": "a", "positive": []}, "field 'positive': an empty list"),
        ({"query": "a", "positive": ["b", 3]}, "expected a text or a list of texts"),
        ({"query": "a", "positive": "b", "negatives": ["c", "d"], "score": 1}, "1 scores, expected 2"),
        ({"query": "a", "positive": "b", "negatives": ["c", "d"], "score": [1, "x"]}, "expected a number, came 'x'"),
    ):
        with pytest.raises(DataError, match=said):
            told(put("a.jsonl", [row]))


def test_a_score_and_a_class_at_once_are_refused(put: Put) -> None:
    with pytest.raises(SettingsError, match="a score or a class: name one of score='s' and label='l'"):
        read_similar(put("a.csv", "q,p\n"), score="s", label="l")


def test_rows_of_json_may_differ_in_their_fields(put: Put) -> None:
    rows = [{"query": "a", "positive": "b"}, {"query": "a", "positive": "b", "negatives": ["c"]}]
    assert told(put("a.jsonl", rows)) == [PAIR, ("a", ("b",), ("c",), None)]


def test_rows_without_a_decision_are_counted(put: Put) -> None:
    path = put("a.tsv", "sentence1\tsentence2\tgold_label\na\tb\t-\nc\td\tneutral\n")
    with pytest.warns(AnaumeWarning, match="1 rows were left out: their gold_label is '-'"):
        assert told(path) == [("c", ("d",), (), "neutral")]


def test_places_and_fields_travel(put: Put) -> None:
    (one,) = read_similar(put("a.csv", "query,positive,id\na,b,7\n"))
    assert isinstance(one, SimilarityExample)
    assert one.place.endswith("a.csv: row 2")
    assert one.fields["id"] == "7"


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "count", "kind"),
    [
        ("glue/STS-B/dev.tsv", 1500, float),
        ("sick/SICK_train.txt.gz", 4500, float),
        ("sts12-16/2012", 0, float),
        ("snli/validation.tsv.gz", 9842, str),
        ("jglue/jsts/valid-v1.3.json.gz", 1457, float),
        ("jglue/jnli", 0, str),
    ],
)
def test_public_sets(name: str, count: int, kind: type) -> None:
    path = public_data(name)
    if path.is_dir():
        path = sorted(file for file in path.iterdir() if ".tsv" in file.name or ".json" in file.name)[0]
    examples = list(read_similar(path, quoting=True if "snli" in name else None))
    assert len(examples) == count or (count == 0 and len(examples) > 100)
    assert all(isinstance(one.label, kind) and len(one.positives) == 1 for one in examples)
