"""The settings of a pretraining run: one TOML file, checked as a whole, saved with the run."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from anaume.errors import SettingsError, nearest


class _Section(BaseModel):
    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class ModelSettings(_Section):
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
    causal: bool | None = None
    """False: both sides are visible (BERT). True: only what stands before (GPT). None = as the objective needs it:
    True for target = "next", else False, or the bundle's."""


class DataSettings(_Section):
    """How documents become rows."""

    seq_len: int = Field(default=128, ge=8)
    """Tokens of a row, special ones included."""
    long_seq_len: int | None = Field(default=None, ge=8)
    """Length of the rows in the last part of the run; None = the same throughout."""
    long_share: float = Field(default=0.1, gt=0.0, lt=1.0)
    """How large that last part is."""
    pairing: Literal["none", "nsp", "sop"] = "none"
    """Sentence pairs: next-sentence prediction, sentence order, or documents packed into full rows."""


class ObjectiveSettings(_Section):
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


class OptimizerSettings(_Section):
    """AdamW with bias correction; biases and layer norms are not decayed."""

    learning_rate: float = Field(default=1e-3, gt=0.0)
    """The highest learning rate of the schedule."""
    beta1: float = Field(default=0.9, ge=0.0, lt=1.0)
    """Decay of the mean of gradients."""
    beta2: float = Field(default=0.98, ge=0.0, lt=1.0)
    """Decay of the mean of squared gradients."""
    eps: float = Field(default=1e-6, gt=0.0)
    """Added to the root of the second mean."""
    weight_decay: float = Field(default=0.01, ge=0.0)
    """Decoupled weight decay."""
    clip: float = Field(default=1.0, ge=0.0)
    """Longest gradient; 0 = not clipped."""


class ScheduleSettings(_Section):
    """How the learning rate goes over the run; shares are of the whole run, in steps or in time."""

    kind: Literal["linear", "cosine", "trapezoid", "constant"] = "linear"
    """After the warm-up: down to 0 in a line, along a cosine, or flat and then down in a line."""
    warmup: float = Field(default=0.06, ge=0.0, lt=1.0)
    """Share of the run in which the rate rises from 0."""
    cooldown: float = Field(default=0.4, gt=0.0, le=1.0)
    """Share of the run in which a trapezoid comes down."""


class RunSettings(_Section):
    """How long, how large, how safe."""

    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps; or give minutes."""
    minutes: float | None = Field(default=None, gt=0.0)
    """A time budget: the schedule follows the clock and ends on it."""
    batch_rows: int | None = Field(default=None, ge=1)
    """Rows of a step, over all ranks; where rows are longer (data.long_seq_len), fewer, of as many tokens. None = 32,
    or under run.minutes as a few measured steps propose."""
    micro_rows: int | None = Field(default=None, ge=1)
    """Rows that are in memory at once; None = all of a rank's. The result is that of the whole batch."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 where the processor has it in hardware (by capability, never by timing)."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    compile: bool = False
    """torch.compile: no longer bit for bit between runs."""
    seed: int = Field(default=0, ge=0)
    """Decides weights, order, masks and dropout."""
    threads: int | None = Field(default=None, ge=1)
    """Threads torch computes with; None = as torch has them, written down when the run begins."""
    checkpoint_seconds: float = Field(default=60.0, gt=0.0)
    """The most that a kill can lose."""
    log_seconds: float = Field(default=2.0, ge=0.0, le=5.0)
    """Between two rows of metrics.jsonl; 0 = a row each step."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many of the last checkpoints stay."""
    evaluations: int = Field(default=5, ge=0)
    """Times the held-out loss is measured, evenly over the run, the end included."""
    evaluation_rows: int = Field(default=256, ge=1)
    """Held-out rows each time; always the same ones under the same masks."""
    on_non_finite: Literal["skip", "stop"] = "skip"
    """What happens to a step whose loss or gradient is not finite: it is never applied."""
    curves: bool = True
    """Draw curves.png at each evaluation (half a second) and after the end, where matplotlib is installed."""
    tensorboard: bool = False
    """Write TensorBoard events to the run's folder (extra `tensorboard`)."""

    @model_validator(mode="after")
    def _one_length(self) -> Self:
        if self.steps is not None and self.minutes is not None:
            raise ValueError("give steps or minutes, not both")
        return self


