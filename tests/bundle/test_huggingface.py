"""config.json: every key is used, known to be harmless, or refused by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.bundle.huggingface import ARCHITECTURES, parse_config, published_class, write_config
from anaume.config import EncoderConfig, HeadConfig
from anaume.errors import BundleError
from tiny_bundles import VOCAB, edit_json, foreign, put_tensors, read_bundle, refusal, tensors_of
from tiny_models import every_head, tiny_config

PLAIN = {
    "model_type": "bert",
    "architectures": ["BertModel"],
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
LABELS = ("a", "b", "c")


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "relu"])
@pytest.mark.parametrize("causal", [False, True])
def test_settings_come_back_from_the_file(activation: Any, causal: bool) -> None:
    encoder = tiny_config(activation=activation, causal=causal, layer_norm_eps=1e-7, segment_vocab_size=3)
    config = parse_config(write_config(encoder, {}, "BertModel", 0), "config.json")
    assert config.encoder == encoder
    assert config.notes == ()


@pytest.mark.parametrize("name", every_head())
def test_heads_come_back_from_the_file(tmp_path: Path, name: str) -> None:
    head = every_head()[name]
    parts = read_bundle(foreign(tmp_path / "b", {"mine": head}))
    assert parts.model.head_configs == {head.kind: head}


def test_what_the_file_leaves_out_is_the_published_default() -> None:
    config = parse_config(PLAIN, "config.json")
    base = EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=2, num_attention_heads=2)
    assert config.encoder == base


@pytest.mark.parametrize("size", [key for key in PLAIN if key not in ("model_type", "architectures")])
def test_a_missing_size_is_not_guessed(size: str) -> None:
    for config in ({k: v for k, v in PLAIN.items() if k != size}, {**PLAIN, size: None}):
        with pytest.raises(BundleError, match=f"lacks {size}"):
            parse_config(config, "config.json")


@pytest.mark.parametrize(
    ("model_type", "architecture"),
    [
        ("roberta", "RobertaModel"),
        ("xlm-roberta", "XLMRobertaForMaskedLM"),
        ("modernbert", "ModernBertModel"),
        ("distilbert", "DistilBertForMaskedLM"),
        ("deberta-v2", "DebertaV2Model"),
        ("electra", "ElectraForPreTraining"),
        ("albert", "AlbertModel"),
        ("mpnet", "MPNetModel"),
        ("nomic_bert", "NomicBertModel"),
        ("bert", "JinaBertForMaskedLM"),
        ("bert", "RobertaForMaskedLM"),
        (None, "XLNetLMHeadModel"),
        ("bert", "BertGenerationEncoder"),
        ("llama", "LlamaForCausalLM"),
    ],
)
def test_another_architecture_is_refused_by_its_name(tmp_path: Path, model_type: str | None, architecture: str) -> None:
    path = foreign(tmp_path / "b")
    edit_json(path / "config.json", model_type=model_type, architectures=[architecture])
    line = refusal(path)
    assert architecture in line
    assert "another architecture" in line
    if model_type not in (None, "bert"):
        assert model_type in line


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("position_embedding_type", "relative_key_query"),
        ("position_embedding_type", "rotary"),
        ("add_cross_attention", True),
        ("is_encoder_decoder", True),
        ("pruned_heads", {"1": [0]}),
        ("embedding_size", 8),
        ("hidden_act", "silu"),
        ("hidden_act", ["gelu"]),
        ("auto_map", {"AutoModel": "modeling.MyBert"}),
        ("rope_theta", 10000.0),
        ("quantization_config", {"bits": 4}),
        ("type_vocab_siez", 2),
        ("use_flash_attn", True),
        ("hidden_size", "16"),
        ("hidden_size", -4),
        ("num_attention_heads", 3),
        ("hidden_dropout_prob", 1.5),
        ("layer_norm_eps", 0),
        ("layer_norm_eps", "1e-12"),
        ("is_decoder", "yes"),
        ("architectures", "BertModel"),
        ("architectures", ["BertModel", "BertForMaskedLM"]),
        ("id2label", {"1": "a"}),
        ("id2label", ["a"]),
    ],
)
def test_what_may_change_the_numbers_is_refused_by_name(key: str, value: Any) -> None:
    with pytest.raises(BundleError, match=rf"config\.json: .*{key}"):
        parse_config({**PLAIN, key: value}, "config.json")


def test_harmless_keys_are_silent_and_unknown_ones_that_are_off_are_told() -> None:
    noise = {"use_cache": True, "torch_dtype": "float16", "directionality": "bidi", "pooler_fc_size": 768, "top_k": 50}
    assert parse_config({**PLAIN, **noise}, "config.json").notes == ()
    notes = parse_config({**PLAIN, "use_new_thing": False, "other": None}, "config.json").notes
    assert len(notes) == 2
    assert "use_new_thing" in notes[0]


@pytest.mark.parametrize(
    ("heads", "causal", "architecture"),
    [
        ([], False, "BertModel"),
        (["mlm"], False, "BertForMaskedLM"),
        (["mlm"], True, "BertLMHeadModel"),
        (["mlm", "nsp"], False, "BertForPreTraining"),
        (["nsp"], False, "BertForNextSentencePrediction"),
        (["classification"], False, "BertForSequenceClassification"),
        (["multi-label"], False, "BertForSequenceClassification"),
        (["regression"], False, "BertForSequenceClassification"),
        (["token-classification"], False, "BertForTokenClassification"),
        (["span"], False, "BertForQuestionAnswering"),
        (["multiple-choice"], False, "BertForMultipleChoice"),
        (["mlm", "classification"], False, "BertModel"),
        (["mlm", "nsp", "span"], False, "BertModel"),
        (["span", "regression"], False, "BertModel"),
    ],
)
def test_the_class_is_the_one_whose_tensors_the_file_holds(heads: list[str], causal: bool, architecture: str) -> None:
    chosen = {f"h{number}": every_head()[kind] for number, kind in enumerate(heads)}
    assert published_class(tiny_config(causal=causal), chosen) == architecture
    assert architecture in ARCHITECTURES


@pytest.mark.parametrize(
    "head",
    [
        HeadConfig(kind="classification", labels=LABELS, pooling="mean"),
        HeadConfig(kind="classification", labels=LABELS, head_layers=2),
        HeadConfig(kind="regression", pooling="max"),
        HeadConfig(kind="classification", labels=("only",)),
        HeadConfig(kind="classification", labels=LABELS, layers="second-to-last"),
        HeadConfig(kind="token-classification", labels=LABELS, layers="weighted-all"),
        HeadConfig(kind="token-classification", labels=LABELS, recurrent_layers=2),
    ],
    ids=lambda head: f"{head.pooling}-{head.head_layers}-{len(head.labels)}-{head.layers}-{head.recurrent_layers}",
)
def test_a_head_no_class_has_stays_apart(head: HeadConfig) -> None:
    assert published_class(tiny_config(), {"h": head}) == "BertModel"


def classifier(path: Path, outputs: int, **config: Any) -> Path:
    foreign(path, {"c": HeadConfig(kind="classification", labels=tuple(f"l{i}" for i in range(outputs)))})
    edit_json(path / "config.json", **{"problem_type": None, "id2label": None, "label2id": None, **config})
    return path


def test_labels_left_out_are_numbered(tmp_path: Path) -> None:
    head = read_bundle(classifier(tmp_path / "b", 2)).model.head_configs["classification"]
    assert head.labels == ("LABEL_0", "LABEL_1")


def test_one_output_without_a_problem_type_is_a_regression(tmp_path: Path) -> None:
    """As transformers takes it."""
    path = foreign(tmp_path / "b", {"r": HeadConfig(kind="regression")})
    edit_json(path / "config.json", problem_type=None, id2label=None, label2id=None, num_labels=1)
    assert read_bundle(path).model.head_configs == {"regression": HeadConfig(kind="regression")}


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "id2label names 2 labels, the classifier has 3 outputs"),
        ({"num_labels": 2}, "num_labels is 2, the classifier has 3 outputs"),
        ({"problem_type": "regression"}, "regression to 3 numbers"),
        ({"problem_type": "ranking"}, "problem_type is 'ranking'"),
        ({"id2label": {"0": "a", "1": "a", "2": "b"}}, "label names must differ"),
        ({"architectures": ["BertModel"]}, "hold a classifier, but architectures names BertModel"),
        ({"architectures": None}, "hold a classifier, but architectures names no class"),
    ],
)
def test_labels_that_do_not_fit_are_an_error(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    assert message in refusal(classifier(tmp_path / "b", 3, **config))


def test_label2id_that_contradicts_is_told(tmp_path: Path) -> None:
    names = {"0": "a", "1": "b"}
    parts = read_bundle(classifier(tmp_path / "b", 2, id2label=names, label2id={"a": 1, "b": 0}))
    assert parts.model.head_configs["classification"].labels == ("a", "b")
    assert any("label2id" in note for note in parts.notes)


@pytest.mark.parametrize("gone", ["bert.pooler.", "classifier."])
def test_what_a_class_would_have_but_the_file_has_not_is_absent(tmp_path: Path, gone: str) -> None:
    """EMB-06, IMP-02: missing heads are listed and never drawn; a head without its pooler is refused."""
    path = classifier(tmp_path / "b", 2)
    put_tensors(path, {name: t for name, t in tensors_of(path).items() if not name.startswith(gone)})
    if gone == "bert.pooler.":
        assert "reads the pooler, which is not in the weights" in refusal(path)
        return
    parts = read_bundle(path)
    assert parts.model.head_configs == {}
    assert parts.report is not None
    assert parts.report.absent == ("the classification head",)
    assert any("not made up: the classification head" in note for note in parts.notes)


def test_an_absent_pooler_stays_absent(tmp_path: Path) -> None:
    """EMB-06: equal on both loads, whatever the generator says; and nothing was drawn from it."""
    path = foreign(tmp_path / "b", {"mlm": HeadConfig(kind="mlm")})
    torch.manual_seed(1)
    one = read_bundle(path)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    two = read_bundle(path)
    assert torch.equal(torch.get_rng_state(), state)
    assert one.model.pooler is None
    a, b = one.model.state_dict(), two.model.state_dict()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_half_a_head_is_an_error(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b", {"mlm": HeadConfig(kind="mlm")})
    tensors = tensors_of(path)
    del tensors["cls.predictions.transform.dense.weight"]
    put_tensors(path, tensors)
    assert "Missing (1): cls.predictions.transform.dense.weight" in refusal(path)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hidden_size", 32),
        ("num_hidden_layers", 3),
        ("num_hidden_layers", 1),
        ("intermediate_size", 8),
        ("max_position_embeddings", 41),
        ("type_vocab_size", 1),
    ],
)
def test_sizes_that_do_not_fit_the_weights_are_an_error(tmp_path: Path, key: str, value: int) -> None:
    path = foreign(tmp_path / "b")
    edit_json(path / "config.json", **{key: value})
    line = refusal(path)
    assert ("wrong shapes" in line) or ("do not fit" in line)


def test_one_of_the_three_projections_of_another_shape_is_named(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    name = "encoder.layer.1.attention.self.key.weight"
    put_tensors(path, {**tensors, name: tensors[name][:8]})
    assert f"{name} is (8, 16), config.json says (16, 16)" in refusal(path)


def test_a_table_padded_beyond_the_vocabulary_is_allowed_and_told(tmp_path: Path) -> None:
    parts = read_bundle(foreign(tmp_path / "b", vocab_size=len(VOCAB) + 5))
    assert any(f"{len(VOCAB) + 5} rows for {len(VOCAB)} vocabulary entries" in note for note in parts.notes)


def test_a_table_with_fewer_rows_than_the_vocabulary_is_refused(tmp_path: Path) -> None:
    path = foreign(tmp_path / "b")
    tensors = tensors_of(path)
    name = "embeddings.word_embeddings.weight"
    put_tensors(path, {**tensors, name: tensors[name][:-1]})
    edit_json(path / "config.json", vocab_size=len(VOCAB) - 1)
    assert f"{len(VOCAB)} entries and the embedding table {len(VOCAB) - 1} rows" in refusal(path)
