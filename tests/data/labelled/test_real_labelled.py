"""Every reader on the public files it is for: rows and labels as published."""

import warnings
from collections import Counter

import pytest

from anaume.data.labelled import read_choices, read_questions, read_tagged, read_texts
from anaume.errors import AnaumeWarning
from helpers import public_data

pytestmark = pytest.mark.real


def read(reader, name, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("error", AnaumeWarning)
        return list(reader(public_data(name), **how))


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("glue/SST-2/train.tsv.gz", {"0": 29_780, "1": 37_569}),
        ("glue/SST-2/dev.tsv", {"0": 428, "1": 444}),
        ("glue/CoLA/train.tsv.gz", {"0": 2_528, "1": 6_023}),
        ("glue/CoLA/dev.tsv", {"0": 322, "1": 721}),
        ("glue/MRPC/train.tsv.gz", {"0": 1_194, "1": 2_474}),
        ("glue/MRPC/dev.tsv", {"0": 129, "1": 279}),
        ("glue/RTE/train.tsv.gz", {"entailment": 1_249, "not_entailment": 1_241}),
        ("glue/RTE/dev.tsv", {"entailment": 146, "not_entailment": 131}),
        ("glue/WNLI/train.tsv", {"0": 323, "1": 312}),
        ("glue/WNLI/dev.tsv", {"0": 40, "1": 31}),
        ("glue/QNLI/dev.tsv.gz", {"entailment": 2_702, "not_entailment": 2_761}),
        ("glue_subsets/MNLI/train.tsv.gz", {"entailment": 3_061, "neutral": 2_980, "contradiction": 2_958}),
        ("glue_subsets/MNLI/dev.tsv", {"entailment": 347, "neutral": 333, "contradiction": 320}),
        ("glue_subsets/QNLI/train.tsv.gz", {"entailment": 4_523, "not_entailment": 4_476}),
        ("glue_subsets/QNLI/dev.tsv", {"entailment": 504, "not_entailment": 496}),
        ("glue_subsets/SNLI/train.tsv.gz", {"entailment": 2_981, "neutral": 2_994, "contradiction": 3_024}),
        ("glue_subsets/SNLI/dev.tsv", {"entailment": 346, "neutral": 328, "contradiction": 326}),
        ("sick/SICK_train.txt.gz", {"NEUTRAL": 2_536, "ENTAILMENT": 1_299, "CONTRADICTION": 665}),
        ("sick/SICK_trial.txt", {"NEUTRAL": 282, "ENTAILMENT": 144, "CONTRADICTION": 74}),
        ("jglue/jnli/valid-v1.3.json.gz", {"entailment": 349, "neutral": 1_350, "contradiction": 735}),
        ("jglue/jnli/test-v1.3.json.gz", {"entailment": 367, "neutral": 1_365, "contradiction": 776}),
        ("hf_tests_samples/MRPC/dev.tsv", {"0": 3, "1": 3}),
    ],
)
def test_classes(name, counts):
    examples = read(read_texts, name)
    assert Counter(example.label for example in examples) == counts
    paired = "SST-2" not in name and "CoLA" not in name
    assert all((example.pair is not None) == paired for example in examples)
    assert not any("\ufeff" in example.text or example.text.endswith(("\r", "\n")) for example in examples)


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        ("snli/validation.tsv.gz", {"0": 3_329, "1": 3_235, "2": 3_278}),
        ("glue_subsets/QQP/train.tsv.gz", {"0": 5_747, "1": 3_252}),
        ("glue_subsets/QQP/dev.tsv", {"0": 623, "1": 377}),
    ],
)
def test_a_tsv_quoted_as_csv_is_told_and_read_with_quoting(name, counts):
    assert Counter(example.label for example in read(read_texts, name, quoting=True)) == counts
    with pytest.warns(AnaumeWarning, match="look quoted as in csv"):
        assert len(list(read_texts(public_data(name)))) == sum(counts.values())


