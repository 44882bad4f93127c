"""One tool of `benchmarks.embed` in a process of its own, told by lines of JSON what to run.

    python -m benchmarks.embed_worker '{"tool": "anaume", "options": {}, "checkpoint": ..., "models": ...}'

Only the standard library, numpy and the tool: it runs in the tool's environment.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

LIBRARIES = ("ctranslate2", "fastembed", "infinity-emb", "onnxruntime", "openvino", "sentence-transformers")
LIBRARIES += ("torch", "transformers")


def main() -> None:
    told = json.loads(sys.argv[1])
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print is talk
    warnings.simplefilter("ignore")

    def answer(**values: Any) -> None:
        answers.write(json.dumps(values) + "\n")
        answers.flush()

    try:
        from benchmarks import embed_tools

        tool = getattr(embed_tools, told["tool"])
        embed = tool(Path(told["checkpoint"]), Path(told["models"]), **told["options"])
        if told.get("first") is not None:  # a cold start: the first vector, and no more
            embed([told["first"]])
            answer(first=True)
            return
        mixes = json.loads(Path(told["texts"]).read_text("utf-8"))
        answer(ready=True)
    except Exception as error:
        answer(failed=_line(error))
        return
    for line in sys.stdin:
        try:
            answer(**_do(json.loads(line), embed, mixes, embed_tools.notes))
        except Exception as error:
            answer(failed=_line(error))


def _do(order: dict[str, Any], embed: Any, mixes: dict[str, list[str]], notes: list[str]) -> dict[str, Any]:
    import numpy as np

    if order["do"] == "vectors":  # the warm-up too
        vectors = embed(mixes[order["mix"]])
        np.save(order["to"], vectors)
        return {"versions": _versions(), "notes": notes}
    if order["do"] == "time":
        texts = mixes[order["mix"]]
        start = time.perf_counter()
        embed(texts)
        return {"seconds": time.perf_counter() - start}
    if order["do"] == "single":
        taken = []
        for call in range(order["calls"] + 5):
            start = time.perf_counter()
            embed([order["text"]])
            if call >= 5:
                taken.append(time.perf_counter() - start)
        return {"seconds": taken}
    if order["do"] == "stream":
        start = time.perf_counter()
        stream = getattr(embed, "stream", None)
        if stream is not None:
            stream(order["file"], order["to"])
        else:
            with open(order["file"], encoding="utf-8") as file:
                np.save(order["to"], embed([line.rstrip("\n") for line in file]))
        return {"seconds": time.perf_counter() - start, "peak": peak()}
    assert order["do"] == "peak", order
    return {"peak": peak()}


def peak() -> int:
    """The most memory the process has had, in bytes."""
    with suppress(OSError):  # Linux counts its parent's in what `resource` tells
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("VmHWM"):
                return int(line.split()[1]) * 1024
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else used * 1024


def _versions() -> dict[str, str]:
    found = {}
    for name in LIBRARIES:
        if name.replace("-", "_") in sys.modules:
            try:
                found[name] = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                continue
    return found


def _line(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


if __name__ == "__main__":
    main()
