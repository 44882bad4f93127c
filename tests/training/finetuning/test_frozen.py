"""What a frozen encoder gives is computed once, kept, and the same that the encoder would give again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.bundle import Bundle
from anaume.config import HEAD_LAYERS, HeadConfig
from anaume.data.labelled import TextExample
from anaume.errors import BundleError
from anaume.model import pool
from anaume.model.reading import layer_numbers
from anaume.tasks.classification import Classification
from anaume.tasks.features import Features
from anaume.tasks.ner import Ner
from anaume.training.finetuning.frozen import FrozenEncoder, frozen_part
from tiny_models import difference
from tiny_probes import probed_bundle, sentences
from tiny_tags import tagged

CPU = torch.device("cpu")
TEXTS = [TextExample(text=" ".join(own * (1 + n % 3)), label=own[1], place="") for n, own in enumerate(sentences(20))]


def features_of(head: HeadConfig, bundle: Bundle) -> Features:
    if head.reads_text:
        return Classification(head).features(TEXTS, bundle.tokenizer, 16, learn=False)
    examples = [tagged(one.text.split()) for one in TEXTS]
    return Ner(trained=head, scheme="bio").features(examples, bundle.tokenizer, 16, learn=False)


def frozen(head: HeadConfig, folder: Path, bundle: Bundle | None = None) -> FrozenEncoder:
    bundle = bundle or probed_bundle()
    return FrozenEncoder(bundle, head, features_of(head, bundle), None, CPU, folder)


def head_over(layers: Any, **other: Any) -> HeadConfig:
    return HeadConfig(kind="token-classification", labels=("O", "B-X"), layers=layers, **other)


def text_head(layers: Any, pooling: Any = "mean") -> HeadConfig:
    return HeadConfig(kind="classification", labels=("a", "b"), layers=layers, pooling=pooling)


@pytest.mark.parametrize("layers", HEAD_LAYERS)
def test_tokens_are_what_the_encoder_gives_for_each_row_alone(tmp_path: Path, layers: str) -> None:
    encoder = frozen(head_over(layers), tmp_path)
    model, states = encoder.bundle.model, encoder.train
    rows = [7, 0, 2]
    read, mask = states.padded(rows, CPU)
    assert read.dim() == (3 if layers == "last" else 4)
    for place, row in enumerate(rows):
        ids = torch.from_numpy(encoder.features.token_ids[row].astype(np.int64))[None]
        output = model(ids, None, keep_hidden_states=True)
        kept = torch.stack([output.hidden_states[number] for number in layer_numbers(model.config, layers)])[:, 0]
        own = (read if read.dim() == 4 else read[None])[:, place]
        assert difference(own[:, mask[place]], kept) <= 1e-5
        assert not own[:, ~mask[place]].any()


@pytest.mark.parametrize("layers", HEAD_LAYERS)
@pytest.mark.parametrize("pooling", ["mean", "max", "mean_sqrt", "cls"])
def test_a_text_head_says_the_same_of_pooled_states(tmp_path: Path, layers: str, pooling: str) -> None:
    head = text_head(layers, pooling)
    encoder = frozen(head, tmp_path, probed_bundle({"classification": head}))
    read, mask = encoder.train.padded(range(len(TEXTS)), CPU)
    assert mask.shape == (len(TEXTS), 1)
    model = encoder.bundle.model
    found = model.head_logits("classification", read, mask)
    for row in range(len(TEXTS)):
        ids = torch.from_numpy(encoder.features.token_ids[row].astype(np.int64))[None]
        output = model(ids, None, keep_hidden_states=True)
        wanted = model.head_logits("classification", model.read_by("classification", output), None)
        assert difference(found[row : row + 1], wanted) <= 1e-5


def test_states_are_kept_and_other_layers_find_them(tmp_path: Path) -> None:
    frozen(head_over("second-to-last"), tmp_path).train  # noqa: B018  computed when asked for
    (kept,) = tmp_path.iterdir()
    before = kept.stat().st_mtime_ns
    frozen(head_over("last-four"), tmp_path).train  # noqa: B018
    assert len(list(tmp_path.iterdir())) == 4
    assert kept.stat().st_mtime_ns == before
    frozen(text_head("last"), tmp_path).train  # noqa: B018  pooled rows are others
    assert len(list(tmp_path.iterdir())) == 5


def test_another_encoder_computes_its_own(tmp_path: Path) -> None:
    bundle = probed_bundle()
    one = frozen(head_over("last"), tmp_path, bundle).train.layers[0].copy()
    with torch.no_grad():
        bundle.model.encoder.layers[0].feed_forward_norm.weight.mul_(1.5)
    other = frozen(head_over("last"), tmp_path, bundle).train.layers[0]
    assert len(list(tmp_path.iterdir())) == 2
    assert np.abs(one - other).max() > 0.01


def test_a_kill_leaves_nothing_that_is_taken_for_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Any:
        raise KeyboardInterrupt

    encoder = frozen(head_over("last-four"), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("anaume.training.finetuning.frozen.require_finite", broken)
        with pytest.raises(KeyboardInterrupt):
            encoder.train  # noqa: B018
    assert os.listdir(tmp_path) == []
    assert encoder.train.layers[0].any()


def test_what_another_probe_is_writing_is_left_and_what_a_kill_left_goes(tmp_path: Path) -> None:
    living, dead = tmp_path / ".anaume-1.tmp", tmp_path / ".anaume-2.tmp"
    for half in (living, dead):
        half.write_bytes(b"half")
    os.utime(dead, (1e9, 1e9))
    assert frozen(head_over("last"), tmp_path).train.layers[0].any()
    assert living.exists()
    assert not dead.exists()


def test_weights_that_give_no_numbers_are_refused(tmp_path: Path) -> None:
    bundle = probed_bundle()
    with torch.no_grad():
        bundle.model.encoder.layers[0].feed_forward_norm.weight[0] = float("nan")
    with pytest.raises(BundleError, match="NaN or infinite"):
        frozen(head_over("last"), tmp_path, bundle).train  # noqa: B018
    assert os.listdir(tmp_path) == []


def test_a_part_holds_its_units_targets(tmp_path: Path) -> None:
    bundle = probed_bundle()
    task = Ner.fit([tagged("my dog", "O B-ANIMAL"), tagged("the", "O")])
    examples = [tagged("my dog is", "O B-ANIMAL O"), tagged("the", "O")]
    features = task.features(examples, bundle.tokenizer, 16, learn=True)
    states = FrozenEncoder(bundle, task.head, features, None, CPU, tmp_path).train
    part, tokens = frozen_part(states, features, [1, 0], CPU)
    assert tokens == 3 + 5
    assert part.batch.targets["labels"].tolist() == [[-100, 0, -100, -100, -100], [-100, 0, 1, 0, -100]]
    assert part.batch.attention_mask.sum(dim=1).tolist() == [3, 5]
    assert part.batch.unit_of_row.tolist() == [0, 1]


def test_pooling_max_is_over_real_tokens(tmp_path: Path) -> None:
    encoder = frozen(text_head("second-to-last", "max"), tmp_path)
    ids = torch.from_numpy(encoder.features.token_ids[0].astype(np.int64))[None]
    layer = encoder.bundle.model(ids, None, keep_hidden_states=True).hidden_states[3]
    wanted = pool(layer, torch.ones(ids.shape, dtype=torch.bool), "max")
    assert difference(torch.from_numpy(encoder.train.layers[0][:1].copy()), wanted) <= 1e-5
