import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.model.losses import (
    classification_loss,
    mlm_loss,
    multi_label_loss,
    nsp_loss,
    regression_loss,
    span_loss,
)

IGNORED = -100


@pytest.mark.parametrize(
    ("logits", "labels", "wanted"),
    [
        (torch.zeros(1, 1, 30522), [[7]], 10.326203),
        (torch.zeros(1, 1, 2), [[0]], 0.693147),
        (torch.zeros(1, 4, 2), [[0, IGNORED, 1, IGNORED]], 0.693147),
        (torch.tensor([[[2.0, 0.0], [0.0, 1.0]]]), [[0, 0]], 0.720095),
    ],
)
def test_mlm_loss_by_value(logits: Tensor, labels: list[list[int]], wanted: float) -> None:
    assert mlm_loss(logits, torch.tensor(labels)).item() == pytest.approx(wanted, abs=1e-6)


def test_mlm_loss_looks_at_masked_places_only() -> None:
    logits = torch.randn(2, 5, 9, requires_grad=True)
    labels = torch.full((2, 5), IGNORED)
    labels[0, 1], labels[1, 4] = 3, 8
    mlm_loss(logits, labels).backward()
    assert logits.grad is not None
    size = logits.grad.abs().sum(-1)
    assert (size[labels != IGNORED] > 0).all()
    assert (size[labels == IGNORED] == 0).all()
    assert mlm_loss(logits, labels).item() == pytest.approx(
        -(logits[0, 1].log_softmax(0)[3] + logits[1, 4].log_softmax(0)[8]).item() / 2, rel=1e-6
    )


@pytest.mark.parametrize("shape", [(2, 3, 7), (2, 0, 7), (0, 3, 7)])
def test_nothing_masked_gives_zero_and_zero_gradients(shape: tuple[int, ...]) -> None:
    logits = torch.randn(shape, requires_grad=True)
    loss = mlm_loss(logits, torch.full(shape[:2], IGNORED))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("wrong", [-1, 9, -101, 30522])
def test_a_label_outside_the_classes_is_refused_with_its_place(wrong: int) -> None:
    labels = torch.tensor([[0, IGNORED, 8], [IGNORED, wrong, 2]])
    with pytest.raises(ValueError, match=rf"label {wrong} at \[1, 1\] is neither in 0 \.\. 8 nor -100"):
        mlm_loss(torch.zeros(2, 3, 9), labels)


@pytest.mark.parametrize("loss", [mlm_loss, classification_loss, nsp_loss])
def test_labels_of_another_shape_are_refused(loss: Callable[..., Tensor]) -> None:
    for labels in (torch.zeros(3), torch.zeros(2, 1), torch.zeros(1, 2)):
        with pytest.raises(
            ValueError, match=r"labels must have the shape of logits without its last dimension, \(2,\)"
        ):
            loss(torch.zeros(2, 2), labels.long())


@pytest.mark.parametrize("chunks", [2, 3, 6])
def test_micro_batches_with_the_count_sum_to_the_large_batch(chunks: int) -> None:
    """Also when the masked places are spread unevenly, as they are, and when a micro-batch has none."""
    labels = torch.full((6, 8), IGNORED)
    labels[torch.rand(6, 8) < 0.3] = 4
    labels[1] = IGNORED
    labels[0] = 2
    logits = torch.randn(6, 8, 9)

    whole = logits.clone().requires_grad_()
    loss = mlm_loss(whole, labels)
    loss.backward()

    count = (labels != IGNORED).sum()
    pieces = logits.clone().requires_grad_()
    total = 0.0
    for rows in torch.arange(6).chunk(chunks):
        part = mlm_loss(pieces[rows], labels[rows], count)
        part.backward()
        total += part.item()
    assert total == pytest.approx(loss.item(), abs=1e-6)
    assert whole.grad is not None
    assert pieces.grad is not None
    assert torch.allclose(pieces.grad, whole.grad, atol=1e-6)
    mean_of_means = sum(mlm_loss(logits[rows], labels[rows]) for rows in torch.arange(6).chunk(6)) / 6
    assert abs(mean_of_means.item() - loss.item()) > 1e-3, "the count is what makes the difference"


def test_nsp_loss() -> None:
    assert nsp_loss(torch.zeros(4, 2), torch.tensor([0, 1, 1, 0])).item() == pytest.approx(math.log(2))
    assert nsp_loss(torch.tensor([[9.0, -9.0]]), torch.tensor([0])).item() < 1e-6, "0 = B follows A"


def test_weighted_micro_batches_with_the_count_sum_to_the_large_batch() -> None:
    logits, labels, weights = torch.randn(4, 5, 3), torch.randint(3, (4, 5)), torch.tensor([0.2, 1.0, 3.0])
    labels[0, 1:] = IGNORED
    count = weights[labels.clamp(min=0)][labels != IGNORED].sum()
    parts = [classification_loss(logits[row], labels[row], weights, 0.1, count=count).item() for row in range(4)]
    assert sum(parts) == pytest.approx(classification_loss(logits, labels, weights, 0.1).item(), abs=1e-6)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(6,), (3, 4)])
