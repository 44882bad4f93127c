"""A small decoder that rebuilds a text from its vector; it is trained with the encoder, and thrown away."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, nn

from anaume.config import EncoderConfig
from anaume.model.embeddings import InputEmbeddings
from anaume.model.encoder import Encoder
from anaume.model.masking import IGNORED
from anaume.model.token_loss import token_loss


class Decoder(nn.Module):
    """Causal layers over the tokens before and the vector of the whole text (TSDAE, Wang et al. 2021, section 3).

    The published decoder attends to the text's vector and to nothing else of the encoder. Over one vector a softmax is
    always 1, and such attention is a linear layer of it, the same at every place: so it is written here, added to what
    the first layer reads. Input and output tables are the encoder's own.
    """

    def __init__(self, config: EncoderConfig, layers: int) -> None:
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.layers = Encoder(dataclasses.replace(config, causal=True, num_hidden_layers=layers))
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, vectors: Tensor, tokens: Tensor, embeddings: InputEmbeddings) -> Tensor:
        """Return the summed cross-entropy of every token after the first, given those before it and the vector.

        vectors     (texts, hidden_size)
        tokens      (texts, seq_len) int64, special ones included, filled up on the right with -100
        embeddings  the encoder's
        returns     a float32 scalar
        """
        # Padding stands on the right, where nobody looks: no mask is needed.
        before = embeddings(tokens[:, :-1].masked_fill(tokens[:, :-1] == IGNORED, 0))
        told = self.dense(vectors.to(self.dense.weight.dtype))
        states = self.layers(before + told[:, None, :], None).last_hidden_state
        loss, _ = token_loss(
            states.flatten(0, 1), embeddings.token_embeddings.weight, self.bias, tokens[:, 1:].flatten()
        )
        return loss
