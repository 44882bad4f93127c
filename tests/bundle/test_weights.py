"""Reading tensors: dtypes, shards, pickles, damage."""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from torch import Tensor

from anaume.bundle.weights import read_weights
from anaume.errors import BundleError
from helpers import public_data
from tiny_bundles import foreign, put_tensors, read_bundle, refusal, same_parts, tensors_of

STORED = {
    "bfloat16": [torch.bfloat16],
    "float16": [torch.float16],
    "float64": [torch.float64],
    "bfloat16 and float32": [torch.bfloat16, torch.float32],
}


@pytest.mark.parametrize("form", ["safetensors", "bin"])
@pytest.mark.parametrize("stored", STORED)
def test_half_and_double_precision_become_float32_bit_for_bit(tmp_path: Path, stored: str, form: str) -> None:
    """IMP-08: values equal tensor.float(); what was stored is reported."""
    path = foreign(tmp_path / "b")
    kinds = STORED[stored]
    tensors = {name: t.to(kinds[i % len(kinds)]) for i, (name, t) in enumerate(tensors_of(path).items())}
    put_tensors(path, tensors)
    if form == "bin":
        (path / "model.safetensors").unlink()
        torch.save(tensors, path / "pytorch_model.bin")
    parts = read_bundle(path)
    assert parts.weights_dtype == stored
    assert parts.report is not None
    assert f"stored as {stored}" in parts.report.lines()[0]
    assert {p.dtype for p in parts.model.parameters()} == {torch.float32}
    table = parts.model.embeddings.token_embeddings.weight
    assert torch.equal(table, tensors["embeddings.word_embeddings.weight"].float())


