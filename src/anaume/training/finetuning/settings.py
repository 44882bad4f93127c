"""The settings of fine-tuning: one TOML file, checked as a whole, saved with the run."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from anaume.config import HeadLayers, PoolingMethod
from anaume.training.sections import CommonRun, OptimizerSettings, ScheduleSettings, Section, SettingsTables


class TaskSettings(Section):
    """What the task makes of the examples. None = the task's own default; one that a task has not is refused."""

    pooling: PoolingMethod | None = None
    """How a text becomes one vector: cls through the pooler as published (the default), or mean, max. Mean often helps
    encoders that were trained for similarity."""
    head_layers: int | None = Field(default=None, ge=1)
    """Linear layers of the head; 1 as published. More help frozen encoders."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Before the head's last layer; 0.1 as published."""
    class_weights: Literal["none", "balanced"] | dict[str, float] | None = None
    """balanced: each class counts alike; helps macro F1 where labels are skewed, and costs accuracy."""
    label_smoothing: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Share of the target spread over all classes; 0.1 helps where labels are noisy."""
    metric: str | None = None
    """The score that picks the best weights."""
    positive: str | None = None
    """The label that F1 is of, where there are two; None = the second in order. Of `ranking`: the better class."""
    stride: int | None = Field(default=None, ge=0)
    """Read long texts in windows that share so many pieces, instead of cutting them."""
    layers: HeadLayers | None = None
    """What the head reads: last (the default), second-to-last, embeddings, last-four (side by side), or
    weighted-last-four, weighted-all, sums whose weights are learned. Others than the last help frozen encoders."""
    tagger: Literal["linear", "bilstm"] | None = None
    """Of word tags: linear, as published, or two layers of a BiLSTM before it, for frozen encoders."""
    scheme: str | None = None
    """How tags are written: IOB1, BIO, BIOES, BILOU or plain; None = recognised."""
    n_best: int | None = Field(default=None, ge=1)
    """Answers kept of a question."""
    max_answer_length: int | None = Field(default=None, ge=1)
    """Longest answer, in tokens."""
    missing: bool | None = None
    """Whether a context may hold no answer (SQuAD 2.0); None = as the training questions say."""
    null_threshold: float | None = None
    """No answer where that outscores the best one by more; None = calibrated on the held-out questions."""
    rule: Literal["auto", "words", "characters"] | None = None
    """How answers are compared; characters for Japanese, as JSQuAD is scored. None = by the letters of the answers."""
    of: str | None = None
    """Of `features`: the task whose labels are learned; None = recognised."""
    objective: str | None = None
    """Of `similarity`: in-batch, cosent, angle, cosine, triplet, softmax, margin-mse, simcse or tsdae; None = what the
    rows have decides: scores cosent, classes softmax, pairs in-batch, single texts simcse."""
    scale: float | None = Field(default=None, gt=0.0)
    """Of `similarity`: what cosines are multiplied by (1 / temperature); 20. For cosent and angle, too. Of
    `late-interaction`: what sums are multiplied by; 1."""
    margin: float | None = Field(default=None, gt=0.0)
    """Of `similarity`: how much nearer a triplet's positive should be; 1 as published."""
    score_range: list[float] | None = None
    """Of `similarity`: the lowest and the highest score there can be, which cosine brings to 0 and 1; None = those of
    the training rows."""
    dimensions: list[int] | None = None
    """Of `similarity`: Matryoshka; vectors may be cut to these sizes later. List the whole size, too."""
    teacher: str | None = None
    """Of `similarity`: a cross-encoder (a bundle's path or name) whose margins are learned: margin-mse."""
    deleted: float | None = Field(default=None, gt=0.0, lt=1.0)
    """Of `similarity` by tsdae: the share of a text's pieces that is taken away; 0.6."""
    decoder_layers: int | None = Field(default=None, ge=1)
    """Of `similarity` by tsdae: layers of the decoder; 1."""
    size: int | None = Field(default=None, ge=1)
    """Of `late-interaction`: numbers of a token's vector; 128, or the encoder's width where that is less."""
    query_tokens: int | None = Field(default=None, ge=0)
    """Of `late-interaction`: shorter queries are filled up with [MASK] to so many tokens; ColBERT takes 32; 0."""
    prompts: list[str] | None = None
    """Of `late-interaction`: what stands before a query and before a passage; None = the bundle's prompts."""
    drawn_negatives: int | None = Field(default=None, ge=1)
    """Of `ranking`: passages of other queries that stand for a query's negatives where it has none; 4."""
    normalize: bool | None = None
    """Of `similarity`: whether vectors have length 1; None = the bundle's, or true where it has no pooling."""
    strengths: list[float] | None = None
    """Of `features`: how free a linear probe is (scikit-learn's C); the one that is best on the held-out rows is kept.
    None = 0.01, 0.1 and 1."""

    def given(self) -> dict[str, Any]:
        """Return the options that were set."""
        return self.model_dump(exclude_none=True)


