"""The model a fine-tuning begins with: a bundle's encoder, and the head of a task."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import torch
from torch import Tensor

from anaume.bundle import Bundle
from anaume.config import HeadConfig
from anaume.errors import SettingsError
from anaume.model import Bert
from anaume.tasks.registry import AnyTask
from anaume.training.finetuning.settings import FinetuneSettings

_POOLER = "pooler."
_EMBEDDINGS = "embeddings."


def tuned_model(settings: FinetuneSettings, bundle: Bundle, task: AnyTask) -> tuple[Bert, list[str]]:
    """Return a model of the bundle's weights with the task's head, and what is to be said of it; the bundle stays.

    A head of the same kind and labels goes on learning; any other is drawn by the seed, as are a pooler that the head
    needs and the bundle has not, and the top `model.reinit_layers` layers.

    Raises SettingsError for a head that reads [CLS] of a causal bundle, or more layers to draw than there are.
    """
    config, chosen, head = bundle.config, settings.model, task.head
    if config.causal and head.needs_pooler:
        raise SettingsError(
            "the bundle is causal: [CLS], the first token, sees nothing of the text; task.pooling=mean can be trained"
        )
    if chosen.reinit_layers > config.num_hidden_layers:
        raise SettingsError(f"model.reinit_layers is {chosen.reinit_layers}; the bundle has {config.num_hidden_layers}")
    if chosen.dropout is not None:
        config = dataclasses.replace(config, hidden_dropout=chosen.dropout, attention_dropout=chosen.dropout)
    model = Bert(config, {head.kind: head}, seed=settings.run.seed)
    model.encoder.gradient_checkpointing = settings.run.gradient_checkpointing
    drawn = model.state_dict()
    own = bundle.model.state_dict()
    before = bundle.model.head_configs.get(head.kind)
    same_head = before is not None and dataclasses.replace(before, dropout=head.dropout) == head
    top = config.num_hidden_layers - chosen.reinit_layers
    anew = [f"encoder.layers.{layer}." for layer in range(top, config.num_hidden_layers)]
    anew += [_POOLER] if anew else []
    anew += [] if same_head else [f"heads.{head.kind}."]

    def weight(name: str, tensor: Tensor) -> Tensor:
        return tensor if name.startswith(tuple(anew)) or name not in own else own[name]

    model.load_state_dict({name: weight(name, tensor) for name, tensor in drawn.items()})
    if same_head:
        task.resumed(model.heads[head.kind])
    _freeze(model, chosen.frozen)
    return model, _said(bundle, model, head, same_head, chosen.reinit_layers)


def learning_scale(model: Bert, layer_decay: float) -> Callable[[str], float]:
    """Return a parameter's name -> what its learning rate is multiplied by: layer_decay once a layer below the head."""
    layers = model.config.num_hidden_layers

    def scale(name: str) -> float:
        if name.startswith(_EMBEDDINGS):
            below = layers + 1
        elif name.startswith("encoder.layers."):
            below = layers - int(name.split(".")[2])
        else:
            below = 0
        return float(layer_decay**below)

    return scale


def _freeze(model: Bert, what: str) -> None:
    prefixes = {"nothing": (), "embeddings": (_EMBEDDINGS,), "encoder": (_EMBEDDINGS, "encoder.")}[what]
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not name.startswith(prefixes) if prefixes else True)


def _said(bundle: Bundle, model: Bert, head: HeadConfig, same_head: bool, reinit_layers: int) -> list[str]:
    said = [f"the bundle's {head.kind} head goes on learning" if same_head else f"the {head.kind} head is drawn anew"]
    if head.kind == "similarity":
        said = [
            f"vectors by {head.pooling} pooling",
            *(["the classifier of pairs is drawn anew"] if head.labels else []),
            *([f"a decoder of {head.decoder_layers} layers is drawn, and not saved"] if head.decoder_layers else []),
        ]
    if model.pooler is not None and bundle.model.pooler is None:
        said.append("the bundle has no pooler: it is drawn anew")
    if reinit_layers:
        said.append(f"the top {reinit_layers} layers are drawn anew")
    left = [name for name in bundle.model.head_configs if name != head.kind]
    if left:
        said.append(f"left out, as they are not trained: {', '.join(left)}")
    return said


def trained_parameters(model: Bert) -> int:
    """Return how many numbers are trained."""
    return sum(parameter.numel() for parameter in model.parameters() if parameter.requires_grad)


def as_dtype(precision: str) -> torch.dtype:
    """Return the dtype of a resolved run.precision."""
    return torch.bfloat16 if precision == "bfloat16" else torch.float32
