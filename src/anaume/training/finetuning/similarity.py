"""What a training for similarity takes of its bundle, and the bundle it makes: an encoder and how it pools."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.data.labelled import Example, SimilarityExample
from anaume.errors import SettingsError
from anaume.model import Bert
from anaume.tasks.late_interaction import LateInteraction
from anaume.tasks.similarity import MarginMse, Similarity
from anaume.tasks.vector_scores import kind_of
from anaume.training.finetuning.settings import FinetuneSettings, TaskSettings


def vector_options(task: TaskSettings, bundle: Bundle) -> dict[str, Any]:
    """Return the options of the task: those given; pooling, normalisation and prompts else as the bundle has them.

    A bundle that was never given a pooling gets the mean, and vectors of length 1.
    """
    own = bundle.embedding
    default = "" if own.default_prompt is None else own.prompts[own.default_prompt]
    passage = own.prompts.get("passage", own.prompts.get("document", default))
    normalize = own.normalize if own.pooling is not None else True
    if task.objective == MarginMse.name or (task.objective is None and task.teacher is not None):
        normalize = False  # the margins of a teacher go beyond those of cosines
    options: dict[str, Any] = {
        "pooling": own.pooling or "mean",
        "normalize": normalize,
        "prompts": (own.prompts.get("query", default), passage),
    }
    return options | {name: value for name, value in task.given().items() if name != "teacher"}


def late_options(task: TaskSettings, bundle: Bundle) -> dict[str, Any]:
    """Return the options of late interaction: those given; else those of the bundle's head, or usual."""
    own, head = bundle.embedding, bundle.model.head_configs.get(LateInteraction.kind)
    default = "" if own.default_prompt is None else own.prompts[own.default_prompt]
    passage = own.prompts.get("passage", own.prompts.get("document", default))
    options: dict[str, Any] = {
        "size": min(128, bundle.config.hidden_size),
        "prompts": (own.prompts.get("query", default), passage),
    }
    if head is not None and isinstance(bundle.task, LateInteraction):
        options |= {"size": head.size, "prompts": bundle.task.prompts, "query_tokens": bundle.task.query_tokens}
    return options | task.given()


def check_similarity(settings: FinetuneSettings, bundle: Bundle, task: Similarity) -> None:
    """Raise SettingsError for what a training for similarity can't do."""
    if settings.model.frozen == "encoder":
        raise SettingsError("model.frozen=encoder leaves similarity nothing to train: the vectors are the encoder's")
    if bundle.config.causal and task.head.pooling == "cls":
        raise SettingsError("the bundle is causal: [CLS], the first token, sees nothing of the text; task.pooling=mean")
    if any(task.prompts) and not bundle.embedding.include_prompt:
        raise SettingsError(
            "the bundle leaves its prompts out of the pooling (include_prompt=false), which can't be trained here; "
            "start from bundle.with_embedding(...) with include_prompt=True, or without prompts"
        )
    size = bundle.config.hidden_size
    if too_many := [one for one in task.dimensions if one > size]:
        raise SettingsError(f"task.dimensions has {too_many[0]}; the bundle's vectors have {size}")


def can_be_scored(examples: Sequence[Example]) -> bool:
    """Whether held-out examples of this kind have a score; single texts have none."""
    first = examples[0] if examples else None
    return not isinstance(first, SimilarityExample) or kind_of([first]) is not None


def trained_embedding(task: Similarity, start: EmbeddingConfig, max_length: int) -> EmbeddingConfig:
    """Return how the trained encoder makes vectors: as it was trained; prompts stay as they were."""
    return dataclasses.replace(
        start,
        pooling=task.head.pooling,
        normalize=task.normalize,
        max_length=max_length,
        similarity="dot" if task.scores_dot else "cosine",
    )


def without_heads(model: Bert) -> Bert:
    """Return the encoder alone, with the same tensors."""
    bare = Bert(model.config, {})
    bare.load_state_dict({name: tensor for name, tensor in model.state_dict().items() if not name.startswith("heads.")})
    return bare
