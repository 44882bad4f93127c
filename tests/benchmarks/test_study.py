"""A study's rows: minutes become steps, what is there is not run again, and a stopped row goes on."""

import json
import os
import signal

import pytest

from anaume.errors import SettingsError
from anaume.training.records import read_lines
from benchmarks import sitting, study
from benchmarks.rates import pace
from tiny_studies import TINY, tiny_row


def test_a_row_is_trained_scored_and_kept(make_study, tmp_path):
    one = make_study(tiny_row())
    line = one.run(one.rows[0])
    assert line["steps"] == 3, "0.1 minutes at 2 s a step"
    assert line["row"] == one.rows[0].definition
    assert line["scores"]["held_out_loss"] > 1
    assert (one.bundle(one.rows[0]) / "model.safetensors").exists()
    kept = [json.loads(text) for text in (tmp_path / "rows" / "test.jsonl").read_text().splitlines()]
    assert kept == [line]
    assert {"seconds", "epochs", "training_loss", "date", "commit", "machine", "versions"} <= line.keys()


def test_a_row_that_is_there_is_not_run_again_until_it_is_forgotten(make_study):
    first = make_study(tiny_row())
    first.run(first.rows[0])
    again = make_study(tiny_row())
    assert again.state(again.rows[0]) == "done"
    again.run(again.rows[0])
    assert first.scored + again.scored == ["a"]
    again.forget("a")
    assert again.state(again.rows[0]) == "missing"
    assert make_study(tiny_row()).result(tiny_row()) is None
    again.run(again.rows[0])
    assert again.scored == ["a"]


def test_a_row_of_another_definition_is_not_taken_for_it(make_study):
    first = make_study(tiny_row())
    first.run(first.rows[0])
    other = make_study(tiny_row(seed=1))
    assert other.state(other.rows[0]) == "changed"
    assert other.result(other.rows[0]) is None
    with pytest.raises(SettingsError, match="--fresh a"):
        other.run(other.rows[0])


def test_a_new_rate_does_not_change_a_row_that_has_begun(make_study):
    first = make_study(tiny_row())
    first._plan(first.rows[0], first._runs / "a", None)
    again = make_study(tiny_row())
    again.rates._lines[tiny_row().pace]["seconds"] = 1.0
    assert again.state(again.rows[0]) == "begun"
    assert again.run(again.rows[0])["steps"] == 3


def test_two_processes_keep_each_other_s_rows_and_a_run_keeps_its_threads(make_study):
    one, other = make_study(tiny_row(), tiny_row("b")), make_study(tiny_row(), tiny_row("b"))
    other._plan(other.rows[1], other._runs / "b", 2)
    assert one.run(one.rows[0])["threads"] == 1
    line = other.run(other.rows[1], threads=1)
    assert (line["threads"], line["steps"]) == (2, 3)
    fresh = make_study(tiny_row(), tiny_row("b"))
    assert [fresh.state(row) for row in fresh.rows] == ["done", "done"]
    fresh.forget("a")
    left = make_study(tiny_row(), tiny_row("b"))
    assert [left.state(row) for row in left.rows] == ["missing", "done"]
    one.kept.put(line)  # who has known "a" all the time does not bring it back
    assert [line["row"]["name"] for line in read_lines(one.kept.path)] == ["b"]


def test_without_a_rate_minutes_are_worth_nothing(make_study, capsys):
    one = make_study(tiny_row(), known=False)
    assert one.state(one.rows[0]) == "no rate"
    with pytest.raises(SettingsError, match="--rates"):
        one.run(one.rows[0])
    assert sitting.run(one, one.rows)
    assert "a: not run: nothing tells" in capsys.readouterr().err


def test_the_same_row_gives_the_same_numbers(make_study):
    one = make_study(tiny_row(), tiny_row("b"), tiny_row("c", seed=1))
    a, b, c = (one.run(given)["scores"] for given in one.rows)
    assert a == b != c


