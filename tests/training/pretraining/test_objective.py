"""What a step predicts: exact masks whoever holds a row, losses that add up, no parameter left out."""

from __future__ import annotations

import dataclasses
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.config import HeadConfig
from anaume.data.corpus.stream import PretrainBatch, RowStream, SpecialIds
from anaume.model import Bert
from anaume.training.pretraining.objective import PretrainLoss, Targets, make_targets
from anaume.training.pretraining.settings import ObjectiveSettings
from tiny_corpora import numbered, write_split
from tiny_models import difference, tiny_bert

VOCAB, MASK, PAD, CLS, SEP = 400, 4, 0, 2, 3
CPU = torch.device("cpu")
HEADS = {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")}


def rows_of(folder: Path, **other: Any) -> RowStream:
    chance = random.Random(0)

    def text(length: int) -> list[int]:
        return [chance.randrange(10, VOCAB) for _ in range(length)]

    documents = [[text(chance.randint(2, 9)) for _ in range(chance.randint(1, 4))] for _ in range(150)]
    split = write_split(folder, documents)
    return RowStream(split, SpecialIds(PAD, CLS, SEP), **{"seq_len": 32, "seed": 1, **other})


def targets_of(batch: PretrainBatch, step: int = 0, seed: int = 0, **objective: Any) -> Targets:
    settings = ObjectiveSettings(**objective)
    return make_targets(
        batch,
        settings,
        mask_id=MASK,
        vocab_size=VOCAB,
        seed=seed,
        step=step,
        rate=settings.mask_rate,
        device=CPU,
    )


def model_of(pairing: str, **settings: Any) -> Bert:
    heads = HEADS if pairing == "nsp" else {"mlm": HEADS["mlm"]}
    return tiny_bert(heads, vocab_size=VOCAB, **settings).train()


@pytest.mark.parametrize("pairing", ["none", "nsp"])
def test_each_row_has_exactly_its_share_of_masks_and_none_on_special_tokens(tmp_path: Path, pairing: str) -> None:
    batch = rows_of(tmp_path, pairing=pairing).next_batch(64)
    targets = targets_of(batch)
    assert targets.positions is not None
    token_ids = torch.from_numpy(batch.token_ids)
    maskable = token_ids >= 10
    for row in range(64):
        used = targets.labels[row] >= 0
        places = targets.positions[row][used]
        assert int(used.sum()) == max(1, round(0.15 * int(maskable[row].sum())))
        assert len(set(places.tolist())) == len(places)
        assert bool(maskable[row][places].all())
        assert torch.equal(targets.labels[row][used], token_ids[row][places])
        untouched = torch.ones(32, dtype=torch.bool)
        untouched[places] = False
        assert torch.equal(targets.token_ids[row][untouched], token_ids[row][untouched])


def test_masks_are_fresh_at_each_step_and_the_same_for_the_same_seed(tmp_path: Path) -> None:
    """MLM-03: the second epoch hides other words; a second run with the same seed hides the same."""
    batch = rows_of(tmp_path).next_batch(10)
    first, again, later, other = (
        targets_of(batch, step, seed).token_ids for step, seed in ((3, 0), (3, 0), (4, 0), (3, 1))
    )
    assert torch.equal(first, again)
    assert not torch.equal(first, later)
    assert not torch.equal(first, other)


def test_equal_texts_in_one_batch_get_different_masks(tmp_path: Path) -> None:
    batch = rows_of(tmp_path).next_batch(1)
    eight = PretrainBatch(*(np.repeat(values, 8, axis=0) for values in vars(batch).values()))
    targets = targets_of(dataclasses.replace(eight, rows=np.arange(8)))
    assert len({tuple(row) for row in targets.token_ids.tolist()}) == 8


@pytest.mark.parametrize("objective", [{}, {"units": "words"}, {"units": "spans"}], ids=str)
def test_a_row_has_the_same_mask_whichever_rank_or_micro_batch_holds_it(
    tmp_path: Path, objective: dict[str, Any]
) -> None:
    batch = rows_of(tmp_path).next_batch(12)
    whole = targets_of(batch, step=5, **objective)
    for rank in range(3):
        part = targets_of(batch.take(slice(rank, None, 3)), step=5, **objective)
        for name, values in vars(whole).items():
            if values is not None:
                assert torch.equal(getattr(part, name), values[rank::3]), name
    assert torch.equal(targets_of(batch.take(slice(4, 8)), step=5, **objective).labels, whole.rows(4, 8).labels)


def test_whole_words_are_hidden_together(tmp_path: Path) -> None:
    """MLM-04: words come from the corpus, so that Japanese words cut into characters move together too."""
    split = write_split(tmp_path, numbered([[40]] * 9), words=[[1, 0, 0, 1, 1, 0] * 60])
    batch = RowStream(split, SpecialIds(PAD, CLS, SEP), seq_len=24, seed=0).next_batch(40)
    together = 0
    for step in range(10):
        targets = targets_of(batch, step, units="words", mask_rate=0.3)
        assert targets.positions is not None
        for row in range(len(batch.rows)):
            used = targets.labels[row] >= 0
            chosen = set(targets.positions[row][used].tolist())
            words = batch.word_ids[row]
            for word in {int(words[place]) for place in chosen}:
                places = set(np.flatnonzero(words == word).tolist())
                assert places <= chosen
                together += len(places) > 1
            assert len(chosen) <= max(1, round(0.3 * int((words >= 0).sum())))
    assert together > 500


def test_the_next_token_is_predicted_inside_each_text_only(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[2], [1]]))
    batch = RowStream(split, SpecialIds(PAD, CLS, SEP), seq_len=9).next_batch(1)
    targets = targets_of(batch, target="next")
    assert targets.token_ids.tolist() == [[2, 10, 11, 3, 2, 12, 3, 0, 0]]
    assert targets.labels.tolist() == [[10, 11, 3, -100, 12, 3, -100, -100, -100]]
    assert targets.positions is None
    assert targets.counts().tolist() == [5, 0, 7]


