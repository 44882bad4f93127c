"""Looking inside: path, words, attention, neighbours, sizes; always the very model that runs."""

from anaume.inspection.attention import AttentionReport, trace_attention
from anaume.inspection.neighbours import NeighbourReport, trace_neighbours
from anaume.inspection.path import TextPath, trace_path
from anaume.inspection.sizes import SizeReport, measure_sizes, named_sizes
from anaume.inspection.words import WordReport, trace_word

__all__ = [
    "AttentionReport",
    "NeighbourReport",
    "SizeReport",
    "TextPath",
    "WordReport",
    "measure_sizes",
    "named_sizes",
    "trace_attention",
    "trace_neighbours",
    "trace_path",
    "trace_word",
]
