"""The settings of a pretraining run: one TOML file, checked as a whole, saved with the run."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from anaume.training.sections import CommonRun, OptimizerSettings, ScheduleSettings, Section, SettingsTables

__all__ = [
    "DataSettings",
    "ModelSettings",
    "ObjectiveSettings",
    "OptimizerSettings",
    "PretrainSettings",
    "RunSettings",
    "ScheduleSettings",
    "paper_recipe",
]


class ModelSettings(Section):
    """The model; a run that continues from a bundle takes the bundle's, and only dropout and causal can be given."""

    size: str | None = None
    """A named size (tiny, mini, small, medium, base, large), or "custom" with the numbers below; None = mini, or under
    run.minutes as a few measured steps propose."""
    hidden_size: int | None = None
    """With size = "custom"."""
    num_hidden_layers: int | None = None
    """With size = "custom"."""
    num_attention_heads: int | None = None
    """None = width / 64, at least 1."""
    intermediate_size: int | None = None
    """None = 4 x width."""
    max_position_embeddings: int | None = Field(default=None, ge=8)
    """Rows of the position table; None = 512, or as many as the longest rows have tokens."""
    dropout: float | None = Field(default=None, ge=0.0, lt=1.0)
    """Hidden and attention dropout; 0 often trains faster when the text is seen only a few times. None = 0.1, or the
    bundle's."""
    start: Literal["informed", "published"] = "informed"
    """What fresh weights begin with. informed: the frequencies of the tokens in the output bias, and first layers that
    look at neighbours, so that a short run is not spent on a plateau (model/informed.py). published: one normal
    distribution, a bias of zero."""
    causal: bool | None = None
    """False: both sides are visible (BERT). True: only what stands before (GPT). None = as the objective needs it:
    True for target = "next", else False, or the bundle's."""


class DataSettings(Section):
    """How documents become rows."""

    seq_len: int = Field(default=128, ge=8)
    """Tokens of a row, special ones included."""
    long_seq_len: int | None = Field(default=None, ge=8)
    """Length of the rows in the last part of the run; None = the same throughout."""
    long_share: float = Field(default=0.1, gt=0.0, lt=1.0)
    """How large that last part is."""
    pairing: Literal["none", "nsp", "sop"] = "none"
    """Sentence pairs: next-sentence prediction, sentence order, or documents packed into full rows."""


class ObjectiveSettings(Section):
    """What is predicted."""

    target: Literal["masked", "next"] = "masked"
    """Hidden tokens (masked language modelling) or the next token (causal language modelling)."""
    mask_rate: float = Field(default=0.15, gt=0.0, lt=1.0)
    """Share of the pieces that is hidden."""
    mask_rate_end: float | None = Field(default=None, gt=0.0, lt=1.0)
    """The rate falls (or rises) to this by the end of the run; None = it stays."""
    mask_share: float = Field(default=0.8, ge=0.0, le=1.0)
    """Share of hidden pieces that become [MASK]."""
    random_share: float = Field(default=0.1, ge=0.0, le=1.0)
    """Share of hidden pieces that become a random token; the rest stays."""
    units: Literal["pieces", "words", "spans"] = "pieces"
    """What is hidden as one: pieces, whole words, or runs of pieces."""
    span_length: float = Field(default=3.0, ge=1.0)
    """Mean length of runs, with units = "spans"."""

    @model_validator(mode="after")
    def _shares(self) -> Self:
        if self.mask_share + self.random_share > 1.0 + 1e-9:
            raise ValueError("mask_share and random_share add up to more than 1")
        return self


class RunSettings(CommonRun):
    """How long, how large, how safe."""

    batch_rows: int | None = Field(default=None, ge=1)
    """Rows of a step, over all ranks; where rows are longer (data.long_seq_len), fewer, of as many tokens. None = 32,
    or under run.minutes as a few measured steps propose."""
    micro_rows: int | None = Field(default=None, ge=1)
    """Rows that are in memory at once; None = all of a rank's. The result is that of the whole batch."""
    compile: bool = False
    """torch.compile: no longer bit for bit between runs."""
    evaluations: int = Field(default=5, ge=0)
    """Times the held-out loss is measured, evenly over the run, the end included."""
    evaluation_rows: int = Field(default=256, ge=1)
    """Held-out rows each time; always the same ones under the same masks."""
    curves: bool = True
    """Draw curves.png at each evaluation (half a second) and after the end, where matplotlib is installed."""
    tensorboard: bool = False
    """Write TensorBoard events to the run's folder (extra `tensorboard`)."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.minutes is not None:
            raise ValueError("give steps or minutes, not both")
        return self


class PretrainSettings(SettingsTables):
    """Everything that decides a run, apart from corpus and starting bundle."""

    model: ModelSettings = ModelSettings()
    """The model."""
    data: DataSettings = DataSettings()
    """The rows."""
    objective: ObjectiveSettings = ObjectiveSettings()
    """The objective."""
    optimizer: OptimizerSettings = OptimizerSettings()
    """The optimizer."""
    schedule: ScheduleSettings = ScheduleSettings()
    """The schedule."""
    run: RunSettings = RunSettings()
    """The run."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.data.pairing != "none" and self.objective.target == "next":
            raise ValueError("sentence pairs go with masked tokens, not with target = next")
        return self


def paper_recipe(settings: PretrainSettings) -> PretrainSettings:
    """Return `settings` with the published recipe (sections 3.1 and A.2; google-research/bert) in their place.

    MLM + NSP, 90 % of the run at 128 tokens and the rest at 512, AdamW at 1e-4 with warm-up over 1 % and a linear
    decay, dropout 0.1, weights of one normal distribution. Length of the run, model and batch stay as they are; the
    paper has 1,000,000 steps of 256 rows.
    """
    return settings.with_values(
        [
            "model.dropout=0.1",
            "model.start=published",
            "data.pairing=nsp",
            "data.seq_len=128",
            "data.long_seq_len=512",
            "data.long_share=0.1",
            "objective.target=masked",
            "objective.mask_rate=0.15",
            "objective.mask_rate_end=none",
            "objective.mask_share=0.8",
            "objective.random_share=0.1",
            "objective.units=pieces",
            "optimizer.learning_rate=1e-4",
            "optimizer.beta1=0.9",
            "optimizer.beta2=0.999",
            "optimizer.eps=1e-6",
            "optimizer.weight_decay=0.01",
            "optimizer.clip=1.0",
            "schedule.kind=linear",
            "schedule.warmup=0.01",
        ]
    )
