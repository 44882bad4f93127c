"""Similarity: one vector a text, and the objectives it is learned by."""

from anaume.tasks.similarity.objectives import OBJECTIVES
from anaume.tasks.similarity.task import Similarity, TextVectors
from anaume.tasks.similarity.terms import Terms
from anaume.tasks.similarity.triples import MarginMse

__all__ = ["OBJECTIVES", "MarginMse", "Similarity", "Terms", "TextVectors"]
