"""What a run starts from: settings with nothing left open, rows, and a model, freshly drawn or out of a bundle.

A run and its forecast begin here alike, so that what is measured is what is trained.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from anaume.bundle import Bundle
from anaume.config import SIZES, EncoderConfig, HeadConfig
from anaume.data.corpus import CorpusSplit
from anaume.data.corpus.stream import RowStream, SpecialIds
from anaume.engines import has_bfloat16
from anaume.errors import AnaumeWarning, SettingsError
from anaume.logs import get_logger
from anaume.model import Bert
from anaume.model.informed import know_frequencies, see_neighbours
from anaume.training.pretraining.objective import PAIR_HEAD, TOKEN_HEAD, PretrainLoss
from anaume.training.pretraining.settings import ModelSettings, PretrainSettings
from anaume.training.ranks import Ranks

log = get_logger(__name__)

POOLER = "pooler"
SIZE, BATCH_ROWS = "mini", 32
"""Where nothing is said and nothing is measured."""
_POSITIONS, _DROPOUT = 512, 0.1
_RATE, _WIDTH, _GOING_ON = 1e-3, 256, 0.2
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

    stored  the settings of the run that goes on, or comes again by its journal: what was left to the machine then
            stays as it was found

    Size and batch of a run by the clock that begins stay open: they are measured (`is_open`, `with_start`); so does the
    rate, which goes by the size.
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
            "dropout": _DROPOUT if model.dropout is None else model.dropout,
            "max_position_embeddings": model.max_position_embeddings or max(_POSITIONS, longest_row(settings)),
        }
    optimizer = settings.optimizer
    if optimizer.learning_rate is None and stored is not None:
        optimizer = optimizer.model_copy(update={"learning_rate": stored.optimizer.learning_rate})
    resolved = settings.model_copy(
        update={
            "optimizer": optimizer,
            "run": run.model_copy(update={"precision": precision, "threads": threads}),
            "model": model.model_copy(update=chosen),
        }
    )
    if run.steps is not None:
        return with_start(resolved, bundle, SIZE, BATCH_ROWS)
    if stored is not None:
        return with_start(resolved, bundle, stored.model.size, stored.run.batch_rows)
    return resolved if is_open(resolved, bundle) else with_start(resolved, bundle, None, None)


def is_open(settings: PretrainSettings, bundle: Bundle | None) -> bool:
    """Return whether the size of the model or of the batch is still to be chosen."""
    return settings.run.batch_rows is None or (bundle is None and settings.model.size is None)


def with_start(
    settings: PretrainSettings, bundle: Bundle | None, size: str | None, rows: int | None
) -> PretrainSettings:
    """Return the settings with size, batch and rate where they are open; a bundle has its own size."""
    run, model, optimizer = settings.run, settings.model, settings.optimizer
    if bundle is None:
        model = model.model_copy(update={"size": model.size or size})
    width = _width(model) if bundle is None else bundle.config.hidden_size
    if optimizer.learning_rate is None and width is not None:
        rate = usual_rate(width, continued=bundle is not None)
        optimizer = optimizer.model_copy(update={"learning_rate": rate})
    return settings.model_copy(
        update={
            "run": run.model_copy(update={"batch_rows": run.batch_rows or rows}),
            "model": model,
            "optimizer": optimizer,
        }
    )


def usual_rate(width: int, *, continued: bool) -> float:
    """Return the highest learning rate of a run that does not say one.

    1e-3 up to a width of 256, and above it as 1 / width, as AdamW wants it for matrices (Yang et al. 2021,
    arXiv:2203.03466, table 3): 3.3e-4 at 768, between ELECTRA's 2e-4 and RoBERTa's 6e-4. A fifth of it where the
    weights have been trained before: warmed up to the rate of a beginning they would lose what they know.
    """
    rate = _RATE * min(1.0, _WIDTH / width) * (_GOING_ON if continued else 1.0)
    return float(f"{rate:.2g}")


def _width(model: ModelSettings) -> int | None:
    """Return the width of a model that begins; None for sizes that will be refused."""
    if model.size == "custom":
        return model.hidden_size or None
    return SIZES[model.size][1] if model.size in SIZES else None


def build_model(settings: PretrainSettings, vocab_size: int, bundle: Bundle | None, *, new_heads: bool = False) -> Bert:
    """Return the model a run begins with; it has the heads the run trains, and no parameter without a gradient.

    Raises SettingsError for sizes that don't go together, a bundle without a needed head (unless `new_heads`), rows
    longer than its position table. What a bundle has and the run does not train is left out, and new heads are drawn
    by the seed: both are said in one AnaumeWarning.
    """
    heads = {TOKEN_HEAD: HeadConfig(kind="mlm")}
    if settings.data.pairing != "none":
        heads[PAIR_HEAD] = HeadConfig(kind="nsp")
    if bundle is None:
        model = Bert(drawn_config(settings, vocab_size), heads, seed=settings.run.seed)
    else:
        model = _continued(settings, bundle, heads, new_heads)
    model.encoder.gradient_checkpointing = settings.run.gradient_checkpointing
    return model


def inform(model: Bert, split: CorpusSplit) -> None:
    """Let fresh weights begin with what the training part of a corpus says of them (model/informed.py)."""
    head: Any = model.heads[TOKEN_HEAD]
    know_frequencies(head.bias, torch.from_numpy(split.token_counts()))
    see_neighbours(model)


def drawn_config(settings: PretrainSettings, vocab_size: int) -> EncoderConfig:
    """Return the encoder of a run that starts afresh. Raises SettingsError for sizes that don't go together."""
    chosen, longest = settings.model, longest_row(settings)
    assert chosen.size is not None
    assert chosen.max_position_embeddings is not None
    if longest > chosen.max_position_embeddings:
        raise SettingsError(
            f"rows have {longest} tokens and model.max_position_embeddings is {chosen.max_position_embeddings}: give "
            "it at least as many"
        )
    common: dict[str, Any] = {
        "vocab_size": vocab_size,
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
        return EncoderConfig(hidden_size=chosen.hidden_size, num_hidden_layers=chosen.num_hidden_layers, **common)
    if chosen.hidden_size is not None or chosen.num_hidden_layers is not None:
        raise SettingsError('model.hidden_size and model.num_hidden_layers go with model.size = "custom"')
    return EncoderConfig.named(chosen.size, **common)


def build_loss(model: Bert, settings: PretrainSettings, ranks: Ranks) -> nn.Module:
    """Return the loss of `model`, compiled when the settings say so, and wrapped where there are many processes."""
    loss: nn.Module = PretrainLoss(model)
    if settings.run.compile:
        loss = torch.compile(loss)  # type: ignore[assignment]
    return ranks.wrap(loss)


@contextmanager
def compiling(settings: PretrainSettings) -> Iterator[None]:
    """Raise SettingsError where torch can't compile what the settings want compiled; it tries in the first step."""
    try:
        yield
    except Exception as error:  # torch has no public base class for these
        if not settings.run.compile or not type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
            raise
        reason = " ".join(str(error).split("\n\n")[0].split()) or type(error).__name__
        raise SettingsError(
            f"run.compile: torch can't compile the model here ({reason}): give it a C++ compiler on the path (g++, "
            "clang++), or train without, in a folder of its own"
        ) from error


def build_stream(
    split: CorpusSplit, specials: SpecialIds, settings: PretrainSettings, seq_len: int, seed: int
) -> RowStream:
    """Return the rows of a split in the run's way."""
    return RowStream(split, specials, seq_len=seq_len, pairing=settings.data.pairing, seed=seed)


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
    elif config.causal and settings.objective.target == "masked":
        said.append(
            "causal is True, as in the bundle: hidden tokens are guessed from what stands before them alone, unless "
            "model.causal=false lets both sides be seen"
        )
    if said:
        warnings.warn("; ".join(said), AnaumeWarning, stacklevel=4)
    return model
