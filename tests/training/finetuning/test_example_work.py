"""Labelled examples as the loop sees them: order, parts, gradients, packed rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.data.corpus.stream import Position
from anaume.data.labelled import TextExample
from anaume.model import Bert
from anaume.tasks.classification import Classification
from anaume.tasks.registry import AnyTask
from anaume.tasks.regression import Regression
from anaume.training.finetuning.example_parts import example_part
from anaume.training.finetuning.example_work import ExampleLoss, ExampleStream, ExampleWork
from anaume.training.ranks import Ranks
from tiny_bundles import VOCAB, tiny_tokenizer
from tiny_labels import class_of, examples, texts, tuning_settings, value_of
from tiny_models import difference, pad_rows, tiny_bert


def test_no_row_is_lost_and_none_is_twice_in_an_epoch() -> None:
    """TRN-05: 33 rows with batch 8: a batch that begins before the end of an epoch goes on in the next one."""
    stream, position, seen = ExampleStream(33, seed=3), Position(), []
    for _ in range(33):  # eight epochs
        batch, position = stream.next_batch(position, 8, Ranks())
        assert len(batch) == 8
        seen += batch
    assert position == Position(8)
    epochs = [seen[33 * number : 33 * (number + 1)] for number in range(8)]
    assert all(sorted(epoch) == list(range(33)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 8
    assert ExampleStream(33, seed=4).next_batch(Position(), 33, Ranks())[0] != epochs[0]


def test_a_place_in_the_order_is_two_numbers_and_ranks_share_a_batch() -> None:
    whole = ExampleStream(10, seed=0)
    first, position = whole.next_batch(Position(), 7, Ranks())
    again = ExampleStream(10, seed=0)
    assert again.next_batch(position, 7, Ranks()) == whole.next_batch(position, 7, Ranks())
    shares = [again.next_batch(Position(), 7, Ranks(rank, 2)) for rank in range(2)]
    assert [own for own, _ in shares] == [first[::2], first[1::2]]
    assert shares[0][1] == shares[1][1] == position
    assert Counter(ExampleStream(3, seed=0).next_batch(Position(), 8, Ranks())[0]) == Counter(
        {0: 3, 1: 3, 2: 3}
    ) - Counter([ExampleStream(3, seed=0).next_batch(Position(2), 3, Ranks())[0][2]])


def work_of(tmp_path: Path, task: AnyTask, rows: list[TextExample], *assignments: str) -> tuple[ExampleWork, Bert]:
    model = tiny_bert({task.kind: task.head}, vocab_size=len(VOCAB)).train()
    features = task.features(rows, tiny_tokenizer(), 40, learn=True)
    work = ExampleWork(
        settings=tuning_settings(*assignments),
        task=task,
        features=features,
        loss=ExampleLoss(model, task),
        dev=None,
        folder=tmp_path,
        device=torch.device("cpu"),
        pad_id=0,
    )
    return work, model


def gradients(work: ExampleWork, model: Bert, units: list[int]) -> tuple[float, dict[str, torch.Tensor], int]:
    targets = work.targets(units, 0, 0.0)
    model.zero_grad()
    total = torch.zeros(1)
    parts = list(work.parts(targets))
    for part in parts:
        loss, sums = work.loss(part, targets.counts())
        loss.backward()
        total += sums
    found = {name: own.grad.clone() for name, own in model.named_parameters() if own.grad is not None}
    loss_of_all = work.metrics(total, targets.counts())["loss"]
    assert targets.counts()[-1] == sum(work.features.token_ids.lengths[units])
    return loss_of_all, found, len(parts)


ROWS = [
    TextExample(text=text, pair="the river is closed" if number % 3 == 0 else None, label=class_of(text))
    for number, text in enumerate(texts(32, longest=14))
]
TASKS: dict[str, tuple[AnyTask, list[TextExample]]] = {
    "classes": (Classification.fit(ROWS, class_weights={"animal": 0.3, "place": 2.0}, dropout=0.0), ROWS),
    "mean": (Classification.fit(ROWS, pooling="mean", head_layers=2, dropout=0.0), ROWS),
    "numbers": (
        Regression.fit([TextExample(text=one.text, label=value_of(one.text)) for one in ROWS], dropout=0.0),
        [TextExample(text=one.text, label=value_of(one.text)) for one in ROWS],
    ),
}


@pytest.mark.parametrize("name", TASKS)
def test_parts_of_any_size_give_the_gradient_of_the_whole_batch(tmp_path: Path, name: str) -> None:
    """1 x 32 = about 4 x 8 = 32 x 1, rows of unequal lengths, also where classes weigh."""
    task, rows = TASKS[name]
    found = []
    for micro, count in ((8192, range(1, 2)), (80, range(3, 9)), (1, range(32, 33))):
        work, model = work_of(tmp_path, task, rows, f"run.micro_tokens={micro}")
        loss, own, parts = gradients(work, model, list(range(32)))
        assert parts in count
        found.append((loss, own))
    largest = max(float(gradient.abs().max()) for gradient in found[0][1].values())
    assert largest > 1e-2
    for loss, own in found[1:]:
        assert loss == pytest.approx(found[0][0], rel=1e-6)
        assert own.keys() == found[0][1].keys() == {key for key, _ in model.named_parameters()}
        for key, gradient in own.items():
            assert float((gradient - found[0][1][key]).abs().max()) <= 1e-6 * largest, key


@pytest.mark.parametrize("name", TASKS)
def test_packed_rows_give_the_logits_of_padded_ones(tmp_path: Path, name: str) -> None:
    task, rows = TASKS[name]
    work, model = work_of(tmp_path, task, rows)
    features, seen = work.features, {}
    units = list(range(31, -1, -2))

    def keep(kind: str, states: Any, mask: Any) -> Any:
        seen["logits"] = Bert.head_logits(model, kind, states, mask)
        return seen["logits"]

    model.head_logits = keep  # type: ignore[method-assign, assignment]
    part, tokens = example_part(features, units, task, 0, torch.device("cpu"))
    work.loss(part, task.count(part.batch)[None])
    assert part.token_ids.shape[0] < len(units)
    assert tokens == features.token_ids.lengths[units].sum()
    token_ids, mask = pad_rows([features.token_ids[unit].tolist() for unit in units])
    segments, _ = pad_rows([features.segment_ids[unit].tolist() for unit in units])
    padded = Bert.head_logits(model, task.kind, model(token_ids, mask, segments).last_hidden_state, mask)
    assert difference(seen["logits"], padded) <= 1e-5


def test_a_unit_larger_than_the_memory_is_a_part_of_its_own(tmp_path: Path) -> None:
    work, _ = work_of(tmp_path, Classification.fit(examples(20)), examples(20), "run.micro_tokens=2")
    assert len(work.targets([4, 5, 6], 0, 0.0).parts) == 3
