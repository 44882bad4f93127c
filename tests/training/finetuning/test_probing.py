"""The task `features`: a frozen encoder, a probe on it, and a bundle that is one of the task it learned."""

from __future__ import annotations

import itertools
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from anaume.bundle import Bundle
from anaume.data.labelled import TextExample
from anaume.errors import DataError, SettingsError
from anaume.jobs.evaluate import evaluate_file
from anaume.training.finetuning import finetune as finetune_module
from anaume.training.finetuning.finetune import FinetuneReport, finetune, finetune_examples
from anaume.training.finetuning.probing import probed_files, probed_task
from anaume.training.finetuning.settings import FinetuneSettings
from tiny_bundles import same_parts
from tiny_probes import probe_settings, probed_bundle, write_pairs, write_texts, write_words
from tiny_tags import tagged

pytestmark = pytest.mark.filterwarnings("ignore:.*no Hugging Face class holds these heads")


def probe(folder: Path, train: Path, dev: Path | None, *assignments: str, **other: Any) -> FinetuneReport:
    bundle = other.pop("bundle", None) or probed_bundle()
    settings = probe_settings(*assignments)
    return finetune("features", train, folder, bundle=bundle, dev=dev, settings=settings, device="cpu", **other)


@pytest.mark.parametrize(
    ("write", "task"), [(write_texts, "classification"), (write_pairs, "pair-classification"), (write_words, "ner")]
)
def test_a_linear_probe_from_files_to_predictions(tmp_path: Path, write: Any, task: str) -> None:
    train, dev = write(tmp_path / "train.tsv", 80), write(tmp_path / "dev.tsv", 30, seed=1)
    start = probed_bundle()
    report = probe(tmp_path / "m", train, dev, "task.layers=last-four", bundle=start)
    assert (report.task, report.finished, report.frozen) == (task, True, True)
    assert len(report.seeds) == 1  # there is one solution
    model = Bundle.load(report.bundle, device="cpu")
    assert model.fingerprint == start.fingerprint
    assert np.array_equal(model.embed(["my dog is cute"]), start.embed(["my dog is cute"]))
    assert model.task.name == task
    assert evaluate_file(model, dev).scores == report.seeds[0].scores
    assert "the encoder frozen" in (report.bundle / "README.md").read_text("utf-8")
    assert model.parts.record.stages[-1].frozen
    assert model.parts.record.stages[-1].settings["strength"] in (0.01, 0.1, 1.0)
    assert sorted(path.name for path in (tmp_path / "m").iterdir()) == ["bundle", "report.json", "seed-0"]
    if task == "ner":
        (said,) = model.predict(["my dog is cute"])
        assert [entity.label for entity in said.entities] == ["ANIMAL"]


@pytest.mark.parametrize("layers", ["last", "last-four", "weighted-all"])
def test_a_bilstm_over_layers_is_what_its_bundle_is(tmp_path: Path, layers: str) -> None:
    train, dev = write_words(tmp_path / "train.conll", 24), write_words(tmp_path / "dev.conll", 12, seed=1)
    start = probed_bundle()
    given = ("task.tagger=bilstm", f"task.layers={layers}", "run.steps=9", "optimizer.learning_rate=0.03")
    report = probe(tmp_path / "m", train, dev, *given, bundle=start, seeds=1)
    model = Bundle.load(report.bundle, device="cpu")
    assert model.model.head_configs["token-classification"].recurrent_layers == 2
    assert evaluate_file(model, dev).scores == report.seeds[0].scores
    assert model.fingerprint == start.fingerprint


def test_a_bilstm_learns_words(tmp_path: Path) -> None:
    train, dev = write_words(tmp_path / "train.conll", 64), write_words(tmp_path / "dev.conll", 20, seed=1)
    given = ("task.tagger=bilstm", "task.layers=embeddings", "run.epochs=12", "optimizer.learning_rate=0.03")
    assert probe(tmp_path / "m", train, dev, *given, seeds=1).seeds[0].scores["f1"] > 0.9


def test_a_probe_of_the_last_layers_words_is_a_published_class(tmp_path: Path) -> None:
    report = probe(tmp_path / "m", write_words(tmp_path / "train.conll", 24), None)
    assert json.loads((report.bundle / "config.json").read_text("utf-8"))["architectures"] == [
        "BertForTokenClassification"
    ]
    assert not (report.bundle / "anaume_heads.safetensors").exists()


