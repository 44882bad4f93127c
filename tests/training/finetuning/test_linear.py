"""Linear probes: what scikit-learn solves stands in the head, for every kind of label."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from anaume.config import HeadConfig
from anaume.data.labelled import TextExample
from anaume.errors import SettingsError
from anaume.tasks.classification import Classification
from anaume.tasks.multi_label import MultiLabel
from anaume.tasks.ner import Ner
from anaume.tasks.regression import Regression
from anaume.training.finetuning.frozen import FrozenEncoder
from anaume.training.finetuning.linear import LinearProbe, is_linear
from anaume.training.finetuning.scoring import HeldOutExamples
from anaume.training.finetuning.settings import ProbeSettings
from anaume.training.finetuning.tuned_model import tuned_model
from tiny_probes import ANIMALS, TAGS, probed_bundle, sentences
from tiny_tags import tagged

CPU = torch.device("cpu")
WORDS = [tagged(own, [TAGS.get(word, "O") for word in own]) for own in sentences(60)]


def texts(label: Any) -> list[TextExample]:
    return [TextExample(text=" ".join(own), label=label(own), place="made") for own in sentences(60)]


class Solved:
    """A task's head, solved over the tiny bundle at one strength."""

    def __init__(self, task: Any, examples: Any, folder: Path, strength: float = 1.0) -> None:
        bundle = probed_bundle(pooler=True)
        features = task.features(examples, bundle.tokenizer, 16, learn=True)
        states = FrozenEncoder(bundle, task.head, features, None, CPU, folder).train
        self.model, _ = tuned_model(ProbeSettings(), bundle, task)
        self.probe = LinearProbe(task, self.model, features, states)
        self.solved = self.probe.solve(strength)
        self.solved.put_into(self.model.heads[task.kind])
        held = HeldOutExamples(examples, features, bundle.tokenizer.pad_id, CPU)  # runs the whole model
        self.scored = held.score(self.model, task, torch.float32)
        self.scores = self.scored.scores
        self.said = task.decode(self.scored.logits, features, examples)


def animal(own: list[str]) -> str:
    return "animal" if own[1] in ANIMALS else "place"


@pytest.mark.parametrize(
    ("layers", "pooling"), [("last", "cls"), ("last", "mean"), ("second-to-last", "cls"), ("last-four", "max")]
)
def test_classes(tmp_path: Path, layers: Any, pooling: Any) -> None:
    examples = texts(animal)
    task = Classification.fit(examples, layers=layers, pooling=pooling)
    solved = Solved(task, examples, tmp_path)
    assert solved.scores["accuracy"] > 0.85
    given, wanted = solved.probe.given, solved.probe.wanted
    scaler = StandardScaler().fit(given)
    theirs = LogisticRegression(C=1.0, max_iter=1000).fit(scaler.transform(given), wanted)
    logits = given @ solved.solved.weight.T + solved.solved.bias
    odds = np.exp(logits - logits.max(axis=1, keepdims=True))
    ours = odds / odds.sum(axis=1, keepdims=True)
    assert np.abs(ours - theirs.predict_proba(scaler.transform(given))).max() < 1e-3
    assert np.abs(np.stack(solved.scored.logits) - logits).max() < 1e-3 * max(1.0, np.abs(logits).max())


def test_words(tmp_path: Path) -> None:
    task = Ner.fit(WORDS, layers="last-four")
    solved = Solved(task, WORDS, tmp_path, strength=100.0)
    assert solved.scores["f1"] > 0.95
    assert len(solved.probe.given) == sum(len(example.words) for example in WORDS)
    # No word is inside an entity here: those labels are never said, and nothing is infinite.
    absent = [number for number, label in enumerate(task.head.labels) if label.startswith("I-")]
    assert np.isfinite(solved.solved.bias).all()
    assert not {tag for own in solved.said for tag in own.tags} & {task.head.labels[number] for number in absent}


@pytest.mark.filterwarnings("ignore:A single label was found")  # scikit-learn's, of matthews
def test_one_label_alone_is_always_said(tmp_path: Path) -> None:
    examples = texts(lambda own: "x")
    task = Classification(HeadConfig(kind="classification", labels=("w", "x", "y"), pooling="mean"))
    solved = Solved(task, examples, tmp_path)
    assert solved.scores["accuracy"] == 1.0
    assert np.isfinite(solved.solved.bias).all()


def test_several_labels(tmp_path: Path) -> None:
    def labels(own: list[str]) -> tuple[str, ...]:
        return (animal(own), *(["open"] if "open" in own else []), "always")

    examples = texts(labels)
    solved = Solved(MultiLabel.fit(examples, pooling="mean"), examples, tmp_path, strength=100.0)
    assert solved.scores["micro_f1"] > 0.95


def test_numbers(tmp_path: Path) -> None:
    examples = texts(lambda own: 3.0 * (own[1] in ANIMALS) + (own[0] == "my"))
    solved = Solved(Regression.fit(examples, pooling="mean"), examples, tmp_path, strength=100.0)
    assert solved.scores["pearson"] > 0.95
    assert solved.scores["mse"] < 0.2


def test_class_weights_count(tmp_path: Path) -> None:
    """A weight of 2 is a second copy of each example of the class."""
    rare = texts(lambda own: "my" if own[0] == "my" else "other")
    weighted = Classification.fit(rare, pooling="mean", class_weights={"my": 2.0, "other": 1.0})
    doubled = [*rare, *(one for one in rare if one.label == "my")]
    one = Solved(weighted, rare, tmp_path / "a", strength=0.01)
    two = Solved(Classification.fit(doubled, pooling="mean"), doubled, tmp_path / "b", strength=0.01)
    plain = Solved(Classification.fit(rare, pooling="mean"), rare, tmp_path / "a", strength=0.01)
    means = [np.stack(run.scored.logits[: len(rare)]) for run in (one, two, plain)]
    gaps = [np.abs((own[:, 0] - own[:, 1]) - (means[0][:, 0] - means[0][:, 1])).mean() for own in means[1:]]
    assert gaps[0] < 0.5 * gaps[1]  # the scale of the inputs is that of other rows, so not exactly


def test_smoothed_labels_are_refused(tmp_path: Path) -> None:
    task = Classification.fit(texts(animal), pooling="mean", label_smoothing=0.1)
    with pytest.raises(SettingsError, match="label_smoothing means nothing to a linear probe"):
        Solved(task, texts(animal), tmp_path)


@pytest.mark.parametrize(
    ("head", "linear"),
    [
        (HeadConfig(kind="regression"), True),
        (HeadConfig(kind="regression", layers="last-four", pooling="max"), True),
        (HeadConfig(kind="regression", layers="weighted-all"), False),
        (HeadConfig(kind="regression", head_layers=2), False),
        (HeadConfig(kind="token-classification", labels=("a",), recurrent_layers=1), False),
        (HeadConfig(kind="token-classification", labels=("a",)), True),
    ],
)
def test_what_can_be_solved(head: HeadConfig, linear: bool) -> None:
    assert is_linear(head) == linear


def test_the_same_every_time(tmp_path: Path) -> None:
    task = Ner.fit(WORDS)
    one, two = Solved(task, WORDS, tmp_path), Solved(task, WORDS, tmp_path)
    assert np.array_equal(one.solved.weight, two.solved.weight)
    assert np.array_equal(one.solved.bias, two.solved.bias)
