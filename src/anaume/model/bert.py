"""The whole model: input embeddings, encoder, pooler and heads. This file only assembles."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from anaume.config import EncoderConfig, HeadConfig, require_writable
from anaume.errors import SettingsError, nearest
from anaume.model.embeddings import InputEmbeddings, initialize
from anaume.model.encoder import Encoder, EncoderOutput
from anaume.model.heads import MaskedLMHead, Pooler, build_head
from anaume.model.pooling import pool
from anaume.model.reading import layer_numbers
from anaume.model.visibility import positions_from_mask


class Bert(nn.Module):
    """A BERT encoder with any heads, by name.

    heads   name -> HeadConfig; the names "mlm" and "nsp" are those of pretraining
    pooler  whether the model has a pooler; None = when a head reads it
    seed    draws all weights as published; None leaves the global generator to decide
    """

    def __init__(
        self,
        config: EncoderConfig,
        heads: Mapping[str, HeadConfig] | None = None,
        *,
        pooler: bool | None = None,
        seed: int | None = None,
    ) -> None:
        super().__init__()
        self.config = config
        self.head_configs = dict(heads or {})
        for name, head in self.head_configs.items():
            if not isinstance(head, HeadConfig):
                raise SettingsError(f"the head {name!r} must be a HeadConfig; got {head!r:.60}")
            require_writable("a head's name", [name])
            if not name or "." in name or hasattr(nn.ModuleDict, name):
                raise SettingsError(
                    f"a head can't be called {name!r}: no dots, and no method name of torch's ModuleDict"
                )
        needed = [name for name, head in self.head_configs.items() if head.needs_pooler]
        if pooler is False and needed:
            raise SettingsError(f"these heads read the pooler, which is switched off: {', '.join(needed)}")
        self.embeddings = InputEmbeddings(
            config.vocab_size,
            config.hidden_size,
            config.max_position_embeddings,
            config.segment_vocab_size,
            dropout=config.hidden_dropout,
            layer_norm_eps=config.layer_norm_eps,
            initializer_range=config.initializer_range,
        )
        self.encoder = Encoder(config)
        self.pooler = Pooler(config) if pooler or needed else None
        self.heads = nn.ModuleDict({name: build_head(config, head) for name, head in self.head_configs.items()})
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        initialize(self, config.initializer_range, generator)

    def forward(
        self,
        token_ids: Tensor,
        attention_mask: Tensor | None,
        segment_ids: Tensor | None = None,
        position_ids: Tensor | None = None,
        *,
        sequence_ids: Tensor | None = None,
        keep_hidden_states: bool = False,
        keep_attentions: bool = False,
    ) -> EncoderOutput:
        """Return the contextual vectors of a batch.

        token_ids       (batch, seq_len) integers
        attention_mask  (batch, seq_len) bool, True = real token; required, None says that nothing is padding
        segment_ids     (batch, seq_len) integers, None = all zeros
        position_ids    (batch, seq_len) integers, None = counted from each row's first real token
        sequence_ids    (batch, seq_len) integers for packed rows (see `visibility.attention_bias`); position_ids,
                        which restart with each text, are then required

        Raises SettingsError (a ValueError) as `InputEmbeddings` and `Encoder` do.
        """
        if sequence_ids is not None and position_ids is None:
            raise SettingsError("packed rows (sequence_ids) need position_ids that restart with each text")
        if attention_mask is not None and attention_mask.shape != token_ids.shape:
            raise SettingsError(
                f"attention_mask must have the shape of token_ids, {tuple(token_ids.shape)}; "
                f"got {tuple(attention_mask.shape)}"
            )
        fits = token_ids.dim() == 2 and token_ids.shape[1] <= self.config.max_position_embeddings
        if attention_mask is not None and position_ids is None and fits:
            position_ids = positions_from_mask(attention_mask)
        vectors = self.embeddings(token_ids, segment_ids, position_ids)
        output: EncoderOutput = self.encoder(
            vectors,
            attention_mask,
            sequence_ids=sequence_ids,
            keep_hidden_states=keep_hidden_states,
            keep_attentions=keep_attentions,
        )
        return output

    def reads_layers(self, name: str) -> bool:
        """Whether a head reads other layers than the last: `forward` must keep them then."""
        return name in self.head_configs and self.head_configs[name].layers != "last"

    def read_by(self, name: str, output: EncoderOutput) -> Tensor:
        """Return what a head reads of the encoder's output, as `head_logits` takes it.

        The last layer, (batch, seq_len, hidden_size); or, of a head that reads others, the layers it reads,
        (layers, batch, seq_len, hidden_size).
        """
        if not self.reads_layers(name):
            return output.last_hidden_state
        assert output.hidden_states is not None
        numbers = layer_numbers(self.config, self.head_configs[name].layers)
        return torch.stack([output.hidden_states[number] for number in numbers])

    def head_logits(
        self, name: str, states: Tensor, attention_mask: Tensor | None, positions: Tensor | None = None
    ) -> Tensor:
        """Return the logits of one head over what it reads of the encoder (`read_by`); shapes: see the head.

        `positions` are the places an mlm head predicts, (batch, places) int64; None = every place.
        Raises SettingsError (a ValueError) when there is no such head, or for positions it can't use.
        """
        if name not in self.heads:
            have = ", ".join(self.heads) or "none"
            raise SettingsError(f"the model has no head called {name!r}{nearest(name, self.heads)}; it has: {have}")
        config = self.head_configs[name]
        head = self.heads[name]
        if positions is not None and (config.kind != "mlm" or positions.dim() != 2 or len(positions) != len(states)):
            raise SettingsError(
                f"positions, (batch, places) with batch = {len(states)}, are for an mlm head; "
                f"got shape {tuple(positions.shape)} for {name!r} ({config.kind})"
            )
        if config.kind == "mlm":
            logits = head(states, self.embeddings.token_embeddings.weight, positions)
        elif config.kind in ("span", "late-interaction"):
            logits = head(states)
        elif config.kind == "token-classification":
            logits = head(states, attention_mask)
        elif config.needs_pooler:
            assert self.pooler is not None
            logits = head(self.pooler(states, attention_mask))
        else:
            if attention_mask is None:
                attention_mask = states.new_ones(states.shape[-3:-1], dtype=torch.bool)
            if self.reads_layers(name):
                pooled = torch.stack([pool(layer, attention_mask, config.pooling) for layer in states])
            else:
                # Vectors that are compared keep float32: cosines of bfloat16 are off in their third digit.
                if config.kind == "similarity" and states.dtype in (torch.bfloat16, torch.float16):
                    states = states.float()
                pooled = pool(states, attention_mask, config.pooling)
            logits = head(pooled)
        assert isinstance(logits, Tensor)
        return logits

    def token_loss(
        self, name: str, last_hidden_state: Tensor, labels: Tensor, positions: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return the summed loss of an mlm head, and how many of its first guesses are right, both float32 scalars.

        labels     (batch, places or seq_len) int64, -100 = not counted
        positions  (batch, places) int64, as for `head_logits`

        The same as a loss of `head_logits`, without ever holding its logits in float32 (see `token_loss.token_loss`).
        Raises SettingsError (a ValueError) for a head that is none of mlm.
        """
        head = self.heads[name] if name in self.head_configs else None
        if not isinstance(head, MaskedLMHead):
            have = [other for other, config in self.head_configs.items() if config.kind == "mlm"]
            raise SettingsError(f"the model has no mlm head called {name!r}; it has: {', '.join(have) or 'none'}")
        return head.loss(last_hidden_state, self.embeddings.token_embeddings.weight, positions, labels)
