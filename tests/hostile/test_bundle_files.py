"""Files made to break a reader: each is refused with one line, and nothing runs, hangs or eats the memory."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.config import EmbeddingConfig
from tiny_bundles import edit_json, foreign, put_tensors, read_bundle, refusal, save_tiny, tensors_of

EMBEDDING = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)


def header(content: Any, size: int | None = None, tail: bytes = b"") -> bytes:
    text = content if isinstance(content, bytes) else json.dumps(content).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + tail


TENSOR = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
SAFETENSORS: dict[str, bytes] = {
    "empty": b"",
    "seven bytes": b"\0" * 7,
    "no header": struct.pack("<Q", 0),
    "a header longer than the file": header({"a": TENSOR}, size=10_000),
    "a header of 2^63 bytes": header({"a": TENSOR}, size=2**63),
    "a header of 2^64 - 1 bytes": header({"a": TENSOR}, size=2**64 - 1),
    "a header of 200 MB": header({"a": TENSOR}, size=200_000_000, tail=b"\0" * 100),
    "no JSON": header(b"{" * 64),
    "deep JSON": header(b'{"a":' * 20_000),
    "not UTF-8": header(b"\xff\xfe" * 16),
    "a list": header([1, 2]),
    "twice the same name": header(
        b'{"a":' + json.dumps(TENSOR).encode() + b',"a":' + json.dumps(TENSOR).encode() + b"}"
    ),
    "offsets outside": header({"a": {**TENSOR, "data_offsets": [0, 2**60]}}),
    "offsets backwards": header({"a": {**TENSOR, "data_offsets": [8, 0]}}, tail=b"\0" * 8),
    "negative offsets": header({"a": {**TENSOR, "data_offsets": [-8, 0]}}, tail=b"\0" * 8),
    "a hole": header({"a": {**TENSOR, "data_offsets": [8, 16]}}, tail=b"\0" * 16),
    "overlap": header({"a": TENSOR, "b": {**TENSOR, "data_offsets": [4, 12]}}, tail=b"\0" * 12),
    "a shape that overflows": header({"a": {**TENSOR, "shape": [2**32, 2**32]}}, tail=b"\0" * 8),
    "a shape too large for its bytes": header({"a": {**TENSOR, "shape": [10**9]}}, tail=b"\0" * 8),
    "an unknown dtype": header({"a": {**TENSOR, "dtype": "F99"}}, tail=b"\0" * 8),
    "a negative shape": header({"a": {**TENSOR, "shape": [-2]}}, tail=b"\0" * 8),
    "bytes after the end": header({"a": TENSOR}, tail=b"\0" * 64),
    "a pickle under that name": b"\x80\x04\x95" + b"\0" * 64,
}


@pytest.mark.parametrize("what", SAFETENSORS)
def test_malformed_safetensors(tmp_path: Path, what: str) -> None:
    path = foreign(tmp_path / "b")
    (path / "model.safetensors").write_bytes(SAFETENSORS[what])
    line = refusal(path)
    assert "model.safetensors: no whole safetensors file" in line
    assert len(line) < 500


@pytest.mark.parametrize("form", ["safetensors", "bin", "legacy bin"])
@pytest.mark.parametrize("own", [False, True])
def test_weights_truncated_anywhere(tmp_path: Path, form: str, own: bool) -> None:
    path = (save_tiny if own else foreign)(tmp_path / "b")
    if form != "safetensors" and own:
        pytest.skip("a bundle holds safetensors")
    name = "model.safetensors"
    if form != "safetensors":
        tensors = tensors_of(path)
        (path / name).unlink()
        name = "pytorch_model.bin"
        torch.save(tensors, path / name, _use_new_zipfile_serialization=form == "bin")
    content = (path / name).read_bytes()
    for kept in (0, 1, 7, 8, 100, len(content) // 2, len(content) - 1):
        (path / name).write_bytes(content[:kept])
        assert name in refusal(path), kept


SMALL = ["config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "anaume.json"]
SMALL += ["modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1_Pooling/config.json"]
DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "truncated": lambda content: content[: len(content) // 2],
    "not UTF-8": lambda content: b"\xff\xfe\xfd" + content,
    "a number": lambda content: b"3",
    "a list of numbers": lambda content: b"[1, 2]",
    "deep": lambda content: b"[" * 100_000,
    "NUL": lambda content: b"\0" * 100,
    "a huge number": lambda content: b"1" * 5000,
}


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_settings_files(tmp_path: Path, name: str, damage: str) -> None:
    """In our own bundles, and (where anaume.json does not vouch for them) in foreign directories."""
    path = save_tiny(tmp_path / "b", embedding=EMBEDDING, pooler=True)
    file = path / name
    file.write_bytes(DAMAGE[damage](file.read_bytes()))
    assert refusal(path)
    if name != "anaume.json":
        (path / "anaume.json").unlink()
        assert str(path) in refusal(path)


@pytest.mark.parametrize("place", ["../out", "/etc", "1_Pooling/../../out", "..\\out", "C:\\out", 3, ["x"]])
@pytest.mark.parametrize("module", [0, 1, 2])
def test_module_folders_outside_the_directory(tmp_path: Path, place: Any, module: int) -> None:
    """IMP-07: modules.json can't reach out, however it is spelt."""
    path = save_tiny(tmp_path / "b", embedding=EMBEDDING)
    (path / "anaume.json").unlink()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "config.json").write_text('{"pooling_mode": "max"}')
    modules = json.loads((path / "modules.json").read_text())
    modules[module]["path"] = place
    (path / "modules.json").write_text(json.dumps(modules))
    assert "is not a file inside the directory: refused" in refusal(path)


