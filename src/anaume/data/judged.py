"""Retrieval sets: documents, queries, and which document answers which query; BEIR folders, TREC and SMART files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from anaume.data.files import open_text, source_name
from anaume.data.records import text_records
from anaume.errors import DataError, SettingsError

_FIELD = re.compile(r"\.([A-Z])(?:\s|$)")
_CRANFIELD = {-1, 1, 2, 3, 4}  # 1 is the best, -1 the paper that a query was asked from


@dataclass(frozen=True)
class RetrievalSet:
    """What a search is judged on. Identifiers are texts."""

    documents: dict[str, str]
    """Title and text, joined by a blank as BEIR does."""
    queries: dict[str, str]
    """Those with a relevant document alone."""
    judged: dict[str, dict[str, int]]
    """Query -> document -> grade, 1 and more = relevant; every document is there."""
    left_out: int
    """Queries of the file that no document is relevant to."""


def read_retrieval_set(paths: str | Path | Sequence[str | Path], *, encoding: str = "utf-8") -> RetrievalSet:
    """Read a retrieval set.

    paths  a BEIR folder (corpus.jsonl, queries.jsonl, qrels/test.tsv; any of them may end in .gz); the folder and
           another file of judgments; or three files: documents, queries (both SMART's .I .T .W, or jsonl as BEIR's) and
           judgments, lines "query document grade" (BEIR, SMART) or "query iteration document grade" (TREC)

    Judgments of SMART collections number the queries in the order of their file. Cranfield's grades, 1 to 4 and -1, are
    turned round as its TREC version does: -1 becomes 5, 1 becomes 4, 4 becomes 1.

    Raises SettingsError for other paths, DataError for a file that is not there, a line that does not parse, an
    identifier that comes twice or that nothing has, with file and row.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    if given and given[0].is_dir() and len(given) <= 2:
        folder = given[0]
        corpus, asked = _one(folder, "corpus.jsonl"), _one(folder, "queries.jsonl")
        relations = given[1] if len(given) == 2 else _judgments(folder / "qrels")
    elif len(given) == 3 and not any(path.is_dir() for path in given):
        corpus, asked, relations = given
    else:
        raise SettingsError(
            "a retrieval set is a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), the folder and a file of "
            f"judgments, or three files: documents, queries, judgments; got {', '.join(map(str, given)) or 'nothing'}"
        )
    documents = _texts(corpus, encoding, numbered=False)
    queries = _texts(asked, encoding, numbered=True)
    judged = _read_judgments(relations, encoding, documents, queries)
    asked_of = {query: text for query, text in queries.items() if any(g > 0 for g in judged.get(query, {}).values())}
    if not asked_of:
        raise DataError(f"{relations}: no query has a relevant document (grade 1 or more)")
    return RetrievalSet(documents, asked_of, {query: judged[query] for query in asked_of}, len(queries) - len(asked_of))


def _one(folder: Path, name: str) -> Path:
    for path in (folder / name, folder / f"{name}.gz"):
        if path.exists():
            return path
    raise DataError(f"{folder}: no {name} in it: a BEIR folder has corpus.jsonl, queries.jsonl and qrels/")


def _judgments(folder: Path) -> Path:
    found = sorted(path for path in folder.glob("*.tsv*") if path.is_file()) if folder.is_dir() else []
    test = [path for path in found if path.name.split(".")[0] == "test"]
    chosen = test if len(test) == 1 else found
    if len(chosen) != 1:
        names = ", ".join(path.name for path in found) or "none"
        raise DataError(f"{folder}: one file of judgments is expected, test.tsv or the only one; there are: {names}")
    return chosen[0]


