"""Heads: small modules that read the encoder's vectors and predict something.

Text heads read one vector a text, token heads one vector a token. Every head returns logits; losses are functions in
`losses.py`.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from anaume.config import EncoderConfig, HeadConfig
from anaume.model.decoder import Decoder
from anaume.model.dropout import Dropout
from anaume.model.encoder import activate
from anaume.model.pooling import pool
from anaume.model.reading import LayerMix
from anaume.model.recurrent import BiLSTM
from anaume.model.token_loss import token_loss


class Pooler(nn.Module):
    """tanh(W x) over the vector of [CLS]: what the published text heads read."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, last_hidden_state: Tensor, attention_mask: Tensor | None) -> Tensor:
        """(batch, seq_len, hidden_size) -> (batch, hidden_size); None as mask says that nothing is padding."""
        if attention_mask is None:
            first = last_hidden_state[:, 0]
        else:
            first = pool(last_hidden_state, attention_mask, "cls")
        return torch.tanh(self.dense(first))


class MaskedLMHead(nn.Module):
    """Logits over the vocabulary, at chosen places only; the output matrix is the token embedding table (tied)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))
        self.activation = config.activation

    def forward(self, last_hidden_state: Tensor, token_embeddings: Tensor, positions: Tensor | None) -> Tensor:
        """Return the logits at `positions`.

        last_hidden_state  (batch, seq_len, hidden_size)
        token_embeddings   (vocab_size, hidden_size), the table itself
        positions          (batch, places) int64 places in the row; None = every place
        returns            (batch, places or seq_len, vocab_size)

        With 15 % of the places chosen this saves 85 % of the largest matrix product of pretraining.
        """
        return F.linear(self.transform(last_hidden_state, positions), token_embeddings, self.bias)

    def transform(self, last_hidden_state: Tensor, positions: Tensor | None) -> Tensor:
        """Return what the output matrix is applied to, (batch, places or seq_len, hidden_size)."""
        if positions is not None:
            last_hidden_state = last_hidden_state.take_along_dim(positions[..., None], dim=1)
        states: Tensor = self.layer_norm(activate(self.dense(last_hidden_state), self.activation))
        return states

    def loss(
        self, last_hidden_state: Tensor, token_embeddings: Tensor, positions: Tensor | None, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the summed loss of the predictions at `positions` and how many are right (see `token_loss`).

        labels  (batch, places or seq_len) int64, -100 = not counted
        """
        states = self.transform(last_hidden_state, positions)
        return token_loss(states.flatten(0, 1), token_embeddings, self.bias, labels.flatten())


class NextSentenceHead(nn.Module):
    """Does B follow A? Two logits: 0 = follows, 1 = random (the labels of the published code)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, pooled: Tensor) -> Tensor:
        """(batch, hidden_size) -> (batch, 2)."""
        logits: Tensor = self.dense(pooled)
        return logits


class TextHead(nn.Module):
    """One prediction a text: classes, several labels, or one number (`HeadConfig.kind` decides the loss).

    The published head is dropout and one linear layer over the pooler; `head_layers` puts linear + GELU layers before
    it: [B, T, D] -> [B, D] -> [B, classes].
    """

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.mix = LayerMix(config, head.layers)
        widths = [self.mix.width, *[config.hidden_size] * (head.head_layers - 1)]
        self.hidden = nn.ModuleList(nn.Linear(width, config.hidden_size) for width in widths[:-1])
        self.dropout = Dropout(head.dropout)
        self.dense = nn.Linear(widths[-1], max(1, len(head.labels)))

    def forward(self, pooled: Tensor) -> Tensor:
        """(batch, hidden_size) -> (batch, labels); (batch, 1) for regression.

        A head that reads other layers than the last takes each of them pooled, (layers, batch, hidden_size).
        """
        pooled = self.mix(pooled)
        for layer in self.hidden:
            pooled = F.gelu(layer(pooled))
        logits: Tensor = self.dense(self.dropout(pooled))
        return logits


class TokenHead(nn.Module):
    """One prediction a token, for tags: dropout and one linear layer as published, behind a BiLSTM if there is one."""

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.mix = LayerMix(config, head.layers)
        width, self.recurrent = self.mix.width, None
        if head.recurrent_layers:
            size = max(1, config.hidden_size // 2)
            self.recurrent = BiLSTM(width, size, head.recurrent_layers, head.dropout)
            width = 2 * size
        self.dropout = Dropout(head.dropout)
        self.dense = nn.Linear(width, len(head.labels))

    def forward(self, states: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """(batch, seq_len, hidden_size) -> (batch, seq_len, labels).

        A head that reads other layers than the last takes (layers, batch, seq_len, hidden_size). None as mask says that
        nothing is padding.
        """
        states = self.mix(states)
        if self.recurrent is not None:
            states = self.recurrent(states, attention_mask)
        logits: Tensor = self.dense(self.dropout(states))
        return logits


class SpanHead(nn.Module):
    """Where an answer starts and ends (BERT, section 4.2)."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, 2)

    def forward(self, last_hidden_state: Tensor) -> Tensor:
        """(batch, seq_len, hidden_size) -> (batch, seq_len, 2): start logits, end logits."""
        logits: Tensor = self.dense(last_hidden_state)
        return logits


