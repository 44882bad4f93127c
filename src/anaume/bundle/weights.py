"""Tensors from files, and into one: safetensors, or a pickle read without running code; always float32 copies.

No memory map or handle stays open afterwards, so a bundle can be saved over the directory it came from.
"""

from __future__ import annotations

import pickle
import re
import shutil
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import safetensors.torch
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from anaume.bundle.files import inside, one_line, read_object, some
from anaume.errors import BundleError
from anaume.logs import get_logger

logger = get_logger(__name__)

SAFETENSORS = "model.safetensors"
PICKLE = "pytorch_model.bin"
_CALLED = re.compile(r"GLOBAL ([\w.]+)")  # in the message of torch's reader
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_OTHERS = {
    "tf_model.h5": "TensorFlow weights",
    "model.ckpt.index": "a TensorFlow checkpoint",
    "bert_model.ckpt.index": "a TensorFlow checkpoint",
    "flax_model.msgpack": "Flax weights",
    "adapter_model.safetensors": "an adapter without its base model",
    "adapter_model.bin": "an adapter without its base model",
}


@dataclass(frozen=True)
class StoredTensors:
    """The tensors of a checkpoint: float32 copies of the floating-point ones by raw name, and what they were."""

    tensors: dict[str, Tensor]
    dtypes: Mapping[str, torch.dtype]
    files: tuple[str, ...]

    @property
    def stored_dtype(self) -> str:
        """The dtype of the floating-point tensors as stored; "bfloat16 and float32" when mixed."""
        floats = {str(dtype).removeprefix("torch.") for dtype in self.dtypes.values() if dtype.is_floating_point}
        return " and ".join(sorted(floats))


def read_weights(directory: Path) -> StoredTensors:
    """Read the weights of a Hugging Face directory: safetensors if there, else the pickle; whole or in shards.

    Raises BundleError for no weights, truncated or malformed files, code in a pickle, and shard names that leave the
    directory.
    """
    for name, index in ((SAFETENSORS, False), (f"{SAFETENSORS}.index.json", True)):
        if (directory / name).exists():
            return _collect(_shards(directory, name) if index else {directory / name: None})
    for name, index in ((PICKLE, False), (f"{PICKLE}.index.json", True)):
        if (directory / name).exists():
            return _collect(_shards(directory, name) if index else {directory / name: None})
    there = [f"{name} ({what})" for name, what in _OTHERS.items() if (directory / name).exists()]
    raise BundleError(
        f"{directory}: no {SAFETENSORS} or {PICKLE}, whole or in shards"
        + (f"; {', '.join(there)} can't be read here" if there else "")
    )


