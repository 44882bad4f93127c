from __future__ import annotations

from anaume.config import HeadConfig
from anaume.training.optimizer import build_optimizer, set_learning_rate
from anaume.training.pretraining.settings import OptimizerSettings
from tiny_models import tiny_bert


def test_biases_and_norms_are_not_decayed_and_every_parameter_is_in_one_group() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm"), "nsp": HeadConfig(kind="nsp")})
    settings = OptimizerSettings(learning_rate=1e-3, weight_decay=0.5, beta2=0.97, eps=1e-5)
    optimizer = build_optimizer(model, settings)
    groups = [{id(parameter) for parameter in group["params"]} for group in optimizer.param_groups]
    assert groups[0] | groups[1] == {id(parameter) for parameter in model.parameters()}
    assert not groups[0] & groups[1]
    for name, parameter in model.named_parameters():
        free = name.endswith("bias") or "norm" in name
        assert (id(parameter) in groups[1]) == free, name
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.5, 0.0]
    assert optimizer.defaults["betas"] == (0.9, 0.97)
    assert optimizer.defaults["eps"] == 1e-5


def test_the_learning_rate_is_set_in_every_group() -> None:
    optimizer = build_optimizer(tiny_bert({"mlm": HeadConfig(kind="mlm")}), OptimizerSettings(learning_rate=1e-3))
    set_learning_rate(optimizer, 0.25)
    assert [group["lr"] for group in optimizer.param_groups] == [0.25, 0.25]


def test_groups_scale_the_learning_rate_and_frozen_parameters_have_none() -> None:
    model = tiny_bert({"mlm": HeadConfig(kind="mlm")})
    model.embeddings.requires_grad_(False)
    optimizer = build_optimizer(
        model, OptimizerSettings(learning_rate=1e-3), scale=lambda name: 0.1 if "layers.0" in name else 1.0
    )
    set_learning_rate(optimizer, 0.5)
    assert [(group["lr"], group["weight_decay"]) for group in optimizer.param_groups] == [
        (0.5, 0.01), (0.5, 0.0), (0.05, 0.01), (0.05, 0.0),
    ]  # fmt: skip
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in model.parameters() if parameter.requires_grad}
