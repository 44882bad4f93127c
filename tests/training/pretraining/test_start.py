"""What a run starts from: nothing left open, and a bundle that is not changed."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch

from anaume.bundle import Bundle
from anaume.errors import AnaumeWarning, SettingsError
from anaume.training import PretrainSettings
from anaume.training.pretraining import start
from anaume.training.pretraining.start import build_model, compiling, is_open, resolve, with_start
from tiny_bundles import tiny_tokenizer
from tiny_runs import PLAIN, tiny_bundle, tiny_settings

CPU = torch.device("cpu")


def resolved(settings: PretrainSettings, of: Bundle | None = None) -> PretrainSettings:
    return resolve(settings, CPU, of, None)


def test_what_was_left_open_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(start, "has_bfloat16", lambda device: True)
    found = resolved(PretrainSettings().with_values(["data.long_seq_len=600", "run.steps=3"]))
    assert (found.run.precision, found.run.threads) == ("bfloat16", torch.get_num_threads())
    assert (found.model.size, found.model.dropout, found.model.causal) == ("mini", 0.1, False)
    assert found.model.max_position_embeddings == 600
    assert resolved(found) == found
    monkeypatch.setattr(start, "has_bfloat16", lambda device: False)
    assert resolved(PretrainSettings()).run.precision == "float32"
    assert resolved(PretrainSettings().with_values(["objective.target=next"])).model.causal is True
    assert (
        resolved(PretrainSettings().with_values(["objective.target=next", "model.causal=false"])).model.causal is False
    )


def test_a_run_that_goes_on_does_not_ask_the_machine_again(monkeypatch: pytest.MonkeyPatch) -> None:
    stored = resolved(PretrainSettings().with_values(["run.threads=7", "run.precision=bfloat16"]))
    monkeypatch.setattr(start, "has_bfloat16", lambda device: pytest.fail("asked"))
    assert resolve(PretrainSettings(), CPU, None, stored) == stored
    given = resolve(PretrainSettings().with_values(["run.threads=2", "run.precision=float32"]), CPU, None, stored)
    assert (given.run.threads, given.run.precision) == (2, "float32")


def test_the_rate_goes_by_the_width_and_is_lower_for_trained_weights() -> None:
    def rate(*given: str, of: Bundle | None = None) -> float | None:
        return resolved(PretrainSettings().with_values(["run.steps=3", *given]), of).optimizer.learning_rate

    custom = ("model.size=custom", "model.num_hidden_layers=2")
    assert [rate(f"model.size={size}") for size in ("tiny", "mini", "small", "base", "large")] == [
        1e-3, 1e-3, 5e-4, 3.3e-4, 2.5e-4,
    ]  # fmt: skip
    assert rate(*custom, "model.hidden_size=384") == 6.7e-4
    assert rate("model.size=base", "optimizer.learning_rate=1e-4") == 1e-4
    bundle = tiny_bundle("mlm")
    assert bundle.config.hidden_size <= 256
    assert rate(of=bundle) == 2e-4
    # A run by the clock has its rate when it has its size; one that goes on keeps the rate that it began with.
    timed = PretrainSettings().with_values(["run.minutes=1", "run.threads=1"])
    assert resolved(timed).optimizer.learning_rate is None
    assert with_start(resolved(timed), None, "small", 16).optimizer.peak == 5e-4
    assert resolved(timed.with_values(["model.size=small", "run.batch_rows=8"])).optimizer.peak == 5e-4
    stored = with_start(resolved(timed.with_values(["optimizer.learning_rate=3e-3"])), None, "tiny", 16)
    assert resolve(timed, CPU, None, stored).optimizer.peak == 3e-3
    for wrong in ("model.size=huge", "model.size=custom"):  # refused where the model is made, not here
        assert rate(wrong) is None


def test_size_and_batch_are_left_open_to_a_run_by_the_clock_alone() -> None:
    timed = PretrainSettings().with_values(["run.minutes=1", "run.threads=1"])
    left = resolved(timed)
    assert (left.model.size, left.run.batch_rows, is_open(left, None)) == (None, None, True)
    stored = with_start(left, None, "tiny", 16)
    assert not is_open(stored, None)
    assert resolve(timed, CPU, None, stored) == stored
    assert resolve(timed.with_values(["run.batch_rows=9"]), CPU, None, stored).run.batch_rows == 9
    assert with_start(stored, None, "small", 64) == stored  # what is there stays
    of_steps = resolve(timed.with_values(["run.minutes=none", "run.steps=3"]), CPU, None, stored)
    assert (of_steps.model.size, of_steps.run.batch_rows) == ("mini", 32)  # whatever is stored: it is not asked
    given = tiny_bundle("mlm")
    own = resolved(timed, given)
    assert (own.model.size, is_open(own, given), is_open(with_start(own, given, "tiny", 16), given)) == (
        None,
        True,
        False,
    )


def test_the_drawn_model_is_as_settings_say() -> None:
    tokenizer = tiny_tokenizer()
    model = build_model(resolved(tiny_settings("model.dropout=0.25", "data.pairing=nsp")), tokenizer.vocab_size, None)
    config = model.config
    assert (config.hidden_size, config.num_hidden_layers, config.num_attention_heads) == (16, 1, 2)
    assert (config.hidden_dropout, config.attention_dropout, config.causal) == (0.25, 0.25, False)
    assert (config.vocab_size, config.max_position_embeddings) == (tokenizer.vocab_size, 32)
    assert (set(model.heads), model.pooler is None) == ({"mlm", "nsp"}, False)
    alone = build_model(resolved(tiny_settings("run.gradient_checkpointing=true")), tokenizer.vocab_size, None)
    assert (set(alone.heads), alone.pooler, alone.encoder.gradient_checkpointing) == ({"mlm"}, None, True)


@pytest.mark.parametrize(
    ("assignments", "said"),
    [
        (["data.long_seq_len=40"], "rows have 40 tokens and model.max_position_embeddings is 32"),
        (["model.hidden_size=none"], 'model.size = "custom" needs model.hidden_size'),
        (["model.size=mini"], 'go with model.size = "custom"'),
        ([*PLAIN, "model.size=minni"], "no size is called 'minni' .did you mean 'mini'"),
        (["model.num_attention_heads=3"], "hidden_size must be a multiple"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(assignments: list[str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        build_model(resolved(tiny_settings(*assignments)), tiny_tokenizer().vocab_size, None)


def continued(of: Bundle, *assignments: str, new_heads: bool = False):  # type: ignore[no-untyped-def]
    return build_model(
        resolved(tiny_settings(*PLAIN, *assignments), of), of.tokenizer.vocab_size, of, new_heads=new_heads
    )


def test_a_bundles_weights_are_taken_and_the_bundle_is_not_changed() -> None:
    given = tiny_bundle("mlm")
    before = {name: tensor.clone() for name, tensor in given.model.state_dict().items()}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = continued(given)
    assert model is not given.model
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in given.model.state_dict().items())


def test_a_missing_head_is_made_only_when_asked_and_said() -> None:
    with pytest.raises(SettingsError, match=r"the bundle has no mlm, which the run trains: .* --new-heads"):
        continued(tiny_bundle())
    with pytest.raises(SettingsError, match="the bundle has no nsp, pooler, which"):
        continued(tiny_bundle("mlm"), "data.pairing=nsp")
    with pytest.warns(AnaumeWarning, match="drawn by the seed, as the bundle has none: nsp, pooler"):
        one = continued(tiny_bundle("mlm"), "data.pairing=nsp", new_heads=True)
    with pytest.warns(AnaumeWarning, match="drawn by the seed"):
        again = continued(tiny_bundle("mlm"), "data.pairing=nsp", new_heads=True)
    with pytest.warns(AnaumeWarning, match="drawn by the seed"):
        other = continued(tiny_bundle("mlm"), "data.pairing=nsp", "run.seed=5", new_heads=True)
    for name in ("pooler.dense.weight", "heads.nsp.dense.weight"):
        assert torch.equal(one.state_dict()[name], again.state_dict()[name])
        assert not torch.equal(one.state_dict()[name], other.state_dict()[name])
    given = tiny_bundle("mlm").model.state_dict()
    assert all(torch.equal(one.state_dict()[name], tensor) for name, tensor in given.items())


def test_what_the_run_does_not_train_is_left_out_and_said() -> None:
    given = tiny_bundle("mlm", "classification")
    with pytest.warns(AnaumeWarning, match="left out because this run does not train it: classification, pooler"):
        model = continued(given)
    assert (set(model.heads), model.pooler) == ({"mlm"}, None)
    assert set(given.model.heads) == {"mlm", "classification"}


def test_a_bundles_pooler_is_kept_for_pairs() -> None:
    given = tiny_bundle("mlm", "nsp")
    model = continued(given, "data.pairing=nsp")
    assert torch.equal(model.state_dict()["pooler.dense.weight"], given.model.state_dict()["pooler.dense.weight"])


def test_the_model_is_the_bundles() -> None:
    given = tiny_bundle("mlm")
    with pytest.raises(SettingsError, match=r"model.size can't be given with it"):
        continued(given, "model.size=mini")
    with pytest.raises(SettingsError, match="rows have 64 tokens; the bundle takes 40"):
        continued(given, "data.seq_len=64")
    assert continued(given, "model.dropout=0.3").config.attention_dropout == 0.3
    assert continued(tiny_bundle("mlm", hidden_dropout=0.2)).config.hidden_dropout == 0.2
    with pytest.warns(AnaumeWarning, match="causal is True, and False in the bundle"):
        assert continued(given, "objective.target=next").config.causal
    causal = tiny_bundle("mlm", causal=True)
    with pytest.warns(AnaumeWarning, match="guessed from what stands before them alone, unless model.causal=false"):
        assert continued(causal).config.causal
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert continued(causal, "objective.target=next").config.causal


def test_what_torch_can_not_compile_is_said_with_what_helps() -> None:
    def no_compiler(*graph: Any) -> Any:
        raise RuntimeError("no working C++ compiler")

    add = torch.compile(lambda tensor: tensor + 1, backend=no_compiler)
    with (
        pytest.raises(SettingsError, match=r"can't compile the model here \(.*no working C.*\): give it .*, or train"),
        compiling(tiny_settings("run.compile=true")),
    ):
        add(torch.ones(1))
    for settings, error in (("run.compile=true", ValueError("ours")), ("run.compile=false", RuntimeError("torch's"))):
        with pytest.raises(type(error), match=str(error)), compiling(tiny_settings(settings)):
            raise error
