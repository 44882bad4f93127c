"""The minutes table: every row can be run, and the page says what is there and what is not."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import corpora, demo_sweep, hf_trainer, minutes, minutes_page
from benchmarks.corpora import OWN
from benchmarks.minutes_page import make_page
from benchmarks.rates import Rates
from benchmarks.study import Study
from helpers import public_data

PLAN = minutes.plan()
ROWS = minutes.rows(PLAN)


def study(tmp_path, results=()):
    made = Study("minutes", ROWS, None, rates=Rates(tmp_path / "rates.jsonl"), kept=tmp_path)
    for line in results:
        made.kept.put(line)
    return made


def line(row, loss, **other):
    scores = {"held_out_loss": loss, "bits_per_character": loss / 2, "word_accuracy": 0.25, "words": 5720}
    scores |= {"unigram_bits_per_character": 2.5, "unigram_word_accuracy": 0.05}
    return {"row": row.definition, "steps": 1000, "seconds_a_step": 0.3, "seconds": 321.0, "epochs": 1.5,
            "training_loss": 4.5, "scores": scores, "date": "2026-11-30", "commit": "abc"} | other  # fmt: skip


@pytest.fixture(autouse=True)
def without_corpora(monkeypatch):
    monkeypatch.setattr(corpora, "size", lambda name: f"Corpus {name}.")
    monkeypatch.setattr(corpora, "overlap_line", lambda name: f"Overlap of {name}: 0.")
    for page in (minutes_page, demo_sweep):
        monkeypatch.setattr(page, "machine", lambda: "a machine")


@pytest.mark.parametrize("rows", [ROWS, demo_sweep.rows()])
def test_every_row_can_be_run(rows):
    for row in rows:
        settings = row.pretrain_settings(100)
        assert (settings.model.num_hidden_layers, settings.model.hidden_size) == (row.layers, row.width)
        assert row.corpus in corpora.TEXTS
        assert row.tokenizer == "bert" or OWN.fullmatch(row.tokenizer)
        if row.kind == "trainer":
            hf_trainer._check(settings)
    assert len({row.name for row in rows}) == len(rows)


def test_what_the_tables_share_is_one_row():
    tables = [{row.name for _, own in lines for row in own} for lines in PLAN.values()]
    shared = set.union(*(one & other for one in tables for other in tables if one is not other))
    assert {"best-5m-s0", "trainer-1e-3-30m", "baseline-1e-3-5m-s0"} <= shared


def test_a_trick_changes_one_thing():
    base = minutes.baseline(5, 0).pretrain_settings()
    for what in minutes.TRICKS:
        row = minutes.trick(what, 0)
        changed = {difference.split(":")[0] for difference in row.pretrain_settings().differences(base)}
        changed |= {"tokenizer"} if row.tokenizer != "bert" else set()
        groups = [{"run.batch_rows"}, {"model.num_hidden_layers", "model.hidden_size"}, {"tokenizer"}]
        assert changed in [*groups, {"objective.mask_rate"}, {"model.start"}], what


def test_the_page_of_nothing_says_that_nothing_was_run(tmp_path):
    page = make_page(study(tmp_path), PLAN)
    for told in (
        "minutes x 60 / (seconds a step)",
        "Bits per character compare across vocabularies",
        "Overlap of reviews",
    ):
        assert told in page
    assert f"Not run yet: {len(ROWS)} rows." in page
    assert "The target, what the Trainer reaches in 30 minutes, is not run yet." in page


def test_the_target_is_the_trainers_best_long_run_and_ours_is_the_median_of_its_seeds(tmp_path):
    peaks = minutes.TRAINER_PEAKS
    targets = [minutes.trainer(30, peak) for peak in peaks]
    own = [minutes.best("best, 4 x 256", 5, seed) for seed in range(3)]
    results = [line(targets[1], 4.2), line(minutes.trainer(5), 4.0)]  # a shorter run is no target
    results += [line(row, loss) for row, loss in zip(own[:2], (4.1, 4.5), strict=True)]
    page = make_page(study(tmp_path, results), PLAN)
    tuned = f"Target: 4.200, `{targets[1].name}`, the best of the Trainer's learning rates, of"
    assert f"{tuned} 1 of 3 (the others: not run yet). 5 minutes, median of 2 seeds: 4.300, not reached." in page
    assert "anaume, best recipe (2 of 3 seeds)" in page
    results += [line(own[2], 4.15), line(targets[0], 4.16), line(targets[2], 4.3)]
    page = make_page(study(tmp_path, results), PLAN)
    assert f"Target: 4.160, `{targets[0].name}`, the best of the Trainer's learning rates, of 3." in page
    assert "5 minutes, median of 3 seeds: 4.150, reached." in page
    assert "| anaume, best recipe | 5 | 1,000 | 1.5 | 4.150 [4.100 4.500] | 2.075 [2.050 2.250] |" in page
    assert "bert: 2.500 bits a character, 5.0% of the words" in page


def test_a_result_of_another_recipe_is_not_shown(tmp_path, monkeypatch):
    old = line(minutes.trainer(30), 4.2)
    old["row"]["settings"] = ["run.threads=9"]
    assert "| `trainer-1e-3-30m` |" not in make_page(study(tmp_path, [old]), PLAN)


def test_the_demos_sweep_is_shown_best_first(tmp_path):
    rows = demo_sweep.rows()
    made = Study("demo_sweep", rows, None, rates=Rates(tmp_path / "rates.jsonl"), kept=tmp_path)
    for row, top5 in ((rows[3], 0.25), (rows[7], 0.35)):
        own = {"top1": 0.1, "top5": top5, "commonest_top5": 0.2, "floor": 6.2}
        made.kept.put(line(row, 5.0, scores=own))
    page = demo_sweep.make_page(made)
    assert page.index(rows[7].name) < page.index(rows[3].name)
    assert "35.0% | +15.0% |" in page
    assert f"Not run yet: {len(rows) - 2} of {len(rows)} rows." in page


def test_the_demos_own_recipe_is_what_is_swept():
    """Whatever the demo uses besides what is varied, the sweep uses."""
    settings = demo_sweep.rows()[0].pretrain_settings()
    assert settings.data.seq_len == 64
    assert settings.run.batch_rows == 16
    assert settings.optimizer.weight_decay == 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["minutes", "demo_sweep", "pairs"])
def test_the_command_runs(name, tmp_path):
    pytest.importorskip("accelerate")
    public_data("glue/SST-2/dev.tsv")
    root, out = Path(__file__).resolve().parents[2], tmp_path / "page.md"
    command = [sys.executable, "-m", f"benchmarks.{name}", "--quick", "-o", str(out)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "steps in" in done.stderr
    page = out.read_text(encoding="utf-8")
    assert "SST-2 dev 0 of" in page
    assert str(root) not in page
