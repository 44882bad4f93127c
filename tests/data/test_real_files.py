"""The readers on public files: their published sizes, and the format traps kept in them."""

import pytest

from anaume.data import read_rows
from helpers import public_data

pytestmark = pytest.mark.real

MRPC = {"column": "#1 String", "pair_column": "#2 String"}
PAIR = {"column": "sentence1", "pair_column": "sentence2"}


@pytest.fixture(scope="module")
def data():
    return public_data("")


@pytest.mark.parametrize(
    ("name", "how", "count"),
    [
        ("glue/SST-2/dev.tsv", {}, 872),
        ("glue/SST-2/train.tsv.gz", {}, 67_349),
        ("glue/CoLA/dev.tsv", {"header": False, "column": "4"}, 1_043),
        ("glue/CoLA/test.tsv", {}, 1_063),
        ("glue/MRPC/dev.tsv", MRPC, 408),
        ("glue/MRPC/train.tsv.gz", MRPC, 3_668),
        ("glue/RTE/dev.tsv", PAIR, 277),
        ("glue/WNLI/train.tsv", PAIR, 635),
        ("glue/STS-B/dev.tsv", PAIR, 1_500),
        ("glue/STS-B/train.tsv.gz", PAIR, 5_749),
        ("glue/QNLI/dev.tsv.gz", {"column": "question", "pair_column": "sentence"}, 5_463),
        ("snli/validation.tsv.gz", {"column": "premise", "pair_column": "hypothesis", "quoting": True}, 9_842),
        ("jglue/jsts/valid-v1.3.json.gz", {"format": "jsonl", **PAIR}, 1_457),
        ("jglue/jnli/valid-v1.3.json.gz", {"format": "jsonl", **PAIR}, 2_434),
        ("arc/arc_easy_train.csv.gz", {"header": False, "column": "1"}, 2_251),
        ("books/wagahaiwa_nekodearu_ja.txt.gz", {}, 2_344),
        ("small_parallel_enja/dev.ja", {"format": "txt"}, 500),
    ],
)
def test_a_public_file_has_its_published_number_of_rows(data, name, how, count):
    if not (data / name).is_file():
        pytest.skip(f"{name} is not among the public data here")
    rows = list(read_rows(data / name, **how))
    assert len(rows) == count
    assert not any(row.text.endswith(("\r", "\n")) or "\ufeff" in row.text for row in rows)


def test_bare_quotes_of_mrpc_stay(data):
    rows = list(read_rows(data / "glue/MRPC/dev.tsv", **MRPC))
    assert any(row.pair.startswith('"') and row.pair.count('"') == 1 for row in rows)
    assert sum(row.fields["Quality"] == "1" for row in rows) == 279


def test_labels_of_sst2(data):
    labels = [row.fields["label"] for row in read_rows(data / "glue/SST-2/dev.tsv")]
    assert (labels.count("0"), labels.count("1")) == (428, 444)
