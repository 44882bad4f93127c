"""MaxSim and its loss equal those of sentence-transformers on the same token vectors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from anaume.config import HeadConfig
from anaume.model.vector_losses import max_sim
from anaume.tasks.features import TaskBatch
from anaume.tasks.late_interaction import LateInteraction
from anaume.tasks.max_sim import max_sim_scores

theirs = pytest.importorskip("sentence_transformers.multi_vector_encoder.scoring")
util = pytest.importorskip("sentence_transformers.util")

ROWS, SIZE = 5, 6
LENGTHS = torch.tensor([[4, 7, 2], [1, 3, 7], [3, 1, 1], [2, 5, 6], [4, 2, 4]])  # of query, positive, negative
MASK = torch.arange(7)[None, None, :] < LENGTHS[..., None]


def vectors() -> torch.Tensor:
    made = torch.randn(ROWS, 3, 7, SIZE, generator=torch.Generator().manual_seed(2))
    return F.normalize(made, dim=-1).requires_grad_()


def test_scores_equal_theirs() -> None:
    given = vectors().detach()
    queries, passages, q_mask, p_mask = given[:, 0], given[:, 1:].flatten(0, 1), MASK[:, 0], MASK[:, 1:].flatten(0, 1)
    there = util.maxsim(queries, passages, q_mask, p_mask)
    assert torch.allclose(max_sim(queries, q_mask, passages, p_mask), there, atol=1e-5)
    rows = [own[kept].numpy() for own, kept in zip(passages, p_mask, strict=True)]
    for query, mask, wanted in zip(queries, q_mask, there, strict=True):
        np.testing.assert_allclose(max_sim_scores(query[mask].numpy(), rows), wanted.numpy(), atol=1e-5)


def test_the_loss_and_its_gradient_equal_theirs() -> None:
    """As their loss does: every query against all passages, each query's own positive the right one."""
    given = vectors()
    scores = theirs.colbert_scores(given[:, 0], given[:, 1:], queries_mask=MASK[:, 0], documents_mask=MASK[:, 1:])
    there = F.cross_entropy(2.0 * scores, 2 * torch.arange(ROWS))
    (wanted,) = torch.autograd.grad(there, given)
    task = LateInteraction(HeadConfig(kind="late-interaction", size=SIZE), scale=2.0)
    batch = TaskBatch(
        attention_mask=MASK.flatten(0, 1),
        unit_of_row=torch.arange(ROWS).repeat_interleave(3),
        targets={
            "texts": torch.arange(3 * ROWS)[:, None],
            "positives": torch.ones(ROWS, dtype=torch.int64),
        },
    )
    here = task.loss(given.flatten(0, 1), batch, task.count(batch))
    assert here.item() == pytest.approx(there.item(), abs=1e-5)
    assert torch.allclose(torch.autograd.grad(here, given)[0], wanted, atol=1e-5)
