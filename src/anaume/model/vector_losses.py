"""Losses over vectors of texts, each with its paper. Computed in float32 whatever the vectors' dtype.

`count` is what the summed loss is divided by, as for `losses.mlm_loss`; None = the number of rows here.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.errors import SettingsError


def in_batch_loss(
    queries: Tensor,
    candidates: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    scale: float = 20.0,
    count: Tensor | None = None,
) -> Tensor:
    """Cross-entropy of each positive against the query's negatives: InfoNCE (van den Oord et al. 2018) over cosines.

    With the other queries' positives as negatives it is the ranking loss of Henderson et al. (2017), and the objective
    of SimCSE (Gao et al. 2021; scale = 1 / temperature).

    queries             (n, size)
    candidates          (m, size)
    positive, negative  (n, m) bool; what is neither does not count. A query's loss is the mean over its positives,
                        each alone against the negatives; a query without any has loss 0
    """
    _same_size("in_batch_loss", queries, candidates)
    cosines = F.normalize(queries.float(), dim=1) @ F.normalize(candidates.float(), dim=1).T
    return contrastive_loss(scale * cosines, positive, negative, count=count)


def contrastive_loss(scores: Tensor, positive: Tensor, negative: Tensor, *, count: Tensor | None = None) -> Tensor:
    """As `in_batch_loss`, of scores (n, m) float32 that somebody else made."""
    lowest = torch.finfo(scores.dtype).min  # not -inf: a row without negatives would give NaN as its gradient
    against = scores.masked_fill(~negative, lowest).logsumexp(dim=1, keepdim=True)
    losses = F.softplus(against - scores).masked_fill(~positive, 0.0)
    own = losses.sum(dim=1) / positive.sum(dim=1).clamp(min=1)
    return own.sum() / (len(scores) if count is None else count)


def max_sim(queries: Tensor, queries_mask: Tensor, passages: Tensor, passages_mask: Tensor) -> Tensor:
    """The sum over a query's tokens of the best dot product with a passage's (ColBERT, 2020, section 3.3).

    queries   (n, query_len, size); queries_mask (n, query_len) bool, True = real token
    passages  (m, passage_len, size); passages_mask (m, passage_len) bool, each row with a real token
    returns   (n, m) float32; padding takes no part

    One query after the other, so that what is held at once is query_len x m x passage_len numbers.
    """
    hidden = torch.finfo(torch.float32).min
    flat, scores = passages.float().flatten(0, 1), []
    for query, mask in zip(queries.float(), queries_mask, strict=True):
        products = (query[mask] @ flat.T).unflatten(1, passages_mask.shape)
        scores.append(products.masked_fill(~passages_mask, hidden).max(dim=2).values.sum(dim=0))
    return torch.stack(scores) if scores else passages.new_zeros(0, len(passages), dtype=torch.float32)


def cosent_loss(similarities: Tensor, labels: Tensor, *, scale: float = 20.0) -> Tensor:
    """CoSENT (Su 2022; Huang et al. 2024): a pair of a higher label should be more similar than one of a lower.

    similarities  (n,); labels  (n,) float
    returns       log(1 + the sum over all i, j with labels[i] < labels[j] of exp(scale (s_i - s_j))): one number for
                  the whole batch, not a mean over its pairs
    """
    _same_size("cosent_loss", similarities, labels)
    scores = scale * similarities.float()
    wrong = scores[:, None] - scores[None, :]
    wrong = wrong[labels[:, None] < labels[None, :]]
    return torch.cat([scores.new_zeros(1), wrong]).logsumexp(dim=0)


def angle_similarity(u: Tensor, v: Tensor) -> Tensor:
    """Return the angle between texts as complex vectors (AnglE, Li and Li 2023, section 3.4): (n, size) twice -> (n,).

    The first half of a vector is its real part, the second the imaginary one. The real and the imaginary part of the
    quotient of unit vectors are summed up, as the authors' program does; 0.. about 1.41, and CoSENT compares them.
    An odd size gets a zero more.
    """
    _same_size("angle_similarity", u, v)
    u, v = F.normalize(u.float(), dim=1), F.normalize(v.float(), dim=1)
    if u.shape[1] % 2:
        u, v = F.pad(u, (0, 1)), F.pad(v, (0, 1))
    (a, b), (c, d) = u.chunk(2, dim=1), v.chunk(2, dim=1)
    return (a * c + b * d + b * c - a * d).sum(dim=1).abs()


def cosine_loss(u: Tensor, v: Tensor, targets: Tensor, *, count: Tensor | None = None) -> Tensor:
    """Squared error of the cosine (Sentence-BERT, Reimers and Gurevych 2019, section 3).

    u, v  (n, size); targets  (n,), within -1 .. 1
    """
    _same_size("cosine_loss", u, v)
    errors = (F.cosine_similarity(u.float(), v.float()) - targets.float()).square()
    return errors.sum() / (len(u) if count is None else count)


def triplet_loss(
    anchors: Tensor, positives: Tensor, negatives: Tensor, *, margin: float = 1.0, count: Tensor | None = None
) -> Tensor:
    """max(|a - p| - |a - n| + margin, 0), Euclidean, margin 1 as published (Sentence-BERT, section 3).

    All (n, size).
    """
    _same_size("triplet_loss", anchors, positives)
    _same_size("triplet_loss", anchors, negatives)
    a, p, n = anchors.float(), positives.float(), negatives.float()
    losses = (F.pairwise_distance(a, p) - F.pairwise_distance(a, n) + margin).clamp(min=0.0)
    return losses.sum() / (len(anchors) if count is None else count)


def margin_mse_loss(
    queries: Tensor, positives: Tensor, negatives: Tensor, margins: Tensor, *, count: Tensor | None = None
) -> Tensor:
    """Squared error of score(q, p) - score(q, n) against a teacher's, scores being dot products.

    Hofstätter et al. (2020), section 3. All (n, size); margins  (n,)
    """
    _same_size("margin_mse_loss", queries, positives)
    _same_size("margin_mse_loss", queries, negatives)
    own = (queries.float() * (positives.float() - negatives.float())).sum(dim=1)
    return (own - margins.float()).square().sum() / (len(queries) if count is None else count)


def _same_size(name: str, one: Tensor, other: Tensor) -> None:
    fits = one.shape == other.shape if name != "in_batch_loss" else one.shape[1:] == other.shape[1:]
    if not fits:
        raise SettingsError(f"{name} needs vectors that match; got {tuple(one.shape)} and {tuple(other.shape)}")
