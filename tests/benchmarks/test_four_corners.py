"""The four corners: two switches and nothing else, pages of whatever rows are there, no number out of place."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks import corner_page, corpora, four_corners, sitting
from benchmarks.corner_page import CORNERS, make_page
from benchmarks.corner_words import WORDS
from benchmarks.intervals import Estimate
from benchmarks.probes import QUICK, Scored
from benchmarks.rates import Rates
from benchmarks.study import Row, Study, curve
from tiny_studies import TINY

ABOUT = {
    "sources": {"films": {"documents": 90, "characters": 1_500_000, "held back": 10, "leaks left out": 3}},
    "overlap": {"SST-2 dev": [0, 868]},
    "notes": [],
}
LOSSES = {"causal-next": 4.25, "causal-masked": 5.5, "bidirectional-next": 0.125, "bidirectional-masked": 3.75}


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(corpora, "about", lambda name: ABOUT)
    return tmp_path


def study_of(kept: Path, *names: str) -> Study:
    """A study in which rows of these names are done."""
    rows = four_corners.corners()
    with (kept / "four-corners.jsonl").open("w", encoding="utf-8") as file:
        for row in rows:
            if row.name in names:
                file.write(json.dumps(line_of(row)) + "\n")
    return four_corners.four_corners(rows, kept=kept, rates=Rates(kept / "rates.jsonl"), runs=kept / "runs")


def line_of(row: Row) -> dict[str, Any]:
    last = LOSSES[row.name]
    points = [(0.2, 8.0, 7.9), (0.4, 7.0, 6.9), (0.6, 6.0, 5.9), (0.8, 5.0, 4.9), (1.0, 4.5, last)]
    return {
        "row": row.definition,
        "steps": 1234,
        "seconds_a_step": 0.25,
        "epochs": 1.5,
        "training_loss": 4.444,
        "curve": [
            {"fraction": fraction, "training_loss": training, "held_out_loss": held_out, "held_out_accuracy": 0.25}
            for fraction, training, held_out in points
        ],
        "scores": {"probes": four_corners.told(probed(last))},
        "date": "2030-01-02",
        "commit": "abc1234",
        "machine": "a machine",
        "versions": {"python": "3.11"},
    }


def probed(last: float) -> list[Scored]:
    """Scores that fall with the loss, all but the token table's."""

    def scores(task: str, value: float) -> dict[str, Estimate]:
        entities = ("accuracy", "macro F1", "entity F1")
        names = {"pos": entities[:2], "sst2": entities[:1]}.get(task, entities)
        return {name: Estimate(value, value - 0.01, value + 0.01) for name in names}

    kinds = (("token table", 0.111), ("layer 2", 1 - last / 10))
    return [Scored(task, by, scores(task, value)) for task in ("pos", "entities", "sst2") for by, value in kinds]


def test_the_corners_differ_in_the_two_switches_alone() -> None:
    rows = four_corners.corners()
    settings = {row.name: row.pretrain_settings() for row in rows}
    for name, own in settings.items():
        assert own.model.causal == name.startswith("causal")
        assert own.objective.target == name.split("-")[1]
    assert len({row.pace for row in rows}) == 4, "each has its own seconds a step"
    assert len({replace(row, name="", settings=row.settings[:-2]).pace for row in rows}) == 1


@pytest.mark.parametrize("language", ["en", "ja"])
def test_a_page_without_rows_says_so(kept: Path, language: Any) -> None:
    page = make_page(study_of(kept), language)
    assert page.count(WORDS[language]["not yet"]) > 20
    assert "$" not in page
    assert "0 / 868" in page
    assert str(kept) not in page


def test_numbers_stand_where_they_belong(kept: Path) -> None:
    page = make_page(study_of(kept, *CORNERS))
    assert "not run yet" not in page.replace("| untrained, bidirectional | not run yet", "")
    drawn = [line for line in page.splitlines() if "| loss: " in line]
    assert [line.split("|")[1:3] for line in drawn] == [
        [" loss: 4.25                      ", " loss: 5.50                      "],
        [" loss: 0.12                      ", " loss: 3.75                      "],
    ]
    assert "The difference, 1.75 nats a token" in page
    assert "| bidirectional, next token | 1,234 | 250 | 1.5 | 4.444 | 0.125 | 25.0% |" in page
    assert "| causal, masked tokens | 8.00 / 7.90 | 7.00 / 6.90 | 6.00 / 5.90 | 5.00 / 4.90 | 4.50 / 5.50 |" in page
    assert "| causal, next token (GPT) | layer 2 | 0.575 (0.565 - 0.585) | 0.111 |" in page
    assert "SST-2, bidirectional, next token (0.988)" in page
    assert "1.5 M characters (films 1.5 M)" in page
    assert "- date: 2030-01-02, commit: abc1234" in page


