"""What frozen vectors know: linear models on a bundle's vectors, for word tags (CoNLL-2003) and sentiment (SST-2).

Each task takes the kind of vectors (one of the layers, or their mean) that is best on the second half of its training
set by a model of the first half, and is then fitted on both; what is scored on chooses nothing. Beside it stands the
same model on the token table, which knows a word's first piece and nothing around it: the difference is the context.
The same bundle gives the same numbers on one machine.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import anaume
from anaume.bundle import Bundle
from benchmarks import harness
from benchmarks.frozen import kinds_of, text_vectors, word_vectors
from benchmarks.intervals import Estimate, accuracy_counts, estimate, f1_counts, span_counts
from benchmarks.labelled import Sentence, conll, spans, sst2

Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Size:
    """How much is labelled. What is trained on is drawn once and for all; what is scored on are the first ones."""

    sentences: int = 3000
    texts: int = 10_000
    scored: int | None = None
    """None = all of CoNLL testa and of SST-2 dev."""


FULL, QUICK = Size(), Size(sentences=80, texts=200, scored=60)


@dataclass(frozen=True)
class Scored:
    """One task ("pos", "entities", "sst2") by one kind of vectors, or by a baseline."""

    task: str
    by: str
    scores: dict[str, Estimate]


@dataclass(frozen=True)
class Task:
    """Labels to be learned, and how guesses for the test set are scored."""

    name: str
    labels: Labels
    """(n,) of the training set: one a word, or a text."""
    half: int
    """How many of them the first half of its sentences or texts has."""
    strengths: tuple[float, ...]
    """scikit-learn's C, larger = freer: what is tried, the best taken."""
    tests: int
    """How many labels the test set has."""
    score: Callable[[Labels], dict[str, Estimate]]

    def by(self, name: str, guesses: Labels) -> Scored:
        return Scored(self.name, name, self.score(guesses))

    def fit(self, kinds: Mapping[int, Any], make: Callable[[float], Any]) -> tuple[int, Any]:
        """Return the kind that was chosen, of those given with their rows, (n, width), and its model of all rows."""
        tried = [(kind, strength) for kind in kinds for strength in self.strengths]
        right = [self._right(kinds[kind], make(strength)) for kind, strength in tried] if len(tried) > 1 else [0.0]
        kind, strength = tried[int(np.argmax(right))]
        model = make(strength).fit(kinds[kind], self.labels)
        last = model[-1] if isinstance(model, Pipeline) else model
        if max(last.n_iter_) >= last.max_iter:
            harness.say(f"{self.name}: the linear model of kind {kind} was still moving after {last.max_iter} steps")
        return kind, model

    def _right(self, rows: Any, model: Any) -> float:
        model.fit(rows[: self.half], self.labels[: self.half])
        return float(model.score(rows[self.half :], self.labels[self.half :]))


def probe(bundle: Bundle, size: Size = FULL) -> list[Scored]:
    """Return each task by the bundle's token table, and by the best kind of its contextual vectors."""
    words, texts = Words(size), Texts(size)
    found = _probe(bundle, words.tasks(), word_vectors(bundle, words.train), word_vectors(bundle, words.test))
    return found + _probe(bundle, [texts.task()], text_vectors(bundle, texts.train), text_vectors(bundle, texts.test))


def baselines(size: Size = FULL) -> list[Scored]:
    """Return each task by what needs no bundle: commonest labels, a word's commonest tag, a text's words."""
    words, texts = Words(size), Texts(size)
    found = []
    for task in words.tasks():
        found.append(_commonest(task))
        found.append(task.by("commonest tag of the word", commonest_of_word(words.train, task.labels, words.test)))
    task = texts.task((1.0, 10.0, 100.0))
    counted = TfidfVectorizer(token_pattern=r"\S+", sublinear_tf=True).fit(texts.train)
    _, model = task.fit({0: counted.transform(texts.train)}, _logistic)
    return [*found, _commonest(task), task.by("TF-IDF of the words", model.predict(counted.transform(texts.test)))]


