"""The data of the fine-tuning benchmark: read by our readers for both sides, drawn once by a fixed seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from typing import Any

from anaume.data.labelled import QuestionExample, read_labelled
from anaume.data.labelled.split import content_of, count_seen
from anaume.tasks.registry import AnyTask, fit_task, task_named
from benchmarks import finetune_made, livedoor
from benchmarks.sources import public_data, share_of

DRAWN = 20181011
"""The seed that draws rows where there are more than are taken: the same ones for every side, seed and setting."""
TRAIN, DEV = 1_000, 1_000
TRAIN_JAPANESE = 2_000

STARTED_ON = """\
all-MiniLM-L6-v2 was trained to pair texts that belong together. By its model card it has seen SNLI and MultiNLI, Quora
question pairs, SQuAD 2.0 and Natural Questions, among a billion pairs; not MRPC, RTE, STS-B, CoNLL-2003, CoLA, SST-2 or
ARC."""


@dataclass(frozen=True, kw_only=True)
class Data:
    """One data set of the benchmark, as a task of ours.

    files      train and dev, below the public data folder; of one for both, `articles` or the hash of the texts splits
               it; () = made up
    rate       the highest learning rate: one sensible value, the same for both sides, tuned for neither
    length     the longest row in tokens, both sides
    train, dev at most so many examples; None = all
    articles   so many titles of the file, in its order, are for training, the others are dev
    options    take only questions of so many options: the Trainer's collator takes no others
    metric     of classification: what decides, where it is not accuracy
    seen       what is known of the starting model and this data
    """

    kind: str
    files: tuple[str, ...]
    rate: str = "1e-4"
    length: int = 128
    train: int | None = TRAIN
    dev: int | None = None
    articles: int | None = None
    options: int | None = None
    metric: str | None = None
    seen: str = ""

    @property
    def settings(self) -> tuple[str, ...]:
        """What differs from the defaults of `FinetuneSettings`, as "section.key=value"."""
        own = () if self.metric is None else (f"task.metric={self.metric}",)
        return (f"optimizer.learning_rate={self.rate}", f"model.max_length={self.length}", *own)

    @property
    def definition(self) -> dict[str, Any]:
        """What decides which examples are taken."""
        own = {name: value for name, value in asdict(self).items() if name not in ("rate", "length", "metric", "seen")}
        return own | {"files": list(self.files), "drawn": DRAWN}


@dataclass(frozen=True)
class Drawn:
    """The examples of a data set."""

    train: list[Any]
    dev: list[Any]
    overlap: int
    """How many dev examples have a copy of their text, or texts, among the training examples."""

    @property
    def sha256(self) -> str:
        """Of every example, in order."""
        digest = hashlib.sha256()
        for example in (*self.train, *self.dev):
            digest.update(repr(example).encode())
        return digest.hexdigest()[:16]


_pair, _glue = "pair-classification", "glue/{0}/train.tsv.gz glue/{0}/dev.tsv"


def _files(name: str, pattern: str = _glue) -> tuple[str, ...]:
    return tuple(pattern.format(name).split())


_JGLUE = "jglue/{0}/test-v1.3.json.gz jglue/{0}/valid-v1.3.json.gz"
_SUBSET = "glue_subsets/{0}/train.tsv.gz glue_subsets/{0}/dev.tsv"

CORE = {
    "MRPC": Data(kind=_pair, files=_files("MRPC")),
    "RTE": Data(kind=_pair, files=_files("RTE")),
    "STS-B": Data(kind="regression", files=_files("STS-B")),
    "CoNLL-2003": Data(
        kind="ner", files=("conll2003/eng.train.gz", "conll2003/eng.testa.gz"), rate="3e-4", dev=DEV
    ),
}  # fmt: skip
FURTHER = {
    "CoLA": Data(kind="classification", files=_files("CoLA"), metric="matthews"),
    "SST-2": Data(kind="classification", files=_files("SST-2")),
    "QNLI": Data(
        kind=_pair, files=_files("QNLI", _SUBSET), seen="its paragraphs are SQuAD's, which the starting model has seen"
    ),
    "MNLI": Data(kind=_pair, files=_files("MNLI", _SUBSET), seen="part of MultiNLI, which the starting model has seen"),
    "SQuAD 2.0": Data(
        kind="question-answering",
        files=("squad/dev-v2.0.cs224n-half.json.gz",),
        rate="3e-4",
        length=384,
        dev=DEV,
        articles=12,
        seen="the starting model has seen SQuAD 2.0; its card does not say whether dev, too",
    ),
    "ARC easy": Data(
        kind="multiple-choice", files=("arc/arc_easy_train.csv.gz", "arc/arc_easy_validation.csv"), options=4
    ),
}
_JAPANESE: dict[str, Any] = {"train": TRAIN_JAPANESE, "dev": DEV, "rate": "3e-4"}
JAPANESE = {
    "Livedoor news": Data(kind="classification", files=livedoor.FILES, **_JAPANESE),
    "JNLI": Data(kind=_pair, files=_files("jnli", _JGLUE), **_JAPANESE),
    "JSTS": Data(kind="regression", files=_files("jsts", _JGLUE.replace("test-", "train-")), **_JAPANESE),
    "JSTS, as vectors": Data(kind="similarity", files=_files("jsts", _JGLUE.replace("test-", "train-")), **_JAPANESE),
    "JCommonsenseQA": Data(
        kind="multiple-choice",
        files=("jglue/jcommonsenseqa/train-v1.3.json.gz", "jglue/jcommonsenseqa/valid-v1.3.json"),
        **_JAPANESE,
    ),
    "Wikipedia NER": Data(kind="ner", files=("ner_wikipedia_ja/ner.json.gz",), **_JAPANESE | {"rate": "5e-4"}),
    "JSQuAD": Data(kind="question-answering", files=_files("jsquad", _JGLUE), length=256, **_JAPANESE),
}
"""For a Japanese bundle. Of JNLI and JSQuAD the test part is learned and the other scored: train is not at hand."""
MADE = {f"made {kind}": Data(kind=kind, files=(), rate="1e-3", length=32) for kind in finetune_made.KINDS}
SETS = CORE | FURTHER | JAPANESE | MADE


@cache
def drawn(name: str) -> Drawn:
    """Return the examples of one of `SETS`. Raises DataError where its files are not there."""
    data = SETS[name]
    if not data.files:
        train, dev = finetune_made.examples(data.kind)
    else:
        train, dev = _parts(data)
    train, dev = _some(train, data.train), _some(dev, data.dev)
    if data.kind == "similarity":  # by both texts, as pairs are: one of them may occur in other pairs
        return Drawn(train, dev, count_seen(train, dev))
    contents = {content_of(example) for example in train}
    return Drawn(train, dev, sum(content_of(example) in contents for example in dev))


def fitted(name: str, options: dict[str, Any]) -> AnyTask:
    """Return the task of a data set, fitted to its training examples."""
    data = SETS[name]
    return fit_task(task_named(data.kind), drawn(name).train, options)


def _parts(data: Data) -> tuple[list[Any], list[Any]]:
    if data.files == livedoor.FILES:
        return livedoor.examples()
    first, *second = (_read(data, relative) for relative in data.files)
    if second:
        return first, second[0]
    return _by_hash(first) if data.articles is None else _by_article(first, data.articles)


def _read(data: Data, relative: str) -> list[Any]:
    """Read a file; places are told below the data folder, so that nothing depends on where that is."""
    examples: Iterator[Any] = read_labelled(data.kind, public_data(relative))
    return [
        replace(example, fields={}, place=f"{relative}, example {number}")
        for number, example in enumerate(examples, 1)
        if data.options is None or len(example.options) == data.options
    ]


def _by_article(examples: Sequence[QuestionExample], count: int) -> tuple[list[Any], list[Any]]:
    titles = list(dict.fromkeys(example.title for example in examples))
    first = set(titles[:count])
    parts: tuple[list[Any], list[Any]] = [], []
    for example in examples:
        parts[example.title not in first].append(example)
    return parts


def _by_hash(examples: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Return train and dev, a fifth; what a text is decides, so copies are never on both sides."""
    parts: tuple[list[Any], list[Any]] = [], []
    for example in examples:
        parts[share_of(" ".join(example.texts)) < 0.2].append(example)
    return parts


def _some(examples: list[Any], count: int | None) -> list[Any]:
    """Return at most so many, drawn by the fixed seed, in their order."""
    if count is None or len(examples) <= count:
        return examples
    numbers = sorted(random.Random(DRAWN).sample(range(len(examples)), count))
    return [examples[number] for number in numbers]
