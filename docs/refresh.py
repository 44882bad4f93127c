"""Run the commands and programs in the docs and put their real output back into the page, or check that it still holds.

    python docs/refresh.py             rewrite the outputs
    python docs/refresh.py --check     exit 1 and show what differs

What is run: every line "$ command" of a ```console block (its output is what follows, up to the next "$ "), and every
```python block that is followed at once by a ```text block (its output), in the order of the page.
They share a folder in which examples/ lies. Numbers may differ in their last digits from machine to machine, so a check
compares them within 2 %, and durations nowhere. Guides train models, and another processor's last digits end in another
model after some steps: their numbers are free. All else must be equal.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GUIDES = sorted(
    str(path.relative_to(ROOT)) for folder in ("guides", "ja/guides") for path in (ROOT / "docs" / folder).glob("*.md")
)
PAGES = [
    "README.md",
    "README.ja.md",
    "docs/ja/bert.md",
    "docs/ja/faq.md",
    "docs/scaling.md",
    "docs/ja/scaling.md",
    *GUIDES,
]

RUN = re.compile(
    r"```console\n(?P<console>.*?)```"  # the output is inside
    r"|(?P<opening>```python\n(?P<python>(?:(?!```).)*)```\n+```text\n)(?:(?!```).)*(?P<closing>```)",
    re.DOTALL,
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")
DURATION = re.compile(r"\b\d+(?:\.\d+)? s\b")


def run(command: list[str], folder: str) -> str:
    """Run one command as a reader would, in an 100-column terminal without colour; returns stdout and stderr."""
    bin_folder = os.path.dirname(sys.executable)
    environment = {
        **os.environ,
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
        "ANAUME_CACHE": os.path.join(folder, ".cache"),  # nothing of what ran here before
    }
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    # The reader's environment is .venv in the project, wherever this one lies.
    lines = done.stdout.decode("utf-8").replace(sys.prefix, ".venv").splitlines()
    return "".join(line.rstrip() + "\n" for line in lines)


def refreshed(page: str, folder: str) -> str:
    """Return a page with every output replaced by what the commands print now; the commands share `folder`."""

    def block(found: re.Match[str]) -> str:
        if found["python"] is not None:
            return found["opening"] + run([sys.executable, "-c", found["python"]], folder) + found["closing"]
        commands: list[str] = []
        for line in found["console"].splitlines():
            if line.startswith("$ "):
                commands.append(line[2:])
            elif commands and commands[-1].endswith("\\") and line.startswith("> "):
                commands[-1] += "\n" + line[2:]
        parts = []
        for command in commands:
            shown = command.replace("\n", "\n> ")
            parts.append(f"$ {shown}\n{run(['bash', '-c', command], folder)}")
        return "```console\n" + "".join(parts) + "```"

    return RUN.sub(block, page)


def same(old: str, new: str, *, trained: bool = False) -> bool:
    """Whether two pages agree: the same words; numbers within 2 % or 0.002, free where models are `trained`."""
    old, new = (DURATION.sub("", page) for page in (old, new))
    if NUMBER.sub("#", old).split() != NUMBER.sub("#", new).split():
        return False
    pairs = zip(NUMBER.findall(old), NUMBER.findall(new), strict=True)
    return trained or all(a == b or abs(float(a) - float(b)) <= max(0.002, 0.02 * abs(float(a))) for a, b in pairs)


def main() -> int:
    """Refresh or check every page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 where an output no longer holds")
    parser.add_argument("pages", nargs="*", default=PAGES)
    arguments = parser.parse_args()
    stale = 0
    for name in arguments.pages:
        path = ROOT / name
        old = path.read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(ROOT / "examples", os.path.join(folder, "examples"))
            new = refreshed(old, folder)
        if not arguments.check:
            path.write_text(new, encoding="utf-8")
        elif not same(old, new, trained=name in GUIDES):
            stale += 1
            import difflib

            print(f"{name}: an output no longer holds")
            sys.stdout.writelines(difflib.unified_diff(old.splitlines(True), new.splitlines(True), "page", "now", n=1))
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
