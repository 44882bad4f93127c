"""Text to token IDs: our encode_batch beside the `tokenizers` library it is built on, and beside transformers."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anaume
from anaume.bundle import find_bundle
from anaume.checks.machine import describe_machine
from benchmarks import harness
from benchmarks.harness import Peer
from benchmarks.texts import paragraphs

CHECKPOINT = "all-MiniLM-L6-v2"
OURS, RUST, TRANSFORMERS = "anaume", "tokenizers (Rust)", "transformers, fast tokenizer"


def rust_pipeline(directory: Path) -> Any:
    pipeline = importlib.import_module("tokenizers").Tokenizer.from_file(str(directory / "tokenizer.json"))
    pipeline.no_truncation()
    pipeline.no_padding()
    return pipeline


def main() -> None:
    given = harness.arguments(__doc__, texts=4000, repeats=7).parse_args()
    count, repeats = (300, 2) if given.quick else (given.texts, given.repeats)
    texts = paragraphs(count)
    directory = find_bundle(CHECKPOINT)

    def ours() -> Callable[[], list[list[int]]]:
        tokenizer = anaume.Tokenizer.from_directory(directory)
        return lambda: [encoding.token_ids for encoding in tokenizer.encode_batch(texts)]

    def rust() -> Callable[[], list[list[int]]]:
        pipeline = rust_pipeline(directory)
        return lambda: [encoding.ids for encoding in pipeline.encode_batch(texts)]

    def transformers() -> Callable[[], list[list[int]]]:
        tokenizer = importlib.import_module("transformers").AutoTokenizer.from_pretrained(directory)
        return lambda: tokenizer(texts, truncation=False, padding=False, verbose=False)["input_ids"]

    peers = [Peer(OURS, ours), Peer(RUST, rust)]
    if importlib.util.find_spec("transformers") is not None:
        peers.append(Peer(TRANSFORMERS, transformers))
    wanted = ours()()
    equal = {peer.name: sum(a == b for a, b in zip(peer.prepare()(), wanted, strict=True)) for peer in peers}
    about = {"commit": harness.commit(), "versions": harness.versions(), "texts": count, "repeats": repeats}
    results = harness.Results("tokenize", about, fresh=given.fresh)
    timings = harness.measure(peers, results, repeats=repeats)
    tokens = sum(map(len, wanted))
    rows = [
        [
            name,
            f"{count / timing.median:,.0f}",
            f"{tokens / timing.median:,.0f}",
            f"{timing.spread:.0%}",
            f"{timings[RUST].median / timing.median:.2f}",
            f"{equal[name]:,} of {count:,}",
        ]
        for name, timing in timings.items()
    ]
    columns = ["how", "texts/s", "tokens/s", "spread", "rate over the Rust library", "texts with our token IDs"]
    lines = [
        f"{count:,} paragraphs of the standard library's docstrings, {tokens / count:.1f} tokens on average; the "
        f"tokenizer of {CHECKPOINT}, one call for all texts, token IDs taken out as lists. The median of {repeats} "
        "runs taken turn by turn.",
        harness.table(columns, rows),
    ]
    command = f"python -m benchmarks.tokenize --texts {count} --repeats {repeats}"
    harness.publish(harness.page("Tokenization", command, describe_machine().line(), lines), given.out)


if __name__ == "__main__":
    main()
