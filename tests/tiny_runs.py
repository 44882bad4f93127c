"""Tiny pretraining runs, and what is compared of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.config import HeadConfig
from anaume.training import PretrainSettings
from anaume.training.records import read_lines
from anaume.training.state import checkpoints
from tiny_bundles import tiny_parts

TINY = (
    "model.size=custom",
    "model.hidden_size=16",
    "model.num_hidden_layers=1",
    "model.num_attention_heads=2",
    "model.max_position_embeddings=32",
    "data.seq_len=16",
    "optimizer.learning_rate=0.01",
    "run.batch_rows=8",
    "run.threads=1",
    "run.precision=float32",
    "run.log_seconds=0",
    "run.evaluations=0",
    "run.evaluation_rows=12",
    "run.curves=false",
)

PLAIN = (
    "model.size=none",
    "model.hidden_size=none",
    "model.num_hidden_layers=none",
    "model.num_attention_heads=none",
    "model.max_position_embeddings=none",
)
"""The tiny run's settings without its model: that is the bundle's."""


def tiny_settings(*assignments: str) -> PretrainSettings:
    """Settings of a run of milliseconds a step, a row of metrics each step."""
    return PretrainSettings().with_values([*TINY, *assignments])


def tiny_bundle(*heads: str, **settings: object) -> Bundle:
    """A tiny bundle with heads of these kinds."""
    pooler = settings.pop("pooler", None)
    made: dict[str, HeadConfig] = {}
    for kind in heads:
        labels = ("a", "b") if kind == "classification" else ()
        made[kind] = HeadConfig(kind=kind, labels=labels)  # type: ignore[arg-type]
    return Bundle(tiny_parts(made, pooler=pooler, **settings), device="cpu")  # type: ignore[arg-type]


def last_state(folder: Path) -> dict[str, Any]:
    """What the last checkpoint of a run holds."""
    content: dict[str, Any] = torch.load(checkpoints(folder / "checkpoints")[-1], weights_only=True)
    return content


def differing(one: Any, other: Any, where: str = "") -> list[str]:
    """Where two nests of dicts, lists, tensors and numbers differ in any bit."""
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and torch.equal(one, other)
        return [] if same else [where]
    if isinstance(one, dict):
        keys = one.keys() | other.keys()
        absent = [f"{where}.{key}" for key in one.keys() ^ other.keys()]
        return absent + [
            found
            for key in keys
            if key in one and key in other
            for found in differing(one[key], other[key], f"{where}.{key}")
        ]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [where]
        return [
            found
            for index, pair in enumerate(zip(one, other, strict=True))
            for found in differing(*pair, f"{where}[{index}]")
        ]
    return [] if one == other else [where]


_TIMES = ("seconds", "tokens_per_second")


def metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of metrics.jsonl without what was measured on a clock."""
    rows = read_lines(folder / "metrics.jsonl")
    return [{key: value for key, value in row.items() if key not in _TIMES} for row in rows]


def run_differs(one: Path, other: Path) -> list[str]:
    """Where two finished runs differ: weights, optimizer, progress and metrics; times apart."""
    states = [last_state(folder) for folder in (one, other)]
    for state in states:
        for key in ("seconds", "metrics_size", "journal_size"):
            del state["progress"][key]
    found = differing(*states)
    return found + differing(metrics(one), metrics(other), "metrics")
