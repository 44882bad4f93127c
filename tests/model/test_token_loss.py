"""The loss without float32 logits: the same as cross-entropy of the logits, in value, gradient and first guesses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from anaume.config import HeadConfig
from anaume.errors import SettingsError
from anaume.model import mlm_loss
from anaume.model import token_loss as module
from anaume.model.token_loss import token_loss
from tiny_models import difference, tiny_bert


def inputs(rows: int = 50, width: int = 24, vocab: int = 301, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    torch.manual_seed(seed)
    states, table, bias = torch.randn(rows, width), torch.randn(vocab, width) * 0.3, torch.randn(vocab)
    labels = torch.randint(0, vocab, (rows,))
    labels[::5] = -100
    return states.requires_grad_(), table.requires_grad_(), bias.requires_grad_(), labels


def reference(states: Tensor, table: Tensor, bias: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    logits = F.linear(states, table, bias)
    loss = F.cross_entropy(logits.float(), labels, ignore_index=-100, reduction="sum")
    return loss, ((logits.argmax(dim=1) == labels) & (labels >= 0)).sum()


@pytest.mark.parametrize("cache", [1, 4 * 301 * 7, 1 << 21], ids=["a row at a time", "7 rows", "all at once"])
def test_loss_and_gradients_are_those_of_cross_entropy(monkeypatch: pytest.MonkeyPatch, cache: int) -> None:
    monkeypatch.setattr(module, "_CACHE", cache)
    given = inputs()
    loss, right = token_loss(*given)
    wanted, wanted_right = reference(*given)
    assert difference(loss, wanted) <= 1e-6 * float(wanted.detach())
    assert float(right) == float(wanted_right)
    assert right.requires_grad is False
    for ours, theirs in zip(
        torch.autograd.grad(loss / 7, given[:3]), torch.autograd.grad(wanted / 7, given[:3]), strict=True
    ):
        assert difference(ours, theirs) <= 2e-6 * float(theirs.abs().max())


def test_under_autocast_it_is_as_near_to_float32_as_the_plain_way() -> None:
    given = inputs(rows=200)
    exact = torch.autograd.grad(reference(*given)[0], given[:3])

    def distance(loss: Tensor) -> list[float]:
        found = torch.autograd.grad(loss, given[:3])
        assert all(gradient.dtype == torch.float32 for gradient in found)
        return [float((a - b).norm() / b.norm()) for a, b in zip(found, exact, strict=True)]

    with torch.autocast("cpu", torch.bfloat16):
        ours, plain = token_loss(*given)[0], reference(*given)[0]
    for near, far in zip(distance(ours), distance(plain), strict=True):
        assert near <= 1.05 * far
    assert float(ours.detach()) == pytest.approx(float(reference(*given)[0].detach()), rel=2e-3)


def test_of_equal_logits_the_first_one_counts() -> None:
    states, table = torch.zeros(3, 4), torch.zeros(6, 4)
    assert float(token_loss(states, table, torch.zeros(6), torch.tensor([0, 1, 5]))[1]) == 1
    assert float(token_loss(states, table, torch.zeros(6), torch.tensor([0, 0, -100]))[1]) == 2


def test_nothing_counted_gives_zero_and_zero_gradients() -> None:
    states, table, bias, labels = inputs()
    loss, right = token_loss(states, table, bias, torch.full_like(labels, -100))
    assert (float(loss.detach()), float(right)) == (0.0, 0.0)
    assert all(not gradient.any() for gradient in torch.autograd.grad(loss, (states, table, bias)))


def test_extreme_logits_stay_finite() -> None:
    states = torch.full((2, 4), 1e4).requires_grad_()
    table = torch.tensor([[1e3] * 4, [-1e3] * 4, [0.0] * 4]).requires_grad_()
    loss, _ = token_loss(states, table, torch.zeros(3, requires_grad=True), torch.tensor([0, 1]))
    assert bool(loss.isfinite())
    assert all(bool(gradient.isfinite().all()) for gradient in torch.autograd.grad(loss, (states, table)))


def test_a_model_s_loss_is_that_of_its_logits() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")}, vocab_size=97)
    token_ids = torch.randint(5, 97, (3, 9))
    states = model(token_ids, None).last_hidden_state
    positions = torch.tensor([[1, 4], [2, 8], [0, 3]])
    labels = torch.tensor([[7, 8], [9, -100], [11, 12]])
    loss, _ = model.token_loss("mlm", states, labels, positions)
    assert difference(loss / 5, mlm_loss(model.head_logits("mlm", states, None, positions), labels)) < 1e-5
    everywhere, _ = model.token_loss("mlm", states, token_ids)
    assert difference(everywhere / 27, mlm_loss(model.head_logits("mlm", states, None), token_ids)) < 1e-5
    with pytest.raises(SettingsError, match=r"no mlm head called 'mln'; it has: mlm"):
        model.token_loss("mln", states, labels, positions)


def test_wrong_labels_and_shapes_are_refused() -> None:
    states, table, bias, labels = inputs()
    for wrong in (-1, 301, -101):
        labels[3] = wrong
        with pytest.raises(SettingsError, match=rf"label {wrong} at \[3\] is neither in 0 \.\. 300 nor -100"):
            token_loss(states, table, bias, labels)
    with pytest.raises(SettingsError, match=r"labels \(n,\)"):
        token_loss(states, table, bias, labels[:-1])


def test_no_row_is_no_loss() -> None:
    states, table, bias, labels = inputs(rows=0)
    loss, right = token_loss(states, table, bias, labels)
    loss.backward()
    assert (loss.item(), right.item()) == (0.0, 0.0)
    assert states.grad is not None
    assert states.grad.shape == (0, 24)
    assert table.grad is not None
    assert not table.grad.any()


def test_a_second_derivative_is_refused_not_taken_for_zero() -> None:
    given = inputs()
    with pytest.raises(SettingsError, match="no second derivative"):
        torch.autograd.grad(token_loss(*given)[0], given[0], create_graph=True)
