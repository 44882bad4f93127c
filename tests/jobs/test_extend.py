"""extend_bundle: a bundle that appears whole, and is replaced only when asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from anaume.bundle import Bundle
from anaume.errors import BundleError, DataError, SettingsError
from anaume.jobs.extend import extend_bundle
from tiny_bundles import read_bundle, same_parts, tiny_parts


@pytest.fixture
def bundle() -> Bundle:
    return Bundle(tiny_parts(), device="cpu")


def unread() -> Iterator[str]:
    raise AssertionError("the place is looked at before the texts are")
    yield ""


def test_it_is_saved_and_returned(bundle: Bundle, tmp_path: Path) -> None:
    new, report = extend_bundle(bundle, iter(["cats cats"]), tmp_path / "new", add=5)
    assert [entry.token for entry in report.entries] == ["cats"]
    assert same_parts(read_bundle(tmp_path / "new"), new.parts)


def test_a_bundle_is_replaced_only_when_asked(bundle: Bundle, tmp_path: Path) -> None:
    bundle.save(tmp_path / "b")
    with pytest.raises(SettingsError, match=r"holds a bundle already; .*--overwrite"):
        extend_bundle(bundle, unread(), tmp_path / "b", add=5)
    assert same_parts(read_bundle(tmp_path / "b"), bundle.parts)
    new, _ = extend_bundle(bundle, ["cats cats"], tmp_path / "b", add=5, overwrite=True)
    assert same_parts(read_bundle(tmp_path / "b"), new.parts)


def test_what_is_no_bundle_is_never_replaced(bundle: Bundle, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    for place in (tmp_path, tmp_path / "notes.txt"):
        with pytest.raises(BundleError, match=r"notes\.txt"):
            extend_bundle(bundle, unread(), place, add=5, overwrite=True)
    assert (tmp_path / "notes.txt").read_text("utf-8") == "mine"


def test_a_failure_leaves_nothing(bundle: Bundle, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="nothing to add"):
        extend_bundle(bundle, ["the dog"], tmp_path / "new", add=5)
    assert list(tmp_path.iterdir()) == []
