"""Text in, normalised vectors out: anaume beside the tools people run on CPUs, on the same texts, turn by turn.

Three mixes: short queries, paragraphs, long texts. Every row is a process of its own in an environment that suits its
tool (made under out/peers where it is missing: --prepare makes them, and no more). Runs are kept row by row: a run that
was stopped goes on where it stopped.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import anaume
from anaume.bundle import find_bundle
from anaume.checks.machine import describe_machine
from anaume.model import encoder_flops
from benchmarks import embed_page, harness
from benchmarks.embed_rows import DEFAULT, OURS, QUICK, ROWS, Row, int8_row
from benchmarks.harness import MatrixRates, Results, say
from benchmarks.peer_environments import PEERS, interpreter
from benchmarks.texts import long_texts, paragraphs, queries
from benchmarks.workers import RowFailed, Workers

CHECKPOINT = "all-MiniLM-L6-v2"
LONGEST = 512  # tokens, where every tool cuts
FOLDER = harness.KEPT / "embed"
REST = 0.2
"""Seconds before each timed run: threads of the row before it may still be waiting for work."""


@dataclass(frozen=True)
class Mix:
    """Texts of one kind."""

    name: str
    texts: list[str]
    lengths: list[int]
    """Tokens of each text, as every tool sees it."""
    flops: int
    """What the encoder needs for them, without any padding."""


def checkpoint(folder: Path) -> Path:
    """A copy of the checkpoint whose own settings say where to cut, so that all tools cut there."""
    place = folder / "checkpoint"
    file = place / "sentence_bert_config.json"
    if not (place / "done").exists():
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(find_bundle(CHECKPOINT), place)
        file.write_text(json.dumps({"max_seq_length": LONGEST, "do_lower_case": False}), "utf-8")
        for name, section in (("tokenizer_config.json", ()), ("tokenizer.json", ("truncation",))):
            settings = json.loads((place / name).read_text("utf-8"))
            part = settings
            for key in section:
                part = part[key]
            part.update({key: LONGEST for key in ("max_length", "model_max_length") if key in part})
            (place / name).write_text(json.dumps(settings), "utf-8")
        (place / "done").touch()
    return place


def make_mixes(place: Path, counts: dict[str, int]) -> list[Mix]:
    bundle = anaume.load(place, device="cpu", engine="torch")
    tokenizer = bundle.tokenizer
    made = {
        "short": lambda count: queries(count),
        "passages": lambda count: paragraphs(count),
        "long": lambda count: long_texts(count, tokenizer),
    }
    mixes = []
    for name, count in counts.items():
        texts = made[name](count)
        lengths = [len(row) for row in tokenizer.encode_batch(texts, max_length=LONGEST)]
        mixes.append(Mix(name, texts, lengths, encoder_flops(bundle.config, lengths)))
    return mixes


class Run:
    """One run of the benchmark: what is kept is not measured again."""

    def __init__(
        self, results: Results, workers: Workers, mixes: Sequence[Mix], rows: Sequence[Row], folder: Path
    ) -> None:
        self.results, self.workers, self.mixes, self.rows, self.folder = results, workers, mixes, rows, folder
        self.failed: dict[str, str] = {}
        self._warm: set[str] = set()

    def ask(self, row: Row, **order: Any) -> dict[str, Any] | None:
        try:
            return self.workers.ask(row, **order)
        except RowFailed as error:
            self.failed[row.name] = str(error)
            return None

    def warm(self, row: Row) -> bool:
        """Have a row embed every mix once, and keep its vectors; False where it can't."""
        if row.name in self.failed:
            return False
        if row.name in self._warm:
            return True
        for mix in self.mixes:
            file = self.vectors(row, mix)
            answer = self.ask(row, do="vectors", mix=mix.name, to=str(file))
            if answer is None:
                return False
        self.results.put(f"about {row.name}", answer)
        self._warm.add(row.name)
        return True

    def vectors(self, row: Row, mix: Mix) -> Path:
        return self.folder / f"{row.name.replace(' ', '-').replace(',', '')}.{mix.name}.npy"

    def measure(self, repeats: int, calls: int, rates: MatrixRates) -> None:
        for round_ in range(repeats):
            if self.results.get("rate float32", round_) is None:
                rates.measure(round_)
            for mix in self.mixes:
                for row in self._turn(round_):
                    self._timed(row, f"{row.name}: {mix.name}", round_, do="time", mix=mix.name)
            for row in self._turn(round_):
                self._timed(row, f"{row.name}: single", round_, do="single", text=self._one(), calls=calls)
            say(f"round {round_ + 1} of {repeats} done")
        for row in self.rows:
            if self.results.get(f"{row.name}: peak") is None and self.warm(row):
                answer = self.ask(row, do="peak")
                if answer is not None:
                    self.results.put(f"{row.name}: peak", answer["peak"])
        for row in self.rows:
            if row.name not in self.failed and self.results.get(f"cosines {row.name}") is None:
                self.results.put(f"cosines {row.name}", self._cosines(row))

    def _one(self) -> str:
        """The text that is embedded alone: 8 tokens, or as near as there is."""
        mix = self.mixes[0]
        return mix.texts[int(np.abs(np.array(mix.lengths) - 8).argmin())]

    def _timed(self, row: Row, name: str, round_: int, **order: Any) -> None:
        if self.results.get(name, round_) is None and self.warm(row):
            time.sleep(REST)
            answer = self.ask(row, **order)
            if answer is not None:
                self.results.put(name, answer["seconds"], round_)

    def cold(self, repeats: int, *, first: int = -1) -> None:
        """Processes from start to first vector; one start before, unmeasured, fills the system's file cache."""
        for round_ in range(first, repeats):
            for row in self._turn(round_ + 1):
                name = f"{row.name}: cold"
                if not row.cold or row.name in self.failed or self.results.get(name, round_) is not None:
                    continue
                if round_ < 0 and self.results.get(name, 0) is not None:
                    continue
                try:
                    seconds = self.workers.cold(row, self._one())
                except RowFailed as error:
                    self.failed[row.name] = str(error)
                    continue
                if round_ >= 0:
                    self.results.put(name, seconds, round_)

    def stream(self, count: int) -> None:
        """Peak memory of a file of many short texts turned into a file of vectors."""
        file = self.folder / f"stream-{count}.txt"
        if not file.exists():
            file.write_text("\n".join(queries(count)) + "\n", "utf-8")
        for row in self.rows:
            name = f"{row.name}: stream {count}"
            if not row.stream or row.name in self.failed or self.results.get(name) is not None:
                continue
            say(f"{row.name}: {count:,} short texts from file to file")
            try:
                answer = self.workers.alone(row, do="stream", file=str(file), to=str(self.folder / "stream.npy"))
            except RowFailed as error:
                self.failed[f"{row.name} (many texts)"] = str(error)
                continue
            self.results.put(name, answer)

    def reference(self) -> Row:
        """Whose float32 vectors the others' are compared with."""
        return DEFAULT if DEFAULT in self.rows and DEFAULT.name not in self.failed else OURS

    def _turn(self, round_: int) -> list[Row]:
        shift = round_ % len(self.rows)
        return [*self.rows[shift:], *self.rows[:shift]]

    def _cosines(self, row: Row) -> dict[str, float]:
        """The smallest cosine to the float32 vectors of the reference, each mix."""
        found: dict[str, float] = {}
        reference = self.reference()
        if not (self.warm(reference) and self.warm(row)):
            return found
        for mix in self.mixes:
            wanted, vectors = (np.load(self.vectors(own, mix)).astype(np.float64) for own in (reference, row))
            lengths = np.linalg.norm(wanted, axis=1) * np.linalg.norm(vectors, axis=1)
            found[mix.name] = float(((vectors * wanted).sum(axis=1) / lengths).min())
        return found


