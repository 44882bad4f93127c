"""The best weights stay as long as a checkpoint speaks of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from anaume.errors import DataError
from anaume.model import Bert
from anaume.training.finetuning.best import BestWeights
from tiny_models import tiny_bert


@pytest.fixture
def model() -> Bert:
    return tiny_bert()


def kept(folder: Path) -> list[int]:
    return sorted(int(path.stem.removeprefix("best-")) for path in folder.glob("best-*"))


def test_weights_come_back_bit_for_bit(tmp_path: Path, model: Bert) -> None:
    best = BestWeights(tmp_path)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    best.save(model, 7)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    best.load(model, 7)
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_each_checkpoint_keeps_the_last_best_up_to_it(tmp_path: Path, model: Bert) -> None:
    best = BestWeights(tmp_path)
    for step in (2, 5, 9):
        best.save(model, step)
    best.remove_unspoken([6, 12])
    assert kept(tmp_path) == [5, 9]
    best.remove_unspoken([12, 20])
    assert kept(tmp_path) == [9]
    best.remove()
    assert kept(tmp_path) == []


def test_a_run_taken_up_again_forgets_what_it_has_yet_to_do(tmp_path: Path, model: Bert) -> None:
    best = BestWeights(tmp_path)
    for step in (2, 5, 9):
        best.save(model, step)
    best.remove_after(5)
    assert kept(tmp_path) == [2, 5]


@pytest.mark.parametrize("content", [None, b"", b"no tensors"])
def test_weights_that_are_not_whole_are_refused(tmp_path: Path, model: Bert, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "best-00000003.safetensors").write_bytes(content)
    with pytest.raises(DataError, match=r"best-00000003\.safetensors: the run's best weights can't be read"):
        BestWeights(tmp_path).load(model, 3)
