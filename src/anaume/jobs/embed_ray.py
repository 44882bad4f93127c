"""Embed Parquet shards on many machines: Ray Data hands them out, and `write_vectors` does each as `embed_file` would.

A shard is the unit of everything. It becomes OUT/NAME, whole or not at all, in one worker; a finished one is passed
over by whoever comes to it again, so a worker that dies costs one shard and a killed run goes on where it was.

Ray begins on this machine for the run's time, without its dashboard and without reporting its use to its makers
(RAY_USAGE_STATS_ENABLED=1 allows that); with RAY_ADDRESS set it is the cluster there. Its ports are protected as Ray
does it, by a token. Shards are Ray's tasks, not actors: a task's worker is kept, too, and Ray starts it again unasked.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle, EmbedTotals, LongPolicy
from anaume.errors import AnaumeError, AnaumeWarning, BundleError, DataError, MissingExtra, SettingsError
from anaume.jobs.embed import CHUNK, PARQUET, refuse_made_otherwise, write_vectors
from anaume.jobs.progress import progress_bar

_STORE = 100 << 20  # bytes of Ray's shared memory: only names and counts go through it


@dataclass(frozen=True, kw_only=True)
class ShardsSummary:
    """What a run of `embed_shards` did."""

    out: str
    """The folder written."""
    shards: int
    finished_before: int
    """Shards that were there, made from the same rows with the same settings, and were left as they are."""
    texts: int
    """Texts of the other shards; so are the counts below."""
    embedding_size: int
    seconds: float
    """Of everything, the start of Ray and of its workers with it."""
    coverage: float
    """The mean share of a text's pieces that the model saw, 0 to 1."""
    cut: int
    """Texts it did not see whole."""
    pieces: int
    unknown: int
    unknown_share: float
    """The share of the pieces that the vocabulary does not hold, 0 to 1."""
    workers: int
    engine: str
    precision: str
    fingerprint: str
    messages: tuple[str, ...]
    """What was warned about, in words."""

    @property
    def texts_per_second(self) -> float:
        """Texts over seconds, 0 when nothing was done."""
        return self.texts / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class _Job:
    """What a worker must know."""

    bundle: str
    fingerprint: str
    opening: tuple[tuple[str, Any], ...]
    """Device, engine, precision, as `Bundle.load` takes them."""
    writing: tuple[tuple[str, Any], ...]
    """as_, long, overwrite and how files are read, as `write_vectors` takes them."""


