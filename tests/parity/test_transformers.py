"""Against transformers, random weights made on the spot: every head, both directions, every key consumed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from anaume.bundle import Bundle, extend_vocabulary
from anaume.bundle.parts import BundleParts
from anaume.config import EmbeddingConfig, HeadConfig
from anaume.errors import AnaumeWarning
from tiny_bundles import TEXTS, VOCAB, read_bundle, tensors_of, tiny_parts, tiny_tokenizer, write_bundle
from tiny_models import difference

transformers = pytest.importorskip("transformers")

LABELS = ("kyoto", "大阪", "tokyo")
IDS = torch.tensor([[2, 5, 9, 11, 15, 3, 8, 3, 0, 0], [2, 7, 1, 10, 12, 13, 14, 6, 9, 3]])
MASK = torch.tensor([[True] * 8 + [False] * 2, [True] * 10])
SEGMENTS = torch.tensor([[0] * 6 + [1] * 2 + [0] * 2, [0] * 10])

# class, extra config, our heads
CASES: list[tuple[str, dict[str, Any], dict[str, HeadConfig]]] = [
    ("BertModel", {}, {}),
    ("BertModel", {"is_decoder": True}, {}),
    ("BertForPreTraining", {}, {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")}),
    ("BertForMaskedLM", {}, {"mlm": HeadConfig(kind="mlm")}),
    ("BertForMaskedLM", {"hidden_act": "gelu_new"}, {"mlm": HeadConfig(kind="mlm")}),
    ("BertForMaskedLM", {"hidden_act": "relu"}, {"mlm": HeadConfig(kind="mlm")}),
    ("BertLMHeadModel", {"is_decoder": True}, {"mlm": HeadConfig(kind="mlm")}),
    ("BertForNextSentencePrediction", {}, {"nsp": HeadConfig(kind="nsp")}),
    (
        "BertForSequenceClassification",
        {"problem_type": "single_label_classification", "classifier_dropout": 0.2},
        {"classification": HeadConfig(kind="classification", labels=LABELS, dropout=0.2)},
    ),
    (
        "BertForSequenceClassification",
        {"problem_type": "multi_label_classification"},
        {"multi-label": HeadConfig(kind="multi-label", labels=LABELS)},
    ),
    (
        "BertForSequenceClassification",
        {"problem_type": "regression", "num_labels": 1},
        {"regression": HeadConfig(kind="regression")},
    ),
    (
        "BertForTokenClassification",
        {},
        {"token-classification": HeadConfig(kind="token-classification", labels=LABELS)},
    ),
    ("BertForQuestionAnswering", {}, {"span": HeadConfig(kind="span")}),
    ("BertForMultipleChoice", {}, {"multiple-choice": HeadConfig(kind="multiple-choice")}),
]
NAMES = [f"{name}-{'-'.join(map(str, extra.values())) or 'plain'}" for name, extra, _ in CASES]


def twin_config(extra: dict[str, Any], heads: dict[str, HeadConfig]) -> Any:
    labels = next((head.labels for head in heads.values() if head.labels), ())
    if labels:
        extra = {**extra, "id2label": dict(enumerate(labels)), "label2id": {name: i for i, name in enumerate(labels)}}
    return transformers.BertConfig(
        vocab_size=len(VOCAB),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=24,
        max_position_embeddings=40,
        initializer_range=0.3,
        **extra,
    )


def logits_there(twin: Any, heads: dict[str, HeadConfig], attention: str) -> dict[str, torch.Tensor]:
    twin.set_attn_implementation(attention)
    kinds = [head.kind for head in heads.values()]
    ids, mask, segments = IDS, MASK.long(), SEGMENTS
    if kinds == ["multiple-choice"]:
        ids, mask, segments = ids[None], mask[None], segments[None]
    with torch.no_grad():
        out = twin(input_ids=ids, attention_mask=mask, token_type_ids=segments, output_hidden_states=True)
    found = {"hidden": torch.stack(out.hidden_states)}
    if "mlm" in kinds and "nsp" in kinds:
        return found | {"mlm": out.prediction_logits, "nsp": out.seq_relationship_logits}
    if kinds == ["span"]:
        return found | {"span": torch.stack([out.start_logits, out.end_logits], dim=-1)}
    if kinds == ["multiple-choice"]:
        return found | {"multiple-choice": out.logits[0]}
    if kinds:
        return found | {kinds[0]: out.logits}
    return found | {"pooler": out.pooler_output}


def logits_here(parts: BundleParts, *, plain: bool) -> dict[str, torch.Tensor]:
    """`plain` takes the plain attention (it is the one that can keep its weights)."""
    with torch.no_grad():
        out = parts.model(IDS, MASK, SEGMENTS, keep_hidden_states=True, keep_attentions=plain)
        assert out.hidden_states is not None
        found = {"hidden": torch.stack(out.hidden_states)}
        for name, head in parts.model.head_configs.items():
            found[head.kind] = parts.model.head_logits(name, out.last_hidden_state, MASK)
        if not found.keys() - {"hidden"} and parts.model.pooler is not None:
            found["pooler"] = parts.model.pooler(out.last_hidden_state, MASK)
    return found


def assert_same(here: dict[str, torch.Tensor], there: dict[str, torch.Tensor]) -> None:
    assert here.keys() == there.keys()
    for name in here:
        mask = MASK
        if name == "hidden":
            assert difference(here[name][:, mask], there[name][:, mask]) <= 1e-5
        elif name in ("mlm", "token-classification", "span"):
            assert difference(here[name][mask], there[name][mask]) <= 1e-5, name
        else:
            assert difference(here[name], there[name]) <= 1e-5, name


@pytest.mark.parametrize(("architecture", "extra", "heads"), CASES, ids=NAMES)
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_their_checkpoint_gives_the_same_numbers_here(
    tmp_path: Path, architecture: str, extra: dict[str, Any], heads: dict[str, HeadConfig], attention: str
) -> None:
    torch.manual_seed(0)
    twin = getattr(transformers, architecture)(twin_config(extra, heads)).eval()
    for name, parameter in twin.named_parameters():
        if name.endswith("bias") or "LayerNorm" in name:
            parameter.data.add_(0.2 * torch.randn_like(parameter))
    twin.save_pretrained(tmp_path)
    tiny_tokenizer().save(tmp_path)
    parts = read_bundle(tmp_path)
    assert parts.model.head_configs == {
        name: HeadConfig(**{**head.to_dict(), "dropout": extra.get("classifier_dropout", 0.1)})
        for name, head in heads.items()
    }
    assert parts.model.config.causal is bool(extra.get("is_decoder"))
    assert parts.report is not None
    assert parts.report.absent == ()
    assert_same(logits_here(parts, plain=attention == "eager"), logits_there(twin, heads, attention))


@pytest.mark.parametrize(("architecture", "extra", "heads"), CASES, ids=NAMES)
def test_our_bundle_opens_there_with_the_same_numbers_and_no_key_left(
    tmp_path: Path, architecture: str, extra: dict[str, Any], heads: dict[str, HeadConfig]
) -> None:
    activation = {"gelu_new": "gelu_tanh", "relu": "relu"}.get(extra.get("hidden_act", ""), "gelu")
    parts = tiny_parts(
        {f"my_{number}": head for number, head in enumerate(heads.values())},
        pooler=True if architecture == "BertModel" else None,
        activation=activation,
        causal=bool(extra.get("is_decoder")),
    )
    write_bundle(parts, tmp_path / "b")
    twin, info = getattr(transformers, architecture).from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info.values()), info
    assert twin.config.architectures == [architecture]
    assert_same(logits_here(parts, plain=False), logits_there(twin.eval(), heads, "eager"))
    labels = next((head.labels for head in heads.values() if head.labels), ())
    if labels:
        assert twin.config.id2label == dict(enumerate(labels))
        assert twin.config.label2id == {name: number for number, name in enumerate(labels)}


@pytest.mark.parametrize(
    ("auto", "heads"),
    [
        ("AutoModel", {}),
        ("AutoModelForPreTraining", {"a": "mlm", "b": "nsp"}),
        ("AutoModelForMaskedLM", {"a": "mlm"}),
        ("AutoModelForNextSentencePrediction", {"a": "nsp"}),
        ("AutoModelForSequenceClassification", {"a": "classification"}),
        ("AutoModelForTokenClassification", {"a": "token-classification"}),
        ("AutoModelForQuestionAnswering", {"a": "span"}),
        ("AutoModelForMultipleChoice", {"a": "multiple-choice"}),
    ],
)
def test_the_auto_classes_open_it(tmp_path: Path, auto: str, heads: dict[str, Any]) -> None:
    named = {
        name: HeadConfig(kind=kind, labels=LABELS if "classification" in kind else ()) for name, kind in heads.items()
    }
    write_bundle(tiny_parts(named, pooler=True if not named else None), tmp_path / "b")
    model, info = getattr(transformers, auto).from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info.values()), info
    assert type(model).__name__.startswith("Bert")


def test_the_causal_auto_class_opens_it(tmp_path: Path) -> None:
    write_bundle(tiny_parts({"mlm": HeadConfig(kind="mlm")}, causal=True), tmp_path / "b")
    model, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert type(model).__name__ == "BertLMHeadModel"
    assert not any(info.values()), info


def test_tied_weights_are_one_tensor_on_both_sides(tmp_path: Path) -> None:
    """IMP-05: one copy in the file; tied after their load, after one step of training here, and after save and load."""
    parts = tiny_parts({"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")})
    write_bundle(parts, tmp_path / "b")
    assert not [name for name in tensors_of(tmp_path / "b") if "decoder" in name]
    twin = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "b")
    assert twin.cls.predictions.decoder.weight.data_ptr() == twin.bert.embeddings.word_embeddings.weight.data_ptr()

    here = read_bundle(tmp_path / "b")
    optimizer = torch.optim.SGD(here.model.parameters(), lr=0.1)
    here.model.train()
    out = here.model(IDS, MASK, SEGMENTS)
    here.model.head_logits("mlm", out.last_hidden_state, MASK).square().mean().backward()
    optimizer.step()
    here.model.eval()
    write_bundle(here, tmp_path / "b")
    twin = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "b").eval()
    heads = here.model.head_configs
    assert_same(logits_here(read_bundle(tmp_path / "b"), plain=False), logits_there(twin, heads, "sdpa"))


@pytest.mark.parametrize("rules", [{}, {"words": "mecab"}], ids=str)
def test_an_extended_bundle_opens_there_with_the_same_numbers_and_ids(tmp_path: Path, rules: dict[str, Any]) -> None:
    """Input table, output matrix and bias are of one size there too, still tied, and new words get the new IDs."""
    if rules:
        pytest.importorskip("fugashi")
    heads = {"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")}
    old = Bundle(tiny_parts(heads, rules=rules), device="cpu")
    new, _ = extend_vocabulary(old, ["my cats and zebra", "cats zebra 銀行員"], add=2)
    new.save(tmp_path / "b")
    twin, info = transformers.AutoModelForPreTraining.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info.values()), info
    assert twin.config.vocab_size == len(VOCAB) + 2
    assert twin.cls.predictions.decoder.weight.data_ptr() == twin.bert.embeddings.word_embeddings.weight.data_ptr()
    assert_same(logits_here(new.parts, plain=False), logits_there(twin.eval(), heads, "eager"))

    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    for text in [*TEXTS, "my Cats, zebra of cats", "catsing zebras"]:
        assert tokenizer(text)["input_ids"] == new.tokenizer.encode(text).token_ids
    ids = torch.tensor([new.tokenizer.encode("my cats zebra").token_ids])
    assert (ids >= len(VOCAB)).sum() == 2
    with torch.no_grad():
        here = new.model.head_logits("mlm", new.model(ids, None).last_hidden_state, None)
        assert difference(here, twin(ids).prediction_logits) <= 1e-5


def test_what_no_class_holds_is_said_and_the_encoder_still_opens(tmp_path: Path) -> None:
    heads = {
        "topic": HeadConfig(kind="classification", labels=LABELS, pooling="mean", head_layers=2),
        "tags": HeadConfig(kind="token-classification", labels=LABELS),
    }
    parts = tiny_parts(heads, pooler=True)
    with pytest.warns(AnaumeWarning, match=r"tags, topic; they are in anaume_heads.safetensors"):
        write_bundle(parts, tmp_path / "b")
    twin, info = transformers.AutoModel.from_pretrained(tmp_path / "b", output_loading_info=True)
    assert not any(info.values()), info
    assert twin.config.architectures == ["BertModel"]
    back = read_bundle(tmp_path / "b")
    assert back.model.head_configs == heads
    assert_same(logits_here(back, plain=False), logits_here(parts, plain=False))


@pytest.mark.parametrize(
    "rules",
    [
        {},
        {"lower_case": False},
        {"lower_case": True, "strip_accents": False, "split_cjk": False},
        {"words": "mecab"},
        {"words": "mecab", "subwords": "character"},
    ],
    ids=str,
)
def test_the_tokenizer_opens_there_with_the_same_ids(tmp_path: Path, rules: dict[str, Any]) -> None:
    if rules.get("words") == "mecab":
        pytest.importorskip("fugashi")
    parts = tiny_parts(rules=rules)
    write_bundle(parts, tmp_path / "b")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "b")
    for text in TEXTS:
        assert tokenizer(text)["input_ids"] == parts.tokenizer.encode(text).token_ids
        assert tokenizer(text, "a cat")["token_type_ids"] == parts.tokenizer.encode(text, "a cat").segment_ids
    assert tokenizer.model_max_length == 40


def test_a_bundle_without_a_pooler_says_what_transformers_will_do(tmp_path: Path) -> None:
    """EMB-06: the pooler is absent on both loads, never drawn; the encoder is equal."""
    write_bundle(tiny_parts(embedding=EmbeddingConfig(max_length=40)), tmp_path / "b")
    assert "no pooler" in (tmp_path / "b" / "README.md").read_text("utf-8")
    twin, info = transformers.AutoModel.from_pretrained(
        tmp_path / "b", add_pooling_layer=False, output_loading_info=True
    )
    assert not any(info.values()), info
    with torch.no_grad():
        there = twin.eval()(IDS, MASK.long(), SEGMENTS).last_hidden_state
        here = read_bundle(tmp_path / "b").model(IDS, MASK, SEGMENTS).last_hidden_state
    assert difference(here[MASK], there[MASK]) <= 1e-5
