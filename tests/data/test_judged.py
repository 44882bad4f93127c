"""Retrieval sets: BEIR folders, TREC and SMART files."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from anaume.data.judged import read_retrieval_set
from anaume.errors import DataError, SettingsError
from helpers import public_data

DOCUMENTS = [{"_id": "d1", "title": "Cats", "text": "purr"}, {"_id": "d2", "title": "", "text": "dogs bark"}]
QUERIES = [{"_id": "q1", "text": "who purrs"}, {"_id": "q2", "text": "who sings"}]


def beir(folder: Path, judgments: str = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\n") -> Path:
    (folder / "qrels").mkdir(parents=True)
    for name, rows in (("corpus.jsonl", DOCUMENTS), ("queries.jsonl", QUERIES)):
        (folder / name).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "qrels/test.tsv").write_text(judgments)
    return folder


def smart(folder: Path, judgments: str) -> list[Path]:
    (folder / "all").write_text(
        ".I 1\n.T\nwing\nflow .\n.A\nsmith\n.W\nwing\nflow . and more\n.I 2\n.T\ntitle\n.W\n other\ntext\n.I 3\n.W\n"
    )
    (folder / "qry").write_text(".I 001\n.W\nwhat\nflows\n.I 004\n.W\nwhy\n")
    (folder / "rel").write_text(judgments)
    return [folder / "all", folder / "qry", folder / "rel"]


def test_a_beir_folder(tmp_path: Path) -> None:
    found = read_retrieval_set(beir(tmp_path / "a"))
    assert found.documents == {"d1": "Cats purr", "d2": "dogs bark"}
    assert (found.queries, found.judged, found.left_out) == ({"q1": "who purrs"}, {"q1": {"d1": 2, "d2": 0}}, 1)
    bare = beir(tmp_path / "b", "q1\td1\t1\n")
    assert read_retrieval_set(bare).judged == {"q1": {"d1": 1}}
    (bare / "dev.tsv").write_text("q2 0 d2 1\r\n")
    assert read_retrieval_set([bare, bare / "dev.tsv"]).judged == {"q2": {"d2": 1}}
    with gzip.open(bare / "corpus.jsonl.gz", "wt") as file:
        file.write((bare / "corpus.jsonl").read_text())
    (bare / "corpus.jsonl").unlink()
    assert read_retrieval_set(bare).documents == found.documents


def test_smart_files_number_their_queries_in_order(tmp_path: Path) -> None:
    found = read_retrieval_set(smart(tmp_path, "1 2 1\n2 1 1\n"))
    assert found.documents == {"1": "wing flow . and more", "2": "title other text", "3": ""}
    assert found.queries == {"1": "what flows", "2": "why"}
    assert found.judged == {"1": {"2": 1}, "2": {"1": 1}}


def test_cranfields_grades_are_turned_round(tmp_path: Path) -> None:
    found = read_retrieval_set(smart(tmp_path, "1 1 -1 \n1 2 1 \n1 3 2\n2 1 3\n2 2 4\n"))
    assert found.judged == {"1": {"1": 5, "2": 4, "3": 3}, "2": {"1": 2, "2": 1}}


@pytest.mark.parametrize(
    ("judgments", "said"),
    [
        ("q1\td9\t1\n", "test.tsv: row 1: no document is called 'd9'"),
        ("q9\td1\t1\n", "row 1: no query is called 'q9'"),
        ("q1\td1\t1\nq1\td1\t2\n", "row 2: query 'q1' and document 'd1' were judged before"),
        ("q1\td1\t1\nq1\n", "row 2: expected 'query document grade'"),
        ("q1\td1\t0\n", r"no query has a relevant document \(grade 1 or more\)"),
    ],
)
def test_judgments_that_do_not_fit_are_refused(tmp_path: Path, judgments: str, said: str) -> None:
    with pytest.raises(DataError, match=said):
        read_retrieval_set(beir(tmp_path / "a", judgments))


def test_other_paths_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="a retrieval set is a BEIR folder"):
        read_retrieval_set(tmp_path / "nothing")
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no corpus.jsonl in it"):
        read_retrieval_set(tmp_path / "empty")
    folder = beir(tmp_path / "a")
    (folder / "qrels/test.tsv").rename(folder / "qrels/a.tsv")
    (folder / "qrels/b.tsv").write_text("")
    with pytest.raises(DataError, match=r"test\.tsv or the only one; there are: a\.tsv, b\.tsv"):
        read_retrieval_set(folder)
    (folder / "qrels/b.tsv").unlink()
    (folder / "corpus.jsonl").write_text('{"_id": "d1", "text": "a"}\n{"_id": "d1", "text": "b"}\n')
    with pytest.raises(DataError, match="row 2: the identifier 'd1' comes twice"):
        read_retrieval_set(folder)
    (folder / "corpus.jsonl").write_text('{"text": "a"}\n')
    with pytest.raises(DataError, match="row 1: expected an object with _id"):
        read_retrieval_set(folder)
    with pytest.raises(DataError, match=r"row 1: expected \.I and a number \(SMART\)"):
        read_retrieval_set([tmp_path / "a/qrels/a.tsv", tmp_path / "a/queries.jsonl", tmp_path / "a/qrels/a.tsv"])


@pytest.mark.real
def test_the_published_counts() -> None:
    folder = public_data("cranfield")
    files = [folder / "cran.all.1400.gz", folder / "cran.qry"]
    one = read_retrieval_set([*files, folder / "cranqrel"])
    other = read_retrieval_set([*files, folder / "QRelsCorrectedforTRECeval"])
    assert (len(one.documents), len(one.queries), one.left_out) == (1400, 225, 0)
    assert sum(map(len, one.judged.values())) == 1837
    assert one == other
    marco = read_retrieval_set(public_data("beir_subsets/msmarco"))
    assert (len(marco.documents), len(marco.queries), marco.left_out) == (5000, 43, 7)