class PretrainSettings(_Section):
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

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Check settings as nested tables. Raises SettingsError naming the first wrong field by its path."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(_explain(error)) from None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file. Raises SettingsError for a missing or malformed file or a wrong field."""
        try:
            with open(path, "rb") as file:
                content = tomllib.load(file)
        except OSError as error:
            raise SettingsError(f"{path}: can't be read: {error.strerror}") from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingsError(f"{path}: not TOML: {error}") from None
        try:
            return cls.from_dict(content)
        except SettingsError as error:
            raise SettingsError(f"{path}: {error}") from None

    def with_values(self, assignments: Sequence[str]) -> Self:
        """Return the settings with "section.key=value" applied; values are TOML, bare words are strings, none unsets.

        Raises SettingsError for what is no assignment, an unknown section or key (with the nearest), a wrong value.
        """
        content = self.model_dump()
        for assignment in assignments:
            name, equals, text = assignment.partition("=")
            section, dot, key = name.strip().partition(".")
            if not equals or not dot:
                raise SettingsError(f"a setting is given as section.key=value; got {assignment!r}")
            if section not in content:
                raise SettingsError(
                    f"there is no section {section!r}{nearest(section, content)}; there are: {', '.join(content)}"
                )
            content[section][key] = _value(text.strip(), unset=_may_be_unset(section, key))
        return self.from_dict(content)

    def differences(self, other: Self) -> list[str]:
        """Return "section.key: this, other" for each setting that differs."""
        found = []
        theirs = other.model_dump()
        for section, values in self.model_dump().items():
            for key, value in values.items():
                if value != theirs[section][key]:
                    found.append(f"{section}.{key}: {value!r}, there {theirs[section][key]!r}")
        return found

    def to_toml(self) -> str:
        """Return the settings as TOML; what is None is left out, as TOML has no null."""
        import tomli_w

        content = {
            section: {key: value for key, value in values.items() if value is not None}
            for section, values in self.model_dump().items()
        }
        return tomli_w.dumps(content)


def paper_recipe(settings: PretrainSettings) -> PretrainSettings:
    """Return `settings` with the published recipe (sections 3.1 and A.2; google-research/bert) in their place.

    MLM + NSP, 90 % of the run at 128 tokens and the rest at 512, AdamW at 1e-4 with warm-up over 1 % and a linear
    decay, dropout 0.1. Length of the run, model and batch stay as they are; the paper has 1,000,000 steps of 256 rows.
    """
    return settings.with_values(
        [
            "model.dropout=0.1",
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


def _may_be_unset(section: str, key: str) -> bool:
    fields: Any = PretrainSettings.model_fields[section].annotation
    field = fields.model_fields.get(key)
    return field is not None and type(None) in get_args(field.annotation)


def _value(text: str, *, unset: bool) -> Any:
    if text == "none" and unset:  # elsewhere it is a word like any other: data.pairing=none
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _explain(error: ValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"]) or "settings"
    if first["type"] == "extra_forbidden":
        section = PretrainSettings.model_fields.get(str(first["loc"][0])) if len(first["loc"]) > 1 else None
        known = section.annotation.model_fields if section is not None and section.annotation else {}
        names = list(known) or list(PretrainSettings.model_fields)
        return f"there is no setting {where}{nearest(str(first['loc'][-1]), names)}; there are: {', '.join(names)}"
    more = len(error.errors()) - 1
    rest = f" (and {more} more)" if more else ""
    return f"{where}: {first['msg'].removeprefix('Value error, ')}; got {first['input']!r:.60}{rest}"
