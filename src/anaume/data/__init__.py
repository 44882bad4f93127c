"""Files into rows, rows into batches, text into corpora, vectors onto disk and back. Knows no torch and no model."""

from anaume.data.batching import pad, pad_to, padding_share, token_budget_batches
from anaume.data.corpus.documents import LAYOUTS, Document, DocumentReader, Layout, Reading
from anaume.data.corpus.inputs import Input, Inputs, find_inputs
from anaume.data.corpus.prepare import prepare_corpus
from anaume.data.corpus.sentences import guess_language, split_sentences
from anaume.data.corpus.shards import Corpus, CorpusSplit, Shard, open_corpus
from anaume.data.corpus.summary import PrepareSummary, SplitSummary
from anaume.data.files import STDIN, TextFile, atomic_file, atomic_text, open_text
from anaume.data.records import FORMATS
from anaume.data.rows import TEXT_COLUMNS, Row, read_rows
from anaume.data.stored import StoredVectors, join, read_about, read_vectors
from anaume.data.vectors import VectorWriter, open_vectors, sidecar_path, vector_format, vector_lines

__all__ = [
    "FORMATS",
    "LAYOUTS",
    "STDIN",
    "TEXT_COLUMNS",
    "Corpus",
    "CorpusSplit",
    "Document",
    "DocumentReader",
    "Input",
    "Inputs",
    "Layout",
    "PrepareSummary",
    "Reading",
    "Row",
    "Shard",
    "SplitSummary",
    "StoredVectors",
    "TextFile",
    "VectorWriter",
    "atomic_file",
    "atomic_text",
    "find_inputs",
    "guess_language",
    "join",
    "open_corpus",
    "open_text",
    "open_vectors",
    "pad",
    "pad_to",
    "padding_share",
    "prepare_corpus",
    "read_about",
    "read_rows",
    "read_vectors",
    "sidecar_path",
    "split_sentences",
    "token_budget_batches",
    "vector_format",
    "vector_lines",
]
