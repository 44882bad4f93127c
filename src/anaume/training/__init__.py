"""The run: settings, schedule, state, the loop, pretraining; killed at any step, it goes on as if nothing had been."""

from anaume.training.folder import PretrainResult
from anaume.training.pretrain import pretrain
from anaume.training.settings import PretrainSettings, paper_recipe

__all__ = ["PretrainResult", "PretrainSettings", "paper_recipe", "pretrain"]
