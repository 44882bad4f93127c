"""TEXT FILES -> DOCUMENTS -> SENTENCES -> SHARDS -> ROWS: the corpus pretraining reads, in the order it is made.

inputs, documents, sentences, units   what lies in files, folders and archives, as documents and sentences
survey, near                          the first pass: copies, the held-out part, a sample for the vocabulary
tokenise, workers, filling            the second pass: tokens, in parallel, into shards
workspace, prepare, summary           the whole of it, going on after a kill, and what it did
shards                                the corpus on disk, mapped into memory
plans, stream                         rows of tokens, packed or in pairs, without end
entropy                               what the frequencies of tokens alone are worth
"""

from anaume.data.corpus.documents import LAYOUTS, Document, DocumentReader, Layout, Reading
from anaume.data.corpus.inputs import Input, Inputs, find_inputs
from anaume.data.corpus.prepare import prepare_corpus
from anaume.data.corpus.sentences import guess_language, split_sentences
from anaume.data.corpus.shards import Corpus, CorpusSplit, Shard, open_corpus
from anaume.data.corpus.summary import PrepareSummary, SplitSummary

__all__ = [
    "LAYOUTS",
    "Corpus",
    "CorpusSplit",
    "Document",
    "DocumentReader",
    "Input",
    "Inputs",
    "Layout",
    "PrepareSummary",
    "Reading",
    "Shard",
    "SplitSummary",
    "find_inputs",
    "guess_language",
    "open_corpus",
    "prepare_corpus",
    "split_sentences",
]
