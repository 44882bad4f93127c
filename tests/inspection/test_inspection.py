import numpy as np
import pytest
import torch

from anaume.bundle import Bundle, similarity
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.errors import DataError, SettingsError
from anaume.inspection import (
    measure_sizes,
    named_sizes,
    trace_attention,
    trace_neighbours,
    trace_path,
    trace_word,
)
from anaume.inspection.words import find_word, word_places
from anaume.model import Bert
from tiny_bundles import VOCAB, tiny_parts

UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
SENTENCES = ["the bank of the river", "my bank is open", "a bank . closed", "your river bank"]


@pytest.fixture
def bundle():
    return Bundle(tiny_parts(embedding=UNIT))


# -- path --------------------------------------------------------------------------------------------------------------


def test_the_rows_of_a_pair_are_what_the_model_receives(bundle):
    path = trace_path(bundle, "My dogs is cute", "a cat ?")
    encoding = bundle.tokenizer.encode("My dogs is cute", "a cat ?")
    assert [row.token for row in path.rows] == encoding.tokens
    assert [row.token_id for row in path.rows] == encoding.token_ids
    assert [row.segment for row in path.rows] == encoding.segment_ids == [0] * 7 + [1] * 4
    assert [row.position for row in path.rows] == list(range(11))
    assert all(row.real for row in path.rows)
    assert [row.text for row in path.rows] == ["", "My", "dog", "s", "is", "cute", "", "a", "cat", "?", ""]


def test_every_station_has_its_shape_in_the_order_of_the_way(bundle):
    path = trace_path(bundle, "my dog")
    stations = {station.name: station.shape for station in path.stations}
    assert list(stations) == [
        "token_ids", "token_embeddings", "segment_embeddings", "position_embeddings", "input", "layer 1", "layer 2",
        "embedding",
    ]  # fmt: skip
    assert stations.pop("token_ids") == (1, 4)
    assert stations.pop("embedding") == (1, 16)
    assert set(stations.values()) == {(1, 4, 16)}
    assert path.stations[0].length is None
    assert path.stations[-1].length == pytest.approx(1.0, abs=1e-5)
    assert "scaled to length 1" in path.stations[-1].meaning


def test_the_lengths_are_those_of_the_running_model(bundle):
    path = {station.name: station.length for station in trace_path(bundle, "my dog").stations}
    states = bundle.hidden_states(["my dog"], layers=[0, 1, 2])[0].vectors
    for name, state in zip(("input", "layer 1", "layer 2"), states, strict=True):
        assert path[name] == pytest.approx(float(np.linalg.norm(state, axis=1).mean()), rel=1e-5)
    with torch.no_grad():
        bundle.model.embeddings.segment_embeddings.weight[0] *= 3
    assert {station.name: station.length for station in trace_path(bundle, "my dog").stations}[
        "segment_embeddings"
    ] == pytest.approx(3 * path["segment_embeddings"], rel=1e-5)


def test_a_text_longer_than_the_position_table_is_refused(bundle):
    with pytest.raises(ValueError, match="fit beside the special tokens"):
        trace_path(bundle, "my dog " * 30)


def test_looking_leaves_the_model_as_it_was(bundle):
    bundle.model.train()
    trace_path(bundle, "my dog")
    trace_attention(bundle, "my dog")
    assert bundle.model.training


# -- attention ---------------------------------------------------------------------------------------------------------


def test_attention_rows_sum_to_one(bundle):
    report = trace_attention(bundle, "my dog is cute", "a cat")
    assert report.weights.shape == (2, 2, 9, 9)
    assert np.abs(report.weights.sum(axis=-1) - 1.0).max() < 1e-5
    assert report.looks().shape == (2, 9)
    assert np.allclose(report.looks(), report.weights.mean(axis=(1, 2)))


