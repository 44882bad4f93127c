"""Real text that any Debian machine can fetch: the documentation inside its packages, unpacked but not installed.

`documents` yields the texts of HTML pages, plain files and a dictionary, by the standard library alone. A package that
can't be had is left out, and told of.
"""

from __future__ import annotations

import gzip
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path

SHORTEST = 200
"""Characters; a shorter page is an index or a stub."""
ENTRIES = 2_000
"""Characters: entries of a dictionary are put together to documents of at least as many."""

_SKIPPED = {"head", "script", "style", "nav", "footer", "form", "svg"}
_SKIPPED_CLASSES = {"docnav", "headerlink", "sphinxsidebar", "related", "toctree-wrapper"}
_BLOCKS = {
    *("address", "article", "blockquote", "br", "dd", "div", "dl", "dt", "h1", "h2", "h3", "h4", "h5", "h6", "hr"),
    *("li", "ol", "p", "pre", "section", "table", "td", "th", "tr", "ul"),
}
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_INDEXES = ("genindex", "search", "py-modindex")


@dataclass(frozen=True)
class Package:
    """A package, where its text lies in it, and which paths to pass by."""

    name: str
    files: str
    without: str = "\0"


PACKAGES = (
    Package("linux-doc", "usr/share/doc/linux-doc-*/html/**/*.html", "/translations/"),
    Package("debian-handbook", "usr/share/doc/debian-handbook/html/en-US/*.html"),
    Package("git-doc", "usr/share/doc/git*/**/*.txt"),
    Package("dict-gcide", "usr/share/dictd/gcide.dict.dz"),
)


def documents(package: Package, cache: Path, tell: Callable[[str], None]) -> Iterator[str]:
    """Yield the documents of a package, fetched into `cache` the first time."""
    root = cache / package.name
    if not root.exists():
        missing = _unpack(package, root)
        if missing:
            tell(f"{package.name} is left out: {missing}")
            return
    for path in sorted(root.glob(package.files)):
        if package.without in str(path) or path.name.startswith(_INDEXES):
            continue
        if path.suffix == ".dz":
            yield from _entries(gzip.decompress(path.read_bytes()).decode("utf-8", "replace"))
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        if path.suffix == ".html":
            text = html_text(text)
        if len(text) >= SHORTEST:
            yield text


def _unpack(package: Package, root: Path) -> str:
    """Download and unpack a package; return why it can't be had, "" if it is there."""
    staging = root.with_name(f"{root.name}.partial")
    staging.mkdir(parents=True, exist_ok=True)
    wanted = package.name
    for _ in range(2):
        try:
            subprocess.run(["apt-get", "download", wanted], cwd=staging, check=True, capture_output=True, text=True)
            archive = next(iter(sorted(staging.glob("*.deb"))))
            subprocess.run(["dpkg-deb", "-x", archive, staging], check=True, capture_output=True, text=True)
            if any(staging.glob(package.files)):
                archive.unlink()
                staging.rename(root)
                return ""
            # The package of a changing version holds nothing itself: it depends on the present one.
            told = subprocess.run(
                ["dpkg-deb", "-f", archive, "Depends"], check=True, capture_output=True, text=True
            ).stdout
            archive.unlink()
            wanted = told.split(",")[0].split("(")[0].strip()
        except FileNotFoundError as error:
            return f"no {error.filename} here, so this is no Debian"
        except subprocess.CalledProcessError as error:
            said = (error.stderr or "").strip().splitlines()
            return said[-1] if said else f"{error.cmd[0]} failed"
        if not wanted:
            break
    return f"no {package.files} in it"


def _entries(text: str) -> Iterator[str]:
    waiting: list[str] = []
    size = 0
    for entry in re.split(r"\n(?=\S)", text):
        waiting.append(entry)
        size += len(entry)
        if size >= ENTRIES:
            yield "\n".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield "\n".join(waiting)


def html_text(page: str) -> str:
    """Return the running text of a page, a block a line, without what is there to find one's way."""
    reader = _Text()
    reader.feed(page)
    reader.close()
    return reader.text()


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._parts: list[str] = []
        self._skipped: str | None = None
        self._depth = self._pre = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped is not None:
            self._depth += tag == self._skipped
            return
        given = dict(attrs)
        classes = set((given.get("class") or "").split())
        if tag in _SKIPPED or classes & _SKIPPED_CLASSES or given.get("role") in ("navigation", "search"):
            if tag not in _VOID:
                self._skipped, self._depth = tag, 1
            return
        self._pre += tag == "pre"
        if tag in _BLOCKS:
            self._parts.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._skipped is None and tag in _BLOCKS:
            self._parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if self._skipped is not None:
            self._depth -= tag == self._skipped
            if not self._depth:
                self._skipped = None
            return
        self._pre -= tag == "pre" and self._pre > 0
        if tag in _BLOCKS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._skipped is None:
            self._parts.append(data if self._pre else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return "\n".join(line for line in lines if line)
