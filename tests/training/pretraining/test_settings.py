"""Settings: checked as a whole, read and written as TOML, changed by name."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from pydantic import BaseModel

from anaume.errors import SettingsError
from anaume.training import PretrainSettings, paper_recipe
from anaume.training.finetuning.settings import ProbeSettings
from tiny_runs import tiny_settings


def test_toml_gives_the_same_settings_back(tmp_path: Path) -> None:
    settings = tiny_settings("run.minutes=0.1", "objective.mask_rate_end=0.05", "data.long_seq_len=32", "run.seed=7")
    path = tmp_path / "run.toml"
    for encoding in ("utf-8", "utf-8-sig"):  # DAT-02: editors write a mark, and TOML knows none
        path.write_text(settings.to_toml(), encoding)
        assert PretrainSettings.read(path) == settings
    assert settings.differences(PretrainSettings.read(path)) == []
    assert tomllib.loads(settings.to_toml())["run"]["minutes"] == 0.1
    assert PretrainSettings.from_dict(tomllib.loads(PretrainSettings().to_toml())) == PretrainSettings()


def test_every_setting_has_a_line_of_its_own() -> None:
    for section in PretrainSettings.model_fields.values():
        assert section.annotation is not None
        assert issubclass(section.annotation, BaseModel)
        assert section.annotation.__doc__
        for name, field in section.annotation.model_fields.items():
            assert field.description, name


@pytest.mark.parametrize(
    ("assignment", "section", "key", "value"),
    [
        ("run.steps=20", "run", "steps", 20),
        ("run.minutes = 0.5", "run", "minutes", 0.5),
        ("optimizer.learning_rate=1e-4", "optimizer", "learning_rate", 1e-4),
        ("optimizer.learning_rate=1", "optimizer", "learning_rate", 1.0),
        ("run.compile=true", "run", "compile", True),
        ("data.pairing=nsp", "data", "pairing", "nsp"),
        ('data.pairing="sop"', "data", "pairing", "sop"),
        ("data.pairing=none", "data", "pairing", "none"),
        ("objective.mask_rate_end=none", "objective", "mask_rate_end", None),
        ("model.causal=none", "model", "causal", None),
    ],
)
def test_a_value_is_set_by_name(assignment: str, section: str, key: str, value: object) -> None:
    found = getattr(getattr(PretrainSettings().with_values([assignment]), section), key)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        ("steps=20", "section.key=value (did you mean run.steps?); got 'steps=20'; sections: model, data, "),
        ("run.steps", "section.key=value; got 'run.steps'"),
        (
            "run.learning_rate=1",
            "there is no setting run.learning_rate (did you mean optimizer.learning_rate?); there are",
        ),
        ("rum.steps=20", "no section 'rum' (did you mean 'run'?); there are: model, data"),
        ("run.stepz=20", "no setting run.stepz (did you mean 'steps'?); there are: steps, minutes"),
        ("run.steps=0", "run.steps: Input should be greater than or equal to 1; got 0"),
        ("run.steps=many", "run.steps: Input should be a valid integer; got 'many'"),
        ("run.steps=true", "run.steps: Input should be a valid integer; got True"),
        ("run.steps=1\nminutes=2", "run.steps: Input should be a valid integer; got '1\\nminutes=2'"),
        ("run.minutes=inf", "run.minutes: Input should be a finite number; got inf"),
        ("optimizer.learning_rate=nan", "optimizer.learning_rate: Input should be a finite number; got nan"),
        ("data.pairing=snp", "data.pairing: Input should be 'none', 'nsp' or 'sop'; got 'snp'"),
        ("objective.mask_share=0.95", "objective: mask_share and random_share add up to more than 1"),
        ("run.log_seconds=6", "run.log_seconds: Input should be less than or equal to 5; got 6"),
    ],
)
def test_what_is_wrong_is_named(assignment: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        PretrainSettings().with_values([assignment])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_settings_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"^run: give steps or minutes, not both$"):
        PretrainSettings().with_values(["run.steps=1", "run.minutes=1"])
    with pytest.raises(SettingsError, match="sentence pairs go with masked tokens"):
        PretrainSettings().with_values(["data.pairing=nsp", "objective.target=next"])


@pytest.mark.parametrize(
    ("assignment", "said"),
    [
        (
            "task.class_weights=balancd",
            "task.class_weights: Input should be 'none' or 'balanced', or Input should be a valid dictionary; got "
            "'balancd'",
        ),
        ("task.strengths=[0.0]", "settings: task.strengths must be positive numbers, at least one"),
    ],
)
def test_a_value_of_several_kinds_is_one_fault_and_no_settings_are_poured_out(assignment: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        ProbeSettings().with_values([assignment])
    assert str(caught.value) == said


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[run\n", "not TOML"),
        (b"\xff\xfe", "not TOML"),
        (b"[run]\nsteps = '3'\n", "run.steps: Input should be a valid integer; got '3'"),
        (b"run = 3\n", "run: Input should be a valid dictionary"),
        (b"[runn]\nsteps = 3\n", "there is no setting runn (did you mean 'run'?)"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "run.toml"
    path.write_bytes(content)
    with pytest.raises(SettingsError) as caught:
        PretrainSettings.read(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert said in str(caught.value)
    with pytest.raises(SettingsError, match="can't be read: No such file"):
        PretrainSettings.read(tmp_path / "none.toml")


def test_differences_are_named_one_by_one() -> None:
    one, other = tiny_settings("run.seed=1"), tiny_settings("run.seed=2", "data.pairing=nsp")
    assert one.differences(other) == ["data.pairing: 'none', there 'nsp'", "run.seed: 1, there 2"]
    kept = one.with_values(["run.checkpoint_seconds=600.0", "run.curves=false", "run.log_seconds=0.0"])
    assert kept.differences(one) == []  # nothing of the result hangs on them


def test_the_paper_recipe_is_the_published_one() -> None:
    given = tiny_settings("run.steps=1000", "objective.mask_rate=0.4", "objective.units=words", "run.batch_rows=256")
    paper = paper_recipe(given)
    assert (paper.data.pairing, paper.objective.target, paper.objective.units) == ("nsp", "masked", "pieces")
    assert (paper.data.seq_len, paper.data.long_seq_len, paper.data.long_share) == (128, 512, 0.1)
    objective = paper.objective
    assert (objective.mask_rate, objective.mask_share, objective.random_share) == (0.15, 0.8, 0.1)
    optimizer = paper.optimizer
    assert (optimizer.learning_rate, optimizer.beta1, optimizer.beta2) == (1e-4, 0.9, 0.999)
    assert (optimizer.weight_decay, optimizer.eps, optimizer.clip) == (0.01, 1e-6, 1.0)
    assert (paper.schedule.kind, paper.schedule.warmup, paper.model.dropout) == ("linear", 0.01, 0.1)
    assert (paper.run, paper.model.size) == (given.run, given.model.size)
