"""Benchmarks: each is a command, `python -m benchmarks.NAME -o docs/benchmarks/NAME.md`; see harness.py."""

import os

# As the command line asks torch for pages of 2 MiB; read at its first tensor, so whoever is compared has them too.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
