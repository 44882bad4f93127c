"""Texts rebuilt from the vectors of what was left of them (TSDAE, Wang, Reimers and Gurevych 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from anaume.data import pad
from anaume.data.labelled import SimilarityExample
from anaume.model import IGNORED, generate_random_mask
from anaume.model.heads import SimilarityHead
from anaume.tasks.features import TaskBatch
from anaume.tasks.similarity.objective import Objective, need_single
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.units import Compared


class Tsdae(Objective):
    """A share of a text's pieces is taken away; a decoder that sees the vector of the rest rebuilds the whole.

    Deleted are pieces, 60 % as published (words there). Held-out texts are read whole.
    """

    name, metric, rebuilds = "tsdae", "spearman", True

    def check(self, example: SimilarityExample) -> None:
        """Take single texts."""
        need_single(self.name, example)

    def count(self, batch: TaskBatch) -> Tensor:
        """Return the number of tokens that are predicted: all but each text's first."""
        return (batch.targets["tokens"][:, 1:] != IGNORED).sum().float()

    def kept_places(
        self, token_ids: Sequence[npt.NDArray[Any]], rows: Sequence[int], terms: Terms, *, seed: int, step: int
    ) -> list[npt.NDArray[np.int64]]:
        """Return the places that stay, special tokens always."""
        return kept_places(token_ids, rows, share=terms.deleted, seed=seed, step=step)

    def loss(self, given: Compared) -> Tensor:
        """Return the mean cross-entropy of the tokens."""
        if len(given.vectors) != given.batch.units:  # pairs, of a dev set
            return given.other_kind
        assert given.model is not None
        head = given.model.heads["similarity"]
        assert isinstance(head, SimilarityHead)
        assert head.decoder is not None
        loss: Tensor = head.decoder(given.vectors, given.batch.targets["tokens"], given.model.embeddings)
        return loss / given.count


def kept_places(
    token_ids: Sequence[npt.NDArray[Any]], rows: Sequence[int], *, share: float, seed: int, step: int
) -> list[npt.NDArray[np.int64]]:
    """Return the places of each row that are not deleted: all but round(share x n) of n pieces, at least one.

    token_ids  rows, their first and last token special
    rows       their numbers: with seed, step and place they decide what is deleted, as they decide masks
               (`generate_random_mask`), so that a run that goes on deletes what it would have deleted
    """
    padded, real = (torch.from_numpy(array) for array in pad([own.tolist() for own in token_ids], 0))
    lengths = real.sum(dim=1, keepdim=True)
    places = torch.arange(padded.shape[1])[None, :]
    pieces = (places > 0) & (places < lengths - 1) & (lengths > 3)  # the only piece of a text stays
    numbers = torch.tensor(rows, dtype=torch.int64)
    drawn = generate_random_mask(
        padded, pieces, mask_id=0, vocab_size=1, rate=share, seed=seed, step=step, rows=numbers
    )
    kept = real.scatter(1, drawn.positions, drawn.labels == IGNORED) & real  # unused slots point anywhere
    kept[pieces.any(dim=1) & ~(kept & pieces).any(dim=1), 1] = True  # a share near 1 would take all
    return [own.nonzero().squeeze(1).numpy() for own in kept]
