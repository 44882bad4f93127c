"""Settings of the encoder and its heads: frozen, keyword-only, checked when made."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self, TypeVar, get_args

from anaume.errors import SettingsError, nearest

Activation = Literal["gelu", "gelu_tanh", "relu"]
PoolingMethod = Literal["cls", "mean", "max", "mean_sqrt"]
Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
HeadLayers = Literal["last", "second-to-last", "embeddings", "last-four", "weighted-last-four", "weighted-all"]
HeadKind = Literal[
    "mlm",
    "nsp",
    "classification",
    "multi-label",
    "regression",
    "token-classification",
    "span",
    "multiple-choice",
    "similarity",
    "late-interaction",
]

ACTIVATIONS: tuple[Activation, ...] = ("gelu", "gelu_tanh", "relu")
POOLING_METHODS: tuple[PoolingMethod, ...] = ("cls", "mean", "max", "mean_sqrt")
SIMILARITIES: tuple[Similarity, ...] = ("cosine", "dot", "euclidean", "manhattan")
HEAD_LAYERS: tuple[HeadLayers, ...] = get_args(HeadLayers)
HEAD_KINDS: tuple[HeadKind, ...] = get_args(HeadKind)

# (layers, width) of the published small BERTs (Turc et al. 2019, table 1) and of base and large (BERT, section 3).
SIZES: dict[str, tuple[int, int]] = {
    "tiny": (2, 128),
    "mini": (4, 256),
    "small": (4, 512),
    "medium": (8, 512),
    "base": (12, 768),
    "large": (24, 1024),
}


def require_positive(**sizes: int) -> None:
    """Raise SettingsError "NAME must be positive" for the first size that is not a positive whole number."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            raise SettingsError(f"{name} must be positive, a whole number; got {value!r}")


def require_writable(what: str, texts: Iterable[str]) -> None:
    """Raise SettingsError for what is no text, or holds a lone surrogate (JSON can escape one): it can't be saved."""
    for text in texts:
        if not isinstance(text, str):
            raise SettingsError(f"{what} must be a text; got {text!r}")
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise SettingsError(
                f"{what} {text!r} holds a lone surrogate at character {error.start}, which can't be saved; mend it"
            ) from None


def _require_switch(**switches: bool) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool):
            raise SettingsError(f"{name} must be true or false; got {value!r}")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # also an int too large to be made a float


def _require_share(**shares: float) -> None:
    for name, value in shares.items():
        if not _is_number(value) or not 0.0 <= value < 1.0:
            raise SettingsError(f"{name} must be at least 0 and below 1; got {value!r}")


_T = TypeVar("_T")


