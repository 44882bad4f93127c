"""Real text that is on every machine: the paragraphs of the Python standard library's own docstrings."""

from __future__ import annotations

import ast
import re
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anaume.config import require_positive
from anaume.errors import DataError
from anaume.logs import get_logger

log = get_logger(__name__)

_OTHERS_CODE = {"test", "tests", "idle_test", "site-packages", "dist-packages", "__pycache__"}
"""Folders that are tests, hold deliberately broken files, or are not the standard library's."""
_BLANK_LINE = re.compile(r"\n\s*\n")
_NAMED = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Paragraph:
    """One paragraph of a docstring, on one line."""

    text: str
    where: str
    """The dotted name of what it documents, such as "threading.Timer"."""


def standard_library_paragraphs(minimum: int = 40) -> list[Paragraph]:
    """Return the docstring paragraphs of the running Python's standard library, each once.

    minimum  the fewest characters of a paragraph; sessions of the interactive prompt (">>> ...") are left out

    The order is that of file paths and places within them, so one Python version gives one list. Reading it takes a
    few seconds. Raises DataError (a ValueError) where the standard library's source is not on disk.
    """
    require_positive(minimum=minimum)
    root = Path(sysconfig.get_path("stdlib"))
    seen: dict[str, str] = {}
    for path in _sources(root):
        for where, docstring in _docstrings(_parse(path), _module_name(path.relative_to(root))):
            for block in _BLANK_LINE.split(docstring):
                text = " ".join(block.split())
                if len(text) >= minimum and not text.startswith(">>>"):
                    seen.setdefault(text, where)
    if not seen:
        raise DataError(f"the standard library's source is not in {root}: this Python came without it")
    log.debug("%d paragraphs in %s", len(seen), root)
    return [Paragraph(text, where) for text, where in seen.items()]


def _sources(root: Path) -> list[Path]:
    paths = (path.relative_to(root) for path in root.rglob("*.py"))
    ours = (path for path in paths if _OTHERS_CODE.isdisjoint(path.parts))
    return [root / path for path in sorted(ours, key=lambda path: path.parts)]


def _parse(path: Path) -> ast.Module:
    with tokenize.open(path) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # old escapes in foreign source are not ours to report
        return ast.parse(file.read())


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _docstrings(node: ast.AST, name: str) -> Iterator[tuple[str, str]]:
    if isinstance(node, (ast.Module, *_NAMED)):
        docstring = ast.get_docstring(node)
        if docstring:
            yield name, docstring
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr):
            yield from _docstrings(child, f"{name}.{child.name}" if isinstance(child, _NAMED) else name)
