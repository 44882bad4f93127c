"""Text files to a corpus on disk, beside `tokenizers` encoding the very same texts from memory and keeping nothing."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

from anaume.checks.machine import describe_machine
from anaume.data.corpus import prepare_corpus
from anaume.data.corpus.workers import usable_cores
from anaume.errors import AnaumeWarning
from anaume.tokenization import Tokenizer
from benchmarks import harness
from benchmarks.harness import Peer
from benchmarks.texts import paragraphs

RUST = "tokenizers.encode_batch, texts in memory"
PROCESSES, CHOSEN = "prepare_corpus, a process a core", "prepare_corpus as it chooses"
A_DOCUMENT, AT_ONCE = 20, 1_000


def main() -> None:
    given = harness.arguments(__doc__, texts=20_000, repeats=7).parse_args()
    count, repeats, times = (500, 2, 1) if given.quick else (given.texts, given.repeats, 10)
    some = paragraphs(count)
    documents = ["\n\n".join(some[start : start + A_DOCUMENT]) for start in range(0, len(some), A_DOCUMENT)] * times
    characters = sum(map(len, documents))
    tokenizer = Tokenizer.train([f"{text}\n" for text in some], vocab_size=8_000)
    with tempfile.TemporaryDirectory() as folder:
        source, out = Path(folder) / "texts.jsonl", Path(folder) / "corpus"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in documents), encoding="utf-8")
        tokenizer.save(Path(folder) / "tokenizer")

        def prepare(workers: int | None) -> Callable[[], Callable[[], int]]:
            def run() -> int:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", AnaumeWarning)
                    summary = prepare_corpus(
                        source, out, tokenizer=tokenizer, deduplicate=False, workers=workers, overwrite=True
                    )
                return summary.train.tokens + summary.held_out.tokens

            return lambda: run

        def rust() -> Callable[[], int]:
            from tokenizers import Tokenizer as RustTokenizer

            pipeline = RustTokenizer.from_file(str(Path(folder) / "tokenizer" / "tokenizer.json"))

            def run() -> int:
                tokens = 0
                for start in range(0, len(documents), AT_ONCE):
                    encodings = pipeline.encode_batch(documents[start : start + AT_ONCE], add_special_tokens=False)
                    tokens += sum(len(encoding.ids) for encoding in encodings)
                return tokens

            return run

        peers = [Peer(RUST, rust), Peer(PROCESSES, prepare(usable_cores())), Peer(CHOSEN, prepare(None))]
        about = {"commit": harness.commit(), "versions": harness.versions(), "texts": count, "repeats": repeats}
        results = harness.Results("prepare", about, fresh=given.fresh)
        tokens = {peer.name: results.remember(f"tokens: {peer.name}", peer.prepare()) for peer in peers}
        timings = harness.measure(peers, results, repeats=repeats, warmup=0)
    rows = [
        [
            name,
            f"{characters / timing.median / 1e6:,.2f}",
            f"{tokens[name] / timing.median:,.0f}",
            f"{timing.spread:.0%}",
            f"{timings[RUST].median / timing.median:.2f}",
            f"{tokens[name]:,}",
        ]
        for name, timing in timings.items()
    ]
    columns = ["how", "M characters/s", "tokens/s", "spread", "rate over the Rust library", "tokens"]
    lines = [
        f"{len(documents):,} documents of {A_DOCUMENT} docstring paragraphs, {characters / 1e6:,.1f} M characters; "
        f"each text {times} times (nothing is left out as a copy), a vocabulary of {tokenizer.vocab_size:,}. The Rust "
        "library gets lists of texts in memory and its token IDs are taken out as lists; prepare_corpus reads a .jsonl "
        "file twice, hashes it, splits sentences, and writes shards with their bounds. The median of "
        f"{repeats} runs taken turn by turn.",
        harness.table(columns, rows),
    ]
    command = f"python -m benchmarks.prepare --texts {count} --repeats {repeats}"
    harness.publish(harness.page("Preparing a corpus", command, describe_machine().line(), lines), given.out)


if __name__ == "__main__":
    main()
