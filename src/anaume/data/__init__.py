"""Files into rows, rows into batches, vectors onto disk and back; `corpus`: text into shards. No torch, no model."""

from anaume.data.atomic import atomic_file, atomic_text
from anaume.data.batching import pad, pad_to, padding_share, token_budget_batches
from anaume.data.files import STDIN, TextFile, open_text
from anaume.data.records import FORMATS
from anaume.data.rows import TEXT_COLUMNS, Row, read_rows
from anaume.data.stored import StoredVectors, join, read_about, read_vectors
from anaume.data.vectors import VectorWriter, open_vectors, sidecar_path, vector_format, vector_lines

__all__ = [
    "FORMATS",
    "STDIN",
    "TEXT_COLUMNS",
    "Row",
    "StoredVectors",
    "TextFile",
    "VectorWriter",
    "atomic_file",
    "atomic_text",
    "join",
    "open_text",
    "open_vectors",
    "pad",
    "pad_to",
    "padding_share",
    "read_about",
    "read_rows",
    "read_vectors",
    "sidecar_path",
    "token_budget_batches",
    "vector_format",
    "vector_lines",
]
