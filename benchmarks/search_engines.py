"""One way to find the nearest of many vectors, built or asked in a process of its own, which tells what it took.

python -m benchmarks.search_engines build|tune|ask WAY COUNT --folder FOLDER [--made] [--setting N]
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anaume.bundle.embedding import EmbedTotals
from anaume.search.current import settle_index
from anaume.search.documents import Document, Survey
from anaume.search.finding import Searched, by_vector
from anaume.search.index import Index
from anaume.search.store import Store
from anaume.search.table import Passages
from anaume.search.writing import add_documents, survey_documents
from benchmarks.harness import ROOT
from benchmarks.search_vectors import NEAREST, TUNING, Vectors, VectorSet

EXACT_QUESTIONS = 100
"""Of an exact search, which takes long, fewer are asked."""
AIMED = 0.97
"""The share of the ten nearest that settings of the others are tuned for: what our index tunes itself for."""
_WARM = 20


class Way(ABC):
    """A library's way; `path` is a file or a folder of its own."""

    exact = False

    def __init__(self, given: VectorSet, path: Path) -> None:
        self.given, self.path = given, path

    @abstractmethod
    def build(self) -> None:
        """Write it to the disk."""

    def prepare(self) -> None:  # noqa: B027
        """Load what is no part of the index."""

    @abstractmethod
    def open(self) -> None:
        """Make it ready to be asked."""

    def set(self, setting: int) -> None:  # noqa: B027
        """Search as thoroughly as `settings` has it."""

    @abstractmethod
    def search(self, vector: Vectors) -> NDArray[np.int64]:
        """Return the rows of the nearest vectors, as far as it finds them."""

    def settings(self) -> list[int]:
        """Return what may be asked of it, cheap to thorough; [] where there is nothing to choose."""
        return []

    def told(self) -> dict[str, Any]:
        """Return what else is to be known of it."""
        return {}


class Ours(Way):
    """The index of this package: it says itself how many parts a search looks through."""

    def build(self) -> None:
        given, bundle = self.given, self.given.bundle
        vectors = given.vectors()
        index = Index.create(self.path, bundle, overwrite=True)

        def documents() -> Iterator[Document]:
            for row in range(given.count):
                yield Document(id=str(row), text=given.text(row), fields={}, place=f"row {row}")

        survey, record = Survey(), index.record
        with index.store.writing():
            table = index.table()
            survey_documents(documents(), survey, table, index.store.path)
            add_documents(documents(), survey, table, record, bundle, index.store.path, embed=_Stored(vectors))
            settle_index(index.store, table, record)

    def prepare(self) -> None:
        self.given.bundle  # noqa: B018

    def open(self) -> None:
        self.index = Index(Store(self.path), self.given.bundle)
        self.fingerprint = self.index.checked()[1].fingerprint

    def search(self, vector: Vectors) -> NDArray[np.int64]:
        hits = self.index.search_vector(vector, fingerprint=self.fingerprint, top_k=NEAREST)
        return np.array([int(hit.id) for hit in hits])

    def told(self) -> dict[str, Any]:
        return {"search": self.index.stats().search}


class OursExact(Ours):
    """The same table, all vectors compared."""

    exact = True

    def search(self, vector: Vectors) -> NDArray[np.int64]:
        table, record = self.index.checked()
        searched = Searched(table=table, record=record, path=self.index.store.path, probes=0)
        return np.array([int(hit.id) for hit in by_vector(searched, vector, NEAREST, None)])

    def told(self) -> dict[str, Any]:
        return {"search": "all"}


class _Stored:
    """Gives each document, which is one passage, the vector of its row."""

    totals = EmbedTotals()

    def __init__(self, vectors: Vectors) -> None:
        self._vectors = vectors

    def __call__(self, documents: list[Document]) -> list[Passages]:
        return [
            Passages(
                document=one, spans=[(0, len(one.text))], vectors=self._vectors[int(one.id)][None], coverage=np.ones(1)
            )
            for one in documents
        ]

    def messages(self) -> list[str]:
        return []


class FaissFlat(Way):
    """faiss IndexFlatIP: every vector."""

    exact = True

    def build(self) -> None:
        faiss = importlib.import_module("faiss")
        index = faiss.IndexFlatIP(self.given.vectors().shape[1])
        self._add(faiss, index)

    def _add(self, faiss: Any, index: Any) -> None:
        vectors = self.given.vectors()
        for start in range(0, len(vectors), 50_000):
            index.add(np.ascontiguousarray(vectors[start : start + 50_000]))
        faiss.write_index(index, str(self.path))

    def open(self) -> None:
        faiss = importlib.import_module("faiss")
        self.index = faiss.read_index(str(self.path))

    def search(self, vector: Vectors) -> NDArray[np.int64]:
        found: NDArray[np.int64] = self.index.search(vector[None], NEAREST)[1][0]
        return found


