"""Losses of similarity equal those of sentence-transformers on the same vectors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor

from anaume.config import HeadConfig
from anaume.model.losses import classification_loss
from anaume.model.vector_losses import triplet_loss
from anaume.tasks.features import TaskBatch
from anaume.tasks.similarity import Similarity, Terms

losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")

SIZE, ROWS = 8, 6
HEAD = HeadConfig(kind="similarity", pooling="mean")


def vectors(columns: int) -> list[Tensor]:
    generator = torch.Generator().manual_seed(columns)
    return [torch.randn(ROWS, SIZE, generator=generator).requires_grad_() for _ in range(columns)]


class Given(torch.nn.Module):
    """A model whose vectors are given."""

    device = torch.device("cpu")
    similarity = None

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return features


def theirs(name: str, columns: Sequence[Tensor], labels: Tensor | None, **options: Any) -> Tensor:
    loss = getattr(losses, name)(Given(), **options)
    found: Tensor = loss.compute_loss_from_embeddings(list(columns), labels)
    return found


def ours(objective: str, columns: Sequence[Tensor], targets: dict[str, Tensor], **options: Any) -> Tensor:
    count = len(columns)
    batch = TaskBatch(
        attention_mask=torch.ones(ROWS * count, 1, dtype=torch.bool),
        unit_of_row=torch.arange(ROWS).repeat_interleave(count),
        targets={
            "texts": torch.arange(ROWS * count)[:, None],
            "positives": torch.ones(ROWS, dtype=torch.int64),
            "labelled": torch.zeros(ROWS, dtype=torch.bool),
            **targets,
        },
    )
    task = Similarity(HEAD, objective=objective, normalize=False, **options)
    rows = torch.stack(list(columns), dim=1).flatten(0, 1)
    return task.loss(rows, batch, task.count(batch))


SCORES = torch.tensor([0.0, 0.2, 0.2, 0.5, 0.9, 1.0])
MARGINS = torch.tensor([[3.0], [1.0], [0.5], [-1.0], [2.0], [0.0]])
CASES: dict[str, tuple[str, int, dict[str, Tensor], str, Tensor | None, dict[str, Any]]] = {
    "pairs": ("in-batch", 2, {}, "MultipleNegativesRankingLoss", None, {}),
    "triplets": ("in-batch", 3, {}, "MultipleNegativesRankingLoss", None, {}),
    "cosent": ("cosent", 2, {"values": SCORES}, "CoSENTLoss", SCORES, {}),
    "angle": ("angle", 2, {"values": SCORES}, "AnglELoss", SCORES, {}),
    "cosine": ("cosine", 2, {"values": SCORES}, "CosineSimilarityLoss", SCORES, {}),
    "triplet": ("triplet", 3, {}, "TripletLoss", None, {"triplet_margin": 1.0}),
    "margin-mse": ("margin-mse", 3, {"margins": MARGINS}, "MarginMSELoss", MARGINS, {}),
    "two margins": (
        "margin-mse",
        4,
        {"margins": MARGINS.repeat(1, 2)},
        "MarginMSELoss",
        MARGINS.repeat(1, 2),
        {},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_loss_and_gradients_equal_theirs(name: str) -> None:
    objective, count, targets, theirs_name, labels, options = CASES[name]
    columns = vectors(count)
    there = theirs(theirs_name, columns, labels, **options)
    gradients = torch.autograd.grad(there, columns)
    here = ours(objective, columns, targets)
    assert here.item() == pytest.approx(there.item(), abs=1e-5)
    for one, other in zip(torch.autograd.grad(here, columns), gradients, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


def test_matryoshka_is_the_sum_over_cut_vectors() -> None:
    columns = vectors(2)
    sizes = (2, 4, 8)
    there = [theirs("MultipleNegativesRankingLoss", [one[:, :size] for one in columns], None).item() for size in sizes]
    assert ours("in-batch", columns, {}, dimensions=sizes).item() == pytest.approx(sum(there), abs=1e-5)


def test_triplets_in_their_margin() -> None:
    a, p, n = vectors(3)
    there = theirs("TripletLoss", [a, p, n], None)
    assert triplet_loss(a, p, n, margin=5.0).item() == pytest.approx(there.item(), abs=1e-5)


def test_the_classifier_of_pairs_equals_theirs() -> None:
    from anaume.config import EncoderConfig
    from anaume.model.heads import SimilarityHead

    loss = losses.SoftmaxLoss(Given(), SIZE, num_labels=3)
    u, v = vectors(2)
    head = SimilarityHead(
        EncoderConfig(vocab_size=9, hidden_size=SIZE), HeadConfig(kind="similarity", labels=("a", "b", "c"))
    )
    assert head.classifier is not None
    head.classifier.load_state_dict(loss.classifier.state_dict())
    labels = torch.tensor([0, 1, 2, 0, 1, 2])
    out = head(torch.stack([u, v], dim=1).flatten(0, 1))
    there = torch.nn.functional.cross_entropy(loss.classifier(torch.cat([u, v, (u - v).abs()], 1)), labels)
    assert classification_loss(out[::2, SIZE:], labels).item() == pytest.approx(there.item(), abs=1e-5)
    assert torch.equal(out[:, :SIZE], torch.stack([u, v], dim=1).flatten(0, 1))


def test_terms_have_their_defaults() -> None:
    assert (Terms().scale, Terms().margin) == (20.0, 1.0)
