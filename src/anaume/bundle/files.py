"""Small helpers every reader here uses: JSON with one clear line on error, names that stay inside, hashes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Any

from anaume.errors import BundleError

_LARGEST_JSON = 256 * 1024 * 1024  # a shard index or tokenizer.json of a real model is far below


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises BundleError naming the file, and the line where it breaks."""
    try:
        if path.stat().st_size > _LARGEST_JSON:
            raise BundleError(f"{path}: {path.stat().st_size:,} bytes is too large for a settings file")
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise BundleError(f"{path}: can't be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise BundleError(f"{path}: not UTF-8 at byte {error.start}: truncated, or no JSON file?") from error
    except json.JSONDecodeError as error:
        raise BundleError(
            f"{path}: no valid JSON at line {error.lineno}, column {error.colno} ({error.msg}): truncated or edited?"
        ) from error
    except (RecursionError, ValueError) as error:
        if isinstance(error, BundleError):
            raise
        raise BundleError(f"{path}: no JSON that can be read: {error}") from error


def read_object(path: Path) -> dict[str, Any]:
    """Return a JSON file that holds an object. Raises BundleError as `read_json`, and for anything but an object."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise BundleError(f"{path}: expected a JSON object; got {type(content).__name__}")
    return content


def json_text(content: Any) -> str:
    """Return JSON as it is written everywhere here: indented, every script readable, a newline at the end."""
    return json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False) + "\n"


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 with LF whatever the locale and the system."""
    # What UTF-8 can't hold (parts of a file's name, that is not in it) is written as JSON escapes it.
    path.write_bytes(text.encode("utf-8", "backslashreplace"))


def inside(directory: Path, name: Any, told_by: Path) -> Path:
    """Return directory / name for a relative, "/"-separated name; refuse a name that could leave the directory.

    Only the name is judged: in a hub cache the files themselves are links to somewhere else.
    """
    if isinstance(name, str) and name and not set(name) & set("\\:\0"):
        relative = PurePosixPath(name)
        if not relative.is_absolute() and ".." not in relative.parts:
            return directory / relative
    raise BundleError(f"{told_by}: {name!r} is not a file inside the directory: refused")


def sha256_of(path: Path) -> str:
    """Return the sha256 of a file, in hexadecimal."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BundleError(f"{path}: can't be read: {error.strerror}") from error


def some(names: Iterable[str], limit: int = 6) -> str:
    """Return the first names of a list for a message; one with line ends or control characters is quoted."""
    listed = list(names)
    shown = [name if name.isprintable() else repr(name) for name in listed[:limit]]
    return (", ".join(shown) + (f" ... ({len(listed)} in all)" if len(listed) > limit else "")) or "none"


def one_line(error: BaseException) -> str:
    """Return the first sentence of another library's message, on one line."""
    return re.sub(r"\s+", " ", str(error)).strip()[:200] or type(error).__name__
