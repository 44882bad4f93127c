"""anaume.json: what belongs together is proved to, at every load."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.bundle.format import FORMAT_VERSION, check_files, read_manifest
from anaume.bundle.parts import BundleParts
from anaume.bundle.read import read_tokenizer
from anaume.bundle.record import TrainingRecord, TrainingStage
from anaume.bundle.write import write_bundle
from anaume.config import HEAD_LAYERS, EmbeddingConfig, HeadConfig
from anaume.engines import Batch, TorchEngine
from anaume.errors import AnaumeWarning, BundleError
from anaume.tokenization import Tokenizer, read_vocab, write_vocab
from tiny_bundles import (
    VOCAB,
    edit_json,
    put_tensors,
    read_bundle,
    refusal,
    same_parts,
    save_tiny,
    tensors_of,
    tiny_parts,
)
from tiny_models import difference, pad_rows

HEADS: dict[str, dict[str, HeadConfig]] = {
    "none": {},
    "pretraining": {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")},
    "named": {"mood": HeadConfig(kind="classification", labels=("良い", "bad"), dropout=0.3)},
    "apart": {"x": HeadConfig(kind="regression", pooling="mean", head_layers=3), "y": HeadConfig(kind="span")},
    "two of a kind": {"x": HeadConfig(kind="span"), "y": HeadConfig(kind="span")},
}


@pytest.mark.filterwarnings("ignore::anaume.errors.AnaumeWarning")
@pytest.mark.parametrize("pooler", [None, True])
@pytest.mark.parametrize("heads", HEADS)
def test_a_bundle_comes_back_bit_for_bit(tmp_path: Path, heads: str, pooler: bool | None) -> None:
    embedding = EmbeddingConfig(
        pooling="max", normalize=True, max_length=17, prompts={"query": "検索: "}, similarity="dot"
    )
    parts = tiny_parts(HEADS[heads], pooler=pooler, embedding=embedding)
    write_bundle(parts, tmp_path / "b")
    back = read_bundle(tmp_path / "b")
    assert same_parts(back, parts)
    assert back.notes == ()
    assert back.fingerprints is not None
    assert back.fingerprints.tokenizer == parts.tokenizer.fingerprint
    check_files(tmp_path / "b", read_manifest(tmp_path / "b"), weights=True)
    # Saving again writes the same bytes.
    first = {p.relative_to(tmp_path / "b"): p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()}
    write_bundle(back, tmp_path / "b")
    assert first == {p.relative_to(tmp_path / "b"): p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    "rules",
    [{}, {"lower_case": False}, {"strip_accents": False, "split_cjk": False}, {"cjk_ranges": "huggingface"},
     {"protected": ("my", "銀")}, {"max_word_characters": 7}, {"nfkc": True}, {"subwords": "character"},
     {"words": "mecab"}, {"words": "mecab", "subwords": "character", "lower_case": True}],
    ids=str,
)  # fmt: skip
def test_every_rule_of_the_tokenizer_travels(tmp_path: Path, rules: dict[str, Any]) -> None:
    if rules.get("words") == "mecab":
        pytest.importorskip("fugashi")
    parts = tiny_parts(rules=rules)
    write_bundle(parts, tmp_path / "b")
    assert read_bundle(tmp_path / "b").tokenizer.rules == parts.tokenizer.rules


MANIFEST = ["anaume_version", "fingerprints", "files", "tokenizer", "encoder", "heads", "embedding", "training"]


def swap(path: Path, one: int, other: int) -> None:
    vocab = read_vocab(path / "vocab.txt")
    vocab[one], vocab[other] = vocab[other], vocab[one]
    write_vocab(vocab, path / "vocab.txt")


def test_two_lines_of_the_vocabulary_swapped_names_the_first(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    swap(path, 9, 10)
    assert "first at id 9: 'dog' and 'cat'" in refusal(path)


def test_the_vocabulary_inside_tokenizer_json_edited_names_the_first(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    content = json.loads((path / "tokenizer.json").read_text("utf-8"))
    ids = content["model"]["vocab"]
    ids["dog"], ids["cat"] = ids["cat"], ids["dog"]
    (path / "tokenizer.json").write_text(json.dumps(content), "utf-8")
    assert "first at id 9: 'cat' and 'dog'" in refusal(path)


@pytest.mark.parametrize("edit", ["swap", "replace", "longer"])
def test_a_whole_other_tokenizer_of_the_same_size_names_the_first(tmp_path: Path, edit: str) -> None:
    """Both files exchanged, as when a tokenizer is copied over: only what the bundle keeps itself can tell."""
    path = save_tiny(tmp_path / "b")
    vocab = list(VOCAB)
    if edit == "swap":
        vocab[9], vocab[10] = vocab[10], vocab[9]
    elif edit == "replace":
        vocab[12] = "castle"
    else:
        vocab.append("castle")
    Tokenizer(vocab).save(path, max_length=40)
    told = {"swap": "2 entries differ, first ID 9, now 'cat'", "replace": "first ID 12, now 'castle'"}
    assert told.get(edit, f"{len(VOCAB) + 1} entries, {len(VOCAB)} were saved") in refusal(path)


def test_other_rules_for_the_same_words_are_refused_by_name(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    tiny_parts(rules={"lower_case": False, "strip_accents": True}).tokenizer.save(path, max_length=40)
    assert "lower_case is False, True was saved" in refusal(path)


def test_a_mecab_vocabulary_edited_names_the_first(tmp_path: Path) -> None:
    pytest.importorskip("fugashi")
    path = save_tiny(tmp_path / "b", rules={"words": "mecab"})
    swap(path, 26, 27)
    assert "2 entries differ, first ID 26, now '行'" in refusal(path)


def test_a_newer_format_is_refused_with_both_numbers(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    edit_json(path / "anaume.json", format_version=FORMAT_VERSION + 1, anaume_version="9.9")
    assert f"format version {FORMAT_VERSION + 1}, written by anaume 9.9" in refusal(path)
    assert f"up to {FORMAT_VERSION}" in refusal(path)


@pytest.mark.parametrize("version", [0, -1, "1", 1.0, True, None])
def test_a_version_that_is_no_number_is_refused(tmp_path: Path, version: Any) -> None:
    path = save_tiny(tmp_path / "b")
    edit_json(path / "anaume.json", format_version=version)
    assert "format_version must be a whole number" in refusal(path)


@pytest.mark.parametrize("key", MANIFEST)
@pytest.mark.parametrize("value", [None, 3, [], "x"])
def test_a_malformed_manifest_is_one_line(tmp_path: Path, key: str, value: Any) -> None:
    if key == "anaume_version" and value is not None:
        pytest.skip("any text is a version")
    path = save_tiny(tmp_path / "b")
    edit_json(path / "anaume.json", **{key: value})
    if (key, value) in (("heads", []), ("files", []), ("training", [])):
        return  # read or refused: an empty list is as good as an empty object there
    assert "anaume.json" in refusal(path)


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "special_tokens_map.json", "modules.json",
                                  "sentence_bert_config.json", "1_Pooling/config.json", "vocab.txt", "tokenizer.json",
                                  "config_sentence_transformers.json", "model.safetensors"])  # fmt: skip
@pytest.mark.parametrize("damage", ["removed", "edited", "truncated"])
def test_every_file_counts(tmp_path: Path, name: str, damage: str) -> None:
    path = save_tiny(tmp_path / "b", embedding=EmbeddingConfig(pooling="mean", max_length=40))
    file = path / name
    if damage == "removed":
        file.unlink()
    elif damage == "truncated":
        file.write_bytes(file.read_bytes()[:-3])
    else:
        file.write_bytes(file.read_bytes() + b" ")
    assert refusal(path)


def test_the_card_is_the_users_to_edit(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    (path / "README.md").unlink()
    assert read_bundle(path).card == ""


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"hidden_act": "relu"}, "activation"),
        ({"num_attention_heads": 4}, "num_attention_heads"),
        ({"layer_norm_eps": 1e-5}, "layer_norm_eps"),
    ],
)
def test_a_setting_edited_after_saving_is_named(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    """Even with the file's hash repaired."""
    path = save_tiny(tmp_path / "b")
    edit_json(path / "config.json", **change)
    assert "config.json was changed after the bundle was saved" in refusal(path)
    files = json.loads((path / "anaume.json").read_text("utf-8"))["files"]
    from anaume.bundle.files import sha256_of

    files["config.json"]["sha256"] = sha256_of(path / "config.json")
    edit_json(path / "anaume.json", files=files)
    assert told in refusal(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [("normalize", True), ("normalize", None), ("pooling", "max"), ("max_length", 12), ("prompts", {"query": "a "})],
)
def test_an_embedding_edited_after_saving_is_refused(tmp_path: Path, key: str, value: Any) -> None:
    """1_Pooling/config.json, which other programs read, would say something else; a key left out is an edit too."""
    path = save_tiny(tmp_path / "b", embedding=EmbeddingConfig(pooling="mean", normalize=value is None, max_length=40))
    embedding = json.loads((path / "anaume.json").read_text("utf-8"))["embedding"]
    if value is None:
        del embedding[key]
    else:
        embedding[key] = value
    edit_json(path / "anaume.json", embedding=embedding)
    assert "its embedding (pooling, normalisation, max_length, prompts) or its fingerprints were edited" in refusal(
        path
    )