KINDS = ["os.system", "evil.Transformer", "Pooling", "", None, 3, "sentence_transformers.models.Transformer\n"]
KINDS += ["sentence_transformers.models.Asym", "sentence_transformers.models.Router"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_module_type_is_compared_and_never_imported(tmp_path: Path, kind: Any) -> None:
    path = save_tiny(tmp_path / "b", embedding=EMBEDDING)
    (path / "anaume.json").unlink()
    modules = json.loads((path / "modules.json").read_text())
    modules[1]["type"] = kind
    (path / "modules.json").write_text(json.dumps(modules))
    assert "modules.json" in refusal(path)


@pytest.mark.parametrize("idx", ["x", None, [1]])
def test_modules_without_an_order(tmp_path: Path, idx: Any) -> None:
    path = save_tiny(tmp_path / "b", embedding=EMBEDDING)
    (path / "anaume.json").unlink()
    modules = json.loads((path / "modules.json").read_text())
    modules[1]["idx"] = idx
    (path / "modules.json").write_text(json.dumps(modules))
    assert "modules.json" in refusal(path)


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("1_Pooling/config.json", "pooling_mode", 3),
        ("1_Pooling/config.json", "pooling_mode", [3]),
        ("1_Pooling/config.json", "pooling_mode", "avg"),
        ("1_Pooling/config.json", "pooling_mode_mean_tokens", False),
        ("1_Pooling/config.json", "pooling_mode_cls_token", True),
        ("1_Pooling/config.json", "pooling_mode_lasttoken", True),
        ("1_Pooling/config.json", "layer_weights", [1, 2]),
        ("sentence_bert_config.json", "max_seq_length", "256"),
        ("sentence_bert_config.json", "max_seq_length", -1),
        ("sentence_bert_config.json", "transformer_task", "fill-mask"),
        ("sentence_bert_config.json", "query_length", 32),
        ("sentence_bert_config.json", "tokenizer_args", {"do_basic_tokenize": False}),
        ("config_sentence_transformers.json", "truncate_dim", 8),
        ("config_sentence_transformers.json", "model_type", "SparseEncoder"),
        ("config_sentence_transformers.json", "prompts", ["query"]),
        ("config_sentence_transformers.json", "prompts", {"query": 3}),
        ("config_sentence_transformers.json", "default_prompt_name", "missing"),
        ("config_sentence_transformers.json", "similarity_fn_name", "maxsim"),
        ("config_sentence_transformers.json", "new_setting", 1),
        ("2_Normalize/config.json", "module_output_name", "token_embeddings"),
    ],
)
def test_settings_of_sentence_transformers_that_can_not_be_followed(
    tmp_path: Path, file: str, key: str, value: Any
) -> None:
    """EMB-03: refused by name, never taken for something near."""
    path = save_tiny(tmp_path / "b", embedding=EMBEDDING)
    (path / "anaume.json").unlink()
    read_bundle(path)
    edit_json(path / file, **{key: value})
    assert refusal(path)


@pytest.mark.parametrize("shape", [(), (0,), (33,), (33, 16, 1), (16, 33)])
def test_wrong_shapes_are_named(tmp_path: Path, shape: tuple[int, ...]) -> None:
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    name = "embeddings.word_embeddings.weight"
    put_tensors(path, {**tensors, name: torch.zeros(shape)})
    assert f"{name} is {shape}, config.json says ({tensors[name].shape[0]}, 16)" in refusal(path)


def test_a_config_that_asks_for_more_memory_than_there_is(tmp_path: Path) -> None:
    """Shapes are compared before anything is allocated."""
    path = foreign(tmp_path / "b")
    edit_json(path / "config.json", hidden_size=2**20, intermediate_size=2**30, vocab_size=2**31)
    assert "wrong shapes" in refusal(path)
    for size in (2**62, 10**30):
        edit_json(path / "config.json", vocab_size=size)
        assert "beyond any machine" in refusal(path)


def test_a_config_with_a_million_layers(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b")
    edit_json(path / "config.json", num_hidden_layers=1_000_000_000)
    assert "config.json says 1,000,000,000 layers" in refusal(path)


@pytest.mark.parametrize("name", ["a\nb", "\x1b[2J", "\u202e"])
def test_names_can_not_break_out_of_the_line(tmp_path: Path, name: str) -> None:
    path = foreign(tmp_path / "b")
    put_tensors(path, {**tensors_of(path), name: torch.zeros(1)})
    line = refusal(path)
    assert name not in line
    assert line.isprintable()


@pytest.mark.parametrize("name", ["labels.pkl", "training_args.bin", "optimizer.pt", "scheduler.pt", "vocab.npy"])
def test_files_nobody_asked_for_are_never_opened(tmp_path: Path, name: str) -> None:
    """IMP-07: pickled label maps and optimizer states lie unread."""
    import pickle

    path = foreign(tmp_path / "b")
    (path / name).write_bytes(pickle.dumps({"a": 1}))
    (path / name).chmod(0)
    assert read_bundle(path)


def test_an_empty_directory_and_a_missing_one(tmp_path: Path) -> None:
    assert "there is: nothing" in refusal(tmp_path)
    assert "there is no such directory" in refusal(tmp_path / "x")


def test_a_directory_of_something_else_says_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "bert_model.ckpt.index").touch()
    (tmp_path / "bert_config.json").touch()
    line = refusal(tmp_path)
    assert "bert_config.json, bert_model.ckpt.index" in line
