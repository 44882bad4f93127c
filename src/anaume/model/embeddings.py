"""Token, segment and position vectors, summed: the first station of a text inside the model."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from anaume.config import require_positive
from anaume.errors import SettingsError
from anaume.model.dropout import Dropout


class InputEmbeddings(nn.Module):
    """The sum of three learned tables, normalised, with dropout (BERT, section 3, "Input/Output Representations").

    >>> embeddings = InputEmbeddings(30522, 768, 512, 2)
    >>> embeddings(torch.tensor([[101, 2023, 2003, 102]])).shape
    torch.Size([1, 4, 768])
    >>> InputEmbeddings(100, 16, 32)(torch.tensor([[1, 2, 3]])).shape
    torch.Size([1, 3, 16])

    Raises SettingsError (a ValueError) "NAME must be positive" for a size that is not a positive whole number.
    """

    def __init__(
        self,
        vocab_size: int,
        hidden_size: int,
        max_position_embeddings: int,
        segment_vocab_size: int = 2,
        *,
        dropout: float = 0.1,
        layer_norm_eps: float = 1e-12,
        initializer_range: float = 0.02,
    ) -> None:
        super().__init__()
        require_positive(
            vocab_size=vocab_size,
            hidden_size=hidden_size,
            max_position_embeddings=max_position_embeddings,
            segment_vocab_size=segment_vocab_size,
        )
        self.token_embeddings = _table(vocab_size, hidden_size)
        self.segment_embeddings = _table(segment_vocab_size, hidden_size)
        self.position_embeddings = _table(max_position_embeddings, hidden_size)
        self.layer_norm = nn.LayerNorm(hidden_size, eps=layer_norm_eps)
        self.dropout = Dropout(dropout)
        initialize(self, initializer_range)

    def forward(
        self, token_ids: Tensor, segment_ids: Tensor | None = None, position_ids: Tensor | None = None
    ) -> Tensor:
        """Return the input vectors of a batch.

        token_ids     (batch, seq_len) integers
        segment_ids   (batch, seq_len) integers, None = all zeros
        position_ids  (batch, seq_len) integers, None = 0 .. seq_len - 1
        returns       (batch, seq_len, hidden_size)

        Raises SettingsError (a ValueError) for other shapes, for a row longer than the position table, and, where the
        IDs lie on the CPU, for an ID outside its table (elsewhere that look would wait for the device: whoever sends
        a batch there checks it first, with `check_ids`).
        """
        if token_ids.dim() != 2:
            raise SettingsError(f"token_ids must be 2-D, (batch, seq_len); got shape {tuple(token_ids.shape)}")
        for name, ids in (("segment_ids", segment_ids), ("position_ids", position_ids)):
            if ids is not None and ids.shape != token_ids.shape:
                raise SettingsError(
                    f"{name} must have the shape of token_ids, {tuple(token_ids.shape)}; got {tuple(ids.shape)}"
                )
        seq_len = token_ids.shape[1]
        longest = self.position_embeddings.num_embeddings
        if position_ids is None and seq_len > longest:
            raise SettingsError(
                f"a row of {seq_len} tokens is longer than the position table, {longest} (max_position_embeddings): "
                "cut the text or split it into windows"
            )
        if token_ids.device.type == "cpu" and not torch.compiler.is_compiling():
            self.check_ids(token_ids, segment_ids, position_ids)

        vectors: Tensor = self.token_embeddings(token_ids)
        if segment_ids is None:
            vectors = vectors + self.segment_embeddings.weight[0]
        else:
            vectors = vectors + self.segment_embeddings(segment_ids)
        if position_ids is None:
            vectors = vectors + self.position_embeddings.weight[:seq_len]
        else:
            vectors = vectors + self.position_embeddings(position_ids)
        normalized: Tensor = self.dropout(self.layer_norm(vectors))
        return normalized

    def check_ids(
        self, token_ids: Tensor, segment_ids: Tensor | None = None, position_ids: Tensor | None = None
    ) -> None:
        """Raise SettingsError (a ValueError) naming the first ID outside its table, with its row and place."""
        tables = (
            ("token", token_ids, self.token_embeddings, "vocab_size"),
            ("segment", segment_ids, self.segment_embeddings, "segment_vocab_size"),
            ("position", position_ids, self.position_embeddings, "max_position_embeddings"),
        )
        for name, ids, table, setting in tables:
            if ids is None or ids.numel() == 0:
                continue
            low, high = torch.aminmax(ids)
            if low < 0 or high >= table.num_embeddings:
                row, place = ((ids < 0) | (ids >= table.num_embeddings)).nonzero()[0].tolist()
                raise SettingsError(
                    f"{name} ID {int(ids[row, place])} at row {row}, place {place} is outside its table of "
                    f"{table.num_embeddings} rows ({setting}): do tokenizer and model belong together?"
                )


def _table(rows: int, width: int) -> nn.Embedding:
    """A table that is not drawn yet: torch's own draw would be thrown away, and on the meta device, where a checkpoint
    is given its shape, it brings in torch's compiler, a second of every start."""
    table: nn.Embedding = nn.Embedding.from_pretrained(  # type: ignore[no-untyped-call]
        torch.empty(rows, width), freeze=False
    )
    return table


@torch.no_grad()
def initialize(module: nn.Module, std: float, generator: torch.Generator | None = None) -> None:
    """Draw all weights under `module` as published: normal(0, std) cut at two std, biases zero, norms one and zero.

    (google-research/bert uses TensorFlow's truncated normal with std 0.02.) A recurrent layer is drawn as torch draws
    it, uniform(-1, 1) / sqrt(its width), all its weights and biases.
    """
    for part in module.modules():
        if isinstance(part, (nn.Linear, nn.Embedding)):
            nn.init.trunc_normal_(part.weight, std=std, a=-2 * std, b=2 * std, generator=generator)
        if isinstance(part, nn.Linear) and part.bias is not None:
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.LayerNorm):
            nn.init.ones_(part.weight)
            nn.init.zeros_(part.bias)
        if isinstance(part, nn.LSTM):
            for weights in part.parameters():
                nn.init.uniform_(weights, -(part.hidden_size**-0.5), part.hidden_size**-0.5, generator=generator)
