import dataclasses
import random
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anaume.bundle import Bundle, EmbedTotals, embedding
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.data import pad
from anaume.engines import Batch, TorchEngine
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from tiny_bundles import tiny_parts

UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=16)
TEXTS = ["my dog is cute", "the bank of the river", "a", "", "x y z w v . , ?", "the cats was closed"]
LONG = "the dog and the cat of my river is open and closed . a bank is cute and the river was open , x y z w v"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def tiny(how=UNIT, **other):
    other.setdefault("rules", {"strip_accents": False})
    return Bundle(tiny_parts(embedding=how, **other))


def one_by_one(bundle, texts, **how):
    return np.concatenate([bundle.embed([text], **how) for text in texts])


def said(bundle, texts, **how):
    with pytest.warns(AnaumeWarning) as caught:
        bundle.embed(texts, **how)
    assert len(caught) == 1, "one warning a call"
    assert caught[0].filename == __file__, "the warning points at the caller's line"
    return str(caught[0].message)


# -- shape and order ---------------------------------------------------------------------------------------------------


def test_no_texts_give_no_vectors_of_the_right_size():  # LIM-07
    for bundle in (tiny(), tiny(EmbeddingConfig(max_length=16))):
        vectors = bundle.embed([])
        assert vectors.shape == (0, 16)
        assert vectors.dtype == np.float32
        report = bundle.embed_report([])
        assert (report.vectors.shape, report.coverage.shape) == ((0, 16), (0,))
        assert (report.pieces, report.unknown_share, report.cut, report.messages) == (0, 0.0, 0, ())


TINY = tiny()
KNOWN = ["the", "a", "my", "dog", "cat", "bank", "river", "is", "cute", ",", ".", "x", "銀", "zzz"]
WORDS = st.lists(st.sampled_from(KNOWN), max_size=12).map(" ".join)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(WORDS, min_size=1, max_size=12), st.randoms(use_true_random=False), st.integers(8, 200))
def test_same_text_same_answer(texts, chance, budget):
    order = chance.sample(range(len(texts)), len(texts))
    engine = TINY.engine
    before = engine.max_batch_tokens
    alone = np.concatenate([report.vectors for report in TINY.embed_stream([[text] for text in texts])])
    engine.max_batch_tokens = budget
    try:
        (report,) = TINY.embed_stream([[texts[index] for index in order]])
    finally:
        engine.max_batch_tokens = before
    assert np.abs(report.vectors - alone[order]).max() <= 1e-5


def test_chunks_change_nothing(monkeypatch):
    bundle = tiny()
    texts = TEXTS * 3
    whole = bundle.embed_report(texts)
    monkeypatch.setattr(embedding, "CHUNK", 4)
    chunked = bundle.embed_report(texts)
    assert np.abs(chunked.vectors - whole.vectors).max() <= 1e-5
    assert (chunked.pieces, chunked.unknown) == (whole.pieces, whole.unknown)
    with pytest.raises(DataError, match="text 9 has"):
        bundle.embed([*TEXTS, "a", "a", "a", LONG], long="error")


def test_an_empty_text_is_finite_and_nobodys_neighbour():  # EMB-02
    for pooling in ("cls", "mean", "max", "mean_sqrt"):
        for normalize in (True, False):
            bundle = tiny(dataclasses.replace(UNIT, pooling=pooling, normalize=normalize))
            vectors = bundle.embed(["", "my dog", "\u200b"])
            assert np.isfinite(vectors).all()
            bound = 1e-5 * max(1.0, np.abs(vectors).max())
            assert np.abs(vectors[1:2] - bundle.embed(["my dog"])).max() <= bound


def test_nothing_left_to_pool_is_the_zero_vector():  # EMB-02
    how = dataclasses.replace(UNIT, prompts={"query": "the dog "}, include_prompt=False)
    bundle = tiny(how)
    given_batch = Batch(*pad([[2, 3]], 0))
    empty = dataclasses.replace(given_batch, pooling_mask=np.zeros((1, 2), dtype=bool))
    assert not bundle.engine.embed(empty).any()


def test_vectors_have_length_one_only_where_the_bundle_says_so():
    assert np.linalg.norm(tiny().embed(TEXTS), axis=1) == pytest.approx(1.0, abs=1e-5)
    raw = tiny(dataclasses.replace(UNIT, normalize=False)).embed(TEXTS)
    assert np.abs(np.linalg.norm(raw, axis=1) - 1.0).max() > 0.1


