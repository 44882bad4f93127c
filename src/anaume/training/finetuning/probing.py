"""Probes: the task `features`. The encoder stays frozen, and a linear layer or a BiLSTM learns on what it gives.

That is the paper's feature-based approach (BERT, section 5.3), for texts, pairs and words. The result is a bundle of
the task whose labels were learned (classification, ner, ...); its vectors are those of the bundle it began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle
from anaume.config import HeadConfig
from anaume.data.labelled import Example, TaggedExample, TextExample
from anaume.errors import AnaumeError, DataError, SettingsError
from anaume.tasks.registry import AnyTask, stream_examples, task_named
from anaume.training.finetuning.settings import FinetuneSettings, ProbeSettings, SimilaritySettings, TaskSettings

FEATURES = "features"
PROBED = ("classification", "pair-classification", "multi-label", "regression", "ner")
"""The tasks whose labels can be learned so."""

_SETTINGS: dict[str, type[FinetuneSettings]] = {
    FEATURES: ProbeSettings,
    "similarity": SimilaritySettings,
    "late-interaction": SimilaritySettings,
}
_OF_THE_PROBE = ("of", "strengths")


def settings_for(task: str) -> type[FinetuneSettings]:
    """Return the settings that a task takes."""
    return _SETTINGS.get(task, FinetuneSettings)


def probed_task(of: str | None, examples: Sequence[Example]) -> type[AnyTask]:
    """Return the task whose labels are learned: as told, or as these examples say: words with tags, or texts and pairs
    with a class, a number or several labels.

    Raises SettingsError for one that has no probe.
    """
    if of is not None:
        kind = task_named(of)
        if kind.name not in PROBED:
            raise SettingsError(f"task.of must be one of {', '.join(PROBED)}; got {of!r}")
        return kind
    first = examples[0] if examples else None
    if isinstance(first, TaggedExample):
        return task_named("ner")
    label = first.label if isinstance(first, TextExample) else None
    if isinstance(label, float | tuple):
        return task_named("regression" if isinstance(label, float) else "multi-label")
    paired = isinstance(first, TextExample) and first.pair is not None
    return task_named("pair-classification" if paired else "classification")


def probed_files(of: str | None, paths: str | Path | Sequence[str | Path], **reading: Any) -> type[AnyTask]:
    """Return the task whose labels files hold, by their first example; see `probed_task`.

    Raises DataError or SettingsError for files that hold neither texts nor words with labels.
    """
    if of is not None:
        return probed_task(of, [])
    refused: AnaumeError | None = None
    for kind in ("classification", "regression", "multi-label", "ner"):  # any tsv may be columns of words: the last
        try:
            first = next(stream_examples(task_named(kind), paths, labelled=True, **reading), None)
        except (DataError, SettingsError) as error:
            refused = refused or error
        else:
            return probed_task(None, [] if first is None else [first])
    assert refused is not None
    raise type(refused)(f"{refused} (whose labels are to be learned? task.of says it: {', '.join(PROBED)})")


def head_options(task: TaskSettings, kind: type[AnyTask]) -> dict[str, Any]:
    """Return the options of the task that is learned: those given, and the mean of the tokens where texts are pooled.

    The pooler that the published [CLS] goes through was trained for something else, if at all.
    """
    given = {name: value for name, value in task.given().items() if name not in _OF_THE_PROBE}
    return given if kind.kind == "token-classification" else {"pooling": "mean", **given}


def check_probe(head: HeadConfig, bundle: Bundle, processes: int) -> None:
    """Raise SettingsError for a head that a frozen encoder can't serve, or more than one process."""
    if processes > 1:
        raise SettingsError(f"features trains in one process; {processes} were started: do without torchrun")
    if head.needs_pooler and bundle.model.pooler is None:
        raise SettingsError(
            "task.pooling=cls reads the pooler, and the bundle has none that was trained; give task.pooling=mean, or "
            "another layer than the last, whose [CLS] is read as it is"
        )
