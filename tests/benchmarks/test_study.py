"""A study's rows: minutes become steps, what is there is not run again, and a stopped row goes on."""

import json

import pytest

from anaume.errors import SettingsError
from benchmarks import corpora, rates, scores, sitting, study
from benchmarks.corpora import Text
from benchmarks.rates import Rates, pace
from benchmarks.study import Row, Study

WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
TINY = ("run.threads=1", "run.precision=float32", "run.batch_rows=4", "run.evaluations=0")
SEEN = []


def row(name="a", **other):
    given = {"minutes": 0.1, "settings": TINY, "layers": 1, "width": 16, "corpus": "made", "tokenizer": "own-60"}
    return Row(name=name, **(given | other))


@pytest.fixture
def made(tmp_path, monkeypatch):
    """A small corpus, and a function that makes a study of rows; every pace is known, 2 s a step."""
    monkeypatch.setattr(corpora, "CORPORA", tmp_path / "corpora")
    monkeypatch.setattr(corpora, "EVALUATION", {})
    monkeypatch.setattr(study, "machine", lambda: "a machine")
    monkeypatch.setattr(rates, "machine", lambda: "a machine")
    texts = [
        " ".join(WORDS[(number + step * step) % 10] for step in range(150)) + f" {number}." for number in range(60)
    ]
    monkeypatch.setitem(corpora.TEXTS, "made", Text({"all": lambda tell: iter(texts)}, held_out=0.2))
    SEEN.clear()

    def score(row, bundle, corpus):
        SEEN.append(row.name)
        return {"held_out_loss": scores.held_out(bundle, corpus).loss}

    def make(*rows, known=True):
        known_rates = Rates(tmp_path / "rates.jsonl")
        if known:
            known_rates._lines = {row.pace: {"pace": row.pace, "seconds": 2.0} for row in rows}
        return Study("test", rows, score, rates=known_rates, runs=tmp_path / "runs", kept=tmp_path / "rows")

    return make


def test_a_row_is_trained_scored_and_kept(made, tmp_path):
    one = made(row())
    line = one.run(one.rows[0])
    assert line["steps"] == 3, "0.1 minutes at 2 s a step"
    assert line["row"] == one.rows[0].definition
    assert line["scores"]["held_out_loss"] > 1
    assert (one.bundle(one.rows[0]) / "model.safetensors").exists()
    kept = [json.loads(text) for text in (tmp_path / "rows" / "test.jsonl").read_text().splitlines()]
    assert kept == [line]
    assert {"seconds", "epochs", "training_loss", "date", "commit", "machine", "versions"} <= line.keys()


def test_a_row_that_is_there_is_not_run_again_until_it_is_forgotten(made):
    first = made(row())
    first.run(first.rows[0])
    again = made(row())
    assert again.state(again.rows[0]) == "done"
    again.run(again.rows[0])
    assert SEEN == ["a"]
    again.forget("a")
    assert again.state(again.rows[0]) == "missing"
    assert made(row()).result(row()) is None
    again.run(again.rows[0])
    assert SEEN == ["a", "a"]


def test_a_row_of_another_definition_is_not_taken_for_it(made):
    first = made(row())
    first.run(first.rows[0])
    other = made(row(seed=1))
    assert other.state(other.rows[0]) == "changed"
    assert other.result(other.rows[0]) is None
    with pytest.raises(SettingsError, match="--fresh a"):
        other.run(other.rows[0])


def test_a_new_rate_does_not_change_a_row_that_has_begun(made):
    first = made(row())
    first._plan(first.rows[0], first._runs / "a")
    again = made(row())
    again.rates._lines[row().pace]["seconds"] = 1.0
    assert again.state(again.rows[0]) == "begun"
    assert again.run(again.rows[0])["steps"] == 3


def test_without_a_rate_minutes_are_worth_nothing(made, capsys):
    one = made(row(), known=False)
    assert one.state(one.rows[0]) == "no rate"
    with pytest.raises(SettingsError, match="--rates"):
        one.run(one.rows[0])
    assert sitting.run(one, one.rows)
    assert "a: not run: nothing tells" in capsys.readouterr().err


def test_the_same_row_gives_the_same_numbers(made):
    one = made(row(), row("b"), row("c", seed=1))
    a, b, c = (one.run(given)["scores"] for given in one.rows)
    assert a == b != c


def test_rates_are_measured_once_and_kept(made, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.KEPT", tmp_path)
    rows = row(), row("b", seed=3, minutes=9), row("c", settings=(*TINY, "run.batch_rows=8"))
    one = made(*rows, known=False)
    one.measure_rates(rounds=2, steps=2)
    assert len((tmp_path / "rates.jsonl").read_text().splitlines()) == 2, "a and b keep the same pace"
    again = made(*rows, known=False)
    assert again.state(again.rows[2]) == "missing"
    before = (tmp_path / "rates.jsonl").read_text()
    again.measure_rates(rounds=2, steps=2)
    assert (tmp_path / "rates.jsonl").read_text() == before


def test_a_pace_is_what_decides_the_time():
    slow = row(settings=(*TINY, "objective.mask_rate_end=0.3"))
    assert row().pace == row(seed=5, minutes=3, settings=(*TINY, "optimizer.learning_rate=1e-4")).pace
    for other in (slow, row(width=32), row(tokenizer="own-70"), row(kind="trainer")):
        assert other.pace != row().pace
    assert pace("ours", "bert", row().pretrain_settings()).startswith("ours bert model.size=custom")


def test_the_list_says_what_is_left(made):
    one = made(row(), row("b", minutes=5))
    one.run(one.rows[0])
    told = sitting.listing(one, one.rows)
    assert "done" in told.splitlines()[0]
    assert told.splitlines()[-1] == "1 of 2 done; the others need 5 minutes"