class ModelSettings(Section):
    """What of the bundle is trained."""

    max_length: int | None = Field(default=None, ge=8)
    """Longest row in tokens; None = the bundle's."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Hidden and attention dropout; None = the bundle's."""
    frozen: Literal["nothing", "embeddings", "encoder"] = "nothing"
    """What stays as it is: the embedding tables (less memory; few labels), or all but the head (a probe)."""
    reinit_layers: int = Field(default=0, ge=0)
    """Top layers drawn anew (Zhang et al. 2021): 1 or 2 steady runs on a thousand rows or fewer."""


class DataSettings(Section):
    """Which examples are held out, where no dev file is given."""

    dev_share: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Of the training rows, drawn by a fixed seed, each label alike; 0 = none, and the last weights are kept."""


class FinetuneOptimizer(OptimizerSettings):
    """AdamW with bias correction, as published: BERT, section A.3."""

    learning_rate: float = Field(default=5e-5, gt=0.0)
    """The highest learning rate of the schedule; small encoders like more (1e-4 to 3e-4), large ones less (2e-5)."""
    beta2: float = Field(default=0.999, ge=0.0, lt=1.0)
    """Decay of the mean of squared gradients."""
    eps: float = Field(default=1e-8, gt=0.0)
    """Added to the root of the second mean."""
    layer_decay: float = Field(default=1.0, gt=0.0, le=1.0)
    """Each layer below the head learns so much slower than the one above; 0.8 to 0.95 helps with few rows."""


class FinetuneSchedule(ScheduleSettings):
    """How the learning rate goes over the run."""

    warmup: float = Field(default=0.1, ge=0.0, lt=1.0)
    """Share of the run in which the rate rises from 0."""


class FinetuneRun(CommonRun):
    """How long, how large, how safe. The length is given as epochs, or as steps or minutes in their place."""

    epochs: float | None = Field(default=None, gt=0.0)
    """Times each training row is seen; None = 3, where neither steps nor minutes are given."""
    evaluations: int | None = Field(default=None, ge=0)
    """Times the dev examples are scored, evenly over the run; None = about once an epoch."""
    patience: int | None = Field(default=None, ge=1)
    """Stop early after so many evaluations without a better score; None = never."""
    micro_tokens: int = Field(default=8192, ge=1)
    """Tokens that are in memory at once; the result is that of the whole batch."""
    curves: bool = True
    """Draw curves.png after the end, where matplotlib is installed."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        given = [name for name in ("epochs", "steps", "minutes") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of epochs, steps and minutes, not {' and '.join(given)}")
        return self


class FinetuneSettings(SettingsTables):
    """Everything that decides a run, apart from task, data and starting bundle."""

    task: TaskSettings = TaskSettings()
    """The task."""
    model: ModelSettings = ModelSettings()
    """The model."""
    data: DataSettings = DataSettings()
    """The examples."""
    optimizer: FinetuneOptimizer = FinetuneOptimizer()
    """The optimizer."""
    schedule: FinetuneSchedule = FinetuneSchedule()
    """The schedule."""
    run: FinetuneRun = FinetuneRun()
    """The run."""

    epochs: ClassVar[float] = 3.0
    """Where no length is given."""
    rows: ClassVar[int] = 32
    """Of a batch, where nothing is said."""


class SimilaritySettings(FinetuneSettings):
    """Everything that decides a run of `similarity` or `late-interaction`."""

    rows: ClassVar[int] = 64
    """Of a batch, where nothing is said: each is a negative for the others."""


class ProbeModel(ModelSettings):
    """The encoder of a probe stays as it is."""

    frozen: Literal["encoder"] = "encoder"
    """All but the head."""

    @model_validator(mode="after")
    def _untouched(self) -> Self:
        if self.reinit_layers or self.dropout is not None:
            raise ValueError("a frozen encoder has no layers to draw anew, and no dropout")
        return self


class ProbeOptimizer(FinetuneOptimizer):
    """AdamW over the head alone: it begins from nothing, and learns at a higher rate."""

    learning_rate: float = Field(default=2e-3, gt=0.0)
    """The highest learning rate of the schedule."""


class ProbeSettings(FinetuneSettings):
    """Everything that decides a run of `features`: a frozen encoder, and a probe on what it gives."""

    model: ProbeModel = ProbeModel()
    """The model."""
    optimizer: ProbeOptimizer = ProbeOptimizer()
    """The optimizer of a probe that is trained; a linear one is solved by scikit-learn."""

    epochs: ClassVar[float] = 10.0
    """Where no length is given."""

    @model_validator(mode="after")
    def _positive(self) -> Self:
        strengths = self.task.strengths
        if strengths is not None and not (strengths and all(strength > 0.0 for strength in strengths)):
            raise ValueError("task.strengths must be positive numbers, at least one")
        return self
