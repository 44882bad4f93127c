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
from collections.abc import Sequence
from pathlib import Path

import anaume
from anaume.bundle import find_bundle
from anaume.checks.machine import describe_machine
from anaume.model import encoder_flops
from benchmarks import embed_page, harness
from benchmarks.embed_rows import DEFAULT, OURS, QUICK, ROWS, int8_row
from benchmarks.embed_run import Mix, Run
from benchmarks.harness import MatrixRates, Results, say
from benchmarks.peer_environments import PEERS, interpreter
from benchmarks.texts import long_texts, paragraphs, queries
from benchmarks.workers import Workers

CHECKPOINT = "all-MiniLM-L6-v2"
LONGEST = 512  # tokens, where every tool cuts
FOLDER = harness.KEPT / "embed"


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
        f"--repeats {given.repeats} --stream {given.stream}{' --int8 B8' if given.int8 else ''}"
    )
    parts = embed_page.parts(run, rates, given.repeats, given.stream, {**left_out, **run.failed}, CHECKPOINT, LONGEST)
    harness.publish(harness.page("Embedding", command, describe_machine().line(), parts), given.out)


if __name__ == "__main__":
    main()
