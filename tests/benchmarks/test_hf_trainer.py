"""The peer of the studies: what it is told it does, it is scored as ours is, and goes on where it was stopped."""

import json
import os
import signal

import pytest

from anaume.bundle import Bundle
from anaume.errors import SettingsError
from benchmarks import corpora, hf_trainer, scores
from tiny_studies import tiny_row

TRAINER = ("run.threads=1", "run.precision=float32", "run.batch_rows=4", "model.dropout=0.1")


def peer(*settings, steps=9):
    row = tiny_row(kind="trainer", settings=(*TRAINER, "optimizer.learning_rate=0.01", *settings))
    return row.pretrain_settings(steps)


@pytest.mark.parametrize(
    "setting", ["objective.units=words", "objective.mask_rate_end=0.3", "schedule.kind=cosine", "model.causal=true"]
)
def test_settings_it_has_no_like_of_are_refused(setting, tmp_path):
    with pytest.raises(SettingsError, match=f"the Trainer has no {setting.split('=')[0]}"):
        hf_trainer.train(tmp_path, tmp_path / "run", peer(setting))


def test_of_the_checkpoints_the_newest_whole_one_is_taken(tmp_path):
    assert hf_trainer.last_checkpoint(tmp_path) is None
    for step in (9, 10, 11):
        (tmp_path / f"checkpoint-{step}").mkdir()
    for step in (9, 10):
        (tmp_path / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    assert hf_trainer.last_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    assert not (tmp_path / "checkpoint-11").exists(), "what a kill left half written"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_stopped_run_goes_on_and_its_model_is_scored_as_ours(small_corpus, tmp_path):
    pytest.importorskip("accelerate")
    corpus = corpora.prepared("made", "own-60")
    steps = []
    whole = hf_trainer.train(corpus, tmp_path / "whole", peer(), each_step=steps.append)
    assert steps == list(range(1, 10))
    assert whole["loss"] > 0
    assert whole["seconds"] > 0

    def stop_at_five(step):
        if step == 5:
            os.kill(os.getpid(), signal.SIGINT)

    assert hf_trainer.train(corpus, tmp_path / "run", peer(), each_step=stop_at_five) is None
    assert not (tmp_path / "run" / "bundle").exists()
    later = []
    gone_on = hf_trainer.train(corpus, tmp_path / "run", peer(), each_step=later.append)
    assert later == [6, 7, 8, 9] or later == [7, 8, 9]
    losses = [scores.held_out(Bundle.load(one["bundle"], device="cpu"), corpus).loss for one in (whole, gone_on)]
    assert losses[0] == pytest.approx(losses[1], abs=0.02)
    assert losses[0] < 3.8, "it learned something: ln 60 is 4.09"
    before = json.dumps(gone_on, default=str)
    assert json.dumps(hf_trainer.train(corpus, tmp_path / "run", peer()), default=str) == before
    assert json.loads((tmp_path / "run" / "seconds.json").read_text()) > 0