class Words:
    """Sentences of CoNLL-2003 to tag word by word: parts of speech, and types of entities."""

    def __init__(self, size: Size) -> None:
        self._train = random.Random(0).sample(conll("train"), size.sentences)
        self._test = conll("testa")[: size.scored]
        self.train = [sentence.words for sentence in self._train]
        self.test = [sentence.words for sentence in self._test]

    def tasks(self) -> list[Task]:
        return [
            self._task("pos", lambda sentence: sentence.pos),
            self._task("entities", lambda sentence: sentence.types),
        ]

    def _task(self, name: str, tags_of: Callable[[Sentence], tuple[str, ...]]) -> Task:
        train, test = ([tag for sentence in part for tag in tags_of(sentence)] for part in (self._train, self._test))
        tags = sorted({*train, *test})
        number = {tag: index for index, tag in enumerate(tags)}
        gold = np.array([number[tag] for tag in test])
        lengths = [len(words) for words in self.test]
        sentence_of = np.repeat(np.arange(len(lengths)), lengths)
        classes = [number[tag] for tag in tags if tag != "O"]

        def score(guesses: Labels) -> dict[str, Estimate]:
            scores = {
                "accuracy": estimate(accuracy_counts(gold, guesses, sentence_of)),
                "macro F1": estimate(f1_counts(gold, guesses, sentence_of, classes)),
            }
            if name == "entities":
                by_sentence = np.split(guesses, np.cumsum(lengths)[:-1])
                found = [spans([tags[guess] for guess in sentence]) for sentence in by_sentence]
                scores["entity F1"] = estimate(span_counts([sentence.spans for sentence in self._test], found))
            return scores

        half = sum(len(words) for words in self.train[: len(self.train) // 2])
        return Task(name, np.array([number[tag] for tag in train]), half, (0.1,), len(gold), score)


class Texts:
    """Texts of SST-2 to call positive or negative."""

    def __init__(self, size: Size) -> None:
        train, test = list(zip(*sst2("train"), strict=True)), list(zip(*sst2("dev"), strict=True))
        self._train, self._test = random.Random(0).sample(train, size.texts), test[: size.scored]
        self.train = [text for text, _ in self._train]
        self.test = [text for text, _ in self._test]

    def task(self, strengths: tuple[float, ...] = (0.001, 0.01, 0.1)) -> Task:
        labels, gold = (np.array([label for _, label in part]) for part in (self._train, self._test))

        def score(guesses: Labels) -> dict[str, Estimate]:
            return {"accuracy": estimate(accuracy_counts(gold, guesses, np.arange(len(gold))))}

        return Task("sst2", labels, len(labels) // 2, strengths, len(gold), score)


def commonest_of_word(train: Sequence[Sequence[str]], labels: Labels, test: Sequence[Sequence[str]]) -> Labels:
    """Return for each word of `test` the label it has most often in `train`, upper and lower case as one.

    A word that was never seen gets the commonest label of all.
    """
    seen: dict[str, Counter[int]] = defaultdict(Counter)
    for word, label in zip((word.lower() for words in train for word in words), labels.tolist(), strict=True):
        seen[word][label] += 1
    best = {word: counts.most_common(1)[0][0] for word, counts in seen.items()}
    common = int(np.bincount(labels).argmax())
    return np.array([best.get(word.lower(), common) for words in test for word in words])


def _probe(bundle: Bundle, tasks: Sequence[Task], train: Any, test: Any) -> list[Scored]:
    names, found = kinds_of(bundle), []
    for task in tasks:
        for kinds in ([0], range(1, len(names))):  # the token table by itself; the best of the rest
            kind, model = task.fit({kind: train[kind] for kind in kinds}, _scaled_logistic)
            found.append(task.by(names[kind], model.predict(test[kind])))
    return found


def _commonest(task: Task) -> Scored:
    return task.by("commonest label", np.full(task.tests, np.bincount(task.labels).argmax()))


def _logistic(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, max_iter=1000)


def _scaled_logistic(strength: float) -> Pipeline:
    return make_pipeline(StandardScaler(), _logistic(strength))


def shown(scored: Sequence[Scored]) -> str:
    """Return a markdown table, a row a score."""
    rows = [
        [one.task, one.by, name, f"{score.value:.3f}", f"{score.low:.3f} - {score.high:.3f}"]
        for one in scored
        for name, score in one.scores.items()
    ]
    return harness.table(["task", "by", "score", "value", "95 %"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Linear probes of frozen vectors: word tags and sentiment.")
    parser.add_argument("bundle", nargs="+", help="a bundle's directory or name")
    parser.add_argument("--quick", action="store_true", help="few examples, only to show that it works")
    given = parser.parse_args()
    size = QUICK if given.quick else FULL
    print(f"baselines\n\n{shown(baselines(size))}")
    for name in given.bundle:
        print(f"\n{name}\n\n{shown(probe(anaume.load(name, device='cpu'), size))}", flush=True)


if __name__ == "__main__":
    main()
