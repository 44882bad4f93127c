"""Pretraining as the loop sees it: rows of a corpus, masked or next tokens, sentence pairs."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from anaume.data.corpus import Corpus, CorpusSplit
from anaume.data.corpus.stream import PretrainBatch, RowStream, SpecialIds
from anaume.errors import AnaumeWarning
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.tokenization import Tokenizer
from anaume.training.pretraining.evaluation import Evaluator
from anaume.training.pretraining.objective import Targets, make_targets, mask_rate
from anaume.training.pretraining.settings import PretrainSettings
from anaume.training.pretraining.start import build_loss, build_stream
from anaume.training.ranks import Ranks
from anaume.training.records import json_number
from anaume.training.state import Progress

log = get_logger(__name__)

_MANY_ALONE = 0.5  # of the documents; below, true pairs make up for the forced random ones


@dataclass
class CorpusWork:
    """Rows of a corpus; see `Work`."""

    settings: PretrainSettings
    loss: nn.Module
    """`PretrainLoss(model)`, wrapped where there are many processes."""
    stream: RowStream
    long_stream: RowStream | None
    """Longer rows, of the last part of the run; None = the same throughout."""
    evaluator: Evaluator | None
    evaluate_first: bool
    device: torch.device
    mask_id: int
    vocab_size: int
    """Of the tokenizer: the random tokens of a mask are drawn from it."""

    @property
    def evaluations(self) -> int:
        """As the settings say, where there is held-out text."""
        return 0 if self.evaluator is None else self.settings.run.evaluations

    def take_up(self, progress: Progress) -> None:
        """Go on where `progress` stands."""
        (self.long_stream if self.long_stream and progress.long else self.stream).position = progress.position

    def next_batch(self, progress: Progress, ranks: Ranks, fraction: float) -> PretrainBatch:
        """Return this rank's rows; longer and fewer ones in the last part of a two-length run."""
        data = self.settings.data
        stream, rows = self.stream, self.settings.run.batch_rows
        assert rows is not None
        if self.long_stream is not None and (progress.long or fraction >= 1.0 - data.long_share):
            progress.long = True
            stream = self.long_stream
            rows = max(ranks.world, rows * data.seq_len // stream.seq_len)  # as many tokens as before
        batch = stream.next_batch(rows, rank=ranks.rank, world=ranks.world)
        progress.position = stream.position
        return batch

    def targets(self, batch: PretrainBatch, step: int, fraction: float) -> Targets:
        """Draw what is to be predicted, on the device."""
        return make_targets(
            batch,
            self.settings.objective,
            mask_id=self.mask_id,
            vocab_size=self.vocab_size,
            seed=self.settings.run.seed,
            step=step,
            rate=mask_rate(fraction, self.settings.objective),
            device=self.device,
        )

    def parts(self, targets: Targets) -> Iterator[Targets]:
        """Yield rows by run.micro_rows; fewer of longer rows, so that memory stays the same."""
        micro, count = self.settings.run.micro_rows, max(1, len(targets))
        if micro is not None:
            count = max(1, micro * self.settings.data.seq_len // targets.token_ids.shape[1])
        for start in range(0, len(targets), count):
            yield targets.rows(start, start + count)

    def metrics(self, sums: Tensor, counts: Tensor) -> dict[str, Any]:
        """Return losses and accuracies of tokens and pairs."""
        token_loss, right, pair_loss, right_pairs = sums.tolist()
        tokens, pairs, _ = counts.tolist()
        return {
            "loss": token_loss / tokens + pair_loss / max(pairs, 1) if tokens else None,
            "token_loss": token_loss / tokens if tokens else None,
            "accuracy": right / tokens if tokens else None,
            **({"pair_loss": pair_loss / pairs, "pair_accuracy": right_pairs / pairs} if pairs else {}),
        }

    def checkpointed(self, progress: Progress) -> None:
        """Nothing lies beside the checkpoints."""

    def evaluate(self, model: Bert, dtype: torch.dtype, progress: Progress) -> dict[str, Any]:
        """Score the held-out rows."""
        assert self.evaluator is not None
        score = self.evaluator.score(model, dtype)
        return {
            "held_out_loss": json_number(score.loss),
            "held_out_accuracy": score.accuracy,
            **({} if score.pair_accuracy is None else {"held_out_pair_accuracy": score.pair_accuracy}),
        }


def build_work(
    settings: PretrainSettings,
    model: Bert,
    corpus: Corpus,
    tokenizer: Tokenizer,
    ranks: Ranks,
    device: torch.device,
    *,
    evaluate_first: bool,
) -> CorpusWork:
    """Return the work of a run on a corpus: rows of its training part, scores on the held-out one."""
    data, seed, split = settings.data, settings.run.seed, corpus.split("train")
    specials = SpecialIds(tokenizer.pad_id, tokenizer.cls_id, tokenizer.sep_id)
    if data.pairing == "nsp" and ranks.first:
        _warn_of_lone_sentences(split)
    long_stream = None
    if data.long_seq_len is not None:
        long_stream = build_stream(split, specials, settings, data.long_seq_len, seed)
    return CorpusWork(
        settings=settings,
        loss=build_loss(model, settings, ranks),
        stream=build_stream(split, specials, settings, data.seq_len, seed),
        long_stream=long_stream,
        evaluator=_evaluator(corpus.split("held-out"), tokenizer, specials, settings, device) if ranks.first else None,
        evaluate_first=evaluate_first,
        device=device,
        mask_id=tokenizer.mask_id,
        vocab_size=tokenizer.vocab_size,
    )


def _warn_of_lone_sentences(split: CorpusSplit) -> None:
    alone = sum(int((np.diff(shard.document_starts) == 1).sum()) for shard in split.shards)
    if alone > _MANY_ALONE * split.documents:
        warnings.warn(
            f"{alone / split.documents:.0%} of the documents have one sentence: nothing follows it, so most pairs are "
            "random and the labels are not half and half. Do blank lines between sentences end documents?",
            AnaumeWarning,
            stacklevel=4,
        )


def _evaluator(
    held_out: CorpusSplit, tokenizer: Tokenizer, specials: SpecialIds, settings: PretrainSettings, device: torch.device
) -> Evaluator | None:
    if settings.run.evaluations == 0:
        return None
    if held_out.documents < (2 if settings.data.pairing == "nsp" else 1):
        log.info(
            "held out are too few documents to measure a loss on (%d): only that of the training rows is told; prepare "
            "the corpus with a larger --held-out",
            held_out.documents,
        )
        return None
    # Seed 0: the same rows whatever the run's seed.
    rows = build_stream(held_out, specials, settings, settings.data.seq_len, 0)
    return Evaluator(rows, settings, mask_id=tokenizer.mask_id, vocab_size=tokenizer.vocab_size, device=device)
