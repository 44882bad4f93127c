"""The table of foreign names, and every spelling in which public files carry it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from anaume.bundle.names import canonical_names, encoder_entries, head_entries, join, pooler_entries, split
from anaume.config import HeadConfig
from anaume.errors import BundleError
from tiny_bundles import foreign, hidden, put_tensors, read_bundle, refusal, same_parts, tensors_of
from tiny_models import every_head, tiny_bert

PRETRAINING = {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")}
ENCODER_NAMES = [name for entry in encoder_entries(2) for name in entry.theirs]


def test_the_table_is_reversible_and_leaves_nothing_over() -> None:
    for name, head in every_head().items():
        model = tiny_bert({name: head}, pooler=True)
        state = model.state_dict()
        entries = [*encoder_entries(2), *pooler_entries(), *head_entries(head.kind, name)]
        assert sorted(entry.ours for entry in entries) == sorted(state)
        theirs = split(state, entries)
        back = join(theirs, entries)
        assert all(torch.equal(back[key], state[key]) for key in state)


def old_spelling(tensors: dict[str, Tensor], which: str) -> dict[str, Tensor]:
    def rename(name: str) -> str:
        if "LayerNorm" not in name or which == "new":
            return name
        if which == "mixed" and "layer.0" in name:
            return name
        return name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")

    return {rename(name): tensor for name, tensor in tensors.items()}


@pytest.mark.parametrize("which", ["old", "mixed"])
def test_gamma_and_beta_are_weight_and_bias(tmp_path: Path, which: str) -> None:
    """IMP-01: bitwise equal to the same weights in the new naming."""
    path = foreign(tmp_path / "b", PRETRAINING)
    new = read_bundle(path)
    put_tensors(path, old_spelling(tensors_of(path), which))
    assert same_parts(read_bundle(path), new)


def test_both_spellings_of_one_tensor_are_an_error(tmp_path: Path) -> None:
    """IMP-01: even when they are equal, nobody knows which was meant."""
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    tensors["embeddings.LayerNorm.gamma"] = tensors["embeddings.LayerNorm.weight"]
    put_tensors(path, tensors)
    line = refusal(path)
    assert "embeddings.LayerNorm.gamma" in line
    assert "embeddings.LayerNorm.weight" in line


@pytest.mark.parametrize(
    "name", ["beta_scale", "embeddings.LayerNorm.beta_scale", "encoder.gamma", "head.beta", "LayerNorm.gamma.x"]
)
def test_only_a_last_component_under_layer_norm_is_renamed(tmp_path: Path, name: str) -> None:
    """IMP-01: the opposite fault; such a tensor is unknown, and said to be, by its own name."""
    assert canonical_names([*ENCODER_NAMES, name])[name] == name
    path = foreign(tmp_path / "b")
    put_tensors(path, {**tensors_of(path), name: torch.ones(16)})
    assert f"Unknown (1): {name}" in refusal(path)


@pytest.mark.parametrize(
    "prefix", ["", "bert.", "module.", "module.bert.", "model.", "model.bert.", "module.model.bert."]
)
@pytest.mark.parametrize("position_ids", [False, True])
def test_prefixes_and_stored_constants(tmp_path: Path, prefix: str, position_ids: bool) -> None:
    """IMP-02: identical whatever wrapper the file was saved from; position_ids are left out by name, and said to be."""
    path = foreign(tmp_path / "b", PRETRAINING)
    plain = read_bundle(path)
    tensors = {}
    for name, tensor in tensors_of(path).items():
        wrapper = prefix.removesuffix("bert.")
        tensors[prefix + name.removeprefix("bert.") if name.startswith("bert.") else wrapper + name] = tensor
    if position_ids:
        tensors[f"{prefix}embeddings.position_ids"] = torch.arange(40)[None]
    put_tensors(path, tensors)
    parts = read_bundle(path)
    assert same_parts(parts, plain)
    assert parts.report is not None
    # 5 of the embeddings; query, key, value, three dense, two norms with weight and bias for each of 2 layers
    assert parts.report.lines()[0] == "37 of 37 encoder tensors loaded, stored as float32"
    assert [name for name, _ in parts.report.ignored] == [f"{prefix}embeddings.position_ids"] * position_ids


@pytest.mark.parametrize("prefix", ["foo.", "bert.foo.", "foo.bert.", "Bert."])
def test_a_wrong_prefix_is_never_a_random_model(tmp_path: Path, prefix: str) -> None:
    """IMP-02: both lists side by side."""
    path = foreign(tmp_path / "b")
    put_tensors(path, {prefix + name: tensor for name, tensor in tensors_of(path).items()})
    line = refusal(path)
    assert line.startswith("no encoder tensor matched")
    assert f"unknown are {prefix}" in line
    assert "missing are embeddings.word_embeddings.weight" in line


@pytest.mark.parametrize("name", ENCODER_NAMES)
def test_any_missing_encoder_tensor_is_an_error(tmp_path: Path, name: str) -> None:
    """IMP-02, IMP-04, and every tensor of the encoder: the load names it."""
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    tensors[name.replace("encoder.", "encoder.x.").replace("embeddings.", "embeddings.x.")] = tensors.pop(name)
    put_tensors(path, tensors)
    line = refusal(path)
    assert f"Missing (1): {name}" in line
    assert "Unknown (1): " in line
    assert ".x." in line


def test_two_prefixes_in_one_file_are_an_error() -> None:
    with pytest.raises(BundleError, match=r"two names, .*bert\.embeddings"):
        canonical_names([*ENCODER_NAMES, *(f"bert.{name}" for name in ENCODER_NAMES)])


def test_a_layer_more_than_the_settings_say_is_an_error(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    extra = {k.replace("layer.1", "layer.2"): v for k, v in tensors.items() if "layer.1" in k}
    put_tensors(path, tensors | extra)
    assert "Unknown (16): encoder.layer.2.attention" in refusal(path)


def test_another_vendors_name_is_mapped(tmp_path: Path) -> None:
    """IMP-04: dense_act, in the layers, the pooler and the MLM head."""
    path = foreign(tmp_path / "b", PRETRAINING)
    plain = read_bundle(path)
    renamed = ("intermediate.dense", "pooler.dense", "transform.dense")
    tensors = {}
    for name, tensor in tensors_of(path).items():
        module = name.rpartition(".")[0]
        tensors[name.replace("dense.", "dense_act.") if module.endswith(renamed) else name] = tensor
    assert sum("dense_act" in name for name in tensors) == 2 * 2 + 2 + 2
    put_tensors(path, tensors)
    assert same_parts(read_bundle(path), plain)


DECODER, TABLE = "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize("form", ["one name", "alias in metadata", "only the decoder", "both equal", "biases too"])
def test_tied_weights_in_every_form(tmp_path: Path, form: str) -> None:
    """IMP-05: all load, and are one tensor here."""
    path = foreign(tmp_path / "b", {"mlm": HeadConfig(kind="mlm")})
    plain = read_bundle(path)
    tensors = tensors_of(path)
    metadata = {"format": "pt"}
    if form == "alias in metadata":
        metadata[DECODER] = TABLE
    if form == "only the decoder":
        tensors[DECODER] = tensors.pop(TABLE)
    if form in ("both equal", "biases too"):
        tensors[DECODER] = tensors[TABLE]
    if form == "biases too":
        tensors["cls.predictions.decoder.bias"] = tensors["cls.predictions.bias"]
    put_tensors(path, tensors, metadata)
    parts = read_bundle(path)
    assert same_parts(parts, plain)
    assert torch.equal(hidden(parts), hidden(plain))
    assert not [name for name in parts.model.state_dict() if "decoder" in name]


@pytest.mark.parametrize("other", [DECODER, "cls.predictions.decoder.bias"])
def test_two_names_with_different_values_are_an_error(tmp_path: Path, other: str) -> None:
    """IMP-05: an untied decoder would silently be replaced by the table."""
    path = foreign(tmp_path / "b", {"mlm": HeadConfig(kind="mlm")})
    tensors = tensors_of(path)
    twin = TABLE if other == DECODER else "cls.predictions.bias"
    put_tensors(path, {**tensors, other: tensors[twin] + 1e-3})
    assert other in refusal(path)
    assert "different values" in refusal(path)


def test_an_untied_model_without_its_matrix_is_an_error(tmp_path: Path) -> None:
    from tiny_bundles import edit_json

    path = foreign(tmp_path / "b", {"mlm": HeadConfig(kind="mlm")})
    edit_json(path / "config.json", tie_word_embeddings=False)
    assert "tie_word_embeddings is false" in refusal(path)