def _texts(path: Path, encoding: str, *, numbered: bool) -> dict[str, str]:
    """Return identifier -> text. numbered: SMART's entries are numbered in order, whatever they call themselves."""
    found: dict[str, str] = {}
    smart = not {".jsonl", ".ndjson"} & set(path.suffixes)
    entries = _smart(path, encoding, numbered) if smart else _jsonl(path, encoding)
    for place, own, text in entries:
        if own in found:
            raise DataError(f"{place}: the identifier {own!r} comes twice")
        if not text.strip():
            text = ""  # Cranfield has two documents without a text: they are there, and nothing finds them
        found[own] = text
    if not found:
        raise DataError(f"{path}: no entries in it (read as {'SMART' if smart else 'jsonl'})")
    return found


def _jsonl(path: Path, encoding: str) -> Iterator[tuple[str, str, str]]:
    source = source_name(path)
    with open_text(path, encoding=encoding) as file:
        for number, record in text_records(file, "jsonl", None, True):
            place = f"{source}: row {number}"
            own = record.get("_id", record.get("id")) if isinstance(record, dict) else None
            text = record.get("text") if isinstance(record, dict) else None
            if not isinstance(own, str | int) or not isinstance(text, str):
                raise DataError(f"{place}: expected an object with _id (or id) and text; came {record!r:.80}")
            assert isinstance(record, dict)
            title = record.get("title")
            yield place, str(own), f"{title} {text}".strip() if isinstance(title, str) and title else text


def _smart(path: Path, encoding: str, numbered: bool) -> Iterator[tuple[str, str, str]]:
    """Yield (place, identifier, title and text) of .I entries; the fields .T and .W are read, others left out."""
    source, own, place, count, field = source_name(path), None, "", 0, ""
    parts: dict[str, list[str]] = {}

    def entry() -> tuple[str, str, str]:
        assert own is not None
        title, text = (" ".join(" ".join(parts.get(name, ())).split()) for name in "TW")
        # Cranfield's texts begin with their title once more.
        return place, own, text if text.startswith(title) else f"{title} {text}".strip()

    with open_text(path, encoding=encoding) as file:
        for number, line in enumerate(file.lines(), 1):
            match = _FIELD.match(line)
            if match and match[1] == "I":
                if own is not None:
                    yield entry()
                count += 1
                told = line[2:].strip()
                own, place, field, parts = str(count) if numbered else told, f"{source}: row {number}", "", {}
            elif own is None:
                if line.strip():
                    raise DataError(f"{source}: row {number}: expected .I and a number (SMART); came {line[:40]!r}")
            elif match:
                field = match[1]
            else:
                parts.setdefault(field, []).append(line)
    if own is not None:
        yield entry()


def _read_judgments(
    path: Path, encoding: str, documents: dict[str, str], queries: dict[str, str]
) -> dict[str, dict[str, int]]:
    source = source_name(path)
    rows: list[tuple[str, str, str, int]] = []
    with open_text(path, encoding=encoding) as file:
        for number, line in enumerate(file.lines(), 1):
            cells = line.split()
            if not cells or (number == 1 and not _is_number(cells[-1])):  # BEIR's files have a header, mostly
                continue
            place = f"{source}: row {number}"
            if len(cells) not in (3, 4) or not _is_number(cells[-1]):
                raise DataError(
                    f"{place}: expected 'query document grade' or 'query iteration document grade'; came {line[:60]!r}"
                )
            rows.append((place, cells[0], cells[-2], int(cells[-1])))
    if {grade for *_, grade in rows} == _CRANFIELD:
        rows = [(place, query, document, 5 if grade < 0 else 5 - grade) for place, query, document, grade in rows]
    judged: dict[str, dict[str, int]] = {}
    for place, query, document, grade in rows:
        if query not in queries:
            raise DataError(f"{place}: no query is called {query!r}")
        if document not in documents:
            raise DataError(f"{place}: no document is called {document!r}")
        if judged.setdefault(query, {}).get(document, grade) != grade:
            raise DataError(f"{place}: query {query!r} and document {document!r} were judged before, by another grade")
        judged[query][document] = grade
    return judged


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+", text) is not None