def test_attention_from_one_token(bundle):
    by_name = trace_attention(bundle, "My dog and my cat", source="My")
    assert by_name.source == 1, "the first occurrence; the tokenizer lower-cases"
    by_place = trace_attention(bundle, "My dog and my cat", source=4)
    assert np.allclose(by_place.looks(), by_place.weights[:, :, 4].mean(axis=1))
    assert not np.allclose(by_place.looks(), by_name.looks())


def test_attention_from_what_is_not_there_is_refused(bundle):
    with pytest.raises(DataError, match=r"'dgo' \(did you mean 'dog'\?\)"):
        trace_attention(bundle, "my dog", source="dgo")
    for place in (4, -1):
        with pytest.raises(SettingsError, match=r"row of 4 tokens \(0 .. 3\)"):
            trace_attention(bundle, "my dog", source=place)


# -- words -------------------------------------------------------------------------------------------------------------


def test_a_word_by_given_senses(bundle):
    report = trace_word(bundle, "bank", SENTENCES, ["river", "money", "money", "river"])
    assert [layer.layer for layer in report.layers] == ["token", "input", "layer 1", "layer 2"]
    token, *rest = report.layers
    assert token.within == pytest.approx(1.0, abs=1e-6)
    assert token.across == pytest.approx(1.0, abs=1e-6)
    assert all(layer.within < 1.0 for layer in rest)
    assert not report.clustered
    assert report.vectors.shape == (4, 4, 16)

    last = similarity(report.vectors[-1], report.vectors[-1])
    assert report.layers[-1].within == pytest.approx((last[0, 3] + last[1, 2]) / 2, abs=1e-5)
    assert report.layers[-1].across == pytest.approx(last[[0, 0, 3, 3], [1, 2, 1, 2]].mean(), abs=1e-5)
    for row in report.nearest:
        others = [other for other in range(4) if other != row.sentence]
        assert row.nearest == max(others, key=lambda other: last[row.sentence, other])
        assert row.cosine == pytest.approx(last[row.sentence, row.nearest])
        assert row.same_sense == (report.senses[row.sentence] == report.senses[row.nearest])
    assert report.agreement == sum(row.same_sense for row in report.nearest) / 4


def test_a_words_vector_is_the_mean_of_its_pieces(bundle):
    report = trace_word(bundle, "dogs", ["my dogs is cute", "the dogs"])
    states = bundle.hidden_states(["my dogs is cute"])[0]
    assert states.tokens[2:4] == ("dog", "##s")
    assert np.abs(report.vectors[-1, 0] - states.vectors[0, 2:4].mean(axis=0)).max() < 1e-5


def test_senses_are_found_by_clustering(bundle):
    report = trace_word(bundle, "bank", SENTENCES)
    assert report.clustered
    assert report.senses[0] == "group 1"
    assert set(report.senses) == {"group 1", "group 2"}
    assert len(set(trace_word(bundle, "bank", SENTENCES, clusters=9).senses)) == 4, "no more groups than sentences"


def test_one_sense_has_no_across_and_single_sentences_no_within(bundle):
    assert np.isnan(trace_word(bundle, "bank", SENTENCES, ["a"] * 4).layers[-1].across)
    assert np.isnan(trace_word(bundle, "bank", SENTENCES, list("abcd")).layers[-1].within)


@pytest.mark.parametrize(
    ("sentences", "senses", "message"),
    [
        (["my bank"], None, "at least two sentences"),
        (["my bank", "the dog"], None, "sentence 2 does not hold the word 'bank'"),
        (["my bank", "a bank"], ["x"], "as many senses"),
    ],
)
def test_sentences_that_do_not_fit_are_refused(bundle, sentences, senses, message):
    with pytest.raises(DataError, match=message):
        trace_word(bundle, "bank", sentences, senses)


def test_words_are_found_whole_first_and_in_languages_without_blanks(bundle):
    assert find_word(bundle, "bank", "banks and a Bank") == (12, 16)
    assert find_word(bundle, "bank", "embankment") is None
    assert find_word(bundle, "銀行", "大銀行へ") == (1, 3)
    assert find_word(bundle, "a.c", "abc") is None, "the word is no pattern"
    cased = Bundle(tiny_parts(embedding=UNIT, rules={"lower_case": False}))
    assert find_word(cased, "bank", "Bank") is None