def test_classification_loss_against_torch(shape: tuple[int, ...], weighted: bool, smoothing: float) -> None:
    logits, labels = torch.randn(*shape, 5), torch.randint(5, shape)
    labels.view(-1)[1] = IGNORED
    weights = torch.tensor([0.1, 0.2, 3.0, 0.0, 0.05]) if weighted else None
    wanted = F.cross_entropy(logits.view(-1, 5), labels.view(-1), weights, label_smoothing=smoothing)
    assert classification_loss(logits, labels, weights, smoothing).item() == pytest.approx(wanted.item(), abs=1e-6)


def test_classes_without_any_weight_give_zero_not_nan() -> None:
    logits = torch.randn(2, 3, requires_grad=True)
    loss = classification_loss(logits, torch.tensor([1, 1]), torch.tensor([1.0, 0.0, 1.0]))
    loss.backward()
    assert loss.item() == 0.0
    assert logits.grad is not None
    assert (logits.grad == 0).all()


@pytest.mark.parametrize("dtype", [torch.long, torch.bool, torch.float32, torch.uint8])
def test_multi_label_loss_takes_labels_of_any_dtype(dtype: torch.dtype) -> None:
    labels = torch.tensor([[1, 0, 1], [0, 0, 0]]).to(dtype)
    assert multi_label_loss(torch.zeros(2, 3), labels).item() == pytest.approx(0.693147, abs=1e-6)
    logits = torch.randn(2, 3)
    p = torch.sigmoid(logits)
    wanted = -torch.where(labels.bool(), p, 1 - p).log().mean()
    assert multi_label_loss(logits, labels).item() == pytest.approx(wanted.item(), rel=1e-5)


@pytest.mark.parametrize("loss", [multi_label_loss, regression_loss])
@pytest.mark.parametrize(("given", "wanted"), [((3, 1), (3,)), ((3,), (3, 1)), ((3, 2), (1, 2)), ((1, 3), (3,))])
def test_shapes_that_would_broadcast_are_refused(loss, given: tuple[int, ...], wanted: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="needs equal shapes, or they would broadcast"):
        loss(torch.zeros(given), torch.zeros(wanted))


def test_regression_loss() -> None:
    numbers = torch.tensor([1.0, 2.0, 3.0])
    assert regression_loss(numbers, numbers).item() == 0.0
    assert regression_loss(numbers[:, None], numbers[:, None]).item() == 0.0
    assert regression_loss(numbers, numbers + 2).item() == 4.0
    assert regression_loss(numbers[:1], torch.tensor([2.0])).item() == 1.0, "a last batch of one"
    assert regression_loss(numbers, torch.tensor([1, 2, 3])).item() == 0.0, "whole numbers as targets"


def test_span_loss_by_hand() -> None:
    logits = torch.randn(2, 4, 2)
    starts, ends = torch.tensor([1, 0]), torch.tensor([2, 3])
    wanted = sum(
        -logits[row, :, side].log_softmax(0)[int(places[row])]
        for row in range(2)
        for side, places in enumerate((starts, ends))
    )
    assert span_loss(logits, starts, ends, None).item() == pytest.approx(float(wanted) / 4, rel=1e-6)


def test_span_loss_in_parts() -> None:
    logits, starts, ends = torch.randn(3, 4, 2), torch.tensor([1, 0, IGNORED]), torch.tensor([2, 3, IGNORED])
    whole = span_loss(logits, starts, ends, None)
    parts = [span_loss(logits[own], starts[own], ends[own], None, torch.tensor(2.0)) for own in ([0], [1, 2])]
    assert sum(part.item() for part in parts) == pytest.approx(whole.item(), rel=1e-6)


def test_span_loss_can_not_choose_padding() -> None:
    logits = torch.randn(2, 5, 2)
    mask = torch.tensor([[True, True, True, False, False]] * 2)
    starts, ends = torch.tensor([1, IGNORED]), torch.tensor([2, IGNORED])
    cut = span_loss(logits[:, :3], starts, ends, None)
    logits[:, 3:] = 50.0
    logits.requires_grad_()
    padded = span_loss(logits, starts, ends, mask)
    assert padded.item() == pytest.approx(cut.item(), rel=1e-6)
    padded.backward()
    assert logits.grad is not None
    assert (logits.grad[:, 3:] == 0).all()
    assert (logits.grad[1] == 0).all(), "an ignored row does not count"
    assert span_loss(logits, starts, ends, None).item() > 10


def test_span_loss_with_no_answer_at_all_is_zero() -> None:
    none = torch.full((2,), IGNORED)
    assert span_loss(torch.randn(2, 5, 2), none, none, None).item() == 0.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_losses_are_computed_in_float32(dtype: torch.dtype) -> None:
    """Half-precision logits are exact here, so only the arithmetic of the loss could differ."""
    logits = torch.randint(-4, 5, (64, 500)).float()
    labels = torch.randint(500, (64,))
    low = mlm_loss(logits.to(dtype), labels)
    assert low.dtype == torch.float32
    assert low.item() == pytest.approx(mlm_loss(logits, labels).item(), rel=1e-6)
    targets = torch.randint(0, 2, (64, 500))
    assert multi_label_loss(logits.to(dtype), targets).item() == multi_label_loss(logits, targets).item()
    assert regression_loss(logits.to(dtype), logits + 0.125).item() == pytest.approx(0.125**2)
