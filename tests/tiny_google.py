"""Checkpoints as TensorFlow writes them, in miniature: a writer that shares no code with the reader."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_NUMBERS = {"float32": 1, "float64": 2, "int32": 3, "string": 7, "int64": 9, "bfloat16": 14, "float16": 19}
Values = np.ndarray[Any, Any]


def bitwise_crc(data: bytes) -> int:
    """CRC-32C as its definition has it, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def write_checkpoint(
    prefix: Path, variables: Mapping[str, Values], *, shards: int = 1, dtype: str = "", restart: int = 4, block: int = 9
) -> Path:
    """Write PREFIX.index and its data files; dtype="bfloat16" stores float32 values cut to that."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    data = [bytearray() for _ in range(shards)]
    entries = [(b"", _number(1, shards) + _number(2, 0) + _bytes(3, _number(1, 1)))]
    for place, (name, values) in enumerate(sorted(variables.items())):
        stored, kind = np.asarray(values), str(np.asarray(values).dtype)
        if dtype == "bfloat16" and kind == "float32":
            stored, kind = (stored.view(np.uint32) >> 16).astype(np.uint16), dtype
        raw, shard = stored.tobytes(), place % shards
        shape = b"".join(_bytes(2, _number(1, size)) for size in values.shape)
        entry = _number(1, _NUMBERS[kind]) + _bytes(2, shape) + _number(3, shard) + _number(4, len(data[shard]))
        entries.append((name.encode(), entry + _number(5, len(raw)) + b"\x35" + _masked(raw)))
        data[shard] += raw
    for shard, content in enumerate(data):
        prefix.with_name(f"{prefix.name}.data-{shard:05d}-of-{shards:05d}").write_bytes(content)
    prefix.with_name(f"{prefix.name}.index").write_bytes(_table(entries, restart, block))
    return prefix


def google_variables(state: Mapping[str, Any]) -> dict[str, Values]:
    """The tensors of transformers' BertForPreTraining under the names, and as the matrices, of google-research/bert."""
    found = {}
    for name, tensor in state.items():
        values = tensor.detach().numpy()
        if name.startswith("cls.predictions.decoder"):
            continue  # tied
        if name.endswith("_embeddings.weight"):
            name = name.removesuffix(".weight")
        elif "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        elif name.startswith("cls.seq_relationship") or name == "cls.predictions.bias":
            name = name.replace("weight", "output_weights").replace("bias", "output_bias")
        elif name.endswith("weight"):
            name, values = name.replace("weight", "kernel"), values.T
        found[name.replace("layer.", "layer_").replace(".", "/")] = np.ascontiguousarray(values)
    return found


def write_beside(prefix: Path, config: Mapping[str, Any], vocab: list[str]) -> None:
    """Write bert_config.json and vocab.txt beside a checkpoint."""
    (prefix.parent / "bert_config.json").write_text(json.dumps(config), "utf-8")
    (prefix.parent / "vocab.txt").write_text("".join(f"{token}\n" for token in vocab), "utf-8")


def _table(entries: list[tuple[bytes, bytes]], restart: int, size: int) -> bytes:
    table, index = bytearray(), []
    for start in range(0, len(entries), size):
        part = entries[start : start + size]
        index.append((part[-1][0], _append(table, _block(part, restart))))
    meta = _append(table, _block([], restart))
    footer = meta + _append(table, _block(index, 1))
    return bytes(table) + footer.ljust(40, b"\0") + (0xDB4775248B80FB57).to_bytes(8, "little")


def _append(table: bytearray, block: bytes) -> bytes:
    handle = _varint(len(table)) + _varint(len(block))
    table += block + b"\0" + _masked(block + b"\0")
    return handle


def _block(entries: list[tuple[bytes, bytes]], restart: int) -> bytes:
    content, restarts, before = bytearray(), [0], b""
    for number, (key, value) in enumerate(entries):
        shared = 0
        if number % restart == 0:
            restarts += [len(content)] if number else []
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        content += _varint(shared) + _varint(len(key) - shared) + _varint(len(value)) + key[shared:] + value
        before = key
    return bytes(content) + b"".join(place.to_bytes(4, "little") for place in [*restarts, len(restarts)])


def _masked(data: bytes) -> bytes:
    crc = bitwise_crc(data)
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value) if value else b""


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
