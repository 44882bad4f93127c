import dataclasses
import json
import math
from typing import Any, get_args

import pytest

from anaume import config as config_module
from anaume.config import (
    ACTIVATIONS,
    HEAD_KINDS,
    HEAD_LAYERS,
    POOLING_METHODS,
    SIMILARITIES,
    SIZES,
    EmbeddingConfig,
    EncoderConfig,
    HeadConfig,
    require_positive,
)
from anaume.errors import SettingsError

POSITIVE_SIZES = [
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
    "segment_vocab_size",
]
MADE = [
    EncoderConfig(vocab_size=10, causal=True, activation="relu", hidden_size=24, num_attention_heads=3),
    HeadConfig(kind="classification", labels=("no", "yes"), head_layers=2, pooling="mean", dropout=0.3),
    EmbeddingConfig(pooling="cls", normalize=True, prompts={"query": "q: "}, default_prompt="query", similarity="dot"),
]


def test_defaults_are_bert_base() -> None:
    base = EncoderConfig(vocab_size=30522)
    assert base == EncoderConfig.named("base", vocab_size=30522)
    assert (base.hidden_size, base.num_hidden_layers, base.num_attention_heads) == (768, 12, 12)
    assert (base.intermediate_size, base.max_position_embeddings, base.segment_vocab_size) == (3072, 512, 2)
    assert (base.hidden_dropout, base.attention_dropout, base.layer_norm_eps) == (0.1, 0.1, 1e-12)
    assert (base.initializer_range, base.activation, base.causal) == (0.02, "gelu", False)


@pytest.mark.parametrize("size", SIZES)
def test_named_sizes(size: str) -> None:
    layers, width = SIZES[size]
    named = EncoderConfig.named(size, vocab_size=100, hidden_dropout=0.0)
    assert (named.num_hidden_layers, named.hidden_size, named.vocab_size, named.hidden_dropout) == (
        layers,
        width,
        100,
        0,
    )
    assert named.num_attention_heads == width // 64
    assert named.head_size == 64
    assert named.intermediate_size == 4 * width


def test_a_misspelt_size_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(ValueError, match=r"no size is called 'tinny' \(did you mean 'tiny'\?\); there are: tiny, mini"):
        EncoderConfig.named("tinny", vocab_size=10)


@pytest.mark.parametrize(("width", "heads"), [(8, 1), (64, 1), (100, 1), (128, 2), (384, 6)])
def test_heads_default_to_a_64th_of_the_width(width: int, heads: int) -> None:
    assert EncoderConfig(vocab_size=10, hidden_size=width).num_attention_heads == heads


