"""Exact training: stopped anywhere and taken up again, a run ends bit for bit where it would have ended."""

from __future__ import annotations

import importlib
import json
import shutil
import threading
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import anaume
from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, DataError, SettingsError
from anaume.tokenization import Tokenizer
from anaume.training import PretrainResult, PretrainSettings, loop, pretrain
from anaume.training.records import read_journal, read_lines
from anaume.training.state import checkpoints
from tiny_runs import PLAIN, differing, last_state, metrics, run_differs, tiny_bundle, tiny_settings

SETUP = importlib.import_module("anaume.training.pretraining.pretrain")  # the name is the function's too

EVERYTHING = (
    "run.steps=24",
    "run.micro_rows=7",
    "run.evaluations=4",
    "model.dropout=0.1",
    "data.pairing=nsp",
    "run.batch_rows=20",
    "run.checkpoint_seconds=1e-9",
)
"""Dropout, accumulation, pairs, more than two epochs of this corpus, held-out scores, a checkpoint each step."""


class Killed(BaseException):
    """Ends a run as a kill would: nothing more is written."""


def kill_at(step: int) -> Any:
    def report(row: dict[str, Any]) -> None:
        if row["step"] == step:
            raise Killed

    return report


def train(corpus: Path, out: Path, settings: PretrainSettings, **other: Any) -> PretrainResult:
    return pretrain(corpus, out, settings, device="cpu", **other)


def train_killed(corpus: Path, out: Path, settings: PretrainSettings, *steps: int, **other: Any) -> PretrainResult:
    """Train, die after each of the steps before anything of it is saved, and go on at last."""
    for step in steps:
        with pytest.raises(Killed):
            train(corpus, out, settings, report=kill_at(step), **other)
    return train(corpus, out, settings, **other)