@pytest.mark.parametrize(
    ("name", "count"),
    [("glue/CoLA/test.tsv", 1_063), ("glue/RTE/test.tsv.gz", 3_000), ("glue/WNLI/test.tsv", 146)],
)
def test_unlabelled(name, count):
    examples = read(read_texts, name, labelled=False)
    assert len(examples) == count
    assert {example.label for example in examples} == {None}


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("glue/STS-B/train.tsv.gz", 5_749),
        ("glue/STS-B/dev.tsv", 1_500),
        ("jglue/jsts/train-v1.3.json.gz", 12_451),
        ("jglue/jsts/valid-v1.3.json.gz", 1_457),
        ("sick/SICK_train.txt.gz", 4_500),
        ("sts12-16/2012/MSRpar.test.tsv.gz", 750),
        ("sts12-16/2012/OnWN.test.tsv.gz", 750),
        ("sts12-16/2012/SMTeuroparl.test.tsv.gz", 459),
        ("sts12-16/2012/SMTnews.test.tsv.gz", 399),
        ("sts12-16/2013/FNWN.test.tsv.gz", 189),
        ("sts12-16/2013/OnWN.test.tsv.gz", 561),
        ("sts12-16/2013/headlines.test.tsv.gz", 750),
        ("sts12-16/2014/deft-forum.test.tsv.gz", 450),
        ("sts12-16/2014/deft-news.test.tsv.gz", 300),
        ("sts12-16/2014/images.test.tsv.gz", 750),
    ],
)
def test_scores(name, count):
    examples = read(read_texts, name, kind="number", paired=True)
    assert len(examples) == count
    assert all(0.0 <= example.label <= 5.0 for example in examples)


def test_conll():
    train = read(read_tagged, "conll2003/eng.train.gz")
    assert (len(train), sum(len(example.spans) for example in train)) == (14_041, 203_621)
    dev = read(read_tagged, "conll2003/eng.testa.gz")
    assert (len(dev), sum(len(example.spans) for example in dev)) == (3_250, 51_362)
    tags = Counter(tag for example in train for tag in example.tags)
    assert set(tags) <= {"O", *(f"{prefix}-{kind}" for prefix in "BI" for kind in ("PER", "LOC", "ORG", "MISC"))}
    assert dev[0].words[:3] == ("CRICKET", "-", "LEICESTERSHIRE")
    for name, count in (("GermEval/dev.txt", 11), ("GermEval/train.txt", 11), ("conll/sample.json", 10)):
        assert len(read(read_tagged, f"hf_tests_samples/{name}")) == count


def test_japanese_entities_are_all_kept():
    examples = read(read_tagged, "ner_wikipedia_ja/ner.json.gz")
    assert len(examples) == 5_343
    tags = Counter(tag for example in examples for tag in example.tags)
    assert sum(count for tag, count in tags.items() if tag.startswith("B-")) == 13_185
    assert len({tag[2:] for tag in tags if tag != "O"}) == 8
    for example in examples:
        for entity in example.fields["entities"]:
            start, end = entity["span"]
            assert {start, end} <= {place for span in example.spans for place in span}


@pytest.mark.parametrize(
    ("name", "questions", "impossible", "contexts"),
    [
        ("squad/dev-v2.0.cs224n-half.json.gz", 6_078, 3_168, 646),
        ("squad/athnlp_train.json", 56, 0, 34),
        ("squad/athnlp_test.json", 40, 0, 31),
        ("squad/athnlp_dev-v2.0-small.json", 14, 6, 4),
        ("squad/sample_v1_hf.json", 14, 6, 4),
        ("jglue/jsquad/valid-v1.3.json.gz", 4_442, 0, 1_145),
        ("jglue/jsquad/test-v1.3.json.gz", 4_420, 0, 1_159),
    ],
)
def test_questions(name, questions, impossible, contexts):
    examples = read(read_questions, name)
    assert len(examples) == questions
    assert sum(example.answers == () for example in examples) == impossible
    assert len({example.context for example in examples}) == contexts
    assert all(" [SEP] " in example.context for example in examples) == ("jsquad" in name)


@pytest.mark.parametrize(
    ("name", "count", "bare", "astray"),
    [
        ("arc/arc_easy_train.csv.gz", 2_251, 102, 2),
        ("arc/arc_easy_validation.csv", 570, 21, 0),
        ("arc/arc_challenge_train.csv", 1_119, 23, 0),
        ("arc/arc_challenge_validation.csv", 299, 4, 1),
    ],
)
def test_arc(name, count, bare, astray):
    """The rows whose key is a number have lost their options there; three keys are E, of four choices."""
    told = f"{bare + astray} rows were left out: {bare} have no options, {astray} a label that names none"
    with pytest.warns(AnaumeWarning, match=told):
        assert len(list(read_choices(public_data(name)))) == count - bare - astray


@pytest.mark.parametrize(
    ("name", "count", "options"),
    [
        ("jglue/jcommonsenseqa/train-v1.3.json.gz", 8_939, 5),
        ("jglue/jcommonsenseqa/valid-v1.3.json", 1_119, 5),
        ("swag_sample/allennlp_swag.csv", 11, 4),
        ("hf_tests_samples/swag/sample.json", 10, 4),
    ],
)
def test_choices(name, count, options):
    examples = read(read_choices, name)
    assert len(examples) == count
    assert {len(example.options) for example in examples} == {options}
    assert all(0 <= example.label < options for example in examples)