@pytest.mark.parametrize("name", POSITIVE_SIZES)
@pytest.mark.parametrize("value", [-1, True, 1.5, "12", None])
def test_each_size_must_be_positive(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be positive, a whole number; got "):
        EncoderConfig(**{"vocab_size": 10, name: value})


@pytest.mark.parametrize("name", ["vocab_size", "hidden_size", "num_hidden_layers", "max_position_embeddings"])
def test_zero_is_no_size(name: str) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be positive"):
        EncoderConfig(**{"vocab_size": 10, name: 0})


def test_require_positive_names_the_first_wrong_one() -> None:
    require_positive(a=1, b=2)
    with pytest.raises(SettingsError, match=r"^b must be positive"):
        require_positive(a=1, b=0, c=-1)


def test_the_width_must_divide_into_the_heads() -> None:
    with pytest.raises(SettingsError, match="hidden_size must be a multiple of num_attention_heads; got 10 and 3"):
        EncoderConfig(vocab_size=10, hidden_size=10, num_attention_heads=3)


@pytest.mark.parametrize("name", ["hidden_dropout", "attention_dropout"])
@pytest.mark.parametrize("value", [-0.1, 1.0, 15, math.nan, "0.1", None, True])
def test_dropout_is_a_share(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be at least 0 and below 1"):
        EncoderConfig(**{"vocab_size": 10, name: value})


@pytest.mark.parametrize("name", ["layer_norm_eps", "initializer_range"])
@pytest.mark.parametrize("value", [0, -1e-12, math.nan, math.inf, 10**400, "1e-12", None])
def test_numbers_that_must_be_positive(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name} must be a positive number"):
        EncoderConfig(**{"vocab_size": 10, name: value})


@pytest.mark.parametrize("value", ["false", 0, 1, None])
def test_causal_is_true_or_false(value: Any) -> None:
    with pytest.raises(SettingsError, match="causal must be true or false"):
        EncoderConfig(vocab_size=10, causal=value)


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(SettingsError, match="activation must be one of gelu, gelu_tanh, relu; got 'swish'"):
        EncoderConfig(vocab_size=10, activation="swish")  # type: ignore[arg-type]


@pytest.mark.parametrize("made", MADE)
def test_settings_are_frozen_and_keyword_only(made: Any) -> None:
    for setting in dataclasses.fields(made):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(made, setting.name, getattr(made, setting.name))
        assert setting.kw_only


@pytest.mark.parametrize("made", MADE)
def test_settings_survive_json(made: Any) -> None:
    given = json.loads(json.dumps(made.to_dict()))
    assert type(made).from_dict(given) == made
    assert set(given) == {setting.name for setting in dataclasses.fields(made)}


@pytest.mark.parametrize(
    ("kind", "given", "message"),
    [
        (
            EncoderConfig,
            {"vocab_size": 9, "hiden_size": 8},
            r"EncoderConfig has no setting 'hiden_size' \(did you mean 'hidden_size'\?\); it has: vocab_size, ",
        ),
        (HeadConfig, {"kind": "mlm", "label": []}, r"HeadConfig has no setting 'label' \(did you mean 'labels'\?\)"),
        (EmbeddingConfig, {"normalise": True}, r"no setting 'normalise' \(did you mean 'normalize'\?\)"),
        (EmbeddingConfig, {"zzz": 1}, r"no setting 'zzz'; it has: pooling"),
        (EncoderConfig, {"hidden_size": 8}, "EncoderConfig needs the setting 'vocab_size'; got: hidden_size"),
        (HeadConfig, {}, "HeadConfig needs the setting 'kind'; got: none"),
    ],
)
def test_unknown_and_missing_keys_are_refused(kind: Any, given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        kind.from_dict(given)


def test_every_choice_is_listed_once_for_types_and_once_for_checks() -> None:
    for kind, values in (
        ("Activation", ACTIVATIONS),
        ("PoolingMethod", POOLING_METHODS),
        ("HeadKind", HEAD_KINDS),
        ("HeadLayers", HEAD_LAYERS),
        ("Similarity", SIMILARITIES),
    ):
        assert get_args(getattr(config_module, kind)) == values


NAMED = ("classification", "multi-label", "token-classification")


def needed(kind: str) -> dict[str, Any]:
    """What a head of a kind can't do without, labels apart."""
    return {"size": 4} if kind == "late-interaction" else {}


@pytest.mark.parametrize("kind", HEAD_KINDS)
def test_heads_have_labels_or_have_none(kind: Any) -> None:
    if kind in NAMED:
        assert HeadConfig(kind=kind, labels=["a", "b"]).labels == ("a", "b")  # type: ignore[arg-type]
        with pytest.raises(SettingsError, match=f"a {kind} head needs the names of its labels"):
            HeadConfig(kind=kind)
        with pytest.raises(SettingsError, match="label names must differ; got a, b, a"):
            HeadConfig(kind=kind, labels=("a", "b", "a"))
        with pytest.raises(SettingsError, match="labels must be a list of names; got the one text 'spam'"):
            HeadConfig(kind=kind, labels="spam")  # type: ignore[arg-type]
    elif kind == "similarity":
        assert HeadConfig(kind=kind, labels=("a", "b")).labels == ("a", "b")
        assert HeadConfig(kind=kind).labels == ()
    else:
        assert HeadConfig(kind=kind, **needed(kind)).labels == ()
        with pytest.raises(SettingsError, match=f"a {kind} head has no labels; got 2"):
            HeadConfig(kind=kind, labels=("a", "b"), **needed(kind))


@pytest.mark.parametrize("kind", HEAD_KINDS)
def test_sizes_of_tokens_and_decoders_are_of_one_kind_each(kind: Any) -> None:
    labels = ("a", "b") if kind in NAMED else ()
    for name, own in (("size", "late-interaction"), ("decoder_layers", "similarity")):
        if kind == own:
            assert getattr(HeadConfig(kind=kind, **{name: 3}), name) == 3
        else:
            with pytest.raises(SettingsError, match=f"{name}, a whole number, is for {own}; a {kind} head got 3"):
                HeadConfig(kind=kind, labels=labels, **{**needed(kind), name: 3})
    if kind == "late-interaction":
        with pytest.raises(SettingsError, match="a late-interaction head needs size"):
            HeadConfig(kind=kind)


@pytest.mark.parametrize("kind", HEAD_KINDS)
def test_text_heads_alone_have_depth_and_pooling(kind: Any) -> None:
    labels = ("a", "b") if kind in NAMED else ()
    text_head = kind in ("classification", "multi-label", "regression")
    assert HeadConfig(kind=kind, labels=labels, **needed(kind)).reads_text == text_head
    for option in ({"head_layers": 2}, {"pooling": "mean"}):
        if text_head or (kind == "similarity" and "pooling" in option):
            HeadConfig(kind=kind, labels=labels, **option)
        else:
            with pytest.raises(SettingsError, match="head_layers and pooling are for classification, multi-label and"):
                HeadConfig(kind=kind, labels=labels, **needed(kind), **option)


def test_which_heads_read_the_pooler() -> None:
    heads = [HeadConfig(kind=kind, labels=("a",) * (kind in NAMED), **needed(kind)) for kind in HEAD_KINDS]
    reads = {head.kind for head in heads if head.needs_pooler}
    assert reads == {"nsp", "multiple-choice", "classification", "multi-label", "regression"}
    assert not HeadConfig(kind="regression", pooling="mean").needs_pooler


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"kind": "clasification"}, r"no head is called 'clasification' \(did you mean 'classification'\?\)"),
        ({"kind": "regression", "pooling": "sum"}, "pooling must be one of cls, mean, max, mean_sqrt; got 'sum'"),
        ({"kind": "regression", "head_layers": 0}, "head_layers must be positive"),
        ({"kind": "regression", "dropout": 1.0}, "dropout must be at least 0 and below 1"),
        (
            {"kind": "regression", "layers": "last-for"},
            "layers must be one of last, .*; got 'last-for' .did you mean 'last-four'",
        ),
        ({"kind": "span", "layers": "last-four"}, "a span head reads the last layer; got layers='last-four'"),
        ({"kind": "regression", "recurrent_layers": 2}, "are for token-classification; a regression head got 2"),
        ({"kind": "token-classification", "labels": ("a",), "recurrent_layers": -1}, "recurrent_layers, from 0"),
        ({"kind": "regression", "recurrent_layers": 1.5}, "recurrent_layers must be a whole number; got 1.5"),
        ({"kind": "classification", "labels": 3}, "labels must be a list of names; got 3"),
        ({"kind": "classification", "labels": [1, 2]}, "the label must be a text; got 1"),
        ({"kind": "classification", "labels": [[]]}, "the label must be a text"),
    ],
)
def test_wrong_heads_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        HeadConfig(**given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"pooling": "sum"}, "pooling must be one of"),
        ({"similarity": "cosin"}, "similarity must be one of cosine, dot, euclidean, manhattan; got 'cosin'"),
        ({"max_length": 0}, "max_length must be positive"),
        ({"max_length": 1}, "max_length must be at least 2"),
        ({"normalize": "no"}, "normalize must be true or false; got 'no'"),
        ({"include_prompt": None}, "include_prompt must be true or false; got None"),
        ({"prompts": ["a"]}, "prompts must map names to texts"),
        ({"prompts": None}, "prompts must map names to texts"),
        ({"default_prompt": []}, "default_prompt must be a text"),
        ({"default_prompt": "query"}, "default_prompt 'query' is not among the prompts: none"),
        ({"default_prompt": "q", "prompts": {"a": "", "b": ""}}, "'q' is not among the prompts: a, b"),
    ],
)
def test_wrong_embedding_settings_are_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        EmbeddingConfig(**given)


@pytest.mark.parametrize(
    "make",
    [
        lambda text: HeadConfig(kind="classification", labels=("a", text)),
        lambda text: EmbeddingConfig(prompts={"query": text}),
        lambda text: EmbeddingConfig(prompts={text: "query: "}),
    ],
)
def test_what_no_file_can_hold_is_refused_at_once(make: Any) -> None:
    """TOK-14: not when the bundle is saved, after the training."""
    assert make("日本 😀")
    with pytest.raises(SettingsError, match=r"'b.ud83d' holds a lone surrogate at character 1"):
        make("b\ud83d")
    with pytest.raises(SettingsError, match="must be a text; got 7"):
        make(7)


def test_prompts_are_a_copy() -> None:
    prompts = {"query": "q: "}
    made = EmbeddingConfig(prompts=prompts)
    prompts["query"] = "changed"
    assert made.prompts == {"query": "q: "}
