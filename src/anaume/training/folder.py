"""The folder of a run: what it holds, whose it is, and one process at a time.

RUN/
  run.json          what the run starts from: corpus, its landmarks, bundle, journal that is replayed; why size and
                    batch were chosen
  settings.toml     the settings, with what was left to the machine filled in; with it the folder is a run
  checkpoints/      the last few, see state.py
  metrics.jsonl     a row every few seconds, and one each time the held-out loss is measured
  journal.jsonl     of a run that goes by the clock: which share of its time had passed at each step
  curves.png        those rows drawn, where matplotlib is installed
  tensorboard/      and as TensorBoard's events, where they were asked for
  bundle/           the result; after a stop, as far as it got
  result.json       how it ended; written last: with it the run is finished
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from anaume.data.atomic import HALF_WRITTEN, atomic_file
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.training.sections import SettingsTables
from anaume.training.state import CHECKPOINTS

SETTINGS, SOURCE, RESULT, BUNDLE = "settings.toml", "run.json", "result.json", "bundle"

DECIDES = {
    "corpus": "another corpus",
    "bundle": "another starting bundle",
    "new_heads": "new heads",
    "replay": "another journal to replay",
}
"""What of run.json must be the same to go on; the rest is told only."""


def check_folder(
    folder: Path, settings: SettingsTables, source: Mapping[str, Any], decides: Mapping[str, str] = DECIDES
) -> None:
    """Raise SettingsError where the folder holds something else than this run, naming each difference.

    decides  what of `source` must be the same, and how a difference is called
    """
    if not (folder / SETTINGS).exists():
        if folder.exists() and (not folder.is_dir() or any(map(_is_foreign, os.listdir(folder)))):
            raise SettingsError(f"{folder} is not empty and holds no run ({SETTINGS}): give another folder")
        return
    differences = settings.differences(type(settings).read(folder / SETTINGS))
    told = read_source(folder)
    differences += [
        f"{what}: {_shown(source[key])}, there {_shown(told.get(key))}"
        for key, what in decides.items()
        if source[key] != told.get(key)
    ]
    if differences:
        longer = f"; --bundle {folder / BUNDLE} there trains its result further" if (folder / BUNDLE).is_dir() else ""
        raise SettingsError(
            f"{folder} holds a run with other settings: {'; '.join(differences)}. Give the same ones to go on, or "
            f"another folder{longer}"
        )
    if source["ranks"] != told.get("ranks"):
        warnings.warn(
            f"{folder}: begun with {told.get('ranks')} processes and goes on with {source['ranks']}: the same recipe, "
            "but not bit for bit the run that was begun",
            AnaumeWarning,
            stacklevel=3,
        )


def _is_foreign(name: str) -> bool:
    """Whether a file is none that a run leaves which is killed before it is one."""
    return name != SOURCE and not fnmatch(name, HALF_WRITTEN)


def _shown(value: Any) -> str:
    return "none" if value is None else str(value)


def read_source(folder: Path) -> dict[str, Any]:
    """Return run.json. Raises DataError when it is missing or damaged."""
    path = folder / SOURCE
    try:
        told = json.loads(path.read_bytes())
        if not isinstance(told, dict):
            raise ValueError("expected an object")
    except (OSError, ValueError) as error:
        raise DataError(
            f"{path}: can't be read ({error}); the run can't go on without it: put it back, or begin in another folder"
        ) from error
    return told


def begin_folder(folder: Path, settings: SettingsTables, source: Mapping[str, Any]) -> None:
    """Make the folder a run, if it is none yet; remove what a kill left half-written."""
    folder.mkdir(parents=True, exist_ok=True)
    for half in (*folder.glob(HALF_WRITTEN), *(folder / CHECKPOINTS).glob(HALF_WRITTEN)):
        half.unlink(missing_ok=True)
    if (folder / SETTINGS).exists():
        return
    write_json(folder / SOURCE, source)
    with atomic_file(folder / SETTINGS) as file:  # last: with it the folder is a run
        file.write(settings.to_toml().encode())


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes out of the run. Raises SettingsError when one is in it.

    On a disk that has no locks nobody is kept out: an AnaumeWarning says so.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    handle = os.open(folder / SETTINGS, os.O_RDWR)  # NFS gives the lock to writers only
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SettingsError(f"{folder}: another process is training in it; wait for it, or stop it") from None
        except OSError as error:  # some disks of clusters
            warnings.warn(
                f"{folder}: its disk has no locks ({error.strerror}); see to it that one run at a time trains in it",
                AnaumeWarning,
                stacklevel=3,
            )
        yield
    finally:
        os.close(handle)


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write one of the folder's small files, whole or not at all."""
    with atomic_file(path) as file:
        file.write((json.dumps(content, indent=1) + "\n").encode())
