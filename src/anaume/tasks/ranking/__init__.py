"""Ranking: a cross-encoder, one score for a query and a passage that are read together (Nogueira and Cho 2019)."""

from anaume.tasks.ranking.task import Ranking, RankingPrediction

__all__ = ["Ranking", "RankingPrediction"]