def test_texts_of_a_packed_row_are_those_texts_alone(tmp_path: Path) -> None:
    """Packed = padded, within promise 2's bound, vectors and loss."""
    batch = rows_of(tmp_path).next_batch(16)
    targets = targets_of(batch)
    model = model_of("none").eval()
    several = 0
    with torch.no_grad():
        packed = model(targets.token_ids, None, None, targets.position_ids, sequence_ids=targets.sequence_ids)
        for row in range(16):
            texts = int(targets.sequence_ids[row].max()) + 1
            several += texts > 1
            for text in range(texts):
                places = targets.sequence_ids[row] == text
                padded = torch.zeros(1, 32, dtype=torch.long)
                padded[0, : int(places.sum())] = targets.token_ids[row][places]
                mask = torch.arange(32)[None] < int(places.sum())
                alone = model(padded, mask).last_hidden_state[0][: int(places.sum())]
                assert difference(packed.last_hidden_state[row][places], alone) < 1e-5
    assert several > 3


@pytest.mark.parametrize(("pairing", "target"), [("none", "masked"), ("none", "next"), ("nsp", "masked")])
@pytest.mark.parametrize("micro", [8, 1])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-6), (torch.float64, 1e-13)], ids=["32", "64"])
def test_accumulated_micro_batches_are_the_large_batch(
    tmp_path: Path, pairing: str, target: str, micro: int, dtype: torch.dtype, bound: float
) -> None:
    """1 x 32 = 4 x 8 = 32 x 1: losses and gradients within 1e-6 of the largest value, rows of unequal length."""
    targets = targets_of(rows_of(tmp_path, pairing=pairing).next_batch(32), target=target)
    assert len(set((targets.sequence_ids >= 0).sum(dim=1).tolist())) > 2  # unequal lengths
    model = model_of(pairing, initializer_range=0.02).to(dtype)
    loss = PretrainLoss(model)
    counts = targets.counts()

    def gradients(rows: int) -> tuple[float, torch.Tensor, dict[str, torch.Tensor]]:
        model.zero_grad()
        total, sums = 0.0, torch.zeros(4, dtype=torch.float64)
        for start in range(0, 32, rows):
            part, reported = loss(targets.rows(start, start + rows), counts)
            part.backward()
            total += part.item()
            sums += reported.double()
        return total, sums, {name: parameter.grad.clone() for name, parameter in model.named_parameters()}

    expected, expected_sums, large = gradients(32)
    found, sums, small = gradients(micro)
    largest = max(float(gradient.abs().max()) for gradient in large.values())
    worst = max(float((small[name] - large[name]).abs().max()) for name in large)
    print(
        f"{pairing} {target} 32 x {micro}: loss {abs(found - expected) / expected:.1e}, gradient {worst / largest:.1e}"
    )
    assert abs(found - expected) < 1e-6 * expected
    assert worst < bound * largest
    assert torch.allclose(sums, expected_sums, rtol=1e-6)


