"""The benchmark of sentence vectors: scores by other few lines, rows of both sides, the page of what is there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import spearmanr

import anaume
from anaume.data.judged import RetrievalSet
from anaume.data.labelled import SimilarityExample
from anaume.errors import SettingsError
from anaume.jobs.evaluate_vectors import evaluate_vectors
from benchmarks import (
    jobs,
    kept,
    rates,
    similarity,
    similarity_data,
    similarity_parity,
    similarity_pooling,
    similarity_training,
)
from benchmarks.jobs import Job, JobStudy, Line
from benchmarks.rates import Rates
from benchmarks.similarity_data import SETS, STSB_DEV, ndcg, spearman
from helpers import public_data, wheel_checkpoint

Texts = Sequence[str]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (kept, rates, similarity):
        monkeypatch.setattr(module, "machine", lambda: "a machine")
    monkeypatch.setattr(jobs, "circumstances", lambda: {"machine": "a machine", "date": "2030-01-02", "commit": "abc"})


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., JobStudy]:
    def make(*rows: Job, seconds: dict[str, float] | None = None) -> JobStudy:
        known = Rates(tmp_path / "rates.jsonl")
        known._lines = {pace: {"pace": pace, "seconds": value} for pace, value in (seconds or {}).items()}
        return JobStudy("test", rows, rates=known, runs=tmp_path / "runs", kept=tmp_path / "rows")

    return make


def embedded(texts: Texts) -> Any:
    """Any vectors, always the same ones for a text."""
    rows = [np.random.default_rng(sum(map(ord, text))).normal(size=8) for text in texts]
    return np.array(rows, dtype=np.float32)


# -- scores -----------------------------------------------------------------------------------------------------------


def few_lines_ndcg(given: RetrievalSet, embed: Callable[[Texts], Any]) -> float:
    """The same score, as a textbook has it: a loop, a dot product, a sum."""
    documents = embed(list(given.documents.values()))
    total = 0.0
    for query, text in given.queries.items():
        vector = embed([text])[0]
        cosines = documents @ vector / np.linalg.norm(documents, axis=1) / np.linalg.norm(vector)
        found = [list(given.documents)[row] for row in np.argsort(-cosines, kind="stable")[:10]]
        gains = [max(0, given.judged[query].get(name, 0)) for name in found]
        best = sorted((max(0, grade) for grade in given.judged[query].values()), reverse=True)[:10]
        total += sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, 1)) / sum(
            gain / math.log2(rank + 1) for rank, gain in enumerate(best, 1)
        )
    return total / len(given.queries)


def test_scores_are_those_of_a_few_other_lines() -> None:
    pairs = [SimilarityExample(text=f"a{n}", positives=(f"b{n % 9}",), label=float(n % 5), place="") for n in range(40)]
    one, other = embedded([own.text for own in pairs]), embedded([own.positives[0] for own in pairs])
    cosines = (one * other).sum(1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)
    assert spearman(pairs, embedded) == pytest.approx(spearmanr([own.label for own in pairs], cosines)[0], abs=1e-6)
    draw = np.random.default_rng(0)
    judged = {f"q{n}": {f"d{d}": int(draw.integers(0, 4)) for d in draw.choice(30, 12)} | {"d0": 1} for n in range(6)}
    given = RetrievalSet({f"d{n}": f"text {n}" for n in range(30)}, {name: name for name in judged}, judged, 0)
    assert np.mean(ndcg(given, embedded)) == pytest.approx(few_lines_ndcg(given, embedded), abs=1e-9)


@pytest.mark.real
@pytest.mark.filterwarnings("ignore::anaume.AnaumeWarning")
def test_both_programs_have_the_ndcg_of_a_few_other_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of some short passages of the MS MARCO sample; the benchmark takes all."""
    pytest.importorskip("sentence_transformers")
    public_data("beir_subsets/msmarco/queries.jsonl")
    whole = similarity_data.retrieval_set("MS MARCO sample")
    short = dict([(name, text) for name, text in whole.documents.items() if len(text) < 200][:150])
    judged = {
        query: own
        for query, all_ in whole.judged.items()
        if max((own := {name: grade for name, grade in all_.items() if name in short}).values(), default=0) > 0
    }
    given = RetrievalSet(short, {query: whole.queries[query] for query in judged}, judged, 0)
    bundle = anaume.load(wheel_checkpoint(), device="cpu")
    theirs = similarity_parity.sentence_transformers(similarity_parity.CHECKPOINT)
    expected = few_lines_ndcg(given, theirs)
    assert 0.2 < expected < 1
    assert np.mean(ndcg(given, theirs)) == pytest.approx(expected, abs=1e-6)
    assert np.mean(ndcg(given, bundle.embed)) == pytest.approx(expected, abs=1e-4)
    monkeypatch.setattr("anaume.jobs.evaluate_vectors.read_retrieval_set", lambda *_, **__: given)
    assert evaluate_vectors(bundle, tmp_path, "retrieval").scores["ndcg@10"] == pytest.approx(expected, abs=1e-4)


def test_no_model_that_learned_stsb_is_scored_on_what_it_was_drawn_from() -> None:
    drawn_from = {name for name, own in SETS.items() if own.stsb}
    assert drawn_from == {"STS12", "STS13", "STS14"}
    for row in similarity_pooling.rows():
        if isinstance(row, similarity_pooling.Pooled) and row.learned == "stsb":
            made = similarity_pooling.Pooled(name="a", pooling="cls", learned="stsb")
            assert not drawn_from & set(made._scored())


