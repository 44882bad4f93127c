"""Every check of `verify` must be able to fail: here is one fault for each."""

import dataclasses
import importlib.util

import numpy as np
import pytest
import torch

from anaume.bundle import Bundle
from anaume.checks import answers, ecosystem, saving, verify
from anaume.checks.report import Check, VerifyReport, guarded
from anaume.checks.samples import SAMPLE_TEXTS
from anaume.checks.verify import verify_bundle
from anaume.config import EmbeddingConfig, HeadConfig
from anaume.engines import TorchEngine
from anaume.errors import DataError, SettingsError
from anaume.model import Bert
from anaume.tokenization import Tokenizer
from tiny_bundles import VOCAB, tiny_parts

UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
TEXTS = ["my dog is cute", "the bank of the river", "a", "", "x y z . " * 4, "cats ! ? 銀 行"]


def tiny(**other):
    other.setdefault("embedding", UNIT)
    return Bundle(tiny_parts(**other))


@pytest.fixture(autouse=True)
def one_thread():
    """Tiny matrices gain nothing from a second thread, and waiting for it costs most of the time on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def without_peers(monkeypatch):
    """As where neither transformers nor sentence-transformers is installed."""
    real = importlib.util.find_spec
    monkeypatch.setattr(
        ecosystem.importlib.util, "find_spec", lambda name: None if "transformers" in name else real(name)
    )


def row(report, words):
    found = [row for row in report.rows if words in row.what]
    assert found, f"no row about {words!r} in {[row.what for row in report.rows]}"
    return found[0]


def failed(report):
    return [row.what for row in report.rows if row.status == "failed"]


@pytest.mark.parametrize(
    "embedding",
    [
        UNIT,
        EmbeddingConfig(max_length=24),
        EmbeddingConfig(pooling="cls", max_length=40),
        EmbeddingConfig(pooling="max"),
    ],
    ids=["mean", "without pooling", "cls", "max"],
)
def test_a_sound_bundle_passes(embedding, without_peers):
    bundle = tiny(embedding=dataclasses.replace(embedding, max_length=min(embedding.max_length, 40)))
    report = verify_bundle(bundle, texts=TEXTS)
    assert failed(report) == []
    assert report.ok
    assert [row.promise for row in report.rows] == sorted(row.promise for row in report.rows)
    assert {row.promise for row in report.rows} == {1, 2, 4, 5, 7}
    assert all(row.status == "not checked" for row in report.rows if row.promise == 7)
    assert "pip install transformers" in row(report, "transformers").hint


def test_the_built_in_texts_pass_with_heads_and_prompts(without_peers):
    prompts = {"query": "my cat : ", "passage": ""}
    embedding = dataclasses.replace(UNIT, prompts=prompts, default_prompt="query", include_prompt=False)
    heads = {"mlm": HeadConfig(kind="mlm"), "sorts": HeadConfig(kind="classification", labels=("a", "b"))}
    report = verify_bundle(tiny(embedding=embedding, heads=heads))
    assert failed(report) == []


def test_a_mecab_bundle_passes(without_peers):
    pytest.importorskip("fugashi")
    pytest.importorskip("unidic_lite")
    report = verify_bundle(tiny(rules={"words": "mecab"}), texts=["銀行へ行く", "", "今日は良い天気です。"])
    assert failed(report) == []


def test_bfloat16_has_its_own_bound(without_peers):
    parts = tiny_parts(embedding=UNIT)
    report = verify_bundle(Bundle(parts, precision="bfloat16"), texts=TEXTS)
    assert failed(report) == []
    assert row(report, "in another order").bound == "2.0e-02"
    assert row(verify_bundle(Bundle(parts), texts=TEXTS), "in another order").bound == "1.0e-05"


def test_a_bound_grows_with_the_vectors(without_peers):
    bundle = tiny(embedding=EmbeddingConfig(pooling="mean_sqrt", max_length=40), initializer_range=0.5)
    with torch.no_grad():
        bundle.model.encoder.layers[-1].feed_forward_norm.weight.mul_(100.0)
    bound = float(row(verify_bundle(bundle, texts=TEXTS), "all in one call").bound)
    largest = answers.largest(answers.embed_in_chunks(bundle, [TEXTS]))
    assert largest > 10
    assert bound == pytest.approx(1e-5 * largest, rel=0.2)


# -- promise 1 ---------------------------------------------------------------------------------------------------------


def test_a_changed_file_on_disk_is_found(tmp_path, without_peers):
    tiny().save(tmp_path / "b")
    weights = tmp_path / "b" / "model.safetensors"
    assert row(verify_bundle(Bundle.load(tmp_path / "b"), texts=TEXTS), "files on disk").status == "ok"
    content = bytearray(weights.read_bytes())
    content[-3] ^= 1  # the same size, and finite: no load would notice
    weights.write_bytes(bytes(content))
    found = row(verify_bundle(Bundle.load(tmp_path / "b"), texts=TEXTS), "files on disk")
    assert found.status == "failed"
    assert "model.safetensors" in found.measured


def test_a_bundle_made_in_memory_has_no_files_to_check(without_peers):
    assert row(verify_bundle(tiny(), texts=TEXTS), "files on disk").status == "not checked"


def test_the_checked_bundle_and_its_directory_stay_untouched(tmp_path, without_peers):
    tiny().save(tmp_path / "b")
    before = {path: path.read_bytes() for path in (tmp_path / "b").rglob("*") if path.is_file()}
    bundle = Bundle.load(tmp_path / "b")
    bundle.model.train()
    fingerprint = bundle.fingerprint
    verify_bundle(bundle, texts=TEXTS)
    assert bundle.model.training
    assert bundle.fingerprint == fingerprint
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_weight_lost_on_the_way_is_found(monkeypatch, without_peers):
    real = Bundle.load

    def load(*words, **other):
        bundle = real(*words, **other)
        with torch.no_grad():
            bundle.model.encoder.layers[1].attention.output.bias[0] += 1e-7
        return bundle

    monkeypatch.setattr(saving.Bundle, "load", load)
    report = verify_bundle(tiny(), texts=TEXTS)
    found = row(report, "saved and loaded: tensors")
    assert found.status == "failed"
    assert "1 differ: encoder.layers.1.attention.output.bias" in found.measured
    assert row(report, "saved and loaded: fingerprint").status == "failed"


def test_other_words_and_settings_after_loading_are_found(monkeypatch, without_peers):
    real = Bundle.load

    def load(*words, **other):
        parts = real(*words, **other).parts
        vocab = parts.tokenizer.vocab
        vocab[5], vocab[9] = vocab[9], vocab[5]
        other_embedding = dataclasses.replace(parts.embedding, max_length=17)
        tokenizer = Tokenizer(vocab, parts.tokenizer.rules)
        return Bundle(dataclasses.replace(parts, tokenizer=tokenizer, embedding=other_embedding))

    monkeypatch.setattr(saving.Bundle, "load", load)
    report = verify_bundle(tiny(), texts=TEXTS)
    assert row(report, "saved and loaded: token IDs").status == "failed"
    assert row(report, "saved and loaded: settings").status == "failed"


def test_a_swapped_vocabulary_that_opens_is_found(monkeypatch, without_peers):
    for check in ("check_tokenizer", "check_embedding", "check_files"):
        monkeypatch.setattr(f"anaume.bundle.read.manifest_format.{check}", lambda *given: None)
    found = row(verify_bundle(tiny(), texts=TEXTS), "two lines of the vocabulary swapped")
    assert (found.status, found.measured) == ("failed", "opened")


def test_a_refusal_that_does_not_name_the_difference_is_found(monkeypatch, without_peers):
    # With the tokenizer's own check gone, only the hash of the file refuses: true, but no help.
    monkeypatch.setattr("anaume.bundle.read.manifest_format.check_tokenizer", lambda *given: None)
    found = row(verify_bundle(tiny(), texts=TEXTS), "two lines of the vocabulary swapped")
    assert found.status == "failed"
    assert found.measured.startswith("refused")


def test_the_swap_is_undone_for_the_checks_after_it(tmp_path):
    bundle = tiny()
    bundle.save(tmp_path / "b")
    assert [check.status for check in saving.check_swapped_vocabulary(bundle, tmp_path / "b")] == ["ok"]
    assert Bundle.load(tmp_path / "b").tokenizer.vocab == VOCAB


def test_a_vocabulary_of_special_tokens_alone_has_nothing_to_swap(tmp_path):
    parts = tiny_parts(vocab_size=5)
    bundle = Bundle(dataclasses.replace(parts, tokenizer=Tokenizer(VOCAB[:5])))
    assert [check.status for check in saving.check_swapped_vocabulary(bundle, tmp_path)] == ["not checked"]


def test_a_bundle_that_cannot_be_saved_is_a_failure_and_the_rest_is_still_checked(monkeypatch, without_peers):
    def full(self, path):
        raise OSError("no space left")

    monkeypatch.setattr(Bundle, "save", full)
    report = verify_bundle(tiny(), texts=TEXTS)
    assert failed(report) == ["saved and loaded"]
    assert "no space left" in row(report, "saved and loaded").measured
    assert row(report, "all in one call").status == "ok"
    assert [check.status for check in report.rows if check.promise in (5, 7)] == ["not checked"] * 2


# -- promise 2 ---------------------------------------------------------------------------------------------------------


def test_padding_that_leaks_is_found(monkeypatch, without_peers):
    forward = Bert.forward

    def leaky(self, token_ids, attention_mask, *words, **other):
        return forward(self, token_ids, None, *words, **other)

    monkeypatch.setattr(Bert, "forward", leaky)
    report = verify_bundle(tiny(), texts=TEXTS)
    assert {"in batches of 2", "all in one call", "in another order"} <= set(failed(report))
    assert any("padded to" in what for what in failed(report))


def test_padding_in_the_pooling_is_found(monkeypatch, without_peers):
    real = TorchEngine.embed

    def embed(self, batch):
        return real(self, dataclasses.replace(batch, pooling_mask=np.ones_like(batch.attention_mask)))

    monkeypatch.setattr(TorchEngine, "embed", embed)
    assert "all in one call" in failed(verify_bundle(tiny(), texts=TEXTS))


def test_the_row_of_padding_says_what_a_leak_would_be(without_peers):
    found = row(verify_bundle(tiny(), texts=TEXTS), "padded to")
    would = float(found.measured.split("(")[1].split()[0])
    assert would > 1000 * float(found.bound), "else the check could not see a leak"


def test_rows_that_come_back_in_another_order_are_found(monkeypatch, without_peers):
    real = TorchEngine.embed
    monkeypatch.setattr(TorchEngine, "embed", lambda self, batch: real(self, batch)[::-1])
    assert "all in one call" in failed(verify_bundle(tiny(), texts=TEXTS))


def test_an_answer_that_depends_on_the_threads_is_found(monkeypatch, without_peers):
    real = TorchEngine.embed
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(
            TorchEngine, "embed", lambda self, batch: real(self, batch) + 1e-3 * torch.get_num_threads()
        )
        assert failed(verify_bundle(tiny(), texts=TEXTS)) == ["with 1 thread instead of 2"]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_an_engine_that_is_not_safe_between_threads_is_found(monkeypatch, without_peers):
    import threading

    real, main = TorchEngine.embed, threading.current_thread()
    monkeypatch.setattr(
        TorchEngine, "embed", lambda self, batch: real(self, batch) + 0.1 * (threading.current_thread() is not main)
    )
    assert failed(verify_bundle(tiny(), texts=TEXTS)) == [f"from {answers.THREADS} threads at once"]


def test_a_vector_that_is_not_finite_is_found(monkeypatch, without_peers):
    real = TorchEngine.embed
    monkeypatch.setattr(TorchEngine, "embed", lambda self, batch: real(self, batch) * np.float32("nan"))
    found = row(verify_bundle(tiny(), texts=TEXTS), "all in one call")
    assert (found.status, found.measured) == ("failed", "nan")


# -- promise 4 ---------------------------------------------------------------------------------------------------------


def altered_reports(monkeypatch, **changes):
    real = Bundle.embed_stream

    def stream(self, chunks, **other):
        for report in real(self, chunks, **other):
            new = {name: change(report) for name, change in changes.items()}
            yield dataclasses.replace(report, **new)

    monkeypatch.setattr(Bundle, "embed_stream", stream)


def test_wrong_coverage_is_found(monkeypatch, without_peers):
    altered_reports(monkeypatch, coverage=lambda report: np.minimum(report.coverage + 0.01, 1.0))
    assert failed(verify_bundle(tiny(), texts=TEXTS)) == ["a text of 80 pieces where 38 fit"]


def test_silence_is_found(monkeypatch, without_peers):
    altered_reports(monkeypatch, messages=lambda report: ())
    silent = failed(verify_bundle(tiny(), texts=TEXTS))
    assert "a text of 80 pieces where 38 fit" in silent
    assert "a text of unknown characters" in silent
    assert any("voicing" in what for what in silent)


def test_a_wrong_unknown_share_is_found(monkeypatch, without_peers):
    altered_reports(monkeypatch, unknown=lambda report: max(report.unknown - 1, 0))
    assert "a text of unknown characters" in failed(verify_bundle(tiny(), texts=TEXTS))


def test_windows_that_leave_something_out_are_found(monkeypatch, without_peers):
    real = Bundle.embed_stream

    def stream(self, chunks, *, long="truncate", **other):
        yield from real(self, chunks, long="truncate", **other)

    monkeypatch.setattr(Bundle, "embed_stream", stream)
    silent = failed(verify_bundle(tiny(), texts=TEXTS))
    assert silent == ["the same in windows", "the same under long='error'"]


def test_a_vocabulary_that_knows_everything_is_no_failure(monkeypatch, without_peers):
    monkeypatch.setattr("anaume.checks.said._RARE", ("a", "x"))
    assert row(verify_bundle(tiny(), texts=TEXTS), "unknown characters").status == "not checked"


def test_voicing_is_checked_only_where_marks_are_stripped(without_peers):
    report = verify_bundle(tiny(rules={"strip_accents": False}), texts=TEXTS)
    assert not any("voicing" in row.what for row in report.rows)


# -- promise 5 ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["a tensor is missing", "a tensor is not expected", "one number is NaN"])
def test_a_damaged_file_that_opens_is_found(what, monkeypatch, tmp_path):
    bundle = tiny()
    bundle.save(tmp_path / "b")
    monkeypatch.setattr(saving, "_write", lambda *given: None)  # nothing is damaged, so nothing is refused
    found = {check.what: check for check in saving.check_refusals(tmp_path / "b")}
    assert (found[what].status, found[what].measured) == ("failed", "opened")


def test_a_refusal_that_does_not_name_the_tensor_is_found(monkeypatch, tmp_path):
    bundle = tiny()
    bundle.save(tmp_path / "b")

    def load(*words, **other):
        raise DataError("something is wrong")

    monkeypatch.setattr(saving.Bundle, "load", load)
    assert [check.status for check in saving.check_refusals(tmp_path / "b")] == ["failed"] * 3


# -- promise 7 ---------------------------------------------------------------------------------------------------------


def test_the_ecosystem_agrees():
    pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    report = verify_bundle(tiny(), texts=[*TEXTS, "a literal [SEP]", "a \ud800 b"])
    rows = [row for row in report.rows if row.promise == 7]
    assert [row.status for row in rows] == ["ok"] * 4, rows
    assert "2 with special tokens or surrogates left out" in rows[0].measured


@pytest.mark.parametrize(
    "rules", [{"words": "mecab"}, {"words": "mecab", "subwords": "character"}, {"lower_case": False}], ids=str
)
def test_the_ecosystem_agrees_whatever_the_rules(rules):
    pytest.importorskip("transformers")
    if "words" in rules:
        pytest.importorskip("fugashi")
        pytest.importorskip("unidic_lite")
    bundle = tiny(rules=rules, embedding=EmbeddingConfig(max_length=40))
    assert failed(verify_bundle(bundle)) == []


@pytest.mark.parametrize("heads", [{}, {"mlm": HeadConfig(kind="mlm")}, {"span": HeadConfig(kind="span")}], ids=str)
def test_the_ecosystem_agrees_whatever_the_class(heads):
    pytest.importorskip("transformers")
    bundle = tiny(heads=heads, embedding=EmbeddingConfig(max_length=40))
    report = verify_bundle(bundle, texts=TEXTS)
    assert failed(report) == []
    assert row(report, "left over or missing").measured == "none"
    assert row(report, "sentence-transformers").status == "not checked"


def test_other_numbers_or_ids_there_are_found(monkeypatch):
    pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    save = saving.save_quietly

    def save_something_else(bundle, place):
        """Another model under other rules: sound in itself, and not the one in memory."""
        other = tiny(rules={"lower_case": False, "split_cjk": False})
        with torch.no_grad():
            other.model.encoder.layers[0].feed_forward.expand.bias.add_(0.01)
        save(other, place)

    monkeypatch.setattr(verify, "save_quietly", save_something_else)
    found = failed(verify_bundle(tiny(), texts=[*TEXTS, "My Dog"]))
    for words in ("transformers: token IDs", "transformers: last_hidden_state", "sentence-transformers: vectors"):
        assert any(words in what for what in found), words


@pytest.mark.parametrize("bars", [True, False])
def test_the_guest_finds_its_switches_as_they_stood(bars):
    log = pytest.importorskip("transformers.utils.logging")
    before = log.is_progress_bar_enabled(), log.get_verbosity()
    try:
        (log.enable_progress_bar if bars else log.disable_progress_bar)()
        log.set_verbosity_info()
        with ecosystem._as_guest():
            assert not log.is_progress_bar_enabled()
        assert log.is_progress_bar_enabled() is bars
        assert log.get_verbosity() == log.INFO
    finally:
        log.set_verbosity(before[1])
        (log.enable_progress_bar if before[0] else log.disable_progress_bar)()


# -- the report --------------------------------------------------------------------------------------------------------


def test_an_exception_becomes_a_row():
    def rows():
        yield Check(2, "first", "", "", "ok")
        raise RuntimeError("out of something")

    found = list(guarded(2, "the rest", rows))
    assert [check.status for check in found] == ["ok", "failed"]
    assert found[1].measured == "RuntimeError: out of something"


def test_what_is_not_checked_is_no_failure():
    unchecked = Check(7, "x", "", "", "not checked", "pip install x")
    assert VerifyReport((unchecked,)).ok
    assert not VerifyReport((unchecked, Check(1, "y", "", "", "failed"))).ok


@pytest.mark.parametrize("texts", [[], ["a", 3]])
def test_texts_must_be_texts(texts):
    with pytest.raises(SettingsError, match="at least one string"):
        verify_bundle(tiny(), texts=texts)


def test_the_built_in_texts_hold_what_breaks_pipelines():
    joined = "\n".join(SAMPLE_TEXTS)
    assert "" in SAMPLE_TEXTS
    assert all(words in joined for words in ("[SEP]", "[MASK]", "バス", "ハス", "😀", "é"))
    assert max(len(text.split()) for text in SAMPLE_TEXTS) > 64
