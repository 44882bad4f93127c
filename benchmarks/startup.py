"""How long `import anaume` and `anaume --help` take over an empty Python, beside the libraries people know."""

from __future__ import annotations

import subprocess
import sys

from anaume.checks.machine import describe_machine
from benchmarks import harness
from benchmarks.harness import Peer

EMPTY = "an empty Python"
PEERS = {
    EMPTY: ["-c", "pass"],
    "import anaume": ["-c", "import anaume"],
    "anaume --help": ["-c", "import sys; from anaume.cli import main; sys.argv = ['anaume', '--help']; main()"],
    "import transformers": ["-c", "import transformers"],
    "import torch": ["-c", "import torch"],
    "import sentence_transformers": ["-c", "import sentence_transformers"],
}
LIMITS = {"import anaume": 0.15, "anaume --help": 0.4}


def runs(words: list[str]) -> bool:
    return subprocess.run([sys.executable, *words], capture_output=True, check=False).returncode == 0


def main() -> None:
    parser = harness.arguments(__doc__, texts=None, repeats=9)
    given = parser.parse_args()
    repeats = 3 if given.quick else given.repeats
    known = {name: words for name, words in PEERS.items() if not given.quick or "transformers" not in name}
    there = {name: words for name, words in known.items() if runs(words)}  # this first run also fills the file cache

    def peer(name: str, words: list[str]) -> Peer:
        command = [sys.executable, *words]
        return Peer(name, lambda: lambda: subprocess.run(command, capture_output=True, check=True))

    about = {"commit": harness.commit(), "versions": harness.versions(), "peers": there, "repeats": repeats}
    results = harness.Results("startup", about, fresh=given.fresh)
    timings = harness.measure([peer(*item) for item in there.items()], results, repeats=repeats)
    rows = []
    for name in known:
        if name not in there:
            rows.append([f"`{name}`", "does not run here", "", "", ""])
            continue
        timing = timings[name]
        over = timing.median - timings[EMPTY].median
        limit = f"{LIMITS[name]:.2f} {'met' if over < LIMITS[name] else 'MISSED'}" if name in LIMITS else ""
        shown = name if name == EMPTY else f"`{name}`"
        rows.append([shown, f"{timing.median:.3f}", f"{timing.spread:.0%}", f"{over:.3f}", limit])
    lines = [
        f"Seconds of a whole process, the median of {repeats} runs taken turn by turn; the spread is "
        "(slowest - fastest) / median. The limits hold over an empty Python.",
        harness.table(["what", "seconds", "spread", "over an empty Python", "limit"], rows),
    ]
    command = f"python -m benchmarks.startup --repeats {repeats}"
    harness.publish(harness.page("Start-up", command, describe_machine().line(), lines), given.out)


if __name__ == "__main__":
    main()