def test_sixteen_threads_agree_with_one():
    bundle = tiny()
    wanted = bundle.embed(TEXTS)
    turns = [random.Random(seed).sample(range(len(TEXTS)), len(TEXTS)) for seed in range(16)]
    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda turn: bundle.embed([TEXTS[index] for index in turn]), turns))
    for turn, vectors in zip(turns, results, strict=True):
        assert np.abs(vectors - wanted[turn]).max() <= 1e-5


def test_training_in_between_is_seen_and_the_mode_stays():  # NUM-06
    for precision in ("float32", "bfloat16"):
        bundle = Bundle(tiny_parts(embedding=UNIT, hidden_dropout=0.5), precision=precision)
        bundle.model.train()
        first, second = bundle.embed(TEXTS[:3]), bundle.embed(TEXTS[:3])
        assert np.array_equal(first, second)
        optimizer = torch.optim.AdamW(bundle.model.parameters(), lr=0.01)
        bundle.model(torch.tensor([[2, 7, 3]]), None).last_hidden_state.square().sum().backward()
        optimizer.step()
        assert np.abs(bundle.embed(TEXTS[:3]) - first).max() > 1e-3
        assert bundle.model.training


# -- long texts --------------------------------------------------------------------------------------------------------


def test_a_long_text_is_cut_and_that_is_said():
    bundle = tiny()
    message = said(bundle, ["a", LONG, LONG, "my dog"])
    assert "2 of 4 texts were longer than 16 tokens" in message
    pieces = bundle.tokenizer.encode(LONG).pieces
    report = next(bundle.embed_stream([["a", LONG]]))
    assert report.coverage.tolist() == [1.0, pytest.approx(14 / pieces)]
    assert f"{14 / pieces:.0%} of them" in report.messages[0]
    assert report.cut == 1
    encoding = bundle.tokenizer.encode(LONG, max_length=16)
    head = LONG[: encoding.coverage[0].end]
    assert np.abs(bundle.embed([head]) - report.vectors[1:]).max() <= 1e-5


def test_windows_are_averaged_by_their_tokens():
    for normalize in (True, False):
        bundle = tiny(dataclasses.replace(UNIT, normalize=normalize))
        long = LONG + " the dog"
        windows = bundle.tokenizer.windows(long, max_length=16, stride=0)
        weights = [len(window) for window in windows]
        assert weights == [16, 16, 4]
        vectors = np.concatenate([bundle.engine.embed(Batch(*pad([window.token_ids], 0))) for window in windows])
        wanted = np.average(vectors, axis=0, weights=weights)
        wanted = wanted / np.linalg.norm(wanted) if normalize else wanted
        report = bundle.embed_report(["a", long, "my dog"], long="window")
        bound = 1e-5 * max(1.0, np.abs(wanted).max())
        assert np.abs(report.vectors[1] - wanted).max() <= bound
        assert report.coverage.tolist() == [1.0, 1.0, 1.0]
        assert (report.cut, report.messages) == (0, ())
        assert np.abs(report.vectors[::2] - bundle.embed(["a", "my dog"])).max() <= 1e-5 * max(
            1.0, np.abs(wanted).max()
        )


def test_windows_count_the_pieces_of_the_whole_text():
    text = "the dog " * 10 + "sky " * 10
    (cut,) = tiny().embed_stream([["a", text]])
    (whole,) = tiny().embed_stream([["a", text]], long="window")
    assert (cut.pieces, cut.unknown) == (1 + 14, 0)
    assert (whole.pieces, whole.unknown) == (1 + 30, 10)
    assert "unknown to the vocabulary" in whole.messages[0]


def test_windows_leave_short_texts_as_they_are_and_have_their_own_fingerprint():
    bundle = tiny()
    assert np.array_equal(bundle.embed(TEXTS, long="window"), bundle.embed(TEXTS))
    assert bundle.embed_report(TEXTS).fingerprint == bundle.fingerprint
    assert bundle.embed_report(TEXTS, long="error").fingerprint == bundle.fingerprint
    assert bundle.embed_report(TEXTS, long="window").fingerprint != bundle.fingerprint


def test_the_tail_counts_in_windows_only():  # LIM-02
    bundle = tiny()
    shorter = LONG.rsplit(" ", 2)[0]
    with pytest.warns(AnaumeWarning, match="2 of 2 texts were longer"):
        cut = bundle.embed([LONG, shorter])
    assert np.abs(cut[0] - cut[1]).max() <= 1e-5
    seen = bundle.embed([LONG, shorter], long="window")
    assert np.abs(seen[0] - seen[1]).max() > 1e-3


