"""Benchmarks: each is a command, `python -m benchmarks.NAME -o docs/benchmarks/NAME.md`; see harness.py."""