@pytest.mark.parametrize("entry", [None, 3, "x", [], {}, {"bytes": "1", "sha256": "x"}, {"bytes": 1, "sha256": None}])
@pytest.mark.parametrize("name", ["model.safetensors", "vocab.txt"])
def test_a_malformed_entry_of_the_files_is_one_line(tmp_path: Path, name: str, entry: Any) -> None:
    path = save_tiny(tmp_path / "b")
    files = json.loads((path / "anaume.json").read_text("utf-8"))["files"]
    edit_json(path / "anaume.json", files={**files, name: entry})
    assert "anaume.json" in refusal(path)


def test_other_weights_of_the_same_size_are_found_by_verify(tmp_path: Path) -> None:
    """The load compares sizes; `verify` compares contents."""
    path = save_tiny(tmp_path / "b")
    tensors = tensors_of(path)
    put_tensors(path, {name: tensor + 1 for name, tensor in tensors.items()})
    read_bundle(path)
    with pytest.raises(BundleError, match=r"model\.safetensors was changed after"):
        check_files(path, read_manifest(path), weights=True)


def test_files_outside_the_bundle_are_refused(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    (tmp_path / "x").write_text("x")
    files = json.loads((path / "anaume.json").read_text("utf-8"))["files"]
    edit_json(path / "anaume.json", files={**files, "../x": {"bytes": 1, "sha256": "0"}})
    assert "'../x' is not a file inside the directory" in refusal(path)


def test_every_stored_name_is_relative_with_slashes_and_legal_everywhere(tmp_path: Path) -> None:
    """IMP-11: the bundle can move to another folder or system."""
    path = save_tiny(
        tmp_path / "モデル v1 (final)", embedding=EmbeddingConfig(pooling="mean", normalize=True, max_length=9)
    )
    for file in path.rglob("*"):
        name = file.relative_to(path).as_posix()
        assert not set(name) & set('<>:"\\|?*')
        assert not name.endswith((".", " "))
    for name in read_manifest(path).files:
        assert "\\" not in name
        assert (path / name).is_file()
    text = (path / "anaume.json").read_text("utf-8")
    assert str(tmp_path) not in text
    moved = tmp_path / "elsewhere"
    shutil.move(path, moved)
    assert read_bundle(moved).embedding.max_length == 9


def test_the_training_record_travels(tmp_path: Path) -> None:
    record = TrainingRecord.foreign("some-base").then(
        TrainingStage(
            objectives=("mlm", "nsp"),
            data=({"name": "corpus.txt", "sha256": "ab" * 32, "rows": 10}, {"name": "\udc93.txt"}),
            settings={"steps": 5, "rate": 1e-4},
            scores={"loss": [2.5, 0.1]},
            versions={"torch": "2.13"},
        )
    )
    parts = tiny_parts()
    parts = BundleParts(tokenizer=parts.tokenizer, model=parts.model, embedding=parts.embedding, record=record)
    write_bundle(parts, tmp_path / "b")
    back = read_bundle(tmp_path / "b").record
    assert back == record
    assert back.objectives == ("unknown", "mlm", "nsp")
    assert read_bundle(save_tiny(tmp_path / "fresh")).record.objectives == ()
    card = (tmp_path / "b" / "README.md").read_text("utf-8")
    assert "1. objectives unknown, from some-base" in card
    assert "2. mlm, nsp" in card
    assert "ab" * 32 in card


@pytest.mark.parametrize(
    "training",
    [{"stages": 3}, {"stages": [3]}, {"stages": [{}]}, {"stages": [{"objectives": [], "sorces": {}}]}],
    ids=str,
)
def test_a_malformed_record_is_refused(tmp_path: Path, training: dict[str, Any]) -> None:
    path = save_tiny(tmp_path / "b")
    edit_json(path / "anaume.json", training=training)
    assert "training" in refusal(path)


def test_the_tokenizer_alone_is_checked_like_the_whole(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b", embedding=EmbeddingConfig(pooling="mean", max_length=9))
    assert read_tokenizer(path).fingerprint == read_bundle(path).tokenizer.fingerprint
    vocab = [*VOCAB[:-1], "castle"]
    Tokenizer(vocab).save(path, max_length=9)
    with pytest.raises(BundleError, match=f"first ID {len(VOCAB) - 1}, now 'castle'"):
        read_tokenizer(path)
    (path / "anaume.json").unlink()
    edit_json(path / "sentence_bert_config.json", do_lower_case=True)
    assert read_tokenizer(path).vocab == vocab
    (path / "modules.json").unlink()
    assert read_tokenizer(path).vocab == vocab


def test_heads_that_are_apart_are_checked_like_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with pytest.warns(AnaumeWarning):
        write_bundle(tiny_parts(HEADS["apart"]), path)
    from safetensors.torch import load_file, save_file

    tensors = load_file(path / "anaume_heads.safetensors")
    bad = {name: tensor.clone() for name, tensor in tensors.items()}
    bad["heads.y.dense.bias"][0] = float("nan")
    save_file(bad, path / "anaume_heads.safetensors")
    size = os.path.getsize(path / "anaume_heads.safetensors")
    files = json.loads((path / "anaume.json").read_text("utf-8"))["files"]
    files["anaume_heads.safetensors"]["bytes"] = size
    edit_json(path / "anaume.json", files=files)
    assert "heads.y.dense.bias" in refusal(path)
    save_file({**tensors, "heads.z.dense.bias": torch.zeros(size)}, path / "anaume_heads.safetensors")
    assert "anaume_heads.safetensors" in refusal(path)


@pytest.mark.parametrize("layers", HEAD_LAYERS)
def test_heads_over_any_layers_and_taggers_travel(tmp_path: Path, layers: Any) -> None:
    heads = {
        "topic": HeadConfig(kind="classification", labels=("a", "b"), pooling="mean", layers=layers),
        "tags": HeadConfig(kind="token-classification", labels=("a", "b"), layers=layers, recurrent_layers=2),
    }
    parts = tiny_parts(heads, num_hidden_layers=4)
    with pytest.warns(AnaumeWarning, match="topic"):
        write_bundle(parts, tmp_path / "b")
    back = read_bundle(tmp_path / "b")
    assert same_parts(back, parts)
    token_ids, mask = pad_rows([[2, 7, 8, 9, 3], [2, 6, 3]])
    for name in heads:
        engine = TorchEngine(back.model, back.embedding, device="cpu")
        found = engine.head_logits(Batch(token_ids.numpy(), mask.numpy()), name)
        output = parts.model(token_ids, mask, keep_hidden_states=True)
        wanted = parts.model.head_logits(name, parts.model.read_by(name, output), mask)
        assert difference(torch.from_numpy(found), wanted) <= 1e-5
        rough = TorchEngine(back.model, back.embedding, precision="bfloat16", device="cpu")
        assert np.abs(rough.head_logits(Batch(token_ids.numpy(), mask.numpy()), name) - found).max() < 0.1


def test_parts_that_do_not_belong_together_are_not_saved(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=f"{len(VOCAB)} entries and the embedding table 20 rows"):
        save_tiny(tmp_path / "b", vocab_size=20)
    with pytest.raises(BundleError, match="max_length is 41, and the position table has 40"):
        save_tiny(tmp_path / "b", embedding=EmbeddingConfig(max_length=41))
    assert not (tmp_path / "b").exists()


def test_weights_that_no_load_would_take_are_not_saved(tmp_path: Path) -> None:
    """The bundle that is there stays: a training that diverged must not replace it."""
    path = save_tiny(tmp_path / "b")
    before = tensors_of(path)
    parts = tiny_parts()
    with torch.no_grad():
        parts.model.encoder.layers[0].attention.qkv.weight[0, 0] = float("inf")
    with pytest.raises(BundleError, match=r"nothing was saved: these weights hold NaN or infinite values, .*layer\.0"):
        write_bundle(parts, path)
    after = tensors_of(path)
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