def _shards(directory: Path, index_name: str) -> dict[Path, set[str] | None]:
    """Return shard file -> the tensors its index promises. A shard is a plain file name beside its index."""
    index = directory / index_name
    weight_map = read_object(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise BundleError(f"{index}: expected an object weight_map of tensor names and files")
    promised: dict[Path, set[str] | None] = {}
    for tensor, file in weight_map.items():
        shard = inside(directory, file, index)
        if shard.parent != directory:
            raise BundleError(f"{index}: {file!r} is not a file inside the directory: refused")
        if not shard.exists():
            raise BundleError(f"{index}: names {file}, which is not there")
        names = promised.setdefault(shard, set())
        assert names is not None
        names.add(tensor)
    return promised


def _collect(files: Mapping[Path, set[str] | None]) -> StoredTensors:
    tensors: dict[str, Tensor] = {}
    dtypes: dict[str, torch.dtype] = {}
    for path, promised in files.items():
        found = read_safetensors(path) if path.suffix == ".safetensors" else _read_pickle(path)
        if promised is not None and promised != found.keys():
            odd = sorted(promised ^ found.keys())
            raise BundleError(f"{path}: does not hold what its index says: {some(odd)}")
        twice = sorted(found.keys() & tensors.keys())
        if twice:
            raise BundleError(f"{path}: {some(twice)} also stand in another shard")
        for name, tensor in found.items():
            dtypes[name] = tensor.dtype
            # Through .float(): numpy knows no bfloat16. copy=True: a clone of its own, never a view of the file.
            tensors[name] = tensor.to(torch.float32, copy=True) if tensor.dtype in _FLOATS else tensor.clone()
        logger.debug("read %d tensors from %s", len(found), path.name)
    return StoredTensors(tensors, dtypes, tuple(path.name for path in files))


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """Return the tensors of one safetensors file, as stored. Raises BundleError for a truncated or malformed one."""
    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  not a mapping
    except (SafetensorError, OSError, ValueError, RuntimeError, TypeError, KeyError, AttributeError) as error:
        raise BundleError(
            f"{path}: no whole safetensors file ({one_line(error)}): truncated or damaged? Copy it again"
        ) from error


def write_safetensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors to a file beside a vocab.txt. Raises OSError where the disk does not take it."""
    # One copy of each: safetensors refuses tensors that share memory, and views of the fused matrix do.
    copies = {name: tensor.clone().contiguous() for name, tensor in tensors.items()}
    try:
        safetensors.torch.save_file(copies, path, metadata={"format": "pt"})
    except SafetensorError as error:
        raise OSError(None, str(error), str(path)) from error
    # safetensors makes files that only their owner can read; a bundle is as readable as any file written beside it.
    shutil.copymode(path.parent / "vocab.txt", path)


def _read_pickle(path: Path) -> dict[str, Tensor]:
    try:
        # weights_only: torch's own reader, which knows tensors and plain containers and runs nothing else.
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=False)
    except pickle.UnpicklingError as error:
        # torch's own text advises to run such a file all the same: only the name of what it calls is told.
        calls = ", ".join(dict.fromkeys(_CALLED.findall(str(error))))
        raise BundleError(
            f"{path}: holds more than weights{f' (it calls {calls})' if calls else ''}, or is damaged; it was not run. "
            "Convert it to safetensors where you trust it"
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise BundleError(f"{path}: no whole weights file ({one_line(error)}): truncated or damaged?") from error
    except (zipfile.BadZipFile, ImportError, MemoryError, OverflowError) as error:
        raise BundleError(f"{path}: no whole weights file ({one_line(error)}): truncated or damaged?") from error
    if not isinstance(content, dict):
        raise BundleError(f"{path}: expected a dictionary of tensors; got {type(content).__name__}")
    odd = [name for name, value in content.items() if not isinstance(name, str) or not isinstance(value, Tensor)]
    if odd:
        raise BundleError(
            f"{path}: not a plain dictionary of tensors: {some([str(name) for name in odd])} "
            f"({type(content[odd[0]]).__name__}); save the model's state_dict() alone"
        )
    return {name: value.detach() for name, value in content.items()}


def require_floats(names: Iterable[str], stored: StoredTensors) -> None:
    """Raise BundleError naming tensors that are not floating point (quantised files), or not finite."""
    strange = [f"{name} ({stored.dtypes[name]})" for name in names if stored.dtypes[name] not in _FLOATS]
    if strange:
        raise BundleError(
            f"these weights are not float32, float16, bfloat16 or float64: {some(strange)}: a quantised or damaged "
            "checkpoint; take the unquantised one"
        )
    bad = not_finite({name: stored.tensors[name] for name in names})
    if bad:
        raise BundleError(
            f"these weights hold NaN or infinite values: {some(bad)}: they would spread to every text; "
            "take a sound checkpoint"
        )


def not_finite(tensors: Mapping[str, Tensor]) -> list[str]:
    """Return the names of tensors that hold NaN or infinite values."""
    return [name for name, tensor in tensors.items() if not _finite(tensor)]


def _finite(tensor: Tensor) -> bool:
    """One pass and no temporary, four times as fast as isfinite().all(): NaN and infinity come through aminmax."""
    if tensor.numel() == 0:
        return True
    low, high = torch.aminmax(tensor)
    return bool(torch.isfinite(low) & torch.isfinite(high))
