"""Files of answers, scored as the official evaluation scores them; also on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anaume.errors import AnaumeWarning, DataError
from anaume.jobs.evaluate_answers import evaluate_answers
from commands import runner

CONTEXT = "The tower was built in 1702 by Clara Wood."
GOLD = {"q1": ["Clara Wood"], "q2": ["1702", "in 1702"], "q3": []}


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    """SQuAD 2.0, as it is published."""
    asked = [
        {
            "id": id,
            "question": "?",
            "is_impossible": not texts,
            "answers": [{"text": text, "answer_start": CONTEXT.index(text)} for text in texts],
        }
        for id, texts in GOLD.items()
    ]
    path = tmp_path / "gold.json"
    path.write_text(json.dumps({"data": [{"title": "t", "paragraphs": [{"context": CONTEXT, "qas": asked}]}]}))
    return path


def write(path: Path, answers: dict[str, str]) -> Path:
    path.write_text(json.dumps(answers))
    return path


def test_scores_are_the_official_ones(tmp_path: Path, gold: Path) -> None:
    """Right but for the article; in part; wrong, as there is no answer."""
    answers = write(tmp_path / "a.json", {"q1": "the Clara Wood", "q2": "1702 by", "q3": "1702"})
    found = evaluate_answers(answers, gold)
    assert (found.task, found.examples, found.cut) == ("question-answering", 3, None)
    assert found.scores["exact"] == pytest.approx(1 / 3)
    assert found.scores["f1"] == pytest.approx((1 + 2 / 3 + 0) / 3)
    assert (found.scores["HasAns_exact"], found.scores["NoAns_exact"]) == (0.5, 0.0)


def test_questions_that_share_an_id_are_refused(tmp_path: Path, gold: Path) -> None:
    """One answer can't be both's; two files whose questions have no ids number them alike."""
    answers = write(tmp_path / "a.json", dict.fromkeys(GOLD, ""))
    with pytest.raises(DataError, match=r"^.*gold\.json: question 1: the id 'q1' is another question's too"):
        evaluate_answers(answers, [gold, gold])


def test_questions_without_an_answer_are_refused_and_answers_without_a_question_told(
    tmp_path: Path, gold: Path
) -> None:
    answers = write(tmp_path / "a.json", {"q1": "", "x": ""})
    with pytest.raises(DataError, match=r"a\.json: 2 of 3 questions have no prediction; the first is 'q2'"):
        evaluate_answers(answers, gold)
    write(answers, dict.fromkeys([*GOLD, "x"], ""))
    with pytest.warns(AnaumeWarning, match="1 of 4 answers are to questions that .*gold.json does not have"):
        assert evaluate_answers(answers, gold).scores["NoAns_exact"] == 1.0


def test_the_command_takes_answers_in_place_of_a_model(
    tmp_path: Path, gold: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(monkeypatch)
    answers = write(tmp_path / "a.json", {"q1": "Clara Wood", "q2": "in 1702", "q3": ""})
    shown = run("evaluate", answers, gold)
    assert (shown.code, shown.err) == (0, "")
    assert "exact         1.0000" in shown.out
    assert "rows          3" in shown.out
    assert "cut" not in shown.out
    told = json.loads(run("evaluate", answers, gold, "--json").out)
    assert (told["f1"], told["task"], told["cut"]) == (1.0, "question-answering", None)

    assert "can't be read" in run("evaluate", tmp_path / "none.json", gold).error()
    (tmp_path / "p.jsonl").write_text("{}\n")
    refused = run("evaluate", tmp_path / "p.jsonl", gold)
    assert refused.code == 2
    assert "give a model, or answers to questions as one object in a .json file" in refused.error()
    assert "--against compares two models" in run("evaluate", answers, gold, "--against", answers).error()
