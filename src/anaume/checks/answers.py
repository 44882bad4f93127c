"""Promise 2, same text, same answer: whatever the batch, its order, its padding or the number of threads."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch

from anaume.bundle import Bundle
from anaume.checks.report import Check, compared
from anaume.data import pad
from anaume.engines import Batch, Vectors

PROMISE = 2
BOUNDS = {"float32": 1e-5, "bfloat16": 2e-2, "int8": 5e-2}
"""Largest difference, times max(1, largest magnitude). bfloat16 keeps 8 bits: near 1, one step is 0.0078."""

BATCH_SIZES = (2, 3, 7)
MORE_PADDING = 32
"""Tokens of padding after the longest text, where there is room for them."""
THREADS = 4
_HINT = "the vectors depend on their neighbours: results can't be compared between runs; please report this"


def check_answers(bundle: Bundle, texts: Sequence[str]) -> Iterator[Check]:
    """Compare the vectors of the texts, each alone, with those they get in every other company."""
    texts = list(texts)
    alone = embed_in_chunks(bundle, [[text] for text in texts])
    bound = BOUNDS[bundle.precision] * max(1.0, largest(alone))
    for size in BATCH_SIZES:
        chunks = [texts[start : start + size] for start in range(0, len(texts), size)]
        yield compared(PROMISE, f"in batches of {size}", apart(embed_in_chunks(bundle, chunks), alone), bound, _HINT)
    together = embed_in_chunks(bundle, [texts])
    yield compared(PROMISE, "all in one call", apart(together, alone), bound, _HINT)

    order = random.Random(0).sample(range(len(texts)), len(texts))
    shuffled = np.empty_like(alone)
    shuffled[order] = embed_in_chunks(bundle, [[texts[index] for index in order]])
    yield compared(PROMISE, "in another order", apart(shuffled, alone), bound, _HINT)

    yield from _check_padding(bundle, texts, alone, bound)
    yield from _check_threads(bundle, texts, alone, bound)


def check_token_vectors(bundle: Bundle, texts: Sequence[str]) -> Iterator[Check]:
    """Compare the token vectors of the texts, each alone, with those they get together: padding takes no part."""
    for as_ in ("query", "passage"):
        alone = [bundle.token_report([text], as_=as_).predictions[0].vectors for text in texts]
        together = [one.vectors for one in bundle.token_report(list(texts), as_=as_).predictions]
        worst = max(apart(one, other) for one, other in zip(alone, together, strict=True))
        what = f"a vector a token, as {as_}: all in one call"
        yield compared(PROMISE, what, worst, BOUNDS[bundle.precision], _HINT)


def embed_in_chunks(bundle: Bundle, chunks: Sequence[Sequence[str]]) -> Vectors:
    """Embed chunk by chunk, without warnings; (texts, embedding_size) in order."""
    return np.concatenate([report.vectors for report in bundle.embed_stream(chunks, fingerprint="")])


def apart(one: Vectors, other: Vectors) -> float:
    """Return the largest absolute difference; NaN when one holds a NaN."""
    return float(np.abs(one.astype(np.float64) - other).max(initial=0.0))


def largest(vectors: Vectors) -> float:
    """Return the largest magnitude."""
    return float(np.abs(vectors).max(initial=0.0))


def _check_padding(bundle: Bundle, texts: Sequence[str], alone: Vectors, bound: float) -> Iterator[Check]:
    """Pad every text beyond the longest one; and show what a few would be had the padding been attended."""
    engine, tokenizer = bundle.engine, bundle.tokenizer
    limit = bundle.embedding.max_length
    prompt = bundle.embedding.prompts.get(bundle.embedding.default_prompt or "", "")
    # With a prompt that does not count in the pooling, embed does more than its engine: compare the engine with itself.
    rows = [
        encoding.token_ids for encoding in tokenizer.encode_batch([prompt + text for text in texts], max_length=limit)
    ]
    bare = np.concatenate([engine.embed(Batch(*pad([row], tokenizer.pad_id))) for row in rows])
    wanted = alone if bundle.embedding.include_prompt or not prompt else bare
    width = min(limit, max(map(len, rows)) + MORE_PADDING)
    padded, leak = [], 0.0
    for index, row in enumerate(rows):
        token_ids, attention_mask = pad([row], tokenizer.pad_id, seq_len=width)
        padded.append(engine.embed(Batch(token_ids, attention_mask)))
        if index < 3:
            attended = engine.embed(Batch(token_ids, np.ones_like(attention_mask)))
            leak = max(leak, apart(attended, wanted[index : index + 1]))
    note = f" ({leak:.1e} had the padding been attended)"
    difference = apart(np.concatenate(padded), wanted)
    yield compared(PROMISE, f"padded to {width} tokens", difference, bound, _HINT, note)


def _check_threads(bundle: Bundle, texts: Sequence[str], alone: Vectors, bound: float) -> Iterator[Check]:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        single = embed_in_chunks(bundle, [texts])
    finally:
        torch.set_num_threads(before)
    yield compared(PROMISE, f"with 1 thread instead of {before}", apart(single, alone), bound, _HINT)
    with ThreadPoolExecutor(THREADS) as pool:
        turns = [[*texts[shift:], *texts[:shift]] for shift in range(THREADS)]
        results = list(pool.map(lambda turn: embed_in_chunks(bundle, [turn]), turns))
    worst = max(apart(vectors, np.roll(alone, -shift, axis=0)) for shift, vectors in enumerate(results))
    yield compared(PROMISE, f"from {THREADS} threads at once", worst, bound, _HINT)
