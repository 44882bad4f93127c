"""Tiny fine-tunings, and what is compared of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from anaume.training.finetuning.finetune import FinetuneReport, finetune
from tiny_labels import tuning_settings, weights_of, write_classes
from tiny_runs import differing, metrics, tiny_bundle


def tiny_finetune(folder: Path, out: str, *assignments: str, seeds: int = 1, **other: Any) -> FinetuneReport:
    """Fine-tune a tiny bundle on 33 texts of two classes (dev: 20), written to `folder` where they are not yet."""
    train, dev = folder / "train.tsv", folder / "dev.tsv"
    if not train.exists():
        write_classes(train, 33)
        write_classes(dev, 20, seed=1)
    given = {"task": "classification", "train": train, "dev": dev, "bundle": tiny_bundle("mlm", pooler=True)}
    given |= {"settings": tuning_settings("run.steps=9", "run.evaluations=3", *assignments), **other}
    return finetune(out=folder / out, seeds=seeds, device="cpu", **given)


def tuned_differ(one: Path, other: Path) -> list[str]:
    """Where two finished fine-tunings differ in any bit: weights, metrics, report; times apart."""
    reports = [untimed(json.loads((folder / "report.json").read_bytes())) for folder in (one, other)]
    found = differing(*reports, "report")
    for seed in (entry["seed"] for entry in reports[0]["seeds"]):
        folders = [folder / f"seed-{seed}" for folder in (one, other)]
        found += differing(*(metrics(folder) for folder in folders), f"metrics of {seed}")
        found += differing(*(weights_of(folder / "bundle") for folder in folders), f"weights of {seed}")
    return found + differing(*(weights_of(folder / "bundle") for folder in (one, other)), "weights")


def untimed(report: dict[str, Any]) -> dict[str, Any]:
    """A report without its folder and what was measured on a clock."""
    for part in (report, *report["seeds"]):
        del part["seconds"]
    del report["folder"]
    return report
