"""What an export is: a bundle that holds a graph or a table in place of a model's weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from torch import Tensor

Form = Literal["static", "onnx", "openvino"]
FORMS: tuple[Form, ...] = ("static", "onnx", "openvino")
LONGEST_STATIC = 1_000_000
"""Tokens of a text that a static export takes: it has no positions, so nothing is cut."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What an export has in place of weights."""

    form: Form
    embedding_size: int
    """Numbers of a text's vector."""
    weights: str
    """The weights' fingerprint: of the encoder it was made of, or of the table where vectors are others."""
    graphs: Mapping[str, str]
    """What a graph gives (`engines.EMBED` or a head's name) -> its file; none in a static export."""
    certificate: Mapping[str, Any]
    """What was compared with the bundle it was made of, ready for JSON."""
    int8: Mapping[str, str] = field(default_factory=dict)
    """The same graphs in int8, as far as there are any."""
    directory: Path = Path()
    """Where the files lie."""
    table: Tensor | None = None
    """(vocab_size, embedding_size) float32, of a static export."""

    def to_dict(self) -> dict[str, Any]:
        """Return what anaume.json keeps."""
        told = {"form": self.form, "embedding_size": self.embedding_size, "graphs": dict(self.graphs)}
        return {**told, "int8": dict(self.int8)} if self.int8 else told

    @property
    def over(self) -> str:
        """The bounds that its int8 graphs break, in words; "" where they keep them, or there are none."""
        told = self.certificate.get("int8") if self.int8 else None
        return "; ".join(told["over"]) if told else ""
