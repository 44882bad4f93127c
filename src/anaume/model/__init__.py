"""TENSORS -> TENSORS: embeddings, attention, encoder, heads, masks, losses, pooling. No text, no files."""

from anaume.model.bert import Bert
from anaume.model.embeddings import InputEmbeddings
from anaume.model.encoder import Encoder, EncoderLayer, EncoderOutput
from anaume.model.flops import encoder_flops, training_flops
from anaume.model.heads import Pooler
from anaume.model.losses import (
    classification_loss,
    mlm_loss,
    multi_label_loss,
    nsp_loss,
    regression_loss,
    span_loss,
)
from anaume.model.masking import IGNORED, RandomMask, generate_random_mask
from anaume.model.pooling import pool, pool_packed

__all__ = [
    "IGNORED",
    "Bert",
    "Encoder",
    "EncoderLayer",
    "EncoderOutput",
    "InputEmbeddings",
    "Pooler",
    "RandomMask",
    "classification_loss",
    "encoder_flops",
    "generate_random_mask",
    "mlm_loss",
    "multi_label_loss",
    "nsp_loss",
    "pool",
    "pool_packed",
    "regression_loss",
    "span_loss",
    "training_flops",
]
