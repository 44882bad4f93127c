"""What a frozen encoder makes of examples, computed once: a file a layer, mapped into memory.

Tokens are kept for heads that read tokens; of a text head's rows the pooled states of each layer, as it pools before it
mixes. Files are named by what decides them, so that heads over other layers of the same rows find what is there.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from anaume.bundle import Bundle
from anaume.bundle.contextual import layer_states
from anaume.bundle.embedding import require_finite
from anaume.bundle.fingerprint import weights_fingerprint
from anaume.config import HeadConfig
from anaume.data import atomic_file
from anaume.engines import TorchEngine
from anaume.logs import get_logger
from anaume.model import Bert, pool
from anaume.model.reading import layer_numbers
from anaume.tasks.features import Features, TaskBatch, torch_target

log = get_logger(__name__)

_ABANDONED = 600.0  # seconds since the last write: a batch of rows takes a fraction of one


@dataclass(frozen=True)
class FrozenStates:
    """What a head reads of rows, for every row."""

    layers: Sequence[NDArray[np.float32]]
    """For each layer that the head reads (states, hidden_size), mapped from its file."""
    starts: NDArray[np.int64]
    """(rows + 1,): row i has states[starts[i] : starts[i + 1]]; a pooled one has a single state."""
    stacked: bool
    """Whether the head takes an axis of layers, as all do that read others than the last."""

    def padded(self, rows: Sequence[int], device: torch.device) -> tuple[Tensor, Tensor]:
        """Return states (rows, seq_len, hidden_size), with an axis of layers in front where stacked, and their mask."""
        lengths = np.diff(self.starts)[np.asarray(rows)]
        states = np.zeros((len(self.layers), len(rows), int(lengths.max()), self.layers[0].shape[1]), np.float32)
        for number, layer in enumerate(self.layers):
            for place, row in enumerate(rows):
                states[number, place, : lengths[place]] = layer[self.starts[row] : self.starts[row + 1]]
        mask = np.arange(states.shape[2]) < lengths[:, None]
        there = torch.from_numpy(states).to(device)
        return there if self.stacked else there[0], torch.from_numpy(mask).to(device)


@dataclass(frozen=True)
class FrozenEncoder:
    """The encoder of a bundle, and rows that it is to be run over once; nothing is computed before it is asked for.

    folder  where the states are kept, and found again; about 4 x hidden_size bytes a layer and token (or pooled row)
    """

    bundle: Bundle
    head: HeadConfig
    features: Features
    dev_features: Features | None
    device: torch.device
    folder: Path

    @cached_property
    def train(self) -> FrozenStates:
        """Of the training rows. Raises DataError for a full disk, BundleError for weights that give no numbers."""
        return self._states(self.features, "training")

    @cached_property
    def dev(self) -> FrozenStates | None:
        """Of the rows held out; as `train`."""
        return None if self.dev_features is None else self._states(self.dev_features, "held-out")

    def _states(self, features: Features, what: str) -> FrozenStates:
        pooled = self.head.reads_text
        starts = np.arange(features.rows + 1, dtype=np.int64) if pooled else features.token_ids.starts
        key = self._key(features)
        numbers = layer_numbers(self.bundle.config, self.head.layers)
        paths = {number: self.folder / f"{key}-layer-{number}.npy" for number in numbers}
        missing = {number: path for number, path in paths.items() if not path.exists()}
        if missing:
            log.info("running the frozen encoder once over %s %s rows", f"{features.rows:,}", what)
            self._write(features, starts, missing)
        layers = [np.load(path, mmap_mode="r") for path in paths.values()]
        return FrozenStates(layers, starts, stacked=self.head.layers != "last")

    def _write(self, features: Features, starts: NDArray[np.int64], paths: dict[int, Path]) -> None:
        """Write some layers of all rows, each file whole or not at all."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(self.folder)
        width = self.bundle.config.hidden_size
        engine = TorchEngine(self.bundle.model, self.bundle.embedding, device=str(self.device))
        rows = [features.token_ids[row].tolist() for row in range(features.rows)]
        segments = [features.segment_ids[row].tolist() for row in range(features.rows)]
        with ExitStack() as stack:
            files = {number: stack.enter_context(atomic_file(path)) for number, path in paths.items()}
            begins = {number: _begin(file, (int(starts[-1]), width)) for number, file in files.items()}
            for row, states in layer_states(rows, segments, engine=engine, pad_id=self.bundle.tokenizer.pad_id):
                own = states[list(files)]
                if self.head.reads_text:
                    own = pool(own, own.new_ones(own.shape[:2], dtype=torch.bool), self.head.pooling)[:, None]
                values = own.numpy()
                require_finite(values[None], int(features.examples[row]))
                for (number, file), layer in zip(files.items(), values, strict=True):
                    file.seek(begins[number] + int(starts[row]) * 4 * width)
                    file.write(np.ascontiguousarray(layer, dtype="<f4").tobytes())

    def _key(self, features: Features) -> str:
        """Return what decides the states, as the beginning of their files' names."""
        told = {
            "weights": weights_fingerprint(self.bundle.model),
            "pooling": self.head.pooling if self.head.reads_text else None,
            "device": self.device.type,
        }
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode())
        for rows in (features.token_ids, features.segment_ids):
            digest.update(rows.values.tobytes())
            digest.update(rows.starts.tobytes())
        return digest.hexdigest()[:16]


def _remove_abandoned(folder: Path) -> None:
    """Remove what killed runs left half-written: nobody has written to it for a while, as another probe might."""
    for half in folder.glob(".anaume-*.tmp"):
        with suppress(FileNotFoundError):
            if time.time() - half.stat().st_mtime > _ABANDONED:
                half.unlink()


def _begin(file: BinaryIO, shape: tuple[int, int]) -> int:
    """Write the head of a .npy file and return where its numbers begin."""
    described: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, described)
    return file.tell()


@dataclass(frozen=True)
class FrozenPart:
    """Some units on their device, as the frozen encoder left them."""

    states: Tensor
    batch: TaskBatch

    def read(self, model: Bert, head: str) -> Tensor:
        """Return what a head reads of the rows; the model is not run."""
        return self.states


def frozen_part(
    states: FrozenStates, features: Features, units: Sequence[int], device: torch.device
) -> tuple[FrozenPart, int]:
    """Return units on a device, and how many tokens (or pooled rows) that is."""
    rows, unit_of_row = features.rows_of(units)
    read, mask = states.padded(rows, device)
    batch = TaskBatch(
        attention_mask=mask,
        unit_of_row=torch.from_numpy(unit_of_row).to(device),
        targets={
            name: torch_target(target, units, rows, mask.shape[1]).to(device)
            for name, target in features.targets.items()
        },
    )
    return FrozenPart(read, batch), int(mask.sum())
