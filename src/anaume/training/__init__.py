"""The run, which pretraining/ and finetuning/ share: schedule, state, the loop. Killed, it goes on exactly."""

from anaume.training.pretraining.pretrain import pretrain
from anaume.training.pretraining.result import PretrainResult
from anaume.training.pretraining.settings import PretrainSettings, paper_recipe

__all__ = ["PretrainResult", "PretrainSettings", "paper_recipe", "pretrain"]
