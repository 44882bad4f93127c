"""Checkpoints: whole or not at all, exact, and never believed when damaged."""

from __future__ import annotations

import errno
import io
from pathlib import Path
from typing import Any, BinaryIO, cast

import pytest
import torch

from anaume.config import HeadConfig
from anaume.data.corpus.stream import Position
from anaume.errors import DataError
from anaume.model import Bert
from anaume.training import state
from anaume.training.optimizer import build_optimizer
from anaume.training.pretraining.settings import OptimizerSettings
from anaume.training.state import Progress, checkpoints, load_checkpoint, save_checkpoint
from tiny_models import tiny_bert
from tiny_runs import differing

CPU = torch.device("cpu")


def trained(seed: int = 0) -> tuple[Bert, torch.optim.AdamW]:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")})
    optimizer = build_optimizer(model, OptimizerSettings(learning_rate=1e-3))
    torch.manual_seed(seed)
    for _ in range(2):
        for parameter in model.parameters():
            parameter.grad = torch.randn_like(parameter)
        optimizer.step()
    return model, optimizer


PROGRESS = Progress(
    step=7, seconds=1.25, tokens=900, skipped=1, evaluated=2, long=True, position=Position(1, 2, 3), metrics_size=55
)


def test_everything_comes_back_bit_for_bit(tmp_path: Path) -> None:
    model, optimizer = trained()
    path = save_checkpoint(tmp_path / "checkpoints", PROGRESS, model, optimizer, keep=2)
    other, other_optimizer = trained(seed=1)
    assert differing(other.state_dict(), model.state_dict())
    assert load_checkpoint(path, other, other_optimizer, CPU) == PROGRESS
    assert differing(other.state_dict(), model.state_dict()) == []
    assert differing(other_optimizer.state_dict(), optimizer.state_dict()) == []


def test_the_last_ones_are_kept_in_order(tmp_path: Path) -> None:
    model, optimizer = trained()
    for step in (1, 2, 30, 99_999_999, 100_000_000):
        save_checkpoint(tmp_path, Progress(step=step), model, optimizer, keep=3)
    names = [path.name for path in checkpoints(tmp_path)]
    assert names == ["step-00000030.pt", "step-99999999.pt", "step-100000000.pt"]
    assert checkpoints(tmp_path / "none") == []


@pytest.mark.parametrize("place", [0.3, 0.6, 0.9, 0.999])
def test_one_changed_bit_is_noticed(tmp_path: Path, place: float) -> None:
    """torch itself loads a tensor with a changed bit without a word."""
    model, optimizer = trained()
    path = save_checkpoint(tmp_path, PROGRESS, model, optimizer, keep=1)
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 0x10
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"damaged \(its checksum is wrong\): delete it to go on from the one before"):
        load_checkpoint(path, model, optimizer, CPU)


@pytest.mark.parametrize("content", [b"", b"junk", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_checkpoint_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "step-00000001.pt"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a checkpoint of this run, or damaged"):
        load_checkpoint(path, *trained(), CPU)
    path.write_bytes(content + state.hashlib.sha256(content).digest())
    with pytest.raises(DataError, match="not a checkpoint of this run, or damaged"):
        load_checkpoint(path, *trained(), CPU)


def test_a_cut_checkpoint_is_refused(tmp_path: Path) -> None:
    model, optimizer = trained()
    path = save_checkpoint(tmp_path, PROGRESS, model, optimizer, keep=1)
    content = path.read_bytes()
    for length in (len(content) - 1, len(content) - 32, len(content) // 2):
        path.write_bytes(content[:length])
        with pytest.raises(DataError, match="damaged"):
            load_checkpoint(path, model, optimizer, CPU)


def test_the_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    model, optimizer = trained()
    path = save_checkpoint(tmp_path, PROGRESS, model, optimizer, keep=1)
    other = tiny_bert({"mlm": HeadConfig(kind="mlm")}, num_hidden_layers=1)
    with pytest.raises(DataError, match="not a checkpoint of this run") as caught:
        load_checkpoint(path, other, build_optimizer(other, OptimizerSettings(learning_rate=1e-3)), CPU)
    assert "\n" not in str(caught.value)


class FullDisk(io.BytesIO):
    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(data)


@pytest.mark.parametrize("room", [0, 100, 20_000])
def test_a_full_disk_is_told_as_one(room: int) -> None:
    """torch tells of it as of an unexpected position in its file."""
    model, optimizer = trained()
    content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
    with pytest.raises(OSError, match="No space left on device"):
        state._save(content, cast(BinaryIO, FullDisk(room)))


def test_a_full_disk_leaves_the_checkpoint_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, optimizer = trained()
    first = save_checkpoint(tmp_path, Progress(step=1), model, optimizer, keep=1)

    def full(content: dict[str, Any], file: BinaryIO) -> None:
        file.write(b"some")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(state, "_save", full)
    with pytest.raises(DataError, match="No space left on device"):
        save_checkpoint(tmp_path, Progress(step=2), model, optimizer, keep=1)
    assert [path.name for path in tmp_path.iterdir()] == [first.name]
    assert load_checkpoint(first, model, optimizer, CPU).step == 1
