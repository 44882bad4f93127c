"""Graphs on disk, by the fingerprint of what they were made of: the second start of a bundle makes none.

    CACHE/graphs/KEY/graph.xml, graph.bin, sizes.json      CACHE is $ANAUME_CACHE, else $XDG_CACHE_HOME/anaume, else
    CACHE/graphs/.new-RANDOM/                              ~/.cache/anaume

An entry is written beside its place and renamed in, so it is whole or not there: two processes may make the same one
(the second finds it there), and a killed one leaves a `.new-` folder, removed after an hour. A changed bundle has
another key. Where nothing can be written, graphs stay in memory. What is kept is the graph, not OpenVINO's compiled
form: read back, a float32 one gave NaN (2026.4), and compiling takes half a second.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from anaume.logs import get_logger

log = get_logger(__name__)

GRAPH, _SIZES = "graph.xml", "sizes.json"
KEPT = 8
"""Entries that stay; the least recently used go first."""
_STALE = 3600.0  # seconds until a folder of a killed writer is removed


def cache_folder() -> Path:
    """Return where graphs are kept; nothing is made."""
    own, shared = os.environ.get("ANAUME_CACHE"), os.environ.get("XDG_CACHE_HOME")
    base = Path(own) if own else (Path(shared) if shared else Path("~/.cache").expanduser()) / "anaume"
    return base / "graphs"


def cached(key: str) -> Path | None:
    """Return the path of a graph that is there and whole; None where none is."""
    entry = cache_folder() / key
    try:
        sizes = json.loads((entry / _SIZES).read_text("utf-8"))
        whole = all((entry / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return None
    if not whole or GRAPH not in sizes:
        forget(entry / GRAPH)
        return None
    with suppress(OSError):
        os.utime(entry)  # used just now
    return entry / GRAPH


def forget(graph: Path) -> None:
    """Remove the entry of a graph that can't be used, as far as it can be removed."""
    log.warning("%s: damaged, made anew", graph.parent)
    shutil.rmtree(graph.parent, ignore_errors=True)


def keep(key: str, write: Callable[[Path], None]) -> Path | None:
    """Make an entry, `write` being given its graph's path; returns that path, None where nothing can be written."""
    folder = cache_folder()
    temporary = folder / f".new-{secrets.token_hex(6)}"
    try:
        temporary.mkdir(parents=True)
        write(temporary / GRAPH)
        sizes = {file.name: file.stat().st_size for file in temporary.iterdir()}
        (temporary / _SIZES).write_text(json.dumps(sizes), "utf-8")
        _flush(temporary)
        with suppress(OSError):  # another process was faster: its entry is as good
            temporary.rename(folder / key)
        shutil.rmtree(temporary, ignore_errors=True)
        _prune(folder)
    except (OSError, RuntimeError) as error:  # OpenVINO tells a full or read-only disk as RuntimeError
        shutil.rmtree(temporary, ignore_errors=True)
        log.info("graphs are not kept, %s can't be written (%s)", folder, str(error).splitlines()[-1])
        return None
    return cached(key)


def _flush(folder: Path) -> None:
    """Bring files to the disk before their folder is renamed: else a power cut leaves one of the right sizes, empty."""
    for file in folder.iterdir():
        with file.open("rb+") as handle:
            os.fsync(handle)


def _prune(folder: Path) -> None:
    now = time.time()
    entries = []
    for entry in folder.iterdir():
        with suppress(OSError):
            age = now - entry.stat().st_mtime
            if not entry.name.startswith(".new-"):
                entries.append((age, entry))
            elif age > _STALE:
                shutil.rmtree(entry, ignore_errors=True)
    for _, entry in sorted(entries)[KEPT:]:
        shutil.rmtree(entry, ignore_errors=True)