def test_rates_are_measured_once_and_kept(make_study, tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.harness.KEPT", tmp_path)
    rows = tiny_row(), tiny_row("b", seed=3, minutes=9), tiny_row("c", settings=(*TINY, "run.batch_rows=8"))
    one = make_study(*rows, known=False)
    one.measure_rates(rows, rounds=2, seconds=0.01)
    assert len((tmp_path / "rates.jsonl").read_text().splitlines()) == 2, "a and b keep the same pace"
    again = make_study(*rows, known=False)
    assert again.state(again.rows[2]) == "missing"
    before = (tmp_path / "rates.jsonl").read_text()
    again.measure_rates(rows, rounds=2, seconds=0.01)
    assert (tmp_path / "rates.jsonl").read_text() == before


def test_a_pace_is_what_decides_the_time():
    slow = tiny_row(settings=(*TINY, "objective.mask_rate_end=0.3"))
    assert tiny_row().pace == tiny_row(seed=5, minutes=3, settings=(*TINY, "optimizer.learning_rate=1e-4")).pace
    for other in (slow, tiny_row(width=32), tiny_row(tokenizer="own-70"), tiny_row(kind="trainer")):
        assert other.pace != tiny_row().pace
    assert pace("ours", "bert", tiny_row().pretrain_settings()).startswith("ours bert model.size=custom")


def test_the_list_says_what_is_left(make_study):
    one = make_study(tiny_row(), tiny_row("b", minutes=5))
    one.run(one.rows[0])
    told = sitting.listing(one, one.rows)
    assert "done" in told.splitlines()[0]
    assert told.splitlines()[-1] == "1 of 2 done; the others need 5 minutes"


def test_what_a_kill_before_the_score_leaves_is_only_scored_again(make_study, monkeypatch):
    one = make_study(tiny_row())
    whole, one._score = one._score, interrupted
    with pytest.raises(KeyboardInterrupt):
        one.run(one.rows[0])
    again = make_study(tiny_row())
    assert again.state(again.rows[0]) == "begun"
    weights = (again.bundle(again.rows[0]) / "model.safetensors").stat().st_mtime_ns
    again._score = whole
    assert again.run(again.rows[0])["steps"] == 3
    assert (again.bundle(again.rows[0]) / "model.safetensors").stat().st_mtime_ns == weights


def interrupted(*_):
    raise KeyboardInterrupt


def page(study):
    return "\n".join(f"{row.name} {study.state(row)}" for row in study.rows)


def command(study, *words):
    sitting.main("about", study, page, quick=lambda: (study, page), argv=words)


def test_a_sitting_runs_the_rows_asked_for_and_makes_the_page_of_what_is_there(make_study, tmp_path):
    one = make_study(tiny_row(), tiny_row("b", seed=1), tiny_row("other"))
    command(one, "--only", "[ab]", "-o", str(tmp_path / "page.md"))
    assert one.scored == ["a", "b"]
    assert (tmp_path / "page.md").read_text() == "a done\nb done\nother missing"
    command(one, "--only", "a", "--fresh", "a", "-o", str(tmp_path / "page.md"))
    assert one.scored == ["a", "b", "a"]
    command(one, "--page", "-o", str(tmp_path / "page.md"))
    assert one.scored == ["a", "b", "a"]


@pytest.fixture
def hears_ctrl_c():
    """A run leaves an ignored signal ignored, and tests may be begun deaf to Ctrl-C (nohup, a script's "&")."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("hears_ctrl_c")
def test_a_sitting_that_is_stopped_in_a_row_goes_on_there(make_study, tmp_path, capsys, monkeypatch):
    rows = tiny_row(minutes=1), tiny_row("b")
    one = make_study(*rows)
    whole = one.run(rows[0])["scores"]
    one.forget("a")
    reported = []
    trained = study.pretrain

    def stopping(*given, **named):
        return trained(*given, **named, report=lambda row: reported.append(row) or (len(reported) == 9 and ctrl_c()))

    def ctrl_c():
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(study, "pretrain", stopping)
    command(one, "-o", str(tmp_path / "page.md"))
    assert "stopped; nothing is lost" in capsys.readouterr().err
    assert (tmp_path / "page.md").read_text() == "a begun\nb missing"
    command(make_study(*rows), "-o", str(tmp_path / "page.md"))
    assert (tmp_path / "page.md").read_text() == "a done\nb done"
    assert [row["step"] for row in reported[9:12]] == [10, 11, 12], "no step was done twice"
    assert make_study(*rows).result(rows[0])["scores"] == whole


@pytest.mark.parametrize("words", [["--only", "x*"], ["--fresh", "x"]])
def test_a_row_that_is_not_there_is_said(make_study, words, capsys):
    with pytest.raises(SystemExit):
        command(make_study(tiny_row()), *words)
    assert "--list shows them" in capsys.readouterr().err