def test_a_loss_is_the_mean_over_its_tokens_and_pairs(tmp_path: Path) -> None:
    """TRN-04: batches of unequal size weigh as many tokens as they have."""
    targets = targets_of(rows_of(tmp_path, pairing="nsp").next_batch(10))
    model = model_of("nsp").eval()
    with torch.no_grad():
        loss, sums = PretrainLoss(model)(targets, targets.counts())
        output = model(
            targets.token_ids, None, targets.segment_ids, targets.position_ids, sequence_ids=targets.sequence_ids
        )
        logits = model.head_logits("mlm", output.last_hidden_state, None, targets.positions)
        pairs = model.head_logits("nsp", output.last_hidden_state, None)
    used = targets.labels >= 0
    logs = torch.log_softmax(logits[used], dim=-1)
    token_losses = -logs[torch.arange(len(logs)), targets.labels[used]]
    assert targets.pair_labels is not None
    pair_losses = -torch.log_softmax(pairs, dim=-1)[torch.arange(10), targets.pair_labels]
    assert float(loss) == pytest.approx(float(token_losses.mean() + pair_losses.mean()), rel=1e-5)
    right = (logits[used].argmax(dim=-1) == targets.labels[used]).sum()
    right_pairs = (pairs.argmax(dim=-1) == targets.pair_labels).sum()
    expected = [float(token_losses.sum()), float(right), float(pair_losses.sum()), float(right_pairs)]
    assert sums.tolist() == pytest.approx(expected, rel=1e-5)
    assert targets.counts().tolist() == [int(used.sum()), 10, int((targets.sequence_ids >= 0).sum())]


def test_an_untrained_model_begins_at_ln_v(tmp_path: Path) -> None:
    targets = targets_of(rows_of(tmp_path).next_batch(16))
    loss, _ = PretrainLoss(model_of("none", initializer_range=0.02))(targets, targets.counts())
    assert loss.item() == pytest.approx(np.log(VOCAB), rel=0.02)


@pytest.mark.parametrize(
    ("pairing", "objective", "causal"),
    [
        ("none", {}, False),
        ("nsp", {}, False),
        ("none", {"target": "next"}, True),
        ("none", {"target": "next"}, False),
        ("none", {}, True),
    ],
)
def test_no_parameter_is_without_a_gradient(
    tmp_path: Path, pairing: str, objective: dict[str, Any], causal: bool
) -> None:
    """NSP-03: what a mode does not train is not built, so that data-parallel training needs no search for it."""
    targets = targets_of(rows_of(tmp_path, pairing=pairing).next_batch(4), **objective)
    model = model_of(pairing, causal=causal)
    loss, _ = PretrainLoss(model)(targets, targets.counts())
    loss.backward()
    assert [name for name, parameter in model.named_parameters() if parameter.grad is None] == []
    assert (model.pooler is None) == (pairing == "none")


def test_a_next_token_that_can_be_seen_is_copied_not_predicted() -> None:
    """BERT, section 3.1: with both sides visible each word could see itself. In random text nothing can be predicted:
    under the triangle the loss stays at ln V, and without it falls toward zero, as the answer stands in the input.
    """
    vocab, steps, length = 20, 80, 8
    last = {}
    for causal in (True, False):
        chance = np.random.default_rng(0)
        model = tiny_bert({"mlm": HEADS["mlm"]}, vocab_size=vocab, hidden_size=32, initializer_range=0.1, causal=causal)
        optimizer = torch.optim.AdamW(model.train().parameters(), lr=0.01)
        for _ in range(steps):
            shape = (32, length)
            zeros, rows = np.zeros(shape, np.int64), np.arange(32)
            places = np.broadcast_to(np.arange(length), shape).copy()
            batch = PretrainBatch(chance.integers(0, vocab, shape), zeros, places, zeros, places, rows * 0 - 100, rows)
            targets = targets_of(batch, target="next")
            loss, _ = PretrainLoss(model)(targets, targets.counts())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        last[causal] = loss.item()
    assert last[True] == pytest.approx(np.log(vocab), abs=0.1)
    assert last[False] < 0.3
