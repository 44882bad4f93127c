"""What a directory holds once it is read: plain parts, which `Bundle` puts to work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from anaume.bundle.exported import Exported
from anaume.bundle.record import TrainingRecord
from anaume.config import EmbeddingConfig
from anaume.errors import SettingsError
from anaume.model import Bert

if TYPE_CHECKING:
    from anaume.tokenization import Tokenizer


@dataclass(frozen=True, kw_only=True)
class LoadReport:
    """What became of every tensor of the files. There is no "partly": a load that leaves one over fails."""

    encoder_loaded: int
    """Encoder tensors of the file that were used, by the file's own count (query, key and value are three)."""
    encoder_expected: int
    """Encoder tensors the configuration asks for; always equal to encoder_loaded."""
    heads: tuple[str, ...] = ()
    """Pooler and heads that were in the files."""
    absent: tuple[str, ...] = ()
    """Pooler and heads that the class named in config.json would have, but the files do not. They are not made up."""
    ignored: tuple[tuple[str, str], ...] = ()
    """(tensor, why) for what was left out by name."""
    tied: tuple[str, ...] = ()
    """Second names of tensors that are one in our model."""
    stored_dtype: str = "float32"
    """What the numbers were stored as; in memory they are float32."""

    def lines(self) -> list[str]:
        """Return the report, one fact a line."""
        lines = [
            f"{self.encoder_loaded} of {self.encoder_expected} encoder tensors loaded, stored as {self.stored_dtype}"
        ]
        lines += [f"also in the files: {', '.join(self.heads)}"] if self.heads else []
        lines += [f"absent, and not made up: {', '.join(self.absent)}"] if self.absent else []
        lines += [f"tied: {', '.join(self.tied)}"] if self.tied else []
        lines += [f"ignored: {name}, {why}" for name, why in self.ignored]
        return lines


@dataclass(frozen=True, kw_only=True)
class Fingerprints:
    """The three hashes a bundle is known by (see fingerprint.py)."""

    tokenizer: str
    weights: str
    vector: str


@dataclass(frozen=True, kw_only=True)
class TaskEntry:
    """What a head was trained for, as anaume.json keeps it."""

    task: str
    """The task's name."""
    max_length: int
    """The longest row it was trained on, in tokens; longer texts are cut, or read in windows."""
    settings: Mapping[str, Any]
    """The task's own: thresholds, schemes, ... (`Task.settings`)."""


@dataclass(frozen=True, kw_only=True)
class BundleParts:
    """Everything that is saved and loaded together."""

    tokenizer: Tokenizer
    model: Bert
    embedding: EmbeddingConfig
    record: TrainingRecord = field(default_factory=TrainingRecord)
    tasks: Mapping[str, TaskEntry] = field(default_factory=dict)
    """Head's name -> what it was trained for; none for heads out of foreign checkpoints."""
    weights_dtype: str = "float32"
    """What the weights were stored as; the model itself is float32."""
    source: str = ""
    """Where the parts come from: a path, or "" for parts made in memory."""
    notes: tuple[str, ...] = ()
    """What the user must know about this load or these parts, one line each."""
    report: LoadReport | None = None
    """What became of the tensors; None for parts made in memory."""
    fingerprints: Fingerprints | None = None
    """As stored in anaume.json; None where nothing was stored. Void once the weights change."""
    card: str = ""
    """The README.md that was there; what is not ours in it is kept when saving."""
    exported: Exported | None = None
    """What an export has in place of weights; `model` then has settings and shapes, and no storage."""

    @property
    def is_late(self) -> bool:
        """Whether they make a vector a token (late interaction) and none of a whole text."""
        return any(head.kind == "late-interaction" for head in self.model.head_configs.values())

    def require_one_vector(self) -> None:
        """Raise SettingsError for a bundle that makes a vector a token."""
        if self.is_late:
            raise SettingsError(
                f"{self.source or 'this bundle'} makes a vector a token (late interaction), none of a whole text: it "
                "orders passages (rank, anaume search --rerank, anaume evaluate --task retrieval) and gives "
                "token_embeddings; for one vector a text train with anaume finetune similarity"
            )

    @classmethod
    def untrained(cls, tokenizer: Tokenizer, model: Bert, embedding: EmbeddingConfig) -> Self:
        """Return the parts of a model with freshly drawn weights."""
        return cls(tokenizer=tokenizer, model=model, embedding=embedding)