def test_a_weighted_sum_of_layers_is_learned_for_texts_too(tmp_path: Path) -> None:
    train = write_texts(tmp_path / "train.tsv", 80)
    report = probe(tmp_path / "m", train, None, "task.layers=weighted-all", "optimizer.learning_rate=0.03", seeds=2)
    assert report.dev_from == "split"
    assert len(report.seeds) == 2
    assert report.spread is not None
    weights = Bundle.load(report.bundle, device="cpu").model.heads["classification"].mix.weights
    assert weights.std() > 0.01


def test_the_encoder_is_run_once_for_all_seeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = []
    monkeypatch.setattr(
        "anaume.training.finetuning.frozen.layer_states",
        lambda rows, *args, _really=finetune_module.FrozenEncoder.__init__.__globals__["layer_states"], **kw: (
            runs.append(len(rows)) or _really(rows, *args, **kw)
        ),
    )
    train, dev = write_words(tmp_path / "train.conll", 24), write_words(tmp_path / "dev.conll", 8, seed=1)
    probe(tmp_path / "m", train, dev, "task.tagger=bilstm", "run.steps=2", seeds=3)
    assert sorted(runs) == [8, 24]
    probe(tmp_path / "m", train, dev, "task.tagger=bilstm", "run.steps=2", seeds=3)  # it is finished
    assert sorted(runs) == [8, 24]


def test_stopped_and_taken_up_again_it_ends_the_same(tmp_path: Path) -> None:
    train, dev = write_words(tmp_path / "train.conll", 40), write_words(tmp_path / "dev.conll", 12, seed=1)
    given = ("task.tagger=bilstm", "task.layers=weighted-last-four", "run.steps=4", "run.checkpoint_seconds=1e-9")
    whole = probe(tmp_path / "whole", train, dev, *given, seeds=2)

    class Stop(Exception):
        pass

    steps = itertools.count()

    def report(seed: int, row: dict[str, Any]) -> None:
        if "loss" in row and next(steps) == 2:
            raise Stop

    with pytest.raises(Stop):
        probe(tmp_path / "cut", train, dev, *given, seeds=2, report=report)
    assert (tmp_path / "cut" / "vectors").is_dir()
    again = probe(tmp_path / "cut", train, dev, *given, seeds=2)
    assert [seed.scores for seed in again.seeds] == [seed.scores for seed in whole.seeds]
    for seed in ("seed-0", "seed-1"):
        one, other = (Bundle.load(tmp_path / name / seed / "bundle", device="cpu") for name in ("whole", "cut"))
        assert same_parts(one.parts, other.parts)
    assert not (tmp_path / "cut" / "vectors").exists()


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    train = write_words(tmp_path / "train.conll", 24)
    probe(tmp_path / "m", train, None)
    with pytest.raises(SettingsError, match=r"task.layers: 'last-four', there not given"):
        probe(tmp_path / "m", train, None, "task.layers=last-four")


def test_what_was_computed_serves_other_probes(tmp_path: Path) -> None:
    words = ("dog", "cat", "bank")
    examples = [TextExample(text=f"my {word} is cute", label=word, place="x") for word in words]
    for layers in ("last-four", "last", "weighted-last-four"):
        finetune_examples(
            "features",
            examples,
            tmp_path / layers,
            bundle=probed_bundle(),
            dev=examples[1:],
            settings=probe_settings(f"task.layers={layers}", "run.steps=2"),
            seeds=1,
            device="cpu",
            vectors=tmp_path / "kept",
        )
    assert len(list((tmp_path / "kept").iterdir())) == 8  # four layers, of the training rows and of those held out


def test_the_strength_is_the_best_on_the_held_out_rows(tmp_path: Path) -> None:
    train, dev = write_words(tmp_path / "train.conll", 40), write_words(tmp_path / "dev.conll", 20, seed=1)
    scores = {}
    for strengths in ("[1e-9]", "[100.0]", "[1e-9, 100.0]"):
        report = probe(tmp_path / strengths, train, dev, f"task.strengths={strengths}")
        scores[strengths] = report.seeds[0].scores["f1"]
        chosen = Bundle.load(report.bundle, device="cpu").parts.record.stages[-1].settings["strength"]
        assert chosen == (1e-9 if strengths == "[1e-9]" else 100.0)
    assert scores["[1e-9]"] < scores["[100.0]"] == scores["[1e-9, 100.0]"]