def embed_shards(
    bundle: Bundle,
    paths: str | Path | Sequence[str | Path],
    out: str | Path,
    *,
    as_: str | None = None,
    long: LongPolicy = "truncate",
    overwrite: bool = False,
    workers: int | None = None,
    address: str | None = None,
    progress: bool = False,
    **reading: Any,
) -> ShardsSummary:
    """Embed Parquet files into Parquet files of the same names, in parallel on one machine or many.

    paths    .parquet files, no two of one name
    out      a folder, made if it is not there: shards/a.parquet becomes out/a.parquet, the very file that
             `embed_file(bundle, "shards/a.parquet", ...)` writes with the same engine and as many threads
    workers  processes, each with the bundle and one core (or one GPU, where the bundle is on one); None = as many as
             there are cores (GPUs)
    address  Ray's, of a cluster: "host:6379"; None = the environment's RAY_ADDRESS, or Ray on this machine alone.
             On a cluster, bundle, shards and `out` lie under the same paths on every machine

    The other arguments are those of `embed_file`. Restartable: finished shards are passed over, and those made by
    another model or with other settings are refused before any work (unless `overwrite`). Warns at most once, with the
    counts of the whole run. Raises MissingExtra without ray, SettingsError for wrong arguments, DataError naming a
    file, a row or an output, BundleError for a bundle that the workers don't find as it is here.
    """
    started = time.perf_counter()
    shards = _shards(paths, Path(out))
    _check(bundle, workers)
    fingerprint = bundle.fingerprint_for(long)
    if not overwrite:
        for target in shards.values():
            if os.path.lexists(target):
                refuse_made_otherwise(bundle, target, fingerprint, as_=as_, long=long, **reading)
    engine = bundle.engine_for(min(CHUNK, max(map(_rows, shards))))
    on_gpu = engine.device.startswith("cuda")
    job = _Job(
        bundle=os.path.abspath(bundle.parts.source),
        fingerprint=fingerprint,
        opening=(
            ("precision", bundle.precision),
            ("device", "cuda" if on_gpu else engine.device),  # a worker sees its own GPU alone
            ("engine", engine.name if bundle.exported is None else "auto"),
        ),
        writing=(("as_", as_), ("long", long), ("overwrite", overwrite), *reading.items()),
    )
    totals, there = EmbedTotals(), 0
    with _ray(address, workers) as ray, progress_bar("embedding shards", len(shards), show=progress) as advance:
        unit = "GPU" if on_gpu else "CPU"
        count = min(workers or max(1, int(ray.cluster_resources().get(unit, 1))), len(shards))
        Path(out).mkdir(parents=True, exist_ok=True)
        for done in _done(ray, job, shards, count, unit):
            if done["error"]:
                raise _KINDS[done["kind"]](done["error"])
            there += done["finished_before"]
            totals.merge(EmbedTotals(**{name: done[name] for name in _COUNTS}))
            advance(1)
    messages = totals.messages(bundle.embedding)
    if messages:
        warnings.warn("; ".join(messages), AnaumeWarning, stacklevel=2)
    return ShardsSummary(
        out=str(out),
        shards=len(shards),
        finished_before=there,
        texts=totals.texts,
        embedding_size=bundle.embedding_size,
        seconds=time.perf_counter() - started,
        coverage=totals.seen / totals.texts if totals.texts else 1.0,
        cut=totals.cut,
        pieces=totals.pieces,
        unknown=totals.unknown,
        unknown_share=totals.unknown / totals.pieces if totals.pieces else 0.0,
        workers=count,
        engine=engine.name,
        precision=bundle.precision,
        fingerprint=fingerprint,
        messages=messages,
    )


_COUNTS = tuple(field.name for field in dataclasses.fields(EmbedTotals))
_KINDS: dict[str, type[AnaumeError]] = {kind.__name__: kind for kind in (SettingsError, DataError, BundleError)}


def _shard(row: dict[str, str], *, job: _Job) -> dict[str, Any]:
    """Do one shard in a worker; return what was seen, or the error: as data, for Ray would send its whole trace."""
    done: dict[str, Any] = {"error": "", "kind": "", "finished_before": False, **dataclasses.asdict(EmbedTotals())}
    try:
        totals = write_vectors(_opened(job), [row["shard"]], row["out"], job.fingerprint, **dict(job.writing))
    except AnaumeError as error:
        kind = next((name for name, kind in _KINDS.items() if isinstance(error, kind)), DataError.__name__)
        return done | {"error": str(error), "kind": kind}
    return done | ({"finished_before": True} if totals is None else dataclasses.asdict(totals))


@lru_cache(maxsize=1)
def _opened(job: _Job) -> Bundle:
    """Open the bundle, once a process: Ray keeps its workers from shard to shard."""
    bundle = Bundle.load(job.bundle, **dict(job.opening))
    if (found := bundle.fingerprint_for(dict(job.writing)["long"])) != job.fingerprint:
        raise BundleError(
            f"{job.bundle} makes vectors of fingerprint {found} for a worker, and of {job.fingerprint} where the run "
            "was begun: save the bundle under this path, alike on every machine"
        )
    return bundle