class FaissParts(FaissFlat):
    """faiss IndexIVFFlat with as many parts as ours."""

    exact = False

    def build(self) -> None:
        faiss, vectors = importlib.import_module("faiss"), self.given.vectors()
        size, parts = vectors.shape[1], round(len(vectors) ** 0.5)
        self.quantizer = faiss.IndexFlatIP(size)
        index = faiss.IndexIVFFlat(self.quantizer, size, parts, faiss.METRIC_INNER_PRODUCT)
        drawn = np.random.default_rng(0).choice(len(vectors), min(len(vectors), 64 * parts), replace=False)
        index.train(np.ascontiguousarray(vectors[np.sort(drawn)]))
        self._add(faiss, index)

    def set(self, setting: int) -> None:
        self.index.nprobe = setting

    def settings(self) -> list[int]:
        parts, found = round(self.given.count**0.5), [1]
        while found[-1] < parts:
            found.append(min(parts, -(-found[-1] * 3 // 2)))
        return found


class Usearch(Way):
    """usearch at its defaults: a graph (HNSW), numbers kept as it chooses."""

    def build(self) -> None:
        vectors = self.given.vectors()
        index = self._index(vectors.shape[1])
        for start in range(0, len(vectors), 50_000):
            own = np.ascontiguousarray(vectors[start : start + 50_000])
            index.add(np.arange(start, start + len(own)), own)
        index.save(str(self.path))

    def open(self) -> None:
        self.index = self._index(self.given.questions.shape[1])
        self.index.load(str(self.path))

    def set(self, setting: int) -> None:
        self.index.expansion_search = setting

    def search(self, vector: Vectors) -> NDArray[np.int64]:
        return np.asarray(self.index.search(vector, NEAREST, exact=self.exact).keys, dtype=np.int64)

    def settings(self) -> list[int]:
        return [16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024]

    @staticmethod
    def _index(size: int) -> Any:
        return importlib.import_module("usearch.index").Index(ndim=size, metric="ip")


class UsearchExact(Usearch):
    """The same file, all vectors compared."""

    exact = True

    def settings(self) -> list[int]:
        return []


WAYS: dict[str, tuple[type[Way], str]] = {
    "anaume-exact": (OursExact, "anaume"),
    "anaume-parts": (Ours, "anaume"),
    "faiss-exact": (FaissFlat, "faiss-flat.bin"),
    "faiss-parts": (FaissParts, "faiss-parts.bin"),
    "usearch-exact": (UsearchExact, "usearch.bin"),
    "usearch-graph": (Usearch, "usearch.bin"),
}
"""Way -> what it is, and the file or folder below the set's that it is built in."""


def memory(what: str) -> int:
    """Return VmHWM (the peak) or VmRSS of this process, in bytes."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    return 0


def bytes_on_disk(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files if one.is_file())


def build(way: Way) -> dict[str, Any]:
    """Build a way; return seconds of the processor (all threads: whatever else runs), peak memory, bytes on disk."""
    way.given.vectors()  # made apart
    way.prepare()
    begun = time.process_time()
    way.build()
    taken = time.process_time() - begun
    return {"processor_seconds": round(taken, 1), "peak": memory("VmHWM"), "disk": bytes_on_disk(way.path)}


def tune(way: Way) -> dict[str, Any]:
    """Return the least thorough setting that finds AIMED of the nearest for the tuning questions; None = no choice."""
    way.open()
    asked = list(zip(way.given.questions[:TUNING], way.given.truth()[:TUNING], strict=True))
    setting = recall = None
    for setting in way.settings():
        way.set(setting)
        recall = float(np.mean([_share(way.search(vector), best) for vector, best in asked]))
        if recall >= AIMED:
            break
    return {"setting": setting, "tuned_recall": recall}


def ask(way: Way, setting: int | None) -> dict[str, Any]:
    """Ask a way each question by itself; return the seconds of each, the share of the nearest it found, memory."""
    chosen = slice(TUNING, TUNING + EXACT_QUESTIONS if way.exact else None)
    questions, truth = way.given.questions[chosen], way.given.truth()[chosen]
    way.prepare()
    before = memory("VmRSS")
    way.open()
    if setting is not None:
        way.set(setting)
    for vector in way.given.questions[:_WARM]:
        way.search(vector)
    seconds, found = [], []
    for vector, best in zip(questions, truth, strict=True):
        begun = time.perf_counter()
        rows = way.search(vector)
        seconds.append(time.perf_counter() - begun)
        found.append(_share(rows, best))
    return {"seconds": seconds, "recall": float(np.mean(found)), "before": before, "peak": memory("VmHWM")} | way.told()


def _share(rows: NDArray[np.int64], best: NDArray[np.int64]) -> float:
    return len(set(rows.tolist()) & set(best.tolist())) / len(best)


def apart(verb: str, way: str, given: VectorSet, setting: int | None = None) -> dict[str, Any]:
    """Do it in a process of its own, and return what it tells. Raises RuntimeError with its last words."""
    words = [sys.executable, "-m", "benchmarks.search_engines", verb, way, str(given.count)]
    words += ["--folder", str(given.folder), *(["--made"] if given.made else [])]
    words += [] if setting is None else ["--setting", str(setting)]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=ROOT, env={**os.environ, "PYTHONPATH": paths}
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(words[2:])}: {done.stderr[-2000:]}")
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("build", "tune", "ask"))
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("count", type=int)
    parser.add_argument("--made", action="store_true")
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--setting", type=int)
    given = parser.parse_args()
    vectors = VectorSet(count=given.count, made=given.made, folder=given.folder)
    kind, name = WAYS[given.way]
    way = kind(vectors, vectors.own / name)
    done = {"build": lambda: build(way), "tune": lambda: tune(way), "ask": lambda: ask(way, given.setting)}
    print(json.dumps(done[given.verb]()))


if __name__ == "__main__":
    main()
