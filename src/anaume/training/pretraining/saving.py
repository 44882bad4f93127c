"""What is left of a run: its bundle, and how it ended."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import tokenizers
import torch

from anaume import __version__
from anaume.bundle import Bundle
from anaume.bundle.parts import BundleParts
from anaume.bundle.record import TrainingRecord, TrainingStage
from anaume.config import EmbeddingConfig
from anaume.data.corpus import Corpus
from anaume.tokenization import Tokenizer
from anaume.training.folder import BUNDLE
from anaume.training.loop import Run
from anaume.training.pretraining.result import PretrainResult
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import longest_row
from anaume.training.records import METRICS, read_lines


def result_of(run: Run) -> PretrainResult:
    """Return how the run stands, with the scores it noted."""
    progress, numbers = run.progress, []
    if run.ranks.first:
        rows = [row for row in read_lines(run.folder / METRICS) if "held_out_loss" in row]
        numbers = [{key: value for key, value in row.items() if key.startswith("held_out")} for row in rows]
    return PretrainResult(
        folder=run.folder,
        finished=progress.finished,
        steps=progress.step,
        seconds=progress.seconds,
        tokens=progress.tokens,
        skipped=progress.skipped,
        scores=numbers[-1] if numbers else {},
        scores_before=numbers[0] if run.work.evaluate_first and numbers else {},
    )


def save_bundle(
    run: Run,
    settings: PretrainSettings,
    tokenizer: Tokenizer,
    start: Bundle | None,
    corpus: Corpus,
    result: PretrainResult,
) -> None:
    """Save the model with what it was trained on, after what `start`, the bundle it goes on from, was trained on."""
    objectives = ["clm" if settings.objective.target == "next" else "mlm"]
    if settings.data.pairing != "none":
        objectives.append(settings.data.pairing)
    sources = corpus.record["made_from"]["sources"]
    stage = TrainingStage(
        objectives=tuple(objectives),
        data=tuple({**source, "name": Path(str(source["name"])).name} for source in sources),
        settings={**settings.model_dump(exclude_none=True), "steps_done": result.steps, "finished": result.finished},
        scores=result.scores,
        versions={"anaume": __version__, "torch": str(torch.__version__), "tokenizers": tokenizers.__version__},
    )
    model = run.model.cpu().eval()
    if start is None:
        # Places beyond the longest row were never trained.
        embedding = EmbeddingConfig(max_length=longest_row(settings))
        parts = BundleParts(tokenizer=tokenizer, model=model, embedding=embedding, record=TrainingRecord().then(stage))
    else:
        embedding, longest = start.embedding, longest_row(settings)
        if embedding.pooling is None and longest > embedding.max_length:  # one of vectors keeps what they were made for
            embedding = replace(embedding, max_length=longest)
        parts = BundleParts(
            tokenizer=tokenizer,
            model=model,
            embedding=embedding,
            record=start.parts.record.then(stage),
            card=start.parts.card,
        )
    Bundle(parts, device="cpu").save(run.folder / BUNDLE)