@pytest.fixture(scope="module")
def uninterrupted(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    result = train(corpus, out, tiny_settings(*EVERYTHING))
    assert (result.finished, result.steps) == (True, 24)
    return out


def test_this_run_passes_two_epochs(uninterrupted: Path) -> None:
    state = last_state(uninterrupted)["progress"]
    assert state["position"]["epoch"] >= 2
    epochs = {row["epoch"] for row in metrics(uninterrupted) if "epoch" in row}
    assert {0, 1, 2} <= epochs


@pytest.mark.parametrize("steps", [(1,), (2, 3, 4), (11, 12), (24,), (7, 13, 20)], ids=str)
def test_killed_and_resumed_ends_where_the_uninterrupted_run_ends(
    corpus: Path, tmp_path: Path, uninterrupted: Path, steps: tuple[int, ...]
) -> None:
    """TRN-02: weights, optimizer, place in the data, and every row of the metrics."""
    out = tmp_path / "run"
    train_killed(corpus, out, tiny_settings(*EVERYTHING), *steps)
    assert run_differs(out, uninterrupted) == []


def test_steps_between_checkpoints_are_done_again(corpus: Path, tmp_path: Path, uninterrupted: Path) -> None:
    """The checkpoint may lie far back: rows written since are cut off, and come again the same.

    How often one is written decides nothing: a run goes on with another number.
    """
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(corpus, out, tiny_settings(*EVERYTHING), report=kill_at(9))
    settings = tiny_settings(*EVERYTHING, "run.checkpoint_seconds=1000.0")
    train_killed(corpus, out, settings, 15, 12, 22)
    assert [path.name for path in checkpoints(out / "checkpoints")] == ["step-00000008.pt", "step-00000024.pt"]
    assert run_differs(out, uninterrupted) == []


def test_stopped_and_resumed_ends_where_the_uninterrupted_run_ends(
    corpus: Path, tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, asked = tmp_path / "run", threading.Event()
    settings = tiny_settings(*EVERYTHING, "run.checkpoint_seconds=1000.0")
    stop_at(monkeypatch, asked)
    for step in (4, 13):
        asked.clear()
        result = train(corpus, out, settings, report=lambda row, step=step: row["step"] == step and asked.set())
        assert (result.finished, result.steps) == (False, step)
        assert Bundle.load(out / "bundle", device="cpu").parts.record.stages[-1].settings["steps_done"] == step
        assert not (out / "result.json").exists()
    asked.clear()
    assert train(corpus, out, settings).finished
    assert run_differs(out, uninterrupted) == []


def stop_at(monkeypatch: pytest.MonkeyPatch, asked: threading.Event) -> None:
    from contextlib import nullcontext

    monkeypatch.setattr(SETUP, "stop_signals", lambda: nullcontext(asked.is_set))


def test_it_is_exact_in_the_long_part_too(corpus: Path, tmp_path: Path) -> None:
    settings = tiny_settings(
        "run.steps=20", "data.long_seq_len=32", "data.long_share=0.5", "run.checkpoint_seconds=1e-9", "run.micro_rows=3"
    )
    train(corpus, tmp_path / "whole", settings)
    train_killed(corpus, tmp_path / "killed", settings, 9, 10, 11, 12, 18)
    assert run_differs(tmp_path / "killed", tmp_path / "whole") == []
    assert last_state(tmp_path / "whole")["progress"]["long"]


def test_it_is_exact_in_bfloat16_with_checkpointing_and_words_too(corpus: Path, tmp_path: Path) -> None:
    settings = tiny_settings(
        "run.steps=12",
        "run.precision=bfloat16",
        "run.gradient_checkpointing=true",
        "objective.units=words",
        "objective.mask_rate_end=0.4",
        "run.checkpoint_seconds=1e-9",
    )
    train(corpus, tmp_path / "whole", settings)
    train_killed(corpus, tmp_path / "killed", settings, 5, 9)
    assert run_differs(tmp_path / "killed", tmp_path / "whole") == []


def test_whatever_draws_between_the_steps_changes_nothing(corpus: Path, tmp_path: Path, uninterrupted: Path) -> None:
    out = tmp_path / "run"
    torch.manual_seed(123)
    before = torch.get_rng_state()
    train(corpus, out, tiny_settings(*EVERYTHING), report=lambda row: torch.rand(row["step"]))
    assert run_differs(out, uninterrupted) == []
    assert torch.equal(torch.get_rng_state(), before)  # and the run leaves the process's generator as it was


def test_gradient_checkpointing_and_accumulation_change_nothing_but_memory(corpus: Path, tmp_path: Path) -> None:
    base = ("run.steps=6", "model.dropout=0.0")
    train(corpus, tmp_path / "plain", tiny_settings(*base))
    train(corpus, tmp_path / "again", tiny_settings(*base, "run.gradient_checkpointing=true"))
    assert differing(*(last_state(tmp_path / name)["model"] for name in ("plain", "again"))) == []
    train(corpus, tmp_path / "parts", tiny_settings(*base, "run.micro_rows=2"))
    for one, other in zip(metrics(tmp_path / "plain"), metrics(tmp_path / "parts"), strict=True):
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-5)


# -- runs by the clock ---------------------------------------------------------------------------------------------

TIMED = ("run.minutes=0.01", "model.dropout=0.1", "run.checkpoint_seconds=1e-9", "run.evaluations=3")


def test_a_timed_run_equals_the_replay_of_its_journal(corpus: Path, tmp_path: Path) -> None:
    timed = train(corpus, tmp_path / "timed", tiny_settings(*TIMED))
    fractions = read_journal(tmp_path / "timed" / "journal.jsonl")
    assert timed.finished
    assert len(fractions) == timed.steps > 3
    assert fractions == sorted(fractions)
    assert 0.6 < timed.seconds < 5.0
    replayed = train(corpus, tmp_path / "again", tiny_settings(*TIMED), replay=tmp_path / "timed" / "journal.jsonl")
    assert replayed.steps == timed.steps
    assert run_differs(tmp_path / "again", tmp_path / "timed") == []
    assert read_journal(tmp_path / "again" / "journal.jsonl") == fractions


def test_a_time_that_is_over_before_the_first_step_is_said(
    corpus: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    result = train(corpus, tmp_path / "none", tiny_settings("run.minutes=1e-9"))
    assert (result.finished, result.steps) == (True, 0)
    assert "over before the first step: the weights are those it began with" in caplog.text


def test_a_killed_timed_run_equals_the_replay_of_its_last_journal(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "timed"
    settings = tiny_settings(*TIMED, "run.minutes=0.03")
    with pytest.raises(Killed):
        train(corpus, out, settings, report=kill_at(4))
    assert len(read_lines(out / "journal.jsonl")) == 4
    assert last_state(out)["progress"]["step"] == 3  # the fourth is done again, at another time
    with pytest.raises(Killed):
        train(corpus, out, settings, report=kill_at(9))
    result = train(corpus, out, settings)
    fractions = read_journal(out / "journal.jsonl")
    assert len(fractions) == result.steps > 9
    assert fractions == sorted(fractions)
    train(corpus, tmp_path / "again", settings, replay=out / "journal.jsonl")
    assert run_differs(tmp_path / "again", out) == []


def test_a_replay_is_as_long_as_its_journal_and_keeps_one(corpus: Path, tmp_path: Path) -> None:
    train(corpus, tmp_path / "timed", tiny_settings(*TIMED))
    journal = tmp_path / "timed" / "journal.jsonl"
    with pytest.raises(SettingsError, match=r"a replay takes its journal's steps: leave run.steps \(--steps\) out"):
        train(corpus, tmp_path / "steps", tiny_settings("run.steps=3"), replay=journal)
    assert not (tmp_path / "steps").exists()
    again = tmp_path / "again"
    train(corpus, again, tiny_settings(*TIMED[1:]), replay=journal)  # no length of its own
    assert run_differs(again, tmp_path / "timed") == []
    assert (again / "journal.jsonl").read_bytes() == journal.read_bytes()


def test_a_replay_can_be_killed_too(corpus: Path, tmp_path: Path) -> None:
    train(corpus, tmp_path / "timed", tiny_settings(*TIMED))
    journal = tmp_path / "timed" / "journal.jsonl"
    train_killed(corpus, tmp_path / "again", tiny_settings(*TIMED), 2, 3, replay=journal)
    assert run_differs(tmp_path / "again", tmp_path / "timed") == []


def test_dead_time_does_not_count(corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, settings = tmp_path / "run", tiny_settings("run.minutes=1.0", "run.checkpoint_seconds=1e-9")
    now = [1000.0]

    def monotonic() -> float:
        now[0] += 0.5  # each look takes half a second
        return now[0]

    monkeypatch.setattr("anaume.training.clock.time.monotonic", monotonic)
    with pytest.raises(Killed):
        train(corpus, out, settings, report=kill_at(8))
    spent = last_state(out)["progress"]["seconds"]
    now[0] += 1_000_000.0
    result = train(corpus, out, settings)
    fractions = read_journal(out / "journal.jsonl")
    assert fractions[7] == pytest.approx(spent / 60.0, abs=0.05)
    assert 59 < result.seconds < 65


# -- the folder ----------------------------------------------------------------------------------------------------


def test_a_finished_run_is_left_as_it_is(corpus: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "run", tiny_settings(*TIMED)
    first = train(corpus, out, settings)
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    again = train(corpus, out, settings)
    assert again.finished_before
    assert not first.finished_before
    assert {**vars(again), "finished_before": False} == vars(first)
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_kill_between_the_last_step_and_the_bundle_costs_nothing(
    corpus: Path, tmp_path: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"

    def killed(*given: Any) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(SETUP, "save_bundle", killed)
        with pytest.raises(Killed):
            train(corpus, out, tiny_settings(*EVERYTHING))
    assert not (out / "bundle").exists()
    with monkeypatch.context() as patch:
        patch.setattr(loop, "train_step", killed)  # no step is done again
        assert train(corpus, out, tiny_settings(*EVERYTHING)).finished
    assert run_differs(out, uninterrupted) == []
    assert (out / "bundle" / "model.safetensors").read_bytes() == (
        uninterrupted / "bundle" / "model.safetensors"
    ).read_bytes()


def test_other_settings_are_refused_naming_each(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    train(corpus, out, tiny_settings("run.steps=2"))
    files = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    with pytest.raises(SettingsError) as caught:
        train(corpus, out, tiny_settings("run.steps=3", "run.seed=1", "data.pairing=nsp"))
    message = str(caught.value)
    for said in ("run.steps: 3, there 2", "run.seed: 1, there 0", "data.pairing: 'nsp', there 'none'"):
        assert said in message
    assert "another folder" in message
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == files


def test_another_corpus_is_refused(corpus: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    from tiny_corpora import make_corpus

    out = tmp_path / "run"
    train(corpus, out, tiny_settings("run.steps=2"))
    with pytest.raises(SettingsError, match="another corpus: "):
        train(make_corpus(tmp_path, seed=2), out, tiny_settings("run.steps=2"))
    moved = tmp_path / "moved"
    shutil.copytree(corpus, moved)
    assert train(moved, out, tiny_settings("run.steps=2")).finished_before  # the same one elsewhere is the same


def test_a_folder_that_holds_something_else_is_refused(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine", "utf-8")
    with pytest.raises(SettingsError, match="is not empty and holds no run"):
        train(corpus, tmp_path, tiny_settings("run.steps=2"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_two_processes_can_not_train_in_one_folder(corpus: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "run", tiny_settings("run.steps=3")
    seen = []

    def meanwhile(row: dict[str, Any]) -> None:
        with pytest.raises(SettingsError, match="another process is training in it"):
            train(corpus, out, settings)
        seen.append(row["step"])

    assert train(corpus, out, settings, report=meanwhile).finished
    assert seen == [1, 2, 3]


def test_what_a_kill_left_half_written_is_removed(corpus: Path, tmp_path: Path) -> None:
    out, settings = tmp_path / "run", tiny_settings("run.steps=3", "run.checkpoint_seconds=1e-9")
    with pytest.raises(Killed):
        train(corpus, out, settings, report=kill_at(2))
    for folder in (out, out / "checkpoints"):
        (folder / ".anaume-0123.tmp").write_bytes(b"half")
    train(corpus, out, settings)
    assert list(out.rglob(".anaume-*")) == []


def test_a_damaged_checkpoint_is_refused_and_the_one_before_serves(
    corpus: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(corpus, out, tiny_settings(*EVERYTHING), report=kill_at(9))
    last = checkpoints(out / "checkpoints")[-1]
    content = bytearray(last.read_bytes())
    content[len(content) // 2] ^= 1
    last.write_bytes(content)
    with pytest.raises(DataError, match=r"step-00000008\.pt: .* damaged .*: delete it to go on from the one before"):
        train(corpus, out, tiny_settings(*EVERYTHING))
    last.unlink()
    train(corpus, out, tiny_settings(*EVERYTHING))
    assert run_differs(out, uninterrupted) == []


def test_records_that_were_changed_are_refused(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(Killed):
        train(corpus, out, tiny_settings(*EVERYTHING), report=kill_at(9))
    (out / "metrics.jsonl").write_text("", "utf-8")
    with pytest.raises(DataError, match=r"metrics.jsonl: has 0 bytes, and .* at the checkpoint"):
        train(corpus, out, tiny_settings(*EVERYTHING))
    (out / "run.json").unlink()
    with pytest.raises(DataError, match=r"run\.json: can't be read"):
        train(corpus, out, tiny_settings(*EVERYTHING))


def test_a_length_must_be_given(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"how long\? give run.steps or run.minutes"):
        train(corpus, tmp_path / "run", tiny_settings())
    assert not (tmp_path / "run").exists()


def test_threads_of_the_process_are_left_as_they_were(corpus: Path, tmp_path: Path) -> None:
    before = torch.get_num_threads()
    inside = []
    settings = tiny_settings("run.steps=2", f"run.threads={before + 1}")
    train(corpus, tmp_path / "run", settings, report=lambda row: inside.append(torch.get_num_threads()))
    assert inside == [before + 1] * 2
    assert torch.get_num_threads() == before


# -- the result ----------------------------------------------------------------------------------------------------


def test_the_bundle_holds_what_was_trained_and_how(corpus: Path, uninterrupted: Path) -> None:
    bundle = anaume.load(uninterrupted / "bundle", device="cpu")
    assert differing(dict(bundle.model.state_dict()), dict(last_state(uninterrupted)["model"])) == []
    assert bundle.embedding.max_length == 16  # places beyond the rows it saw were never trained
    assert bundle.parts.record.objectives == ("mlm", "nsp")
    (stage,) = bundle.parts.record.stages
    assert [source["name"] for source in stage.data] == ["texts.jsonl"]
    assert stage.settings["run"]["steps"] == stage.settings["steps_done"] == 24
    assert stage.scores["held_out_loss"] == metrics(uninterrupted)[-1]["held_out_loss"]
    assert str(corpus.parent) not in (uninterrupted / "bundle" / "anaume.json").read_text("utf-8")


@pytest.mark.parametrize("target", ["masked", "next"])
@pytest.mark.parametrize("causal", ["true", "false"])
def test_all_four_corners_run(corpus: Path, tmp_path: Path, target: str, causal: str) -> None:
    settings = tiny_settings("run.steps=3", f"objective.target={target}", f"model.causal={causal}", "run.evaluations=1")
    result = train(corpus, tmp_path / "run", settings)
    bundle = anaume.load(result.bundle, device="cpu")
    assert bundle.config.causal == (causal == "true")
    assert bundle.parts.record.objectives == ("clm" if target == "next" else "mlm",)
    config = json.loads((result.bundle / "config.json").read_text("utf-8"))
    assert config["architectures"] == ["BertLMHeadModel" if causal == "true" else "BertForMaskedLM"]


@pytest.mark.parametrize("pairing", ["nsp", "sop"])
def test_pairs_are_trained_and_scored(corpus: Path, tmp_path: Path, pairing: str) -> None:
    result = train(
        corpus, tmp_path / "run", tiny_settings("run.steps=4", f"data.pairing={pairing}", "run.evaluations=1")
    )
    assert 0 <= result.scores["held_out_pair_accuracy"] <= 1
    assert set(anaume.load(result.bundle, device="cpu").model.heads) == {"mlm", "nsp"}


def test_a_run_continues_from_a_bundle_and_says_what_it_gained(
    corpus: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    bundle = anaume.load(uninterrupted / "bundle", device="cpu")
    before = bundle.fingerprint
    settings = tiny_settings(*PLAIN, *EVERYTHING, "run.steps=5")
    result = train(corpus, tmp_path / "run", settings, bundle=bundle)
    assert bundle.fingerprint == before
    old = metrics(uninterrupted)[-1]["held_out_loss"]
    assert result.scores_before["held_out_loss"] == pytest.approx(old, rel=1e-6)
    assert result.scores["held_out_loss"] != result.scores_before["held_out_loss"]
    record = anaume.load(result.bundle, device="cpu").parts.record
    assert len(record.stages) == 2
    train_killed(corpus, tmp_path / "killed", settings, 1, 3, bundle=bundle)
    assert run_differs(tmp_path / "killed", tmp_path / "run") == []
    with pytest.raises(SettingsError, match=r"another starting bundle: none, there [0-9a-f]{64}"):
        train(corpus, tmp_path / "run", tiny_settings("run.steps=5"))


def test_longer_rows_make_longer_texts_fit(corpus: Path, tmp_path: Path, uninterrupted: Path) -> None:
    bundle = anaume.load(uninterrupted / "bundle", device="cpu")
    assert bundle.embedding.max_length == 16
    vectors = Bundle(replace(bundle.parts, embedding=replace(bundle.embedding, pooling="mean")), device="cpu")
    for name, start, seq_len, expected in (("a", bundle, 24, 24), ("b", bundle, 8, 16), ("c", vectors, 24, 16)):
        settings = tiny_settings(*PLAIN, "run.steps=1", f"data.seq_len={seq_len}")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)  # heads that are left out
            result = train(corpus, tmp_path / name, settings, bundle=start)
        assert anaume.load(result.bundle, device="cpu").embedding.max_length == expected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"settings": {"run": {"steps": 2}}}, "settings must be PretrainSettings .*; got dict"),
        ({"settings": tiny_settings("run.steps=2"), "bundle": "B"}, "expected a Bundle to go on from; got 'B'"),
    ],
)
def test_arguments_of_another_type_are_refused(corpus: Path, tmp_path: Path, given: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        train(corpus, tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()


def test_a_bundle_of_another_tokenizer_is_refused(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is not the one the corpus was made with"):
        train(corpus, tmp_path / "run", tiny_settings("run.steps=2"), bundle=tiny_bundle("mlm"))


def test_documents_of_one_sentence_are_said_before_pairs_are_trained(tmp_path: Path) -> None:
    """NSP-02: a blank line after every sentence made every sentence a document of its own."""
    from anaume.data.corpus import prepare_corpus
    from helpers import make_tokenizer

    lines = [f"{a} {b} {c} ." for a in "abcde" for b in "abcde" for c in "ab"]
    (tmp_path / "text.txt").write_text("\n\n".join(lines) + "\n", "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        prepare_corpus(
            tmp_path / "text.txt",
            tmp_path / "corpus",
            tokenizer=make_tokenizer("a b c d e ."),
            layout="sentences",
            held_out=0.1,
        )
    with pytest.warns(AnaumeWarning, match="100% of the documents have one sentence"):
        train(tmp_path / "corpus", tmp_path / "run", tiny_settings("run.steps=2", "data.pairing=nsp"))


def test_without_held_out_text_it_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    from anaume.data.corpus import prepare_corpus
    from helpers import make_tokenizer

    (tmp_path / "text.jsonl").write_text('{"text": "a b c. b c."}\n{"text": "c b a. a."}\n' * 15, "utf-8")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        prepare_corpus(tmp_path / "text.jsonl", tmp_path / "corpus", tokenizer=make_tokenizer("a b c ."), held_out=0.0)
    with caplog.at_level("INFO", "anaume"):
        result = train(tmp_path / "corpus", tmp_path / "run", tiny_settings("run.steps=2", "run.evaluations=2"))
    assert (result.scores, result.finished) == ({}, True)
    assert any("too few documents to measure a loss on" in record.getMessage() for record in caplog.records)


def test_another_tokenizer_in_the_corpus_is_refused(corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "corpus"
    shutil.copytree(corpus, other)
    shutil.rmtree(other / "tokenizer")
    Tokenizer.train(["some other words", "and others again"], vocab_size=60, min_frequency=1).save(other / "tokenizer")
    with pytest.raises(DataError, match="is not the tokenizer the corpus was made with"):
        train(other, tmp_path / "run", tiny_settings(*PLAIN))
    assert not (tmp_path / "run").exists()