def test_a_corner_that_is_missing_leaves_no_claim_behind(kept: Path) -> None:
    page = make_page(study_of(kept, "causal-next", "bidirectional-masked"), "ja")
    assert "一つも" in page
    assert "右側の文脈の値打ち" not in page
    assert "最もよかった" not in page
    assert "| 両側＋次のトークン | 未測定 |" in page


def test_both_languages_have_the_same_words() -> None:
    assert WORDS["en"].keys() == WORDS["ja"].keys()


def test_a_picture_in_japanese_has_straight_edges(kept: Path) -> None:
    drawn = make_page(study_of(kept), "ja").split("```text\n")[1].split("```")[0].splitlines()[1:]
    assert len({corner_page._width(line) for line in drawn}) == 1


def test_what_all_are_compared_with_is_probed_once(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(four_corners, "untrained", lambda row, corpus: "untrained")
    monkeypatch.setattr(four_corners, "probe", lambda bundle, size: calls.append(bundle) or probed(1.0))
    monkeypatch.setattr(four_corners, "baselines", lambda size: [])
    for row in four_corners.corners():
        four_corners.score(QUICK, kept, row, row.name, kept)  # type: ignore[arg-type]
    assert calls == ["untrained", *CORNERS]
    other = replace(four_corners.corners()[0], width=64)
    four_corners.score(QUICK, kept, other, "wider", kept)  # type: ignore[arg-type]
    assert calls[-2:] == ["untrained", "wider"], "another shape is compared with its own untrained model"
    assert "untrained, bidirectional | not run yet" in make_page(study_of(kept)), "that of another shape is not shown"
    four_corners.score(QUICK, kept, four_corners.corners()[0], "first", kept)  # type: ignore[arg-type]
    assert "untrained, bidirectional | layer 2 | 0.900" in make_page(study_of(kept))


def test_a_curve_has_the_training_loss_since_the_point_before() -> None:
    rows = [
        {"fraction": 0.1, "loss": 8.0, "token_loss": 8.0},
        {"fraction": 0.5, "loss": 6.0, "token_loss": 6.0},
        {"fraction": 0.5, "held_out_loss": 6.5, "held_out_accuracy": 0.1},
        {"fraction": 1.0, "held_out_loss": 6.0, "held_out_accuracy": 0.2},
    ]
    assert [(point["fraction"], point["training_loss"]) for point in curve(rows)] == [(0.5, 7.0), (1.0, None)]


def test_every_corner_is_trained_from_the_untrained_model_and_keeps_its_mask(
    small_corpus: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a learning rate of next to nothing the weights stay where they began."""
    bundles: list[Any] = []
    monkeypatch.setattr(four_corners, "probe", lambda bundle, size: bundles.append(bundle) or probed(1.0))
    monkeypatch.setattr(four_corners, "baselines", lambda size: [])
    settings = (*TINY, "run.evaluations=1", "run.evaluation_rows=8", "optimizer.learning_rate=1e-12")
    settings = (*settings, "model.start=published")  # an informed one depends on the mask
    rows = four_corners.corners(0.1, settings, layers=1, width=16, corpus="made", tokenizer="own-60")
    rates = Rates(tmp_path / "rates.jsonl")
    rates._lines = {row.pace: {"pace": row.pace, "seconds": 2.0} for row in rows}
    made = four_corners.four_corners(rows, kept=tmp_path / "rows", rates=rates, runs=tmp_path / "runs")
    lines = [made.run(row) for row in rows]
    untrained, *trained = bundles
    assert [bundle.config.causal for bundle in trained] == [True, True, False, False]
    for bundle in trained:
        for ours, theirs in zip(bundle.model.parameters(), untrained.model.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=0)
    floor = math.log(untrained.tokenizer.vocab_size)
    assert [line["curve"][-1]["held_out_loss"] for line in lines if line] == pytest.approx([floor] * 4, rel=0.05)


def test_both_pages_are_written(kept: Path, tmp_path: Path) -> None:
    made, japanese = study_of(kept, *CORNERS), lambda study: make_page(study, "ja")
    out, other = tmp_path / "page.md", tmp_path / "ja.md"
    given = ["--page", "-o", str(out), "--ja", str(other)]
    sitting.main(None, made, make_page, quick=four_corners.quick, others={"ja": japanese}, argv=given)
    assert out.read_text("utf-8").startswith("# The four corners")
    assert other.read_text("utf-8").startswith("# マスクと目的")