def test_places_are_tokens_that_share_characters():
    assert word_places([(0, 0), (0, 3), (3, 4), (5, 7), (0, 0)], (0, 4)) == [1, 2]
    assert word_places([(0, 0), (0, 3), (3, 4)], (2, 3)) == [1]


# -- neighbours --------------------------------------------------------------------------------------------------------


def test_static_neighbours_come_from_the_token_table(bundle):
    with torch.no_grad():
        table = bundle.model.embeddings.token_embeddings.weight
        table[VOCAB.index("cat")] = table[VOCAB.index("dog")] * 2.0
    report = trace_neighbours(bundle, "dog", top_k=5)
    assert report.tokens == ("dog",)
    assert (report.static[0].word, report.static[0].sentence) == ("cat", None)
    assert report.static[0].cosine == pytest.approx(1.0, abs=1e-5)
    cosines = [neighbour.cosine for neighbour in report.static]
    assert cosines == sorted(cosines, reverse=True)
    assert len(cosines) == 5
    assert "dog" not in [neighbour.word for neighbour in report.static]
    assert report.contextual == ()


def test_a_word_is_never_its_own_neighbour(bundle):
    every = trace_neighbours(bundle, "dog", top_k=10**6).static
    assert len(every) == bundle.tokenizer.vocab_size - 1
    assert "dog" not in [neighbour.word for neighbour in every]
    assert all(-1.0 <= neighbour.cosine <= 1.0 for neighbour in every)


def test_contextual_neighbours_are_words_of_other_sentences(bundle):
    report = trace_neighbours(bundle, "bank", sentence=SENTENCES[0], sentences=SENTENCES, top_k=20)
    assert {neighbour.sentence for neighbour in report.contextual} == {1, 2, 3}, "not the sentence itself"
    found = {(neighbour.sentence, neighbour.word): neighbour.cosine for neighbour in report.contextual}
    assert len(found) == 4 + 3 + 3, "punctuation is no word"
    one, other = (bundle.hidden_states([SENTENCES[index]])[0].vectors[0][place] for index, place in ((0, 2), (1, 2)))
    assert found[1, "bank"] == pytest.approx(float(similarity(one, other)[0, 0]), abs=1e-5)


def test_a_word_without_token_or_sentence_is_refused(bundle):
    with pytest.raises(DataError, match="makes no token"):
        trace_neighbours(bundle, "  ")
    with pytest.raises(DataError, match="does not hold the word 'cat'"):
        trace_neighbours(bundle, "cat", sentence="my dog", sentences=["a cat"])


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_every_parameter_is_in_one_part():
    heads = {"mlm": HeadConfig(kind="mlm"), "sorts": HeadConfig(kind="classification", labels=("a", "b"))}
    model = Bert(EncoderConfig(vocab_size=50, hidden_size=16, num_hidden_layers=3), heads, seed=0)
    report = measure_sizes(model, "mine")
    assert report.parameters == sum(parameter.numel() for parameter in model.parameters())
    assert {"pooler", "head mlm", "head sorts"} <= set(report.parts)
    assert report.embedding_share == 50 * 16 / report.parameters
    assert (report.memory(), report.memory(2)) == (4 * report.parameters, 2 * report.parameters)


def test_the_named_sizes_are_the_published_ones():
    reports = {report.name: report for report in named_sizes()}
    assert list(reports) == ["tiny", "mini", "small", "medium", "base", "large"]
    base = reports["base"]
    # bert-base-uncased has 109,482,240 parameters; the masked-word head adds a dense layer, a norm and a bias.
    assert base.parameters == 109_482_240 + 768 * 768 + 768 + 2 * 768 + 30522
    assert base.embedding_share == pytest.approx(30522 * 768 / base.parameters)
    assert reports["tiny"].heads == 2