def _here(name: str) -> tuple[Path | None, str]:
    """Every tool in the environment that runs the benchmark, for --here and --quick."""
    return Path(sys.executable), ""


def main(argv: Sequence[str] | None = None) -> None:
    parser = harness.arguments(__doc__ or "", texts=None, repeats=5)
    parser.add_argument("--short", type=int, default=1000, help="short queries")
    parser.add_argument("--passages", type=int, default=600, help="paragraphs")
    parser.add_argument("--long", type=int, default=40, help="long texts")
    parser.add_argument("--calls", type=int, default=40, help="calls with one text, a round")
    parser.add_argument("--stream", type=int, default=100_000, help="texts of the run that measures memory; 0 = none")
    parser.add_argument(
        "--int8", metavar="BUNDLE", help="an export with --int8 of out/benchmarks/embed/checkpoint, to be measured too"
    )
    parser.add_argument("--only", metavar="TEXT", help="only rows whose name holds this, and the two references")
    parser.add_argument("--here", action="store_true", help="run all tools in this environment; make none")
    parser.add_argument("--prepare", action="store_true", help="make the environments and exports, and measure nothing")
    given = parser.parse_args(argv)
    if given.quick:
        given.short, given.passages, given.long, given.calls, given.repeats, given.stream = 12, 12, 2, 3, 2, 50
    rows = [*(QUICK if given.quick else ROWS), *([int8_row(given.int8)] if given.int8 else [])]
    if given.only:
        rows = [row for row in rows if given.only in row.name or row in (OURS, DEFAULT)]
    left_out: dict[str, str] = {}
    if given.quick or given.here:
        for row in rows:
            if row.tool == "sentence_transformers" and importlib.util.find_spec("sentence_transformers") is None:
                left_out[row.name] = "not installed here"
        rows = [row for row in rows if row.name not in left_out]
    folder = FOLDER / "quick" if given.quick else FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    place = checkpoint(folder)
    mixes = make_mixes(place, {"short": given.short, "passages": given.passages, "long": given.long})
    texts = folder / "texts.json"
    texts.write_text(json.dumps({mix.name: mix.texts for mix in mixes}), "utf-8")
    told = {"checkpoint": str(place), "models": str(PEERS / "models"), "texts": str(texts)}
    about = {
        "commit": harness.commit(),
        "versions": harness.versions(),
        "texts": [sum(mix.lengths) for mix in mixes],
        "calls": given.calls,
    }
    results = Results("embed-quick" if given.quick else "embed", about, fresh=given.fresh)
    with Workers(told, _here if given.quick or given.here else interpreter) as workers:
        run = Run(results, workers, mixes, rows, folder)
        if given.prepare:
            for row in rows:
                say(f"{row.name}: {'ready' if run.warm(row) else run.failed[row.name]}")
            return
        rates = MatrixRates(results)
        run.measure(given.repeats, given.calls, rates)
    # The processes have ended: what is measured now has the machine to itself.
    run.cold(1, first=0) if given.quick else run.cold(given.repeats)
    if given.stream:
        run.stream(given.stream)
    command = (
        f"python -m benchmarks.embed --short {given.short} --passages {given.passages} --long {given.long} "
        f"--repeats {given.repeats} --stream {given.stream}"
    )
    parts = embed_page.parts(run, rates, given.repeats, given.stream, {**left_out, **run.failed}, CHECKPOINT, LONGEST)
    harness.publish(harness.page("Embedding", command, describe_machine().line(), parts), given.out)


if __name__ == "__main__":
    main()
