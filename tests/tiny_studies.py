"""Tiny rows of a pretraining study, and the documents they are trained on."""

from __future__ import annotations

from benchmarks.study import Row

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TINY = ("run.threads=1", "run.precision=float32", "run.batch_rows=4", "run.evaluations=0", "run.log_seconds=0")


def documents(count: int, length: int = 150) -> list[str]:
    """Texts that differ, each of a few words that come again."""
    texts = []
    for number in range(count):
        words = [WORDS[(number + step * step) % 10] for step in range(length)]
        texts.append(f"{' '.join(words)} {number}.")
    return texts


def tiny_row(name: str = "a", **other: object) -> Row:
    """Three steps at 2 s a step."""
    given = {"minutes": 0.1, "settings": TINY, "layers": 1, "width": 16, "corpus": "made", "tokenizer": "own-60"}
    return Row(name=name, **(given | other))  # type: ignore[arg-type]