class MultipleChoiceHead(nn.Module):
    """One score an option; the options of a question are rows of the batch (BERT, section 4.4)."""

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.dropout = Dropout(head.dropout)
        self.dense = nn.Linear(config.hidden_size, 1)

    def forward(self, pooled: Tensor) -> Tensor:
        """(options, hidden_size) -> (options,)."""
        scores: Tensor = self.dense(self.dropout(pooled)).squeeze(-1)
        return scores


class SimilarityHead(nn.Module):
    """The pooled vectors themselves; with labels, what a classifier says of each pair beside them.

    The classifier reads (u, v, |u - v|) (Sentence-BERT, Reimers and Gurevych 2019, section 3). It is trained with the
    encoder and no part of what is saved, as is a decoder, where there is one, that rebuilds texts from their vectors.
    """

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.decoder = Decoder(config, head.decoder_layers) if head.decoder_layers else None
        self.classifier = nn.Linear(3 * config.hidden_size, len(head.labels)) if head.labels else None

    def forward(self, pooled: Tensor) -> Tensor:
        """(texts, hidden_size) -> the same; with labels (texts, hidden_size + labels).

        With labels, texts 2i and 2i + 1 are a pair, and both get its logits.
        """
        if self.classifier is None:
            return pooled
        u, v = pooled.view(-1, 2, pooled.shape[-1]).unbind(dim=1)
        logits = self.classifier(torch.cat([u, v, (u - v).abs()], dim=-1))
        return torch.cat([pooled, logits.repeat_interleave(2, dim=0)], dim=-1)


class LateInteractionHead(nn.Module):
    """A vector a token: a linear layer without bias, and length 1 (ColBERT, Khattab and Zaharia 2020, section 3.2)."""

    def __init__(self, config: EncoderConfig, head: HeadConfig) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, head.size, bias=False)

    def forward(self, last_hidden_state: Tensor) -> Tensor:
        """(batch, seq_len, hidden_size) -> (batch, seq_len, size) float32, padding included."""
        return F.normalize(self.dense(last_hidden_state).float(), dim=-1)


def build_head(config: EncoderConfig, head: HeadConfig) -> nn.Module:
    """Return the module of a head, with weights not yet drawn as published (see `embeddings.initialize`)."""
    if head.kind == "mlm":
        return MaskedLMHead(config)
    if head.kind == "nsp":
        return NextSentenceHead(config)
    if head.kind == "token-classification":
        return TokenHead(config, head)
    if head.kind == "span":
        return SpanHead(config)
    if head.kind == "multiple-choice":
        return MultipleChoiceHead(config, head)
    if head.kind == "similarity":
        return SimilarityHead(config, head)
    if head.kind == "late-interaction":
        return LateInteractionHead(config, head)
    return TextHead(config, head)
