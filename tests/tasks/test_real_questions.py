"""SQuAD, JSQuAD, ARC, JCommonsenseQA: certain logits score full marks, and scores equal those of a few other lines."""

from __future__ import annotations

import collections
import csv
import gzip
import io
import json
import random
import re
import string
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anaume.data.labelled import Answer, ChoiceExample, QuestionExample
from anaume.tasks.features import Features
from anaume.tasks.multiple_choice import MultipleChoice
from anaume.tasks.question_answering import QuestionAnswering, score_official
from anaume.tokenization import Tokenizer
from helpers import public_data, wheel_checkpoint

pytestmark = pytest.mark.real

SQUAD = "squad/dev-v2.0.cs224n-half.json.gz"
JSQUAD = "jglue/jsquad/valid-v1.3.json.gz"


def text_of(path: Path) -> str:
    content = path.read_bytes()
    return (gzip.decompress(content) if content[:2] == b"\x1f\x8b" else content).decode("utf-8")


def questions(relative: str) -> list[QuestionExample]:
    return [
        QuestionExample(
            id=asked["id"],
            question=asked["question"],
            context=paragraph["context"],
            answers=tuple(Answer(answer["text"], answer["answer_start"]) for answer in asked["answers"]),
        )
        for article in json.loads(text_of(public_data(relative)))["data"]
        for paragraph in article["paragraphs"]
        for asked in paragraph["qas"]
    ]


@pytest.fixture(scope="module")
def squad() -> list[QuestionExample]:
    return questions(SQUAD)


def certain(features: Features) -> list[Any]:
    """Logits that are sure of the targets, start and end each in its own column."""
    logits = []
    for row, (start, end) in enumerate(zip(*(np.asarray(features.targets[n]) for n in ("start", "end")), strict=True)):
        scores = np.zeros((len(features.token_ids[row]), 2), dtype=np.float32)
        # A window without the answer is less sure of that than the one which holds it is of the answer.
        height = 10.0 if start > 0 else 3.0
        scores[start, 0] = scores[end, 1] = height
        logits.append(scores)
    return logits


def ceiling(examples: list[QuestionExample], tokenizer: Tokenizer) -> float:
    """The share of questions that have no answer, or one that begins and ends where words of the tokenizer do."""
    reachable = 0
    for example in examples:
        bounds = tokenizer.encode(example.context).offsets[1:-1]
        starts, ends = {start for start, _ in bounds}, {end for _, end in bounds}
        reachable += not example.answers or any(
            answer.start in starts and answer.start + len(answer.text) in ends for answer in example.answers
        )
    return reachable / len(examples)


def test_certain_logits_answer_squad(squad: list[QuestionExample]) -> None:
    tokenizer = Tokenizer.from_directory(wheel_checkpoint())
    assert (len(squad), sum(not example.answers for example in squad)) == (6_078, 3_168)
    squad = squad[::3]
    task = QuestionAnswering.fit(squad, max_answer_length=100)
    assert (task.missing, task.rule) == (True, "words")
    features = task.features(squad, tokenizer, 256, learn=True)
    assert features.rows > len(squad)  # some contexts need several windows
    assert features.told == []
    predictions = task.decode(certain(features), features, squad)
    scores = task.score(predictions, squad)
    assert scores["NoAns_f1"] == 1.0
    assert scores["exact"] >= ceiling(squad, tokenizer) >= 0.998
    assert scores["f1"] > 0.999
    for prediction, example in zip(predictions, squad, strict=True):
        for span in prediction.candidates:
            assert example.context[span.start : span.end] == span.text == span.text.strip() != ""
    assert task.calibrate(certain(features), features, squad).score(predictions, squad)["f1"] == scores["best_f1"]


@pytest.mark.parametrize("subwords", ["character", "wordpiece"])
def test_certain_logits_answer_jsquad(subwords: str) -> None:
    """The literal [SEP] after each title stays in the context, and moves no offset."""
    pytest.importorskip("fugashi")
    examples = questions(JSQUAD)
    assert len(examples) == 4_442
    contexts = list(dict.fromkeys(example.context for example in examples))
    assert all(" [SEP] " in context for context in contexts)
    examples = examples[::4]
    tokenizer = Tokenizer.train(contexts, vocab_size=6_000, subwords=subwords, words="mecab", lower_case=False)
    task = QuestionAnswering.fit(examples, max_answer_length=200)
    assert (task.missing, task.rule) == (False, "characters")
    features = task.features(examples, tokenizer, 256, learn=True)
    assert features.told == []
    predictions = task.decode(certain(features), features, examples)
    scores = task.score(predictions, examples)
    assert scores["exact"] >= ceiling(examples, tokenizer)
    assert scores["exact"] == 1.0 or (subwords == "wordpiece" and scores["exact"] > 0.99)
    assert scores["f1"] > 0.999