def test_cls_is_read_through_the_bundles_own_pooler(tmp_path: Path) -> None:
    train = write_texts(tmp_path / "train.tsv", 40)
    start = probed_bundle(pooler=True)
    report = probe(tmp_path / "m", train, None, "task.pooling=cls", bundle=start)
    model = Bundle.load(report.bundle, device="cpu").model
    assert model.pooler is not None
    assert torch.equal(model.pooler.dense.weight, start.model.pooler.dense.weight)  # type: ignore[union-attr]
    with pytest.raises(SettingsError, match=r"task\.pooling=cls reads the pooler, and the bundle has none"):
        probe(tmp_path / "n", train, None, "task.pooling=cls")


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        (("task.of=question-answering",), "task.of must be one of classification, .*; got 'question-answering'"),
        (("task.of=nr",), "there is no task 'nr'.*ner"),
        (("task.layers=lastfour",), "task.layers: "),
        (("task.tagger=bilstm",), "task.tagger means nothing to classification"),
        (("model.reinit_layers=1",), "model: a frozen encoder has no layers to draw anew"),
        (("model.dropout=0.1",), "model: a frozen encoder has no layers to draw anew, and no dropout"),
        (("model.frozen=nothing",), "model.frozen: "),
        (("task.strengths=[]",), "task.strengths must be positive numbers"),
        (("task.strengths=[0.0]",), "task.strengths must be positive numbers"),
        (("task.label_smoothing=0.1",), "means nothing to a linear probe"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, assignments: tuple[str, ...], message: str) -> None:
    train = write_texts(tmp_path / "train.tsv", 24)
    with pytest.raises(SettingsError, match=message):
        probe(tmp_path / "m", train, None, *assignments)


def test_settings_of_another_task_are_refused(tmp_path: Path) -> None:
    train = write_texts(tmp_path / "train.tsv", 24)
    with pytest.raises(SettingsError, match="features takes ProbeSettings; got FinetuneSettings"):
        finetune("features", train, tmp_path / "m", bundle=probed_bundle(), settings=FinetuneSettings())
    settings = FinetuneSettings().with_values(["task.of=ner"])
    with pytest.raises(SettingsError, match=r"task\.of means nothing to classification"):
        finetune("classification", train, tmp_path / "m", bundle=probed_bundle(), settings=settings, device="cpu")


def test_more_than_one_process_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaume.training.ranks import Ranks

    monkeypatch.setattr(finetune_module, "joined", _Joined(Ranks(0, 2)))
    with pytest.raises(SettingsError, match="features trains in one process; 2 were started"):
        probe(tmp_path / "m", write_texts(tmp_path / "train.tsv", 24), None)


class _Joined:
    """Stands for `ranks.joined`."""

    def __init__(self, ranks: Any) -> None:
        self._ranks = ranks

    def __call__(self, device: torch.device) -> _Joined:
        return self

    def __enter__(self) -> tuple[Any, torch.device]:
        return self._ranks, torch.device("cpu")

    def __exit__(self, *_: object) -> None:
        pass


def test_whose_labels_they_are_is_recognised(tmp_path: Path) -> None:
    texts, pairs, words = (
        write(tmp_path / name, 4)
        for write, name in ((write_texts, "a.tsv"), (write_pairs, "b.tsv"), (write_words, "c.txt"))
    )
    assert probed_files(None, texts).name == "classification"
    assert probed_files(None, pairs).name == "pair-classification"
    assert probed_files(None, words).name == "ner"
    assert probed_files(None, shutil.copy(words, tmp_path / "eng.train")).name == "ner"
    assert probed_files("multi-label", texts).name == "multi-label"
    for name, value, task in (("score", 1.5, "regression"), ("labels", "a|b", "multi-label")):
        table = tmp_path / f"{name}.tsv"
        table.write_text(f"text\t{name}\nmy dog\t{value}\n")
        assert probed_files(None, table).name == task
        label = (value,) if isinstance(value, str) else value
        assert probed_task(None, [TextExample(text="a", label=label)]).name == task
    spans = tmp_path / "d.jsonl"
    spans.write_text('{"text": "my dog", "entities": [[3, 6, "ANIMAL"]]}\n', "utf-8")
    assert probed_files(None, spans).name == "ner"
    assert probed_task(None, [tagged("my dog")]).name == "ner"
    other = tmp_path / "e.jsonl"
    other.write_text('{"a": 1}\n', "utf-8")
    with pytest.raises(DataError, match=r"e.jsonl: .*task.of says it: classification, pair-classification"):
        probed_files(None, other)
    with pytest.raises(DataError, match=r"none\.tsv"):
        probed_files(None, tmp_path / "none.tsv")