# -- rows -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Counted(Job):
    """Returns how often it was run."""

    value: int = 1
    other: str = ""

    @property
    def needs(self) -> tuple[Job, ...]:
        return (Counted(name=self.other),) if self.other else ()

    def run(self, folder: Path, threads: int | None) -> Line | None:
        runs = len(list(folder.iterdir())) + 1
        (folder / str(runs)).touch()
        return {"scores": {"runs": runs}}


def test_a_row_is_run_once_and_kept_under_its_definition(make_study: Callable[..., JobStudy]) -> None:
    row, later = Counted(name="a"), Counted(name="b", other="a")
    study = make_study(row, later)
    with pytest.raises(SettingsError, match="b needs a"):
        study.run(later)
    assert (study.state(row), study.run(row), study.run(row)["scores"]) == (  # type: ignore[index]
        "missing", study.result(row), {"runs": 1})  # fmt: skip
    assert make_study(row).result(row) == study.result(row)
    changed = Counted(name="a", value=2)
    assert make_study(changed).state(changed) == "changed"
    with pytest.raises(SettingsError, match="--fresh a"):
        make_study(changed).run(changed)
    study.forget("a")
    assert study.state(row) == "missing"


def test_both_sides_are_given_the_same_pairs_as_often() -> None:
    for row in similarity_training.rows():
        assert (row.pairs, row.epochs, row.bundle) == (2_000, 2, "all-MiniLM-L6-v2")
        if row.side == "ours":
            assert row.own_settings().run.evaluations == row.own_settings().data.dev_share == 0, "the last weights"


KINDS = [
    pytest.param(kind, id=name, marks=[pytest.mark.slow] if kind["side"] == "theirs" else [])
    for name, kind in similarity_training.KINDS.items()
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.filterwarnings("ignore")
def test_a_training_of_either_side_is_scored_and_kept(kind: Any, make_study: Callable[..., JobStudy]) -> None:
    if kind["side"] == "theirs":
        pytest.importorskip("datasets")
        pytest.importorskip("accelerate")
    row = similarity_training.Training(**{"name": "a", **kind, "data": "made", "bundle": "made", "pairs": 24})
    study = make_study(row)
    line = study.run(row, threads=1)
    assert line is not None
    assert (line["steps"], line["train"], line["dev"]) == (row.steps, 24, 24)
    assert -1 <= line["scores"]["spearman"] <= 1
    assert not (study.folder / "a").exists()


@pytest.mark.filterwarnings("ignore")
def test_a_pooling_is_trained_and_scored(make_study: Callable[..., JobStudy]) -> None:
    rows = [row for row in similarity_pooling.quick() if row.pooling == "max"]
    study = make_study(*rows)
    for row in rows:
        assert study.run(row, threads=1)["scores"][STSB_DEV] <= 1  # type: ignore[index]


# -- the page ---------------------------------------------------------------------------------------------------------


def all_rows() -> list[Job]:
    return [row for module in (similarity_parity, similarity_training, similarity_pooling) for row in module.rows()]


def test_the_page_of_nothing_says_that_nothing_was_run(make_study: Callable[..., JobStudy]) -> None:
    page = similarity.make_page(make_study(*all_rows()))
    assert "within 0.0001: not all run yet." in page
    assert "The encoder is not pretrained yet." in page
    assert page.count("scores not run yet; not timed yet") == 2


def test_numbers_stand_where_they_belong(make_study: Callable[..., JobStudy]) -> None:
    rows = all_rows()
    ours = next(row for row in similarity_training.rows() if row.side == "ours")
    batch, steps = ours.own_settings().run.batch_rows, ours.steps
    timed = {row.pace: 75 / row.steps if row.side == "theirs" else 25 / steps for row in similarity_training.rows()}
    study = make_study(*rows, seconds=timed)
    for row in rows:
        scores: dict[str, float] = {}
        if isinstance(row, similarity_parity.Parity):
            scores = {"ours": 0.81234, "theirs": 0.81239 if row.data == STSB_DEV else 0.81235}
        if isinstance(row, similarity_training.Training):
            scores = {"spearman": (0.880 if row.side == "ours" else 0.881) + 0.001 * row.seed}
        if isinstance(row, similarity_pooling.Pooled):
            high = {"mean": 0.6, "cls": 0.5, "max": 0.55}[row.pooling] + 0.001 * row.seed
            scores = {name: high for name, own in SETS.items() if own.task == "sts"}
        other = {"interval": [0.8, 0.9], "examples": 1500, "overlap": {STSB_DEV: [3, 100]}}
        if not isinstance(row, similarity_pooling.Pretrained):
            study.kept.put({"row": row.definition, "threads": 1, "seconds": 9.0, "scores": scores, **other})
    page = similarity.make_page(study)
    assert "within 0.0001: MISSED." in page, "equal within 1e-4, not to 4 decimals"
    assert f"| anaume, bfloat16 | {batch} | {steps} | 88.10 ± 0.10 | -0.10 | {25 / steps:.3f} | 25 | 3.00 |" in page
    assert "anaume, float32: -0.10 points, met; 3.00 times faster, met" in page
    assert "| mean | 60.00 | 46.35 | 60.10 ± 0.10 | 80.78 | 60.10 ± 0.10 | 87.44 |" in page
    assert "trained on NLI, [CLS] over max: -5.00 here, +0.73 there: does not hold" in page
    assert "trained on STS-B, mean over max: +5.00 here, +17.52 there: holds" in page