@pytest.mark.parametrize("dtype", [torch.int8, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_quantised_weights_are_refused_by_name(tmp_path: Path, dtype: torch.dtype) -> None:
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    tensors["encoder.layer.0.output.dense.weight"] = tensors["encoder.layer.0.output.dense.weight"].to(dtype)
    put_tensors(path, tensors)
    assert f"encoder.layer.0.output.dense.weight ({dtype})" in refusal(path)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_that_are_not_finite_are_named(tmp_path: Path, value: float, dtype: torch.dtype) -> None:
    """NUM-03: a NaN in the row of [PAD] would reach real places through 0 x NaN: it is refused at load."""
    path = foreign(tmp_path / "b")
    tensors = {name: tensor.to(dtype) for name, tensor in tensors_of(path).items()}
    tensors["embeddings.word_embeddings.weight"][0, 3] = value
    tensors["encoder.layer.1.output.dense.bias"][-1] = value
    put_tensors(path, tensors)
    line = refusal(path)
    assert "NaN or infinite values: " in line
    assert "embeddings.word_embeddings.weight" in line
    assert "encoder.layer.1.output.dense.bias" in line


def test_a_double_too_large_for_float32_is_not_finite(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b")
    tensors = {name: tensor.double() for name, tensor in tensors_of(path).items()}
    tensors["embeddings.LayerNorm.bias"][0] = 1e300
    put_tensors(path, tensors)
    assert "embeddings.LayerNorm.bias" in refusal(path)


def shard(path: Path, tensors: dict[str, Tensor], form: str) -> Path:
    """Replace the weights by two shards and their index; return the index."""
    (path / "model.safetensors").unlink()
    stem, end = ("model", ".safetensors") if form == "safetensors" else ("pytorch_model", ".bin")
    names = sorted(tensors)
    weight_map = {}
    for number, part in enumerate((names[::2], names[1::2]), start=1):
        file = f"{stem}-0000{number}-of-00002{end}"
        weight_map.update(dict.fromkeys(part, file))
        picked = {name: tensors[name].clone() for name in part}
        if form == "safetensors":
            safetensors.torch.save_file(picked, path / file)
        else:
            torch.save(picked, path / file)
    index = path / f"{stem}{end}.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}))
    return index


@pytest.mark.parametrize("form", ["safetensors", "bin"])
def test_shards_are_read_as_one_file(tmp_path: Path, form: str) -> None:
    path = foreign(tmp_path / "b")
    whole = read_bundle(path)
    shard(path, tensors_of(path), form)
    assert same_parts(read_bundle(path), whole)


OUTSIDE = ["../model-1.safetensors", "/etc/passwd", "a/../../x.safetensors", "..\\x.safetensors", "C:x.safetensors"]


@pytest.mark.parametrize("name", [*OUTSIDE, "sub/x.safetensors", "", "\0", 3, None])
def test_shards_outside_the_directory_are_refused(tmp_path: Path, name: Any) -> None:
    """IMP-07: whatever lies there, it is not opened."""
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    index = shard(path, tensors, "safetensors")
    safetensors.torch.save_file(tensors, tmp_path / "model-1.safetensors")
    content = json.loads(index.read_text())
    content["weight_map"][next(iter(content["weight_map"]))] = name
    index.write_text(json.dumps(content))
    line = refusal(path)
    assert "is not a file inside the directory: refused" in line
    assert repr(name) in line


@pytest.mark.parametrize(
    "damage", ["a shard is missing", "a tensor is missing", "a tensor too many", "no map", "twice"]
)
def test_an_index_that_does_not_fit_its_shards_is_an_error(tmp_path: Path, damage: str) -> None:
    path = foreign(tmp_path / "b")
    index = shard(path, tensors_of(path), "safetensors")
    content = json.loads(index.read_text())
    first, second = sorted(path.glob("model-*"))
    if damage == "a shard is missing":
        second.unlink()
    if damage == "a tensor is missing":
        tensors = safetensors.torch.load_file(first)
        safetensors.torch.save_file(dict(list(tensors.items())[1:]), first)
    if damage == "a tensor too many":
        del content["weight_map"][next(iter(content["weight_map"]))]
    if damage == "no map":
        content["weight_map"] = []
    if damage == "twice":
        safetensors.torch.save_file(
            {**safetensors.torch.load_file(first), **safetensors.torch.load_file(second)}, first
        )
    index.write_text(json.dumps(content))
    assert str(path) in refusal(path)


def test_a_public_checkpoint_in_the_old_pickle_format() -> None:
    parts = read_bundle(public_data("tiny_checkpoints/allennlp_bert-xsmall-dummy"))
    assert parts.report is not None
    assert parts.report.lines()[:2] == [
        "21 of 21 encoder tensors loaded, stored as float32",
        "also in the files: pooler",
    ]
    assert sum(p.numel() for p in parts.model.parameters()) == 19160
    assert parts.record.objectives == ("unknown",)


class Bomb:
    """Unpickling it would make a file."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return Path.touch, (self.marker,)


@pytest.mark.parametrize("form", ["torch", "legacy", "plain pickle", "inside a state dict", "ordered", "shard"])
def test_code_in_a_pickle_never_runs(tmp_path: Path, form: str) -> None:
    """IMP-07: one line says so, and the marker never appears."""
    path = foreign(tmp_path / "b")
    tensors: dict[str, Any] = dict(tensors_of(path))
    marker = tmp_path / "marker"
    target = path / "pytorch_model.bin"
    if form == "shard":
        index = shard(path, tensors, "bin")
        target = path / next(iter(json.loads(index.read_text())["weight_map"].values()))
    else:
        (path / "model.safetensors").unlink()
    if form in ("torch", "shard"):
        torch.save(Bomb(marker), target)
    elif form == "legacy":
        torch.save({**tensors, "x": Bomb(marker)}, target, _use_new_zipfile_serialization=False)
    elif form == "plain pickle":
        target.write_bytes(pickle.dumps(Bomb(marker), protocol=2))
    else:
        content = {**tensors, "x": Bomb(marker)}
        torch.save(OrderedDict(content) if form == "ordered" else content, target)
    line = refusal(path)
    assert "it was not run" in line
    assert "weights_only" not in line, "torch advises to switch the protection off: not for our users"
    assert "getattr" in line or "Path" in line or form == "plain pickle"
    assert not marker.exists()


def test_an_archive_with_names_that_climb_out_writes_nothing(tmp_path: Path) -> None:
    """IMP-07: a .bin is an archive; its member names are never files on disk."""
    path = foreign(tmp_path / "b")
    (path / "model.safetensors").unlink()
    with zipfile.ZipFile(path / "pytorch_model.bin", "w") as archive:
        archive.writestr("../../marker", b"x")
        archive.writestr("archive/data.pkl", pickle.dumps({}))
    refusal(path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["b"]


@pytest.mark.parametrize(
    "content", [[1, 2], {"a": 1}, {"state_dict": {"x": torch.ones(1)}}, {1: torch.ones(1)}], ids=str
)
def test_other_pickled_content_is_said(tmp_path: Path, content: Any) -> None:
    path = foreign(tmp_path / "b")
    (path / "model.safetensors").unlink()
    torch.save(content, path / "pytorch_model.bin")
    assert "dictionary of tensors" in refusal(path)


@pytest.mark.parametrize("name", ["tf_model.h5", "bert_model.ckpt.index", "adapter_model.safetensors", None])
def test_no_weights_says_what_is_there_instead(tmp_path: Path, name: str | None) -> None:
    path = foreign(tmp_path / "b")
    (path / "model.safetensors").unlink()
    if name:
        (path / name).touch()
    line = refusal(path)
    assert "no model.safetensors or pytorch_model.bin" in line
    assert (name or "shards") in line


def test_nothing_stays_open_on_the_directory(tmp_path: Path) -> None:
    """IMP-11: no handle and no memory map; the weights live on when the files are gone."""
    path = foreign(tmp_path / "b")
    parts = read_bundle(path)
    maps = Path("/proc/self/maps")
    if not maps.exists():
        pytest.skip("needs /proc")
    opened = [str(Path("/proc/self/fd").joinpath(fd.name).resolve()) for fd in Path("/proc/self/fd").iterdir()]
    assert not [name for name in opened if str(path) in name]
    assert str(path) not in maps.read_text()
    assert read_weights(path).tensors.keys()
    before = parts.model.embeddings.token_embeddings.weight.clone()
    (path / "model.safetensors").write_bytes(b"\xff" * (path / "model.safetensors").stat().st_size)
    assert torch.equal(before, parts.model.embeddings.token_embeddings.weight)
    with pytest.raises(BundleError):
        read_weights(path)