def _done(ray: Any, job: _Job, shards: dict[Path, Path], workers: int, unit: str) -> Iterator[dict[str, Any]]:
    """Yield what became of each shard, as they are finished."""
    import ray.data

    rows = [{"shard": os.path.abspath(shard), "out": os.path.abspath(target)} for shard, target in shards.items()]
    try:
        yield from (
            ray.data.from_items(rows, override_num_blocks=len(rows))
            .map(
                _shard,
                fn_kwargs={"job": job},
                compute=ray.data.TaskPoolStrategy(size=workers),
                num_cpus=1,
                num_gpus=1 if unit == "GPU" else 0,
                max_calls=0,  # or a worker on a GPU would end with its shard, and load the bundle again
            )
            .iter_rows()
        )
    except ray.exceptions.RayError as error:
        last = next((line for line in reversed(str(error).splitlines()) if line.strip()), type(error).__name__)
        raise DataError(f"Ray gave up: {last.strip()}; finished shards are kept, and the same line goes on") from error


@contextmanager
def _ray(address: str | None, workers: int | None) -> Iterator[Any]:
    """Give Ray: the one that runs in this process, a cluster's, or one of our own, which ends with the block."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # as nice as `embed`: at Ray's 15 whatever else runs comes first
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("embedding on many machines (--ray)", "ray") from None
    context, talk = ray.data.DataContext.get_current(), logging.getLogger("ray.data")
    before, bars, heard = talk.level, context.enable_progress_bars, signal.getsignal(signal.SIGTERM)
    ours = not ray.is_initialized()
    try:
        talk.setLevel(logging.ERROR)  # stderr is for what the command says
        context.enable_progress_bars = False
        if ours:
            _begin(ray, address or os.environ.get("RAY_ADDRESS") or "local", workers)
            with suppress(ValueError):  # not the main thread; else Ray has taken SIGTERM for itself
                signal.signal(signal.SIGTERM, heard)
        yield ray
    finally:
        talk.setLevel(before)
        context.enable_progress_bars = bars
        if ours:
            ray.shutdown()


def _begin(ray: Any, address: str, workers: int | None) -> None:
    own = {"num_cpus": workers, "include_dashboard": False, "object_store_memory": _STORE} if address == "local" else {}
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **own)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise SettingsError(f"Ray can't be reached at {address!r} (RAY_ADDRESS): {first}") from error


def _shards(paths: str | Path | Sequence[str | Path], out: Path) -> dict[Path, Path]:
    """Return shard -> output. Raises SettingsError for what is no Parquet file, or can't go into one folder."""
    given = [Path(path) for path in ([paths] if isinstance(paths, str | Path) else paths)]
    if not given:
        raise SettingsError("expected at least one shard to embed; none came")
    if out.exists() and not out.is_dir():
        raise SettingsError(f"{out} is a file; name a folder: each shard becomes a file in it")
    if out.suffix.lower() in (PARQUET, ".npy", ".jsonl") and not out.exists():
        raise SettingsError(f"{out} is the name of a file; name a folder: each shard becomes a file in it")
    shards: dict[Path, Path] = {}
    names: dict[str, Path] = {}
    for path in given:
        if path.suffix.lower() != PARQUET:
            raise SettingsError(f"{path}: shards are .parquet files; other files are embedded without --ray")
        if (twin := names.setdefault(path.name, path)) is not path:
            raise SettingsError(f"{path} and {twin} have one name, and would become one file in {out}; rename one")
        if (target := out / path.name).exists() and path.exists() and target.samefile(path):
            raise SettingsError(f"{out} holds the shards themselves; name another folder")
        shards[path] = target
    return shards


def _check(bundle: Bundle, workers: int | None) -> None:
    if workers is not None and (isinstance(workers, bool) or not isinstance(workers, int) or workers < 1):
        raise SettingsError(f"workers must be a whole number of at least 1; got {workers!r}")
    if not bundle.parts.source:
        raise SettingsError("workers open the bundle by its path, and this one was never saved; save it first")


def _rows(path: Path) -> int:
    """Return a shard's rows, from its footer. Raises DataError for what is no Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with open(path, "rb") as file:
            return int(pq.ParquetFile(file).metadata.num_rows)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: can't be read as Parquet: {error}") from error
