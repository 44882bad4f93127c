"""The tools a benchmark compares with, each in an environment that suits it, made on the spot and kept under out/.

Tools want versions that exclude each other (one takes transformers 4, another 5), so there are several. An environment
that can't be made in some minutes is left out with its reason: a benchmark says so and goes on.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.harness import ROOT, say

PEERS = ROOT / "out" / "peers"
MINUTES = 8.0
"""What making one environment may take."""


@dataclass(frozen=True)
class Environment:
    """Packages that agree with each other. TORCH stands for the torch that is installed here."""

    name: str
    packages: tuple[str, ...]
    without: tuple[str, ...] = ()
    """What pip brings and must go again."""


TORCH = "TORCH"
ENVIRONMENTS = {
    environment.name: environment
    for environment in (
        Environment(
            "sentence-transformers",
            (
                TORCH,
                "sentence-transformers==6.2.0",
                "transformers==5.5.4",
                "optimum==2.3.0",
                "optimum-intel==2.2.0",
                "openvino==2026.4.1",
                "ctranslate2==4.8.5",
                "huggingface-hub<1.22",
            ),
            without=("torchvision",),  # a wheel that does not fit a CPU build of torch breaks transformers' imports
        ),
        Environment(
            "sentence-transformers-onnx",  # its ONNX backend wants transformers 4
            (
                TORCH,
                "sentence-transformers==5.2.3",
                "transformers==4.57.6",
                "optimum==2.1.0",
                "optimum-onnx==0.1.0",
                "onnxruntime==1.32.0",
                "onnx==1.23.2",
                "huggingface-hub<1",
            ),
        ),
        Environment("fastembed", ("fastembed==0.9.1", "onnxruntime==1.32.0")),
        Environment(
            "infinity",
            (
                TORCH,
                "infinity-emb==0.0.78",
                "sentence-transformers==3.4.1",
                "transformers==4.57.6",
                "numpy<2",
                "huggingface-hub<1",
                "einops",
                "rich<14",
                "typer<0.13",
                "click<8.2",
            ),
        ),
    )
}


def interpreter(name: str, *, folder: Path = PEERS, minutes: float = MINUTES) -> tuple[Path | None, str]:
    """Return the Python of an environment, made if it is not there; or None and why it can't be made."""
    environment = ENVIRONMENTS[name]
    packages = [_torch() if package == TORCH else package for package in environment.packages]
    place = folder / name
    python = place / "bin" / "python"
    mark = place / "packages.json"
    if mark.exists() and json.loads(mark.read_text("utf-8")) == packages:
        return python, ""
    refused = folder / f"{name}.refused.json"  # what failed is not tried again until its packages change
    if refused.exists():
        before = json.loads(refused.read_text("utf-8"))
        if before["packages"] == packages:
            return None, f"{before['reason']} ({refused} remembers it)"
    say(f"making the environment {name}: {', '.join(packages)}")
    shutil.rmtree(place, ignore_errors=True)
    reason = _make(place, packages, environment.without, minutes)
    if reason:
        shutil.rmtree(place, ignore_errors=True)
        refused.write_text(json.dumps({"packages": packages, "reason": reason}), "utf-8")
        return None, reason
    mark.write_text(json.dumps(packages), "utf-8")
    return python, ""


def _make(place: Path, packages: list[str], without: tuple[str, ...], minutes: float) -> str:
    """Return why it failed; "" where it did not."""
    place.parent.mkdir(parents=True, exist_ok=True)
    index = os.environ.get("TORCH_INDEX")  # as in the Makefile: where CPU builds of torch are
    more = ["--extra-index-url", index] if index else []
    pip = [str(place / "bin" / "python"), "-m", "pip"]
    commands = [
        [sys.executable, "-m", "venv", str(place)],
        [*pip, "install", "--quiet", "--only-binary", ":all:", *more, *packages],
        *([[*pip, "uninstall", "--quiet", "--yes", *without]] if without else []),
    ]
    for command in commands:
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=60 * minutes, check=False)
        except subprocess.TimeoutExpired:
            return f"not installed within {minutes:g} minutes"
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return (errors or done.stderr.splitlines() or ["pip failed"])[-1][:300]
    return ""


def _torch() -> str:
    return f"torch=={importlib.metadata.version('torch')}"
