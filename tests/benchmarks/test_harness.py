import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def harness():
    spec = importlib.util.spec_from_file_location("benchmark_harness", ROOT / "benchmarks" / "harness.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Peers:
    """Peers that write down when they were prepared and run."""

    def __init__(self, harness, names, stop_at=None):
        self.log, self.stop_at = [], stop_at
        self.peers = [harness.Peer(name, lambda name=name: self._prepare(name)) for name in names]

    def _prepare(self, name):
        self.log.append(f"prepare {name}")
        return lambda: self._run(name)

    def _run(self, name):
        self.log.append(name)
        if self.stop_at is not None and len([line for line in self.log if not line.startswith("p")]) > self.stop_at:
            raise KeyboardInterrupt


def results(harness, folder, about=None, **other):
    return harness.Results("test", about or {"commit": "abc"}, folder=folder, **other)


def test_peers_take_turns_in_a_new_order_each_round(harness, tmp_path):
    made = Peers(harness, ["a", "b", "c"])
    timings = harness.measure(made.peers, results(harness, tmp_path), repeats=3, warmup=0)
    assert [line for line in made.log if not line.startswith("prepare")] == list("abcbcacab")
    assert [line for line in made.log if line.startswith("prepare")] == ["prepare a", "prepare b", "prepare c"]
    assert {name: len(timing.seconds) for name, timing in timings.items()} == {"a": 3, "b": 3, "c": 3}


def test_warm_up_runs_are_not_timed(harness, tmp_path):
    made = Peers(harness, ["a"])
    timings = harness.measure(made.peers, results(harness, tmp_path), repeats=2, warmup=3)
    assert made.log == ["prepare a", *"aaaaa"]
    assert len(timings["a"].seconds) == 2


def test_a_stopped_benchmark_goes_on_where_it_stopped(harness, tmp_path):
    made = Peers(harness, ["a", "b"], stop_at=3)
    with pytest.raises(KeyboardInterrupt):
        harness.measure(made.peers, results(harness, tmp_path), repeats=3, warmup=0)
    again = Peers(harness, ["a", "b"])
    kept = results(harness, tmp_path)
    timings = harness.measure(again.peers, kept, repeats=3, warmup=0)
    assert [line for line in again.log if not line.startswith("prepare")] == list("aab"), "three of six were kept"
    assert all(len(timing.seconds) == 3 for timing in timings.values())
    nothing_left = Peers(harness, ["a", "b"])
    assert harness.measure(nothing_left.peers, results(harness, tmp_path), repeats=3) == timings
    assert nothing_left.log == []


def test_a_half_written_line_is_no_result(harness, tmp_path):
    results(harness, tmp_path).put("a", 1.5, 0)
    with (tmp_path / "test.jsonl").open("a") as file:
        file.write('{"key": "x", "na')
    kept = results(harness, tmp_path)
    assert kept.get("a") == 1.5
    kept.put("b", 2.0)
    assert results(harness, tmp_path).get("b") == 2.0
    assert all(json.loads(line) for line in (tmp_path / "test.jsonl").read_text().splitlines())


@pytest.mark.parametrize("about", [{"commit": "other"}, {"commit": "abc", "texts": 3}])
def test_another_commit_or_setting_starts_afresh(harness, tmp_path, about):
    results(harness, tmp_path).put("a", 1.5)
    other = results(harness, tmp_path, about)
    assert other.get("a") is None
    other.put("a", 2.5)
    assert results(harness, tmp_path).get("a") == 1.5, "what was measured under other settings stays"
    assert results(harness, tmp_path, fresh=True).get("a") is None
    assert results(harness, tmp_path).get("a") is None
    assert results(harness, tmp_path, about).get("a") == 2.5


def test_what_is_remembered_is_made_once(harness, tmp_path):
    calls = []
    for _ in range(2):
        assert results(harness, tmp_path).remember("size", lambda: calls.append(1) or 64) == 64
    assert calls == [1]


def test_median_and_spread(harness):
    timing = harness.Timing((2.0, 1.0, 5.0))
    assert (timing.median, timing.spread) == (2.0, 2.0)


def test_a_page_says_what_was_run_where(harness):
    page = harness.page(
        "Title", "python -m benchmarks.x", "a machine", ["text", harness.table(["a", "b"], [["1", "2"]])]
    )
    for words in ("# Title", "`python -m benchmarks.x`", "commit: ", "machine: a machine", "torch ", "| a | b |"):
        assert words in page
    assert "| --- | ---: |\n| 1 | 2 |" in page


@pytest.mark.slow
@pytest.mark.parametrize("name", ["startup", "tokenize", "static"])  # embed has a test of its own
def test_every_benchmark_runs(name, tmp_path):
    if name != "startup":
        from helpers import wheel_checkpoint

        wheel_checkpoint()
    out = tmp_path / "page.md"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "--fresh", "-o", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "| " in out.read_text(encoding="utf-8")
    assert str(ROOT) not in out.read_text(encoding="utf-8")
