"""What every benchmark shares: peers taken turn by turn, medians with their spread, results kept by row, one table.

A machine drifts: other work, heat, a noisy neighbour. So the peers are interleaved: one run of each, then the next
round in another order. What drifts hits all alike, and ratios stay honest where absolute numbers don't.

Every single run is kept in out/benchmarks/NAME.jsonl as soon as it is there. A benchmark that was stopped goes on where
it stopped; another commit, machine, setting or library version starts afresh.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.metadata
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anaume.engines import PRECISIONS, Precision, matrix_rate

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "out" / "benchmarks"
LIBRARIES = ("torch", "numpy", "tokenizers", "transformers", "sentence-transformers")


@dataclass
class Peer:
    """One row of a table: `prepare` makes what is timed and is not timed itself.

    What is timed may return its seconds as a float, when only part of it counts.
    """

    name: str
    prepare: Callable[[], Callable[[], Any]]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Timing:
    """The runs of one peer, in seconds."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float:
        """(slowest - fastest) / median."""
        return (max(self.seconds) - min(self.seconds)) / self.median


def commit() -> str:
    """The commit of the code that is measured; with a hash of the changes where there are any."""

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout if done.returncode == 0 else ""

    changes = git("diff", "HEAD", "--", "src", "benchmarks")
    mark = "+" + hashlib.sha256(changes.encode()).hexdigest()[:6] if changes else ""
    return (git("rev-parse", "--short", "HEAD").strip() or "unknown") + mark


def versions(*others: str) -> dict[str, str]:
    found = {"python": sys.version.split()[0]}
    for name in (*LIBRARIES, *others):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


class Results:
    """The runs of one benchmark, kept on disk one line each."""

    def __init__(self, name: str, about: Mapping[str, Any], *, folder: Path = KEPT, fresh: bool = False) -> None:
        self.path = folder / f"{name}.jsonl"
        self.key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()[:16]
        self._rows: dict[tuple[str, int], Any] = {}
        folder.mkdir(parents=True, exist_ok=True)
        others: list[str] = []
        for line in self.path.read_text(encoding="utf-8").splitlines() if self.path.exists() else []:
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # the line a kill left half written
            if row["key"] != self.key:
                others.append(line + "\n")
            elif not fresh:
                self._rows[row["name"], row["round"]] = row["value"]
        ours = [self._line(*place, value) for place, value in self._rows.items()]
        self.path.write_text("".join([*others, *ours]), encoding="utf-8")

    def _line(self, name: str, round_: int, value: Any) -> str:
        return json.dumps({"key": self.key, "name": name, "round": round_, "value": value}) + "\n"

    def get(self, name: str, round_: int = 0) -> Any:
        return self._rows.get((name, round_))

    def put(self, name: str, value: Any, round_: int = 0) -> None:
        self._rows[name, round_] = value
        with self.path.open("a", encoding="utf-8") as file:
            file.write(self._line(name, round_, value))

    def all(self, name: str) -> list[Any]:
        return [value for (other, _), value in sorted(self._rows.items()) if other == name]

    def remember(self, name: str, make: Callable[[], Any]) -> Any:
        """Return what is kept under a name, made now if it is not there yet."""
        if self.get(name) is None:
            self.put(name, make())
        return self.get(name)


def measure(
    peers: Sequence[Peer],
    results: Results,
    *,
    repeats: int,
    warmup: int = 1,
    each_round: Callable[[int], None] | None = None,
) -> dict[str, Timing]:
    """Time every peer `repeats` times, interleaved; runs that are kept are not repeated.

    each_round  called before each round, for what drifts with the machine (its matrix rate, say)
    """
    ready: dict[str, Callable[[], Any]] = {}
    for round_ in range(repeats):
        missing = [peer for peer in peers if results.get(peer.name, round_) is None]
        if missing and each_round is not None:
            each_round(round_)
        shift = round_ % len(peers)
        for peer in [*peers[shift:], *peers[:shift]]:
            if peer not in missing:
                continue
            if peer.name not in ready:
                ready[peer.name] = peer.prepare()
                for _ in range(warmup):
                    ready[peer.name]()
            start = time.perf_counter()
            told = ready[peer.name]()
            taken = told if isinstance(told, float) else time.perf_counter() - start
            results.put(peer.name, taken, round_)
            say(f"round {round_ + 1} of {repeats}: {peer.name}: {taken:.3f} s")
    return {peer.name: Timing(tuple(results.get(peer.name, round_) for round_ in range(repeats))) for peer in peers}


class MatrixRates:
    """The machine's matrix rates, measured before each round: the best one is the ceiling the others fell short of."""

    def __init__(self, results: Results) -> None:
        self._results = results

    def measure(self, round_: int) -> None:
        for precision in PRECISIONS:
            self._results.put(f"rate {precision}", matrix_rate(precision, seconds=0.3), round_)

    def best(self, precision: Precision) -> float:
        """GFLOP/s."""
        return float(max(self._results.all(f"rate {precision}")))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Markdown; every column but the first is set to the right."""
    lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def page(title: str, command: str, machine: str, parts: Sequence[str], *, libraries: Sequence[str] = ()) -> str:
    """A page of docs/benchmarks: what was run, where, on what (`libraries`: beside those of every page), its parts."""
    known = ", ".join(f"{name} {version}" for name, version in versions(*libraries).items())
    about = [
        f"- command: `{command}`",
        f"- date: {time.strftime('%Y-%m-%d')}, commit: {commit()}",
        f"- machine: {machine}",
        f"- versions: {known}",
    ]
    return "\n\n".join([f"# {title}", "\n".join(about), *parts]) + "\n"


def arguments(description: str, *, texts: int | None, repeats: int) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description)
    if texts is not None:
        parser.add_argument("--texts", type=int, default=texts, help="how many texts")
    parser.add_argument("--repeats", type=int, default=repeats, help="runs of each peer")
    parser.add_argument("--quick", action="store_true", help="a small run that only shows that it works")
    parser.add_argument("--fresh", action="store_true", help="forget the runs that are kept")
    parser.add_argument("-o", "--out", type=Path, help="write the page here (else it is printed)")
    return parser


def publish(text: str, out: Path | None) -> None:
    if out is None:
        print(text)
        return
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(text, encoding="utf-8")
    say(f"wrote {out}")


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)
