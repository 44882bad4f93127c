"""embed_shards: each shard is what `embed_file` makes of it, whoever did it, and a killed run goes on."""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.data import join, read_about, read_vectors
from anaume.errors import DataError, MissingExtra, SettingsError
from anaume.jobs.embed import embed_file
from anaume.jobs.embed_ray import embed_shards
from commands import begin, spawn
from helpers import PATIENCE

pytestmark = pytest.mark.filterwarnings("ignore:[0-9,]+ of [0-9,]+ texts were longer")
WORDS = ["the", "dog", "is", "cute", "my", "cat", "likes", "the", "old", "bank", "of", "the", "river", "and", "man"] * 2
SIZES = {"a": 30, "b": 0, "c": 12, "d": 25, "z": 15_000}


@pytest.fixture(scope="module")
def bundle(tiny_bundle_dir: Path) -> Bundle:
    return anaume.load(tiny_bundle_dir)


def shard(path: Path, count: int) -> Path:
    """Rows with an id and texts of 1 to 30 words, some of them cut, none like another shard's."""
    texts = [" ".join(WORDS[: 1 + (number * 7 + len(path.stem)) % len(WORDS)]) for number in range(count)]
    ids = [f"{path.stem}{number}" for number in range(count)]
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(ids, pa.string()), "text": pa.array(texts, pa.string())}), path)
    return path


@pytest.fixture
def shards(tmp_path: Path) -> list[Path]:
    return [shard(tmp_path / "shards" / f"{name}.parquet", count) for name, count in SIZES.items() if name != "z"]


# -- what is refused before Ray is begun -----------------------------------------------------------------------------


def test_without_ray_it_is_one_line(
    bundle: Bundle, shards: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")  # set by the call: put back afterwards
    monkeypatch.setenv("RAY_worker_niceness", "0")
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[ray\]'"):
        embed_shards(bundle, shards, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_wrong_shards_and_folders(bundle: Bundle, shards: list[Path], tmp_path: Path) -> None:
    twin = shard(tmp_path / "more" / "a.parquet", 3)
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"text": "a dog"}\n')
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"PAR1")
    for given, out, error in (
        ([], "out", "expected at least one shard"),
        ([lines], "out", r"rows.jsonl: shards are .parquet files"),
        ([*shards, twin], "out", r"more/a.parquet and .*shards/a.parquet have one name"),
        (shards, "shards", "holds the shards themselves"),
        (shards, "rows.jsonl", "is a file; name a folder"),
        (shards, "vectors.parquet", "is the name of a file; name a folder"),
        ([broken], "out", "broken.parquet: can't be read as Parquet"),
        ([tmp_path / "none.parquet"], "out", "none.parquet: can't be read as Parquet: .*No such file"),
    ):
        with pytest.raises((SettingsError, DataError), match=error):
            embed_shards(bundle, given, tmp_path / out)
        assert not (tmp_path / "out").exists()
    with pytest.raises(SettingsError, match="workers must be a whole number of at least 1; got 0"):
        embed_shards(bundle, shards, tmp_path / "out", workers=0)
    unsaved = Bundle.new(bundle.tokenizer, bundle.config)
    with pytest.raises(SettingsError, match="never saved; save it first"):
        embed_shards(unsaved, shards, tmp_path / "out")


def test_what_was_made_otherwise_is_refused(bundle: Bundle, shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    embed_file(bundle, shards[0], tmp_path / "out" / "a.parquet", as_="query")
    with pytest.raises(DataError, match=r"a\.parquet exists and was made otherwise: as query is now nothing"):
        embed_shards(bundle, shards, tmp_path / "out")
    (tmp_path / "out" / "a.parquet").write_bytes(b"half a file")
    with pytest.raises(DataError, match="is no finished output of anaume"):
        embed_shards(bundle, shards, tmp_path / "out")


# -- what one process promises for the sake of many ------------------------------------------------------------------


def test_a_shard_has_the_same_vectors_in_any_company(bundle: Bundle, shards: list[Path], tmp_path: Path) -> None:
    embed_file(bundle, shards, tmp_path / "all.parquet")
    parts = []
    for path in shards:
        embed_file(bundle, path, tmp_path / path.name)
        parts.append(read_vectors(tmp_path / path.name))
    together = read_vectors(tmp_path / "all.parquet")
    assert together.vectors.tobytes() == b"".join(part.vectors.tobytes() for part in parts)
    rows = [row for part in parts for row in part.rows or []]
    assert [row["id"] for row in together.rows or []] == [row["id"] for row in rows]


# -- the real thing ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="ray is not installed: pip install 'anaume[ray]'")
def test_two_workers_killed_and_begun_again_write_what_one_process_writes(
    bundle: Bundle, shards: list[Path], tmp_path: Path
) -> None:
    last = shard(tmp_path / "shards" / "z.parquet", SIZES["z"])
    out, given = tmp_path / "out", [*shards, last]
    line = ["embed", bundle.parts.source, *given, "--ray", "--workers", "2", "--engine", "torch", "-o", out]
    with begin(*line) as process:
        deadline = time.monotonic() + PATIENCE
        while not list(out.glob("*.parquet")) and time.monotonic() < deadline:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            time.sleep(0.01)
        process.kill()
        finished = {path: path.stat().st_mtime_ns for path in out.glob("*.parquet")}
    assert 0 < len(finished) < len(given), "nothing was finished, or all of it, before it could be killed"
    done = spawn(*line, "--json")
    assert done.code == 0, done.err
    summary = json.loads(done.out)
    assert (summary["shards"], summary["workers"]) == (5, 2)
    assert summary["finished_before"] >= len(finished)
    assert all(path.stat().st_mtime_ns == written for path, written in finished.items())
    warning, told = done.err.splitlines()  # Ray itself says nothing
    assert f"warning: {summary['cut']} of {summary['texts']} texts were longer" in warning
    assert told.startswith("5 shards -> ")
    for path in given:
        embed_file(bundle, path, tmp_path / path.name)  # in this process
        assert (out / path.name).read_bytes() == (tmp_path / path.name).read_bytes()
        assert read_about(out / path.name)[0] == bundle.fingerprint
    assert len(join(read_vectors(out / "a.parquet"), read_vectors(out / "z.parquet")).vectors) == 15_030
