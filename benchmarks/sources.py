"""Where the pretraining benchmarks' texts come from, a source a function; and the evaluation sets they must not hold.

Texts stay as their files have them: nothing is detokenised. Not among them: sentence_polarity, which holds the
development sentences of SST-2.
"""

from __future__ import annotations

import ast
import gzip
import hashlib
import os
import re
import sysconfig
import warnings
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from anaume.data import read_rows
from anaume.data.docstrings import standard_library_paragraphs
from anaume.data.labelled import ChoiceExample, read_labelled
from anaume.errors import DataError
from benchmarks import debian, harness

CORPORA = harness.KEPT / "corpora"

Source = Callable[[Callable[[str], None]], Iterator[str]]
"""Yields documents; is given a function that takes what a reader of the page should know."""


def public_data(relative: str) -> Path:
    """Return a path in the public data folder (ANAUME_DATA, or shared/data beside the checkout). Raises DataError."""
    given = os.environ.get("ANAUME_DATA")
    path = (Path(given) if given else harness.ROOT.parent / "shared" / "data") / relative
    if not path.exists():
        raise DataError(f"public data {relative!r} is not at {path}: set ANAUME_DATA to the folder that holds it")
    return path


def _zipped(relative: str, tell: Callable[[str], None]) -> Iterator[str]:
    with zipfile.ZipFile(public_data(relative)) as archive:
        for name in sorted(archive.namelist()):
            if name.endswith(".txt"):
                yield archive.read(name).decode("latin-1")


def _wikitext(tell: Callable[[str], None]) -> Iterator[str]:
    text = gzip.decompress(public_data("wikitext-2/valid.txt.gz").read_bytes()).decode("utf-8")
    yield from filter(str.strip, re.split(r"\n(?= = [^=].* = \n)", text))


def _debian(package: debian.Package, tell: Callable[[str], None]) -> Iterator[str]:
    yield from debian.documents(package, CORPORA / "debian", tell)


def _docstrings(tell: Callable[[str], None]) -> Iterator[str]:
    """Yield the docstrings of installed packages, a module a document."""
    root = Path(sysconfig.get_path("purelib"))
    for path in sorted(root.rglob("*.py"), key=lambda path: path.parts):
        if {"tests", "test"} & set(path.parts):
            continue
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # old escapes in foreign source
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
        found = [ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, documented)]
        text = "\n\n".join(filter(None, found))
        if len(text) >= debian.SHORTEST:
            yield text


def _paragraphs(count: int | None, tell: Callable[[str], None]) -> Iterator[str]:
    yield from (paragraph.text for paragraph in standard_library_paragraphs()[:count])


REVIEWS: dict[str, Source] = {
    "movie reviews": partial(_zipped, "nltk_corpora/movie_reviews.zip"),
    "State of the Union": partial(_zipped, "nltk_corpora/state_union.zip"),
    "WikiText-2 valid": _wikitext,
}
INSTALLED: dict[str, Source] = {
    **{package.name: partial(_debian, package) for package in debian.PACKAGES},
    "docstrings of installed packages": _docstrings,
}

STANDARD_LIBRARY = "docstrings of the standard library"


def standard_library(count: int | None = None) -> dict[str, Source]:
    """Return the source of the standard library's docstring paragraphs, a document each."""
    return {STANDARD_LIBRARY: partial(_paragraphs, count)}


def share_of(text: str) -> float:
    """Return a number from 0 to 1 that the text alone decides."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "replace")).digest()[:8], "big") / 2**64


# -- evaluation sets --------------------------------------------------------------------------------------------------


def _sst2() -> Iterator[str]:
    yield from (row.text for row in read_rows(public_data("glue/SST-2/dev.tsv")))


def _conll() -> Iterator[str]:
    text = gzip.decompress(public_data("conll2003/eng.testa.gz").read_bytes()).decode("utf-8")
    for block in text.split("\n\n"):
        words = [line.split()[0] for line in block.splitlines() if line]
        if words and words != ["-DOCSTART-"]:
            yield " ".join(words)


def _labelled(kind: str, relative: str) -> Iterator[str]:
    """Yield the texts of a labelled file, each once; options of a choice are words, and no sentences."""
    seen = set()
    for example in read_labelled(kind, public_data(relative)):
        for text in [example.question] if isinstance(example, ChoiceExample) else example.texts:
            if text not in seen:
                seen.add(text)
                yield text


EVALUATION: dict[str, Callable[[], Iterator[str]]] = {"SST-2 dev": _sst2, "CoNLL-2003 testa": _conll}
JAPANESE_EVALUATION: dict[str, Callable[[], Iterator[str]]] = {
    "JNLI valid": partial(_labelled, "pair-classification", "jglue/jnli/valid-v1.3.json.gz"),
    "JSTS valid": partial(_labelled, "regression", "jglue/jsts/valid-v1.3.json.gz"),
    "JCommonsenseQA valid": partial(_labelled, "multiple-choice", "jglue/jcommonsenseqa/valid-v1.3.json"),
    "Wikipedia NER": partial(_labelled, "ner", "ner_wikipedia_ja/ner.json.gz"),
    "JSQuAD valid": partial(_labelled, "question-answering", "jglue/jsquad/valid-v1.3.json.gz"),
}