def test_a_long_text_can_be_refused():
    with pytest.raises(DataError, match=r"text 1 has \d+ pieces and does not fit into 16 tokens .*nor do 1 more"):
        tiny().embed(["a", LONG, "a", LONG], long="error")
    assert tiny().embed(TEXTS, long="error").shape == (len(TEXTS), 16)


def test_an_unknown_policy_is_refused_with_the_nearest():
    with pytest.raises(SettingsError, match="did you mean 'window'"):
        tiny().embed(["a"], long="windows")


# -- prompts -----------------------------------------------------------------------------------------------------------

PROMPTS = {"query": "the dog : ", "passage": "a cat : "}


def test_a_prompt_stands_before_every_text():
    bundle = tiny(dataclasses.replace(UNIT, prompts=PROMPTS, default_prompt="passage"))
    for name, prompt in PROMPTS.items():
        plain = tiny().embed([prompt + text for text in TEXTS])
        assert np.abs(bundle.embed(TEXTS, as_=name) - plain).max() <= 1e-5
    assert np.array_equal(bundle.embed(TEXTS), bundle.embed(TEXTS, as_="passage"))
    assert np.abs(bundle.embed(TEXTS, as_="query") - bundle.embed(TEXTS)).max() > 1e-3


def test_without_a_default_prompt_there_is_none():
    bundle = tiny(dataclasses.replace(UNIT, prompts=PROMPTS))
    assert np.array_equal(bundle.embed(TEXTS), tiny().embed(TEXTS))


def test_a_model_without_prompts_embeds_queries_and_passages_alike():
    assert np.array_equal(tiny().embed(TEXTS, as_="query"), tiny().embed(TEXTS))
    with pytest.raises(SettingsError, match="no prompt called 'clustering'; it has: none"):
        tiny().embed(TEXTS, as_="clustering")


def test_an_unknown_prompt_is_refused_with_the_nearest():
    bundle = tiny(dataclasses.replace(UNIT, prompts=PROMPTS))
    with pytest.raises(SettingsError, match=r"'qeury' \(did you mean 'query'\?\); it has: query, passage"):
        bundle.embed(TEXTS, as_="qeury")


def test_a_prompt_that_does_not_count_is_seen_but_not_pooled():
    how = dataclasses.replace(UNIT, prompts=PROMPTS, include_prompt=False, normalize=False)
    bundle = tiny(how)
    row = bundle.tokenizer.encode("the dog : my cat").token_ids
    states = bundle.engine.hidden_states(Batch(*pad([row], 0))).last_hidden_state[0].numpy()
    start = len(bundle.tokenizer.encode("the dog : ").token_ids) - 1  # [CLS] and the prompt
    assert row[start:] == bundle.tokenizer.encode("my cat").token_ids[1:]
    wanted = states[start:].mean(axis=0)
    vector = bundle.embed(["my cat"], as_="query")[0]
    assert np.abs(vector - wanted).max() <= 1e-5 * max(1.0, np.abs(wanted).max())


