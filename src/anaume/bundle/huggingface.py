"""config.json <-> our settings. Every key is used, ignored as known to be harmless, or refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anaume.bundle.files import some
from anaume.config import Activation, EncoderConfig, HeadConfig, HeadKind
from anaume.errors import BundleError, SettingsError

# Class -> (heads it holds, whether it has a pooler). "text" stands for the three kinds one class serves.
ARCHITECTURES: dict[str, tuple[tuple[str, ...], bool]] = {
    "BertModel": ((), True),
    "BertForPreTraining": (("mlm", "nsp"), True),
    "BertForMaskedLM": (("mlm",), False),
    "BertLMHeadModel": (("mlm",), False),
    "BertForNextSentencePrediction": (("nsp",), True),
    "BertForSequenceClassification": (("text",), True),
    "BertForTokenClassification": (("token-classification",), False),
    "BertForQuestionAnswering": (("span",), False),
    "BertForMultipleChoice": (("multiple-choice",), True),
}
TEXT_KINDS: tuple[HeadKind, ...] = ("classification", "multi-label", "regression")

# theirs, ours, their default (None = must be there)
_SIZES = (
    ("vocab_size", "vocab_size", None),
    ("hidden_size", "hidden_size", None),
    ("num_hidden_layers", "num_hidden_layers", None),
    ("num_attention_heads", "num_attention_heads", None),
    ("intermediate_size", "intermediate_size", None),
    ("max_position_embeddings", "max_position_embeddings", 512),
    ("type_vocab_size", "segment_vocab_size", 2),
    ("hidden_dropout_prob", "hidden_dropout", 0.1),
    ("attention_probs_dropout_prob", "attention_dropout", 0.1),
    ("layer_norm_eps", "layer_norm_eps", 1e-12),
    ("initializer_range", "initializer_range", 0.02),
    ("is_decoder", "causal", False),
)
_ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
}
_ACTIVATION_WRITTEN = {"gelu": "gelu", "gelu_tanh": "gelu_pytorch_tanh", "relu": "relu"}
_USED = {theirs for theirs, _, _ in _SIZES} | {
    "model_type", "architectures", "hidden_act", "classifier_dropout", "id2label", "label2id", "num_labels",
    "problem_type", "tie_word_embeddings",
}  # fmt: skip
# What can't change a number of ours: bookkeeping, storage, text generation, sizes of heads nobody has.
_HARMLESS = {
    "_name_or_path", "name_or_path", "_commit_hash", "transformers_version", "torch_dtype", "dtype", "use_cache",
    "gradient_checkpointing", "pad_token_id", "bos_token_id", "eos_token_id", "sep_token_id", "cls_token_id",
    "mask_token_id", "unk_token_id", "decoder_start_token_id", "finetuning_task", "task_specific_params",
    "output_past", "directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "output_attentions", "output_hidden_states", "return_dict",
    "use_return_dict", "torchscript", "use_bfloat16", "tokenizer_class", "attn_implementation",
    "_attn_implementation", "_attn_implementation_autoset", "_output_attentions", "prefix", "language",
    "chunk_size_feed_forward",
    "sentence_transformers", "sbert_ce_default_activation_function", "max_length", "min_length", "do_sample",
    "early_stopping", "num_beams", "num_beam_groups", "diversity_penalty", "temperature", "top_k", "top_p",
    "typical_p", "repetition_penalty", "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size",
    "bad_words_ids", "num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
    "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty", "suppress_tokens",
    "begin_suppress_tokens", "tie_encoder_decoder", "tf_legacy_loss", "vocab_type", "model_name",
    "summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout", "summary_first_dropout",
}  # fmt: skip
# Harmless at these values only.
_ONLY = {
    "position_embedding_type": ("absolute", None),
    "is_encoder_decoder": (False, None),
    "add_cross_attention": (False, None),
    "cross_attention_hidden_size": (None,),
    "pruned_heads": ({}, None),
    "embedding_size": (None,),
}


@dataclass(frozen=True, kw_only=True)
class ForeignConfig:
    """A config.json, understood."""

    encoder: EncoderConfig
    architecture: str
    """The class it names, "" when it names none."""
    labels: tuple[str, ...] | None
    """id2label in order; None when the file has none."""
    num_labels: int | None
    problem_type: str | None
    head_dropout: float
    tied: bool
    """tie_word_embeddings: whether the MLM output matrix is the embedding table."""
    notes: tuple[str, ...] = ()


def parse_config(config: Mapping[str, Any], where: str) -> ForeignConfig:
    """Understand a config.json. `where` starts every message.

    Raises BundleError for another architecture (by its name), a missing size, a key that may change the numbers, or a
    value out of range.
    """
    architecture = _architecture(config, where)
    notes = _account_for_keys(config, where)
    settings: dict[str, Any] = {}
    for theirs, ours, default in _SIZES:
        if config.get(theirs) is None and default is None:
            raise BundleError(f"{where}: lacks {theirs}, which can't be guessed from the weights")
        settings[ours] = default if config.get(theirs) is None else config[theirs]
    activation = config.get("hidden_act", "gelu")
    if not isinstance(activation, str) or activation not in _ACTIVATIONS:
        raise BundleError(f"{where}: hidden_act is {activation!r}; anaume has: {', '.join(_ACTIVATIONS)}")
    try:
        encoder = EncoderConfig(**settings, activation=_ACTIVATIONS[activation])
    except (SettingsError, TypeError) as error:
        theirs = next(
            (f"{theirs}: " for theirs, ours, _ in _SIZES if str(error).startswith(ours) and theirs != ours), ""
        )
        raise BundleError(f"{where}: {theirs}{error}") from error
    labels, label_notes = _labels(config, where)
    dropout = config.get("classifier_dropout")
    return ForeignConfig(
        encoder=encoder,
        architecture=architecture,
        labels=labels,
        num_labels=config.get("num_labels"),
        problem_type=config.get("problem_type"),
        head_dropout=encoder.hidden_dropout if dropout is None else dropout,
        tied=config.get("tie_word_embeddings") is not False,
        notes=(*notes, *label_notes),
    )


def _architecture(config: Mapping[str, Any], where: str) -> str:
    model_type = config.get("model_type")
    architectures = config.get("architectures") or []
    if not isinstance(architectures, list) or not all(isinstance(name, str) for name in architectures):
        raise BundleError(f"{where}: architectures must be a list of class names; got {architectures!r}")
    named = some(architectures)
    if model_type not in ("bert", None):
        raise BundleError(
            f"{where}: this is {model_type!r}{f' ({named})' if named else ''}, another architecture: "
            "its weights would give wrong vectors here, anaume reads BERT"
        )
    strange = [name for name in architectures if name not in ARCHITECTURES]
    if strange:
        raise BundleError(
            f"{where}: this is {some(strange)}, another architecture or head; anaume reads {', '.join(ARCHITECTURES)}"
        )
    if config.get("auto_map"):
        raise BundleError(f"{where}: auto_map names code that comes with the checkpoint; anaume runs no such code")
    if len(set(architectures)) > 1:
        raise BundleError(
            f"{where}: architectures names {len(architectures)} classes, {named}; one file holds one class's tensors"
        )
    return architectures[0] if architectures else ""


def _account_for_keys(config: Mapping[str, Any], where: str) -> list[str]:
    notes = []
    for key, value in config.items():
        if key in _USED or key in _HARMLESS or key == "auto_map":
            continue
        if key in _ONLY:
            if value not in _ONLY[key]:
                raise BundleError(f"{where}: {key} is {value!r}; anaume has only {_ONLY[key][0]!r}")
        elif value is None or value is False:
            notes.append(f"config.json: {key}, which anaume does not know, is {value!r} and was left out")
        else:
            raise BundleError(
                f"{where}: anaume does not know {key!r} (it is {str(value)[:60]!r}), so it may change what the model "
                "computes; if it does not, remove it from the file"
            )
    return notes


def _labels(config: Mapping[str, Any], where: str) -> tuple[tuple[str, ...] | None, list[str]]:
    id2label = config.get("id2label")
    if id2label is None:
        return None, []
    if not isinstance(id2label, dict) or {str(key) for key in id2label} != {str(i) for i in range(len(id2label))}:
        raise BundleError(f"{where}: id2label must map 0 .. n-1 to names; got {str(id2label)[:80]}")
    labels = tuple(str(id2label[str(number)]) for number in range(len(id2label)))
    label2id = config.get("label2id")
    notes = []
    if isinstance(label2id, dict) and label2id != {name: number for number, name in enumerate(labels)}:
        notes.append("config.json: label2id is not the inverse of id2label; id2label is followed")
    return labels, notes


def head_for(kind: str, config: ForeignConfig, outputs: int, where: str) -> HeadConfig:
    """Return the settings of a head found in the file; `outputs` is the number of rows of its last matrix.

    Raises BundleError when labels and rows disagree, or for a head no class of ours has.
    """
    if kind == "text":
        kind = _text_kind(config, outputs, where)
    labels: tuple[str, ...] = ()
    if kind in ("classification", "multi-label", "token-classification"):
        if config.labels is None and config.num_labels not in (None, outputs):
            raise BundleError(f"{where}: num_labels is {config.num_labels}, the classifier has {outputs} outputs")
        labels = config.labels if config.labels is not None else tuple(f"LABEL_{i}" for i in range(outputs))
        if len(labels) != outputs:
            raise BundleError(f"{where}: id2label names {len(labels)} labels, the classifier has {outputs} outputs")
    dropout = {} if kind in ("mlm", "nsp", "span") else {"dropout": config.head_dropout}
    try:
        return HeadConfig(kind=kind, labels=labels, **dropout)  # type: ignore[arg-type]
    except SettingsError as error:
        raise BundleError(f"{where}: {error}") from error


def _text_kind(config: ForeignConfig, outputs: int, where: str) -> str:
    if config.problem_type == "multi_label_classification":
        return "multi-label"
    if config.problem_type == "regression" or (config.problem_type is None and outputs == 1):
        if outputs != 1:
            raise BundleError(f"{where}: a regression to {outputs} numbers; anaume's regression head gives one")
        return "regression"
    if config.problem_type not in (None, "single_label_classification"):
        raise BundleError(f"{where}: problem_type is {config.problem_type!r}, which anaume does not know")
    return "classification"


def published_class(encoder: EncoderConfig, heads: Mapping[str, HeadConfig]) -> str:
    """Return the class whose tensors are exactly these heads, or "BertModel" when no published class holds them."""
    kinds = sorted(head.kind for head in heads.values())
    if kinds == ["mlm", "nsp"]:
        return "BertForPreTraining"
    if kinds == ["mlm"]:
        return "BertLMHeadModel" if encoder.causal else "BertForMaskedLM"
    if len(heads) != 1:
        return "BertModel"
    head = next(iter(heads.values()))
    if not head.plain:
        return "BertModel"
    if head.kind in TEXT_KINDS:
        # transformers takes one output for a regression, and refuses a single class.
        published = head.pooling == "cls" and (head.kind, len(head.labels)) != ("classification", 1)
        return "BertForSequenceClassification" if published else "BertModel"
    return next((name for name, (kept, _) in ARCHITECTURES.items() if kept == (head.kind,)), "BertModel")


def write_config(
    encoder: EncoderConfig, heads: Mapping[str, HeadConfig], architecture: str, pad_token_id: int
) -> dict[str, Any]:
    """Return config.json for the class that `published_class` chose."""
    settings = encoder.to_dict()
    config: dict[str, Any] = {"architectures": [architecture], "model_type": "bert"}
    config |= {theirs: settings[ours] for theirs, ours, _ in _SIZES}
    config |= {
        "hidden_act": _ACTIVATION_WRITTEN[encoder.activation],
        "position_embedding_type": "absolute",
        "pad_token_id": pad_token_id,
        "tie_word_embeddings": True,
        "dtype": "float32",
        # No cache is kept: an encoder has no use for one, and transformers would build it for a causal model.
        "use_cache": False,
    }
    kept = ARCHITECTURES[architecture][0]
    for head in heads.values():
        if head.kind not in kept and not ("text" in kept and head.kind in TEXT_KINDS):
            continue
        if head.kind in (*TEXT_KINDS, "token-classification", "multiple-choice"):
            config["classifier_dropout"] = head.dropout
        labels = head.labels or (("LABEL_0",) if head.kind == "regression" else ())
        if labels:
            config["id2label"] = {str(number): name for number, name in enumerate(labels)}
            config["label2id"] = {name: number for number, name in enumerate(labels)}
        if head.kind in TEXT_KINDS:
            config["problem_type"] = {
                "classification": "single_label_classification",
                "multi-label": "multi_label_classification",
                "regression": "regression",
            }[head.kind]
    return config
