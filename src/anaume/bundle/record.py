"""The training record: which objectives made these weights, on what, with which settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from anaume.errors import BundleError, nearest

UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True)
class TrainingStage:
    """One step of the lineage: an import, a pretraining, a longer vocabulary. Everything in it is ready for JSON."""

    objectives: tuple[str, ...]
    """What was minimised: "mlm", "nsp", "contrastive", ...; ("unknown",) for a foreign checkpoint; none where nothing
    was trained, as when the vocabulary is extended."""
    source: str = ""
    """Where the weights came from, when they came from elsewhere: a name, never a path of one machine."""
    data: tuple[Mapping[str, Any], ...] = ()
    """What was read: name, sha256, rows, ... of each file or shard."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The resolved settings of the run."""
    scores: Mapping[str, Any] = field(default_factory=dict)
    """What was measured at its end, with the spread where there is one."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """anaume, torch and tokenizers as they were."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "objectives", tuple(self.objectives))
        object.__setattr__(self, "data", tuple(self.data))

    @property
    def frozen(self) -> bool:
        """Whether it left the encoder as it was, and trained a head on it."""
        model = self.settings.get("model")
        return isinstance(model, Mapping) and model.get("frozen") == "encoder"

    def to_dict(self) -> dict[str, Any]:
        """Return what is set, ready for JSON."""
        whole = {**dataclasses.asdict(self), "objectives": list(self.objectives), "data": [dict(d) for d in self.data]}
        return {key: value for key, value in whole.items() if value or key == "objectives"}


@dataclass(frozen=True, kw_only=True)
class TrainingRecord:
    """The stages that made the weights, first to last; none means freshly drawn weights."""

    stages: tuple[TrainingStage, ...] = ()

    @property
    def objectives(self) -> tuple[str, ...]:
        """Every objective of the lineage once, in order of first use; () for freshly drawn weights."""
        return tuple(dict.fromkeys(name for stage in self.stages for name in stage.objectives))

    @property
    def predicts_next(self) -> bool:
        """Whether the token head learned the next token last, not masked ones."""
        learned = [name for stage in self.stages for name in stage.objectives if name in ("mlm", "clm")]
        return learned[-1:] == ["clm"]

    def then(self, stage: TrainingStage) -> TrainingRecord:
        """Return the record with one more stage."""
        return TrainingRecord(stages=(*self.stages, stage))

    @classmethod
    def foreign(cls, source: str) -> Self:
        """Return the record of a checkpoint that does not say how it was trained."""
        return cls(stages=(TrainingStage(objectives=(UNKNOWN,), source=source),))

    def to_dict(self) -> dict[str, Any]:
        """Return the record, ready for JSON."""
        return {"objectives": list(self.objectives), "stages": [stage.to_dict() for stage in self.stages]}

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> Self:
        """Return the record in `given`; raise BundleError for what is not one."""
        known = [setting.name for setting in dataclasses.fields(TrainingStage)]
        stages = given.get("stages", [])
        if not isinstance(stages, list):
            raise BundleError(f"training.stages must be a list; got {type(stages).__name__}")
        for stage in stages:
            if not isinstance(stage, dict) or not isinstance(stage.get("objectives"), list):
                raise BundleError("each of training.stages must be an object with a list of objectives")
            for key in stage:
                if key not in known:
                    raise BundleError(f"a training stage has no field {key!r}{nearest(key, known)}")
        return cls(stages=tuple(TrainingStage(**stage) for stage in stages))