def _from_mapping(cls: type[_T], given: Mapping[str, Any]) -> _T:
    settings = dataclasses.fields(cls)  # type: ignore[arg-type]
    known = [setting.name for setting in settings]
    for key in given:
        if key not in known:
            raise SettingsError(
                f"{cls.__name__} has no setting {key!r}{nearest(key, known)}; it has: {', '.join(known)}"
            )
    for setting in settings:
        optional = setting.default is not dataclasses.MISSING or setting.default_factory is not dataclasses.MISSING
        if not optional and setting.name not in given:
            raise SettingsError(f"{cls.__name__} needs the setting {setting.name!r}; got: {', '.join(given) or 'none'}")
    return cls(**given)


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """The shape of an encoder, and how it is initialised and regularised.

    The defaults are BERT base (Devlin et al. 2019, section 3). Raises SettingsError when a value is wrong.
    """

    vocab_size: int
    """Rows of the token embedding table."""
    hidden_size: int = 768
    """Width of every vector between the layers."""
    num_hidden_layers: int = 12
    """Transformer layers."""
    num_attention_heads: int = 0
    """Attention heads of a layer; 0 means hidden_size / 64 (at least 1)."""
    intermediate_size: int = 0
    """Width inside the feed-forward part; 0 means 4 x hidden_size."""
    max_position_embeddings: int = 512
    """Rows of the position table: the longest row the encoder can take, in tokens, special ones included."""
    segment_vocab_size: int = 2
    """Rows of the segment table (A and B)."""
    hidden_dropout: float = 0.1
    """Dropout after the embeddings and after each half of a layer."""
    attention_dropout: float = 0.1
    """Dropout on the attention weights."""
    layer_norm_eps: float = 1e-12
    """Added to the variance in layer normalisation."""
    initializer_range: float = 0.02
    """Standard deviation of the truncated normal the weights are drawn from."""
    activation: Activation = "gelu"
    """Non-linearity of the feed-forward part: the exact GELU as published, its tanh form, or ReLU."""
    causal: bool = False
    """False: every token sees both sides (BERT). True: only itself and what stands before it (GPT)."""

    def __post_init__(self) -> None:
        require_positive(hidden_size=self.hidden_size)
        if self.num_attention_heads == 0:
            object.__setattr__(self, "num_attention_heads", max(1, self.hidden_size // 64))
        if self.intermediate_size == 0:
            object.__setattr__(self, "intermediate_size", 4 * self.hidden_size)
        require_positive(
            vocab_size=self.vocab_size,
            num_hidden_layers=self.num_hidden_layers,
            num_attention_heads=self.num_attention_heads,
            intermediate_size=self.intermediate_size,
            max_position_embeddings=self.max_position_embeddings,
            segment_vocab_size=self.segment_vocab_size,
        )
        if self.hidden_size % self.num_attention_heads:
            raise SettingsError(
                f"hidden_size must be a multiple of num_attention_heads; got {self.hidden_size} and "
                f"{self.num_attention_heads}"
            )
        _require_share(hidden_dropout=self.hidden_dropout, attention_dropout=self.attention_dropout)
        if self.activation not in ACTIVATIONS:
            raise SettingsError(f"activation must be one of {', '.join(ACTIVATIONS)}; got {self.activation!r}")
        for name, value in (("layer_norm_eps", self.layer_norm_eps), ("initializer_range", self.initializer_range)):
            if not _is_number(value) or value <= 0:
                raise SettingsError(f"{name} must be a positive number; got {value!r}")
        _require_switch(causal=self.causal)

    @property
    def head_size(self) -> int:
        """Width of one attention head."""
        return self.hidden_size // self.num_attention_heads

    @classmethod
    def named(cls, size: str, *, vocab_size: int, **other: Any) -> Self:
        """Return a named size: tiny, mini, small, medium, base or large; other settings may be given beside it."""
        if not isinstance(size, str) or size not in SIZES:
            raise SettingsError(f"no size is called {size!r}{nearest(str(size), SIZES)}; there are: {', '.join(SIZES)}")
        layers, width = SIZES[size]
        return cls(vocab_size=vocab_size, hidden_size=width, num_hidden_layers=layers, **other)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings in `given`; an unknown key is refused with the nearest known one."""
        return _from_mapping(cls, given)

    def to_dict(self) -> dict[str, Any]:
        """Return every setting by name, ready for JSON."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, kw_only=True)
class HeadConfig:
    """What one head predicts, and how it reads the encoder. Raises SettingsError when a value is wrong."""

    kind: HeadKind
    """What the head predicts; decides its shape and its loss."""
    labels: tuple[str, ...] = ()
    """Names of the outputs, in order; empty for mlm, nsp, regression, span and multiple-choice. Similarity has those of
    its classifier of pairs, where it trains one."""
    head_layers: int = 1
    """Linear layers of a text head: 1 is the published one, more make a deeper MLP with GELU between."""
    pooling: PoolingMethod = "cls"
    """How a text head gets its one vector: "cls" through the pooler as published, else over the real tokens. The "cls"
    of similarity is the last layer's [CLS] as it is."""
    dropout: float = 0.1
    """Dropout before the last linear layer, and between recurrent ones."""
    layers: HeadLayers = "last"
    """What it reads: the encoder's last layer or the one before, its input, the last four side by side, or a weighted
    sum of the last four or of all, whose weights it learns (BERT, section 5.3)."""
    recurrent_layers: int = 0
    """Layers of a BiLSTM before the last linear one, its directions together as wide as the encoder; 0 = none."""
    size: int = 0
    """Of late-interaction: numbers of each token's vector; 0 for other heads."""
    decoder_layers: int = 0
    """Of similarity: layers of a decoder that rebuilds each text from its vector in training; 0 = none."""

    def __post_init__(self) -> None:
        if isinstance(self.labels, str):
            raise SettingsError(f"labels must be a list of names; got the one text {self.labels!r}")
        if not isinstance(self.labels, Iterable):
            raise SettingsError(f"labels must be a list of names; got {self.labels!r}")
        object.__setattr__(self, "labels", tuple(self.labels))
        require_writable("the label", self.labels)
        if self.kind not in HEAD_KINDS:
            raise SettingsError(f"no head is called {self.kind!r}{nearest(str(self.kind), HEAD_KINDS)}")
        if self.pooling not in POOLING_METHODS:
            raise SettingsError(f"pooling must be one of {', '.join(POOLING_METHODS)}; got {self.pooling!r}")
        require_positive(head_layers=self.head_layers)
        _require_share(dropout=self.dropout)
        pools = self.reads_text or self.kind == "similarity"
        if (not self.reads_text and self.head_layers != 1) or (not pools and self.pooling != "cls"):
            raise SettingsError(
                "head_layers and pooling are for classification, multi-label and regression, pooling for similarity; "
                f"a {self.kind} head got head_layers={self.head_layers}, pooling={self.pooling!r}"
            )
        if self.layers not in HEAD_LAYERS:
            raise SettingsError(
                f"layers must be one of {', '.join(HEAD_LAYERS)}; got {self.layers!r}"
                f"{nearest(str(self.layers), HEAD_LAYERS)}"
            )
        if self.layers != "last" and not (self.reads_text or self.kind == "token-classification"):
            raise SettingsError(f"a {self.kind} head reads the last layer; got layers={self.layers!r}")
        if isinstance(self.recurrent_layers, bool) or not isinstance(self.recurrent_layers, int):
            raise SettingsError(f"recurrent_layers must be a whole number; got {self.recurrent_layers!r}")
        if self.recurrent_layers < 0 or (self.recurrent_layers and self.kind != "token-classification"):
            raise SettingsError(
                f"recurrent_layers, from 0, are for token-classification; a {self.kind} head got "
                f"{self.recurrent_layers}"
            )
        for name, value, kind in (
            ("size", self.size, "late-interaction"),
            ("decoder_layers", self.decoder_layers, "similarity"),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < 0 or (value and self.kind != kind):
                raise SettingsError(f"{name}, a whole number, is for {kind}; a {self.kind} head got {value!r}")
        if self.kind == "late-interaction" and not self.size:
            raise SettingsError("a late-interaction head needs size, the numbers of a token's vector")
        named = self.kind in ("classification", "multi-label", "token-classification")
        if named and not self.labels:
            raise SettingsError(f"a {self.kind} head needs the names of its labels")
        if not named and self.kind != "similarity" and self.labels:
            raise SettingsError(f"a {self.kind} head has no labels; got {len(self.labels)}")
        if len(set(self.labels)) != len(self.labels):
            raise SettingsError(f"label names must differ; got {', '.join(self.labels)}")

    @property
    def reads_text(self) -> bool:
        """Whether it is a text head: one prediction from one vector a text, with `head_layers` and `pooling`."""
        return self.kind in ("classification", "multi-label", "regression")

    @property
    def needs_pooler(self) -> bool:
        """Whether the head reads the pooler's output (dense and tanh over the last layer's [CLS])."""
        text = self.reads_text and self.pooling == "cls" and self.layers == "last"
        return text or self.kind in ("nsp", "multiple-choice")

    @property
    def plain(self) -> bool:
        """Whether it is what published classes have: one linear layer, over the last layer of the encoder."""
        return self.layers == "last" and self.head_layers == 1 and self.recurrent_layers == 0

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings in `given`; an unknown key is refused with the nearest known one."""
        return _from_mapping(cls, given)

    def to_dict(self) -> dict[str, Any]:
        """Return every setting by name, ready for JSON."""
        return {**dataclasses.asdict(self), "labels": list(self.labels)}


@dataclass(frozen=True, kw_only=True)
class EmbeddingConfig:
    """How a text becomes one vector: everything that must travel with the weights. Raises SettingsError when wrong."""

    pooling: PoolingMethod | None = None
    """How token vectors become one; None = the bundle was never given one (mean is used, with a warning)."""
    normalize: bool = False
    """Whether vectors are scaled to length 1."""
    max_length: int = 512
    """Longest row in tokens, special ones included; longer texts follow the long-text policy."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """Name ("query", "passage", ...) -> text put before every text embedded under that name."""
    default_prompt: str | None = None
    """The prompt used when none is asked for; None = no prompt."""
    include_prompt: bool = True
    """Whether the prompt's tokens count in the pooling."""
    similarity: Similarity = "cosine"
    """The similarity the vectors were made for."""

    def __post_init__(self) -> None:
        if self.pooling is not None and self.pooling not in POOLING_METHODS:
            raise SettingsError(f"pooling must be one of {', '.join(POOLING_METHODS)}; got {self.pooling!r}")
        if self.similarity not in SIMILARITIES:
            raise SettingsError(f"similarity must be one of {', '.join(SIMILARITIES)}; got {self.similarity!r}")
        require_positive(max_length=self.max_length)
        if self.max_length < 2:
            raise SettingsError("max_length must be at least 2, the special tokens of a text; got 1")
        _require_switch(normalize=self.normalize, include_prompt=self.include_prompt)
        if not isinstance(self.prompts, Mapping):
            raise SettingsError(f"prompts must map names to texts; got {self.prompts!r}")
        object.__setattr__(self, "prompts", dict(self.prompts))
        require_writable("the prompt", [*self.prompts, *self.prompts.values()])
        if self.default_prompt is not None:
            require_writable("default_prompt", [self.default_prompt])
        if self.default_prompt is not None and self.default_prompt not in self.prompts:
            raise SettingsError(
                f"default_prompt {self.default_prompt!r} is not among the prompts: {', '.join(self.prompts) or 'none'}"
            )

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the settings in `given`; an unknown key is refused with the nearest known one."""
        return _from_mapping(cls, given)

    def to_dict(self) -> dict[str, Any]:
        """Return every setting by name, ready for JSON."""
        return {**dataclasses.asdict(self), "prompts": dict(self.prompts)}
