"""Extend a bundle's vocabulary and write the result as a directory, whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anaume.bundle import Bundle, extend_vocabulary
from anaume.bundle.directory import check_place
from anaume.errors import SettingsError
from anaume.tokenization import VocabularyExtension


def extend_bundle(
    bundle: Bundle, texts: Iterable[str], out: str | Path, *, overwrite: bool = False, **settings: Any
) -> tuple[Bundle, VocabularyExtension]:
    """Extend a bundle's vocabulary by words of the texts, and save the result as the directory `out`.

    overwrite  replace the bundle that is there; a directory that holds anything else is refused all the same
    settings   as `extend_vocabulary` takes them: add, words, min_frequency

    Raises SettingsError where `out` holds a bundle, BundleError where none can be saved, and what `extend_vocabulary`
    does; the place is looked at before the texts are.
    """
    place = Path(out)
    check_place(place)
    if not overwrite and place.is_dir() and any(place.iterdir()):
        raise SettingsError(f"{place} holds a bundle already; name another, or overwrite=True (--overwrite)")
    extended, report = extend_vocabulary(bundle, texts, **settings)
    extended.save(place)
    return extended, report
