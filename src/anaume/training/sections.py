"""What the settings of every run share: optimizer, schedule, how long and how safe; TOML in and out, checked."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from anaume.errors import SettingsError, nearest


class Section(BaseModel):
    """A table of settings: frozen, and an unknown key or a wrong type is refused."""

    model_config = ConfigDict(
        frozen=True, strict=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


class OptimizerSettings(Section):
    """AdamW with bias correction; biases and layer norms are not decayed."""

    learning_rate: float | None = Field(default=None, gt=0.0)
    """The highest learning rate of the schedule; None = by the width of the model, and lower where it goes on from a
    bundle's weights (pretraining/start.py: usual_rate)."""
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

    @property
    def peak(self) -> float:
        """The highest learning rate of a run that has begun."""
        assert self.learning_rate is not None
        return self.learning_rate


class ScheduleSettings(Section):
    """How the learning rate goes over the run; shares are of the whole run, in steps or in time."""

    kind: Literal["linear", "cosine", "trapezoid", "constant"] = "linear"
    """After the warm-up: down to 0 in a line, along a cosine, or flat and then down in a line."""
    warmup: float = Field(default=0.06, ge=0.0, lt=1.0)
    """Share of the run in which the rate rises from 0."""
    cooldown: float = Field(default=0.4, gt=0.0, le=1.0)
    """Share of the run in which a trapezoid comes down."""


class CommonRun(Section):
    """How long, how large, how safe: what every run has."""

    steps: int | None = Field(default=None, ge=1)
    """Optimizer steps; or give minutes."""
    minutes: float | None = Field(default=None, gt=0.0)
    """A time budget: the schedule follows the clock and ends on it."""
    batch_rows: int | None = Field(default=None, ge=1)
    """Rows of a step, over all ranks."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """auto: bfloat16 where the processor has it in hardware (by capability, never by timing)."""
    gradient_checkpointing: bool = False
    """Recompute activations in the backward pass: less memory, a third more time."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Decides weights, order, masks and dropout; torch takes no larger one."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Threads torch computes with; None = as torch has them, written down when the run begins."""
    checkpoint_seconds: float = Field(default=60.0, gt=0.0)
    """The most that a kill can lose."""
    log_seconds: float = Field(default=2.0, ge=0.0, le=5.0)
    """Between two rows of metrics.jsonl; 0 = a row each step."""
    keep_checkpoints: int = Field(default=2, ge=1)
    """How many of the last checkpoints stay."""
    on_non_finite: Literal["skip", "stop"] = "skip"
    """What happens to a step whose loss or gradient is not finite: it is never applied."""


HOUSEKEEPING = ("checkpoint_seconds", "log_seconds", "keep_checkpoints", "curves", "tensorboard")
"""Settings of a run that change nothing of its result: it may go on with others."""


class LoopSettings(Protocol):
    """The settings the loop reads, whatever is trained."""

    @property
    def optimizer(self) -> OptimizerSettings:
        """The optimizer."""
        ...

    @property
    def schedule(self) -> ScheduleSettings:
        """The schedule."""
        ...

    @property
    def run(self) -> CommonRun:
        """The run."""
        ...


class SettingsTables(Section):
    """All settings of a run, as tables of a TOML file."""

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Check settings as nested tables. Raises SettingsError naming the first wrong field by its path."""
        try:
            return cls.model_validate(given)
        except ValidationError as error:
            raise SettingsError(_explain(cls, error)) from None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a TOML file. Raises SettingsError for a missing or malformed file or a wrong field."""
        try:
            with open(path, "rb") as file:
                content = tomllib.loads(file.read().decode("utf-8-sig"))  # TOML knows no byte-order mark
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
                raise SettingsError(
                    f"a setting is given as section.key=value{'' if dot else _elsewhere(type(self), section)}; got "
                    f"{assignment!r}; sections: {', '.join(content)}"
                )
            if section not in content:
                raise SettingsError(
                    f"there is no section {section!r}{nearest(section, content)}; there are: {', '.join(content)}"
                )
            content[section][key] = _value(text.strip(), unset=_may_be_unset(type(self), section, key))
        return self.from_dict(content)

    def differences(self, other: Self) -> list[str]:
        """Return "section.key: this, other" for each setting that differs and decides the result (`HOUSEKEEPING`)."""
        found = []
        theirs = other.model_dump()
        for section, values in self.model_dump().items():
            for key, value in values.items():
                if value != theirs[section][key] and not (section == "run" and key in HOUSEKEEPING):
                    found.append(f"{section}.{key}: {_shown(value)}, there {_shown(theirs[section][key])}")
        return found

    def to_toml(self) -> str:
        """Return the settings as TOML; what is None is left out, as TOML has no null."""
        import tomli_w

        content = {
            section: {key: value for key, value in values.items() if value is not None}
            for section, values in self.model_dump().items()
        }
        return tomli_w.dumps(content)


def _may_be_unset(tables: type[SettingsTables], section: str, key: str) -> bool:
    fields: Any = tables.model_fields[section].annotation
    field = fields.model_fields.get(key)
    return field is not None and type(None) in get_args(field.annotation)


def _shown(value: Any) -> str:
    return "not given" if value is None else repr(value)


def _elsewhere(tables: type[SettingsTables], key: str) -> str:
    """Return a hint for a key whose section is missing or wrong; "" where no section has it, or one nearly like it."""
    keys = {
        name: f"{section}.{name}"
        for section, field in tables.model_fields.items()
        for name in getattr(field.annotation, "model_fields", ())
    }
    close = difflib.get_close_matches(key, keys, n=1, cutoff=0.85)
    return f" (did you mean {keys[close[0]]}?)" if close else ""


def _value(text: str, *, unset: bool) -> Any:
    if text == "none" and unset:  # elsewhere it is a word like any other: data.pairing=none
        return None
    try:
        parsed = tomllib.loads(f"value = {text}")
    except tomllib.TOMLDecodeError:
        return text
    return parsed["value"] if len(parsed) == 1 else text


def _explain(tables: type[SettingsTables], error: ValidationError) -> str:
    found = error.errors()
    first = found[0]
    where = _place(first["loc"])
    if first["type"] == "extra_forbidden":
        section = tables.model_fields.get(str(first["loc"][0])) if len(first["loc"]) > 1 else None
        known = section.annotation.model_fields if section is not None and section.annotation else {}
        names = list(known) or list(tables.model_fields)
        key = str(first["loc"][-1])
        hint = nearest(key, names) or (_elsewhere(tables, key) if known else "")
        return f"there is no setting {where}{hint}; there are: {', '.join(names)}"
    # What may be of several kinds (a word, or a table) fails once for each: they are one fault.
    same = [one for one in found if _place(one["loc"]) == where]
    rest = f" (and {len(found) - len(same)} more)" if len(same) < len(found) else ""
    said = ", or ".join(dict.fromkeys(one["msg"].removeprefix("Value error, ") for one in same))
    value = first["input"]
    # Of a section, or all of them, what is wrong is said, and not the rest.
    came = "" if isinstance(value, Mapping) and len(first["loc"]) < 2 else f"; got {value!r:.60}"
    return f"{where}: {said}{came}{rest}"


def _place(loc: Sequence[str | int]) -> str:
    """Return "section.key", without the kinds that a value may be of ("dict[str,float]")."""
    return ".".join(str(part) for part in loc if "[" not in str(part)) or "settings"