@pytest.mark.parametrize(
    ("pooling", "include_prompt"),
    [("mean", True), ("mean", False), ("max", True), ("max", False), ("mean_sqrt", False), ("cls", True)],
)
def test_prompts_and_poolings_are_those_of_sentence_transformers(tmp_path, pooling, include_prompt):
    library = pytest.importorskip("sentence_transformers")
    how = dataclasses.replace(
        UNIT, pooling=pooling, prompts=PROMPTS, default_prompt="passage", include_prompt=include_prompt
    )
    bundle = tiny(how)
    bundle.save(tmp_path / "b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(tmp_path / "b"), device="cpu", local_files_only=True)
        for name in (None, "query"):
            theirs = model.encode(TEXTS, prompt_name=name, show_progress_bar=False)
            assert np.abs(bundle.embed(TEXTS, as_=name) - theirs).max() <= 1e-5


# -- what is said ------------------------------------------------------------------------------------------------------


def test_unknown_pieces_are_counted_and_said_above_a_limit():
    bundle = tiny()
    message = said(bundle, ["my dog is cute", "blue blue sky"])
    assert "(3 of 7)" in message
    assert "42.9% of the pieces" in message
    report = bundle.embed_report([" ".join(["dog"] * 13), " ".join(["dog"] * 13) + " sky"])
    assert (report.pieces, report.unknown) == (27, 1)
    assert report.messages == (), "below the limit nothing is said, but it is counted"


def test_lost_voicing_marks_are_said():
    bundle = tiny(rules={})
    assert "voicing marks" in said(bundle, ["バス"] + TEXTS * 9)
    assert "voicing" not in "".join(next(tiny().embed_stream([["バス"]])).messages)


def test_a_bundle_without_pooling_says_so():
    assert "no pooling" in said(tiny(EmbeddingConfig(max_length=16)), ["my dog"])


def test_everything_is_said_in_one_warning():
    message = said(tiny(EmbeddingConfig(max_length=16), rules={}), [LONG, "blue sky バス バス"] * 2)
    for words in ("no pooling", "2 of 4 texts were longer", "unknown to the vocabulary", "voicing"):
        assert words in message


def test_a_report_warns_as_embed_does():
    with pytest.warns(AnaumeWarning, match="longer") as caught:
        report = tiny().embed_report([LONG])
    assert caught[0].filename == __file__
    assert str(caught[0].message) == "; ".join(report.messages)


def test_a_stream_is_silent_and_sums_up():
    bundle = tiny()
    chunks = [["my dog", LONG], [], ["blue sky"], ["a"]]
    totals = EmbedTotals()
    vectors = []
    for report in bundle.embed_stream(chunks):
        assert report.fingerprint == bundle.fingerprint
        totals.add(report)
        vectors.append(report.vectors)
    flat = [text for chunk in chunks for text in chunk]
    with pytest.warns(AnaumeWarning):
        whole = bundle.embed_report(flat)
    assert np.abs(np.concatenate(vectors) - whole.vectors).max() <= 1e-5
    assert (totals.texts, totals.cut, totals.pieces, totals.unknown) == (4, 1, whole.pieces, whole.unknown)
    assert totals.messages(bundle.embedding) == whole.messages


@pytest.mark.parametrize("texts", ["my dog", b"my dog"])
def test_one_string_is_not_a_list(texts):
    with pytest.raises(SettingsError, match="put it into a list"):
        tiny().embed(texts)


@pytest.mark.parametrize("wrong", [None, 3, ["a"], b"a", float("nan")])
def test_what_is_no_text_is_named(wrong):
    with pytest.raises(DataError, match="text 1 must be a string"):
        tiny().embed(["a", wrong])


def test_the_report_says_how_it_was_made():
    parts = tiny_parts(embedding=UNIT)
    assert Bundle(parts).embed_report(["a"]).precision == "float32"
    assert Bundle(parts, precision="bfloat16").embed_report(["a"]).precision == "bfloat16"
    assert Bundle(parts).fingerprint == Bundle(parts, precision="bfloat16").fingerprint


# -- the facade --------------------------------------------------------------------------------------------------------


def test_a_device_is_made_once_and_a_wrong_one_is_refused_at_once():
    bundle = tiny()
    assert np.array_equal(bundle.embed(TEXTS, device="cpu"), bundle.embed(TEXTS))
    with pytest.raises(SettingsError, match="can't be used here"):
        bundle.embed(TEXTS, device="cuda:99")
    with pytest.raises(SettingsError, match="precision"):
        Bundle(tiny_parts(), precision="int8")
    with pytest.raises(SettingsError, match="can't be used here"):
        Bundle(tiny_parts(), device="nowhere")


def test_the_engine_of_a_bundle_is_the_one_it_embeds_with():
    bundle = tiny()
    assert isinstance(bundle.engine, TorchEngine)
    row = bundle.tokenizer.encode("my dog").token_ids
    assert np.array_equal(bundle.engine.embed(Batch(*pad([row], 0))), bundle.embed(["my dog"]))


def test_with_embedding_shares_the_weights_and_changes_the_rest():
    bundle = tiny()
    other = bundle.with_embedding(dataclasses.replace(UNIT, pooling="max", max_length=12))
    assert other.model is bundle.model
    assert other.fingerprint != bundle.fingerprint
    assert np.abs(other.embed(["my dog"]) - bundle.embed(["my dog"])).max() > 1e-3
    with pytest.warns(AnaumeWarning, match="longer than 12 tokens"):
        other.embed([LONG])


def test_hidden_states_are_every_tokens_with_its_place():
    bundle = tiny()
    texts = ["my dog is cute", "The  cats"]
    first, second = bundle.hidden_states(texts)
    assert first.tokens == ("[CLS]", "my", "dog", "is", "cute", "[SEP]")
    assert [texts[1][start:end] for start, end in second.offsets] == ["", "The", "cat", "s", ""]
    assert first.layers == (2,)
    assert first.vectors.shape == (1, 6, 16)
    pooled = first.vectors[0].mean(axis=0)
    assert np.abs(pooled / np.linalg.norm(pooled) - bundle.embed(texts[:1])[0]).max() <= 1e-5

    every = bundle.hidden_states(texts, layers=[0, 1, -1])[0]
    assert every.layers == (0, 1, 2)
    assert np.array_equal(every.vectors[2], first.vectors[0])
    with torch.no_grad():
        wanted = bundle.model.embeddings(torch.tensor([bundle.tokenizer.encode(texts[0]).token_ids]))[0].numpy()
    assert np.abs(every.vectors[0] - wanted).max() <= 1e-5


def test_hidden_states_refuse_layers_that_are_not_there_and_long_texts():
    bundle = tiny()
    for layer in (3, -4):
        with pytest.raises(SettingsError, match=f"layer {layer} is not one of the 3"):
            bundle.hidden_states(["a"], layers=[layer])
    with pytest.raises(ValueError, match="fit beside the special tokens"):
        bundle.hidden_states([LONG])
    assert bundle.hidden_states([]) == []


# -- weights and arguments that can't be used --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [float("nan"), 3e38])
def test_weights_that_give_no_numbers_are_refused(value):
    bundle = tiny()
    with torch.no_grad():
        bundle.model.embeddings.layer_norm.weight.fill_(value)
    for use in (bundle.embed, bundle.embed_report, bundle.hidden_states):
        with pytest.raises(BundleError, match=r"gives NaN or infinite numbers for \d of \d texts, first text 0"):
            use(["my dog", "a cat"])
    with pytest.raises(BundleError, match="1 of 1 texts"):
        bundle.embed([LONG], long="window")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_model_made_half_or_double_still_computes_in_float32(dtype):
    bundle, rounded = tiny(), tiny()
    before = bundle.embed(TEXTS)
    bundle.model.to(dtype)
    rounded.model.to(dtype).to(torch.float32)
    assert np.array_equal(bundle.embed(TEXTS), rounded.embed(TEXTS))
    assert np.abs(bundle.embed(TEXTS) - before).max() <= (1e-5 if dtype == torch.float64 else 0.02)
    assert bundle.embed_report(TEXTS).precision == "float32"
    bundle.model.encoder.to(torch.float32)
    assert np.isfinite(bundle.embed(TEXTS)).all()


@pytest.mark.parametrize("texts", [None, 3, "my dog", b"my dog", np.array("my dog")])
def test_what_is_no_list_of_texts_is_refused_everywhere(texts):
    for use in (TINY.embed, TINY.hidden_states):
        with pytest.raises(SettingsError, match="texts must be a list of strings; got"):
            use(texts)


@pytest.mark.parametrize(
    ("how", "says"), [({"as_": 3}, "as_ must be the name"), ({"long": None}, "long must be one of")]
)
def test_arguments_of_another_type_are_refused(how, says):
    with pytest.raises(SettingsError, match=says):
        TINY.embed(["my dog"], **how)


@pytest.mark.parametrize("layers", [3, [], "1", [0.5], [None]])
def test_layers_are_whole_numbers(layers):
    with pytest.raises(SettingsError, match="layers must be a list of at least one whole number"):
        TINY.hidden_states(["a"], layers=layers)
    assert TINY.hidden_states(["a"], layers=np.array([0, -1]))[0].layers == (0, TINY.config.num_hidden_layers)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tokenizer": None}, "expected a Tokenizer and an EncoderConfig; got NoneType"),
        ({"config": {"vocab_size": 5}}, "expected a Tokenizer and an EncoderConfig; got Tokenizer and dict"),
        ({"heads": "mlm"}, "heads must be a list of kinds"),
        ({"heads": {"a": "mlm"}}, "the head 'a' must be a HeadConfig; got 'mlm'"),
        ({"heads": {"a\ud800": HeadConfig(kind="mlm")}}, "lone surrogate"),
        ({"seed": 1.5}, "seed must be a whole number; got 1.5"),
        ({"embedding": {"pooling": "mean"}}, "embedding must be an EmbeddingConfig; got dict"),
        ({"embedding": EmbeddingConfig(max_length=513)}, "max_length is 513, and the position table has 512 rows"),
    ],
)
def test_a_bundle_is_made_of_what_belongs_together(change, says):
    tokenizer = TINY.tokenizer
    config = EncoderConfig(vocab_size=tokenizer.vocab_size, hidden_size=8, num_hidden_layers=1)
    given = {"tokenizer": tokenizer, "config": config} | change
    with pytest.raises(SettingsError, match=says):
        Bundle.new(given.pop("tokenizer"), given.pop("config"), **given)
