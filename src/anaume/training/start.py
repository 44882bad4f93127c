"""What a run starts from: settings with nothing left open, and a model, freshly drawn or out of a bundle."""

from __future__ import annotations

import dataclasses
import warnings
from typing import Any

import torch

from anaume.bundle import Bundle
from anaume.config import EncoderConfig, HeadConfig
from anaume.engines import has_bfloat16
from anaume.errors import AnaumeWarning, SettingsError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.tokenization import Tokenizer
from anaume.training.objective import PAIR_HEAD, TOKEN_HEAD
from anaume.training.settings import PretrainSettings

log = get_logger(__name__)

POOLER = "pooler"
_POSITIONS, _DROPOUT = 512, 0.1
_OF_THE_BUNDLE = (
    "size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "intermediate_size",
    "max_position_embeddings",
)


def longest_row(settings: PretrainSettings) -> int:
    """Return the tokens of the longest rows of the run."""
    return max(settings.data.seq_len, settings.data.long_seq_len or 0)


def resolve(
    settings: PretrainSettings, device: torch.device, bundle: Bundle | None, stored: PretrainSettings | None
) -> PretrainSettings:
    """Return the settings with what was left open written down: a run never asks the machine twice.

    stored  the settings of the run that goes on: what was left to the machine then stays as it was found
    """
    run, model = settings.run, settings.model
    precision, threads = run.precision, run.threads
    if precision == "auto":
        precision = stored.run.precision if stored else "bfloat16" if has_bfloat16(device) else "float32"
    if threads is None:
        threads = stored.run.threads if stored else torch.get_num_threads()
    chosen: dict[str, Any] = {"causal": model.causal, "dropout": model.dropout}
    if model.causal is None:
        chosen["causal"] = settings.objective.target == "next" or (bundle is not None and bundle.config.causal)
    if bundle is None:
        chosen |= {
            "size": model.size or "mini",
            "dropout": _DROPOUT if model.dropout is None else model.dropout,
            "max_position_embeddings": model.max_position_embeddings or max(_POSITIONS, longest_row(settings)),
        }
    return settings.model_copy(
        update={
            "run": run.model_copy(update={"precision": precision, "threads": threads}),
            "model": model.model_copy(update=chosen),
        }
    )


def build_model(
    settings: PretrainSettings, tokenizer: Tokenizer, bundle: Bundle | None, *, new_heads: bool = False
) -> Bert:
    """Return the model a run begins with; it has the heads the run trains, and no parameter without a gradient.

    Raises SettingsError for sizes that don't go together, a bundle without a needed head (unless `new_heads`), rows
    longer than its position table. What a bundle has and the run does not train is left out, and new heads are drawn
    by the seed: both are said in one AnaumeWarning.
    """
    heads = {TOKEN_HEAD: HeadConfig(kind="mlm")}
    if settings.data.pairing != "none":
        heads[PAIR_HEAD] = HeadConfig(kind="nsp")
    model = _drawn(settings, tokenizer, heads) if bundle is None else _continued(settings, bundle, heads, new_heads)
    model.encoder.gradient_checkpointing = settings.run.gradient_checkpointing
    return model


def _drawn(settings: PretrainSettings, tokenizer: Tokenizer, heads: dict[str, HeadConfig]) -> Bert:
    chosen, longest = settings.model, longest_row(settings)
    assert chosen.size is not None
    assert chosen.max_position_embeddings is not None
    if longest > chosen.max_position_embeddings:
        raise SettingsError(
            f"rows have {longest} tokens and model.max_position_embeddings is {chosen.max_position_embeddings}: give "
            "it at least as many"
        )
    common: dict[str, Any] = {
        "vocab_size": tokenizer.vocab_size,
        "max_position_embeddings": chosen.max_position_embeddings,
        "hidden_dropout": chosen.dropout,
        "attention_dropout": chosen.dropout,
        "causal": chosen.causal,
        "num_attention_heads": chosen.num_attention_heads or 0,
        "intermediate_size": chosen.intermediate_size or 0,
    }
    if chosen.size == "custom":
        if chosen.hidden_size is None or chosen.num_hidden_layers is None:
            raise SettingsError('model.size = "custom" needs model.hidden_size and model.num_hidden_layers')
        config = EncoderConfig(hidden_size=chosen.hidden_size, num_hidden_layers=chosen.num_hidden_layers, **common)
    else:
        if chosen.hidden_size is not None or chosen.num_hidden_layers is not None:
            raise SettingsError('model.hidden_size and model.num_hidden_layers go with model.size = "custom"')
        config = EncoderConfig.named(chosen.size, **common)
    return Bert(config, heads, seed=settings.run.seed)


def _continued(settings: PretrainSettings, bundle: Bundle, heads: dict[str, HeadConfig], new_heads: bool) -> Bert:
    """Return a model of the bundle's weights; the bundle itself is not touched."""
    chosen = settings.model
    given = [name for name in _OF_THE_BUNDLE if getattr(chosen, name) is not None]
    if given:
        raise SettingsError(f"the model is the bundle's: model.{given[0]} can't be given with it")
    longest = longest_row(settings)
    if longest > bundle.config.max_position_embeddings:
        raise SettingsError(f"rows have {longest} tokens; the bundle takes {bundle.config.max_position_embeddings}")
    theirs = bundle.model.head_configs
    missing = [name for name, head in heads.items() if name not in theirs or theirs[name].kind != head.kind]
    if PAIR_HEAD in heads and bundle.model.pooler is None:
        missing.append(POOLER)
    if missing and not new_heads:
        raise SettingsError(
            f"the bundle has no {', '.join(missing)}, which the run trains: ask for new ones with --new-heads "
            "(new_heads=True)"
        )
    changed: dict[str, Any] = {"causal": chosen.causal}
    if chosen.dropout is not None:
        changed |= {"hidden_dropout": chosen.dropout, "attention_dropout": chosen.dropout}
    config = dataclasses.replace(bundle.config, **changed)
    model = Bert(config, heads, seed=settings.run.seed)
    tensors = model.state_dict()
    prefixes = tuple(f"{POOLER}." if name == POOLER else f"heads.{name}." for name in missing)
    own = bundle.model.state_dict()
    model.load_state_dict({name: tensors[name] if name.startswith(prefixes) else own[name] for name in tensors})

    left = [name for name in theirs if name not in heads]
    left += [POOLER] if bundle.model.pooler is not None and model.pooler is None else []
    said = []
    if missing:
        said.append(f"drawn by the seed, as the bundle has none: {', '.join(missing)}")
    if left:
        said.append(f"of the bundle, left out because this run does not train it: {', '.join(left)}")
    if config.causal != bundle.config.causal:
        said.append(f"causal is {config.causal}, and {bundle.config.causal} in the bundle")
    if said:
        warnings.warn("; ".join(said), AnaumeWarning, stacklevel=4)
    return model
