"""A bundle of late interaction at work: a vector a token, and passages ordered by MaxSim."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np

from anaume.bundle.contextual import TokenEmbeddings
from anaume.bundle.embedding import checked_texts, require_finite
from anaume.bundle.parts import BundleParts
from anaume.bundle.predicting import Predicted, row_logits
from anaume.bundle.ranking import Ranked
from anaume.engines import Engine
from anaume.errors import SettingsError
from anaume.model import Bert
from anaume.tasks.features import Features
from anaume.tasks.late_interaction import LateInteraction
from anaume.tasks.max_sim import max_sim_scores
from anaume.tasks.registry import AnyTask
from anaume.tasks.similarity.rows import filled_up
from anaume.tokenization import Tokenizer

ROLES = ("query", "passage")


def late_task(task: AnyTask) -> LateInteraction:
    """Return the task of a bundle of late interaction. Raises SettingsError for another one."""
    if not isinstance(task, LateInteraction):
        raise SettingsError(
            f"a vector a token needs a bundle trained for it (anaume finetune late-interaction); this one was trained "
            f"for {task.name}: hidden_states gives what its encoder makes of tokens"
        )
    return task


def encoder_alone(parts: BundleParts) -> BundleParts:
    """Return the parts without heads: an encoder whose vectors have no use yet, of the same tensors' values."""
    bare = Bert(parts.model.config, {})
    own = parts.model.state_dict()
    bare.load_state_dict({name: own[name] for name in bare.state_dict()})
    return dataclasses.replace(parts, model=bare.eval(), tasks={})


def token_embeddings(
    texts: Sequence[str],
    as_: str,
    *,
    task: LateInteraction,
    max_length: int,
    tokenizer: Tokenizer,
    engine: Engine,
) -> Predicted:
    """Return the `TokenEmbeddings` of texts, and what the model saw of them; see `Bundle.token_embeddings`."""
    texts = checked_texts(texts)
    if as_ not in ROLES:
        raise SettingsError(f"as_ must be one of {', '.join(ROLES)}; got {as_!r:.60}")
    prompt = task.prompts[ROLES.index(as_)]
    encodings = tokenizer.encode_batch([prompt + text for text in texts], max_length=max_length)
    rows = [encoding.token_ids for encoding in encodings]
    if as_ == "query":
        rows = [filled_up(row, tokenizer, task.query_tokens) for row in rows]
    coverage = np.array([encoding.coverage[0].share for encoding in encodings])
    features = Features.of_rows(rows, [[0] * len(row) for row in rows], coverage=coverage.tolist())
    vectors = row_logits(features, task.kind, engine, tokenizer.pad_id)
    for number, own in enumerate(vectors):
        require_finite(own[None], number)
    vocab = tokenizer.vocab
    made = [
        TokenEmbeddings(tuple(vocab[token_id] for token_id in row), own, float(share))
        for row, own, share in zip(rows, vectors, coverage, strict=True)
    ]
    return Predicted(
        predictions=made,
        coverage=coverage,
        pieces=sum(encoding.pieces for encoding in encodings),
        unknown=sum(encoding.unknown for encoding in encodings),
    )


def late_ranked(
    query: str, passages: Sequence[str], embed: Callable[[Sequence[str], str], list[TokenEmbeddings]]
) -> list[Ranked]:
    """Return passages by falling MaxSim with a query, equal ones in the order given."""
    (asked,), found = embed([query], "query"), embed(passages, "passage")
    scores = max_sim_scores(asked.vectors, [own.vectors for own in found]).tolist()
    both = enumerate(zip(scores, found, strict=True))
    ranked = [Ranked(place, score, min(asked.coverage, own.coverage)) for place, (score, own) in both]
    return sorted(ranked, key=lambda one: -one.score)