def independent(answers: dict[str, str], path: Path) -> dict[str, float]:
    """EM and F1 of SQuAD 2.0 in a few lines that share nothing with the package, in the order of its description."""

    def plain(text: str) -> str:
        text = "".join(character for character in text.lower() if character not in set(string.punctuation))
        return " ".join(re.sub(r"\b(a|an|the)\b", " ", text).split())

    def overlap(one: list[str], other: list[str]) -> float:
        if not one or not other:
            return float(one == other)
        left = collections.Counter(other)
        same = 0
        for word in one:
            same += left[word] > 0
            left[word] -= 1
        precision, recall = same / len(one), same / len(other)
        return 2 * precision * recall / (precision + recall) if same else 0.0

    sums: dict[str, list[float]] = collections.defaultdict(list)
    for article in json.loads(text_of(path))["data"]:
        for paragraph in article["paragraphs"]:
            for asked in paragraph["qas"]:
                golds = [answer["text"] for answer in asked["answers"] if plain(answer["text"])] or [""]
                given = plain(answers[asked["id"]])
                exact = max(float(plain(gold) == given) for gold in golds)
                f1 = max(overlap(given.split(), plain(gold).split()) for gold in golds)
                kind = "HasAns" if asked["answers"] else "NoAns"
                for name, value in (("exact", exact), ("f1", f1)):
                    sums[name].append(value)
                    sums[f"{kind}_{name}"].append(value)
    return {name: sum(values) / len(values) for name, values in sums.items()}


def test_scores_by_characters_equal_an_independent_recomputation() -> None:
    examples, chance, answers, exact, f1 = questions(JSQUAD), random.Random(0), {}, 0.0, 0.0
    for example in examples:
        assert example.answers
        right = chance.choice(example.answers).text
        start = chance.randrange(len(example.context))
        other = example.context[start : start + chance.randint(1, 12)]
        given = answers[example.id] = chance.choice(
            [right, right + "。", right.upper(), right[1:], other + right, other]
        )
        best = [0.0, 0.0]
        for answer in example.answers:
            one, two = (re.sub(r"\s+", " ", text.lower().rstrip("。")).strip() for text in (given, answer.text))
            same = sum(min(one.count(character), two.count(character)) for character in set(one))
            best = [max(best[0], one == two), max(best[1], 2 * same / (len(one) + len(two)))]
        exact, f1 = exact + best[0], f1 + best[1]
    scores = score_official(answers, examples)
    assert scores["rule"] == "characters"
    assert 0.3 < scores["exact"] < scores["f1"] < 0.9
    assert (scores["exact"] * 4_442, scores["f1"] * 4_442) == (pytest.approx(exact), pytest.approx(f1))


def test_scores_equal_an_independent_recomputation(squad: list[QuestionExample]) -> None:
    """Right answers perturbed in every way the definition speaks of, and any other words of the context."""
    chance = random.Random(0)
    answers = {}
    for example in squad:
        right = chance.choice(example.answers).text if example.answers else ""
        words = example.context.split()
        start = chance.randrange(len(words))
        answers[example.id] = chance.choice(
            [
                right,
                "",
                f"The {right.upper()}!",
                f"{right}, {words[start]}",
                " ".join(right.split()[1:]),
                f" an  {right.replace(' ', '  a ')}\t",
                " ".join(words[start : start + chance.randint(1, 8)]),
                right + "'s",
            ]
        )
    ours = score_official(answers, squad)
    theirs = independent(answers, public_data(SQUAD))
    assert ours["rule"] == "words"
    assert 0.3 < theirs["exact"] < theirs["f1"] < 0.7
    for name, value in theirs.items():
        assert ours[name] == pytest.approx(value, abs=1e-12), name
    assert (ours["total"], ours["HasAns_total"], ours["NoAns_total"]) == (6_078, 2_910, 3_168)


@pytest.mark.parametrize("relative", ["arc/arc_easy_train.csv.gz", "jglue/jcommonsenseqa/valid-v1.3.json"])
def test_certain_scores_choose_all(relative: str) -> None:
    text = text_of(public_data(relative))
    examples = []
    if "arc" in relative:
        for question, *options, key in csv.reader(io.StringIO(text)):
            label = "ABCDE".index(key) if key in "ABCDE" else int(key) - 1
            if label < len(options):  # three questions have a fifth option that is not in the file
                examples.append(ChoiceExample(question=question, options=tuple(options), label=label))
        tokenizer = Tokenizer.from_directory(wheel_checkpoint())
    else:
        for line in text.splitlines():
            row = json.loads(line)
            options = [row[f"choice{number}"] for number in range(5)]
            examples.append(ChoiceExample(question=row["question"], options=tuple(options), label=row["label"]))
        tokenizer = Tokenizer.train([text], vocab_size=3_000, subwords="character", strip_accents=False)
    task = MultipleChoice.fit(examples)
    features = task.features(examples, tokenizer, 64, learn=True)
    labels = np.asarray(features.targets["label"])
    logits = [np.float32(0.0)] * features.rows
    for unit, label in enumerate(labels):
        logits[features.unit_starts[unit] + label] = np.float32(1.0)
    predictions = task.decode([np.asarray(score) for score in logits], features, examples)
    scores = task.score(predictions, examples)
    assert scores["accuracy"] == 1.0
    assert scores["chance"] == pytest.approx(0.25 if "arc" in relative else 0.2)
    assert all(p.text == e.options[e.label or 0] for p, e in zip(predictions, examples, strict=True))
