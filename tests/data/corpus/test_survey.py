import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anaume.data.corpus.documents import Document
from anaume.data.corpus.survey import (
    HELD_OUT,
    LEFT_OUT,
    TRAIN,
    Sample,
    block_size,
    choose_blocks,
    later_copies,
    mix,
    survey,
)


def bits(packed, count):
    return np.unpackbits(packed, count=count).tolist()


@given(st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1]), max_size=60), st.integers(1, 9))
def test_later_copies_are_found_whatever_is_held_at_once(values, at_once):
    seen: set[int] = set()
    expected = []
    for value in values:
        expected.append(int(value in seen))
        seen.add(value)
    assert bits(later_copies(np.array(values, dtype=np.uint64), at_once=at_once), len(values)) == expected


def look(tmp_path, texts, **how):
    settings = {"held_out": 0.1, "deduplicate": True, "seed": 0, "sample": 0, "tell": lambda done: None} | how
    return survey([Document(text) for text in texts], tmp_path / "hashes", **settings)


def test_copies_are_left_out_and_the_first_stays(tmp_path):
    found = look(tmp_path, ["a", "b", " a\n", "c", "b"], held_out=0.0)
    assert list(found.fates()) == [TRAIN, TRAIN, LEFT_OUT, TRAIN, LEFT_OUT]
    assert [found.fate(number) for number in range(5)] == list(found.fates())
    assert (found.documents, found.duplicates, found.kept) == (5, 2, 3)
    assert look(tmp_path, ["a", "a"], deduplicate=False, held_out=0).duplicates == 0


@pytest.mark.parametrize(("count", "share", "held"), [(200, 0.1, 20), (200, 0.001, 1), (30, 0.5, 15), (20, 0.01, 1)])
def test_the_share_asked_for_is_held_out_and_at_least_one(tmp_path, count, share, held):
    fates = list(look(tmp_path, [f"text {number}" for number in range(count)], held_out=share).fates())
    assert fates.count(HELD_OUT) == held


def test_a_document_is_held_out_by_what_it_says_not_by_where_it_stands(tmp_path):
    texts = [f"text {number}" for number in range(100)]
    one = dict(zip(texts, look(tmp_path, texts).fates(), strict=True))
    other = dict(zip(texts[::-1], look(tmp_path, texts[::-1]).fates(), strict=True))
    assert one == other
    seeded = dict(zip(texts, look(tmp_path, texts, seed=1).fates(), strict=True))
    assert seeded != one


def test_copies_that_stay_lie_on_one_side(tmp_path):
    texts = [f"text {number}" for number in range(50)] * 3
    fates = list(look(tmp_path, texts, deduplicate=False).fates())
    assert fates[:50] == fates[50:100] == fates[100:]
    assert HELD_OUT in fates


def test_mixed_hashes_are_spread_evenly():
    mixed = mix(np.arange(100_000, dtype=np.uint64), seed=3)
    counts = np.bincount((mixed >> np.uint64(60)).astype(int), minlength=16)
    assert abs(counts - 6_250).max() < 400
    assert len(np.unique(mixed)) == 100_000


def test_a_sample_within_its_budget_comes_from_everywhere():
    sample = Sample(budget=100_000, seed=0)
    for number in range(3_000):
        sample.add(number, f"{number:04d} " * 100)
    texts = sample.texts(lambda number: True)
    numbers = [int(text[:4]) for text in texts]
    assert 95_000 < sum(map(len, texts)) <= 100_000
    assert sample.seen == 1_500_000
    assert numbers == sorted(numbers)
    tenths = np.bincount(np.array(numbers) // 300, minlength=10)
    assert tenths.min() > 8


def test_a_sample_leaves_out_what_is_not_wanted_and_keeps_all_of_little():
    sample = Sample(budget=1_000, seed=0)
    for number, text in enumerate(["a" * 200, "b" * 200, "c" * 200]):
        sample.add(number, text)
    assert sample.texts(lambda number: number != 1) == ["a" * 200, "c" * 200]


def test_one_huge_document_is_sampled_in_pieces():
    sample = Sample(budget=10_000, seed=0)
    sample.add(0, "".join(f"{number:08d}" for number in range(100_000)))
    texts = sample.texts(lambda number: True)
    assert len(texts) == 5
    assert len({text[:5] for text in texts}) > 1


@pytest.mark.parametrize("sentences", [[1], [2], [1, 1], [40], [1_000, 3], [5, 0, 5]])
def test_of_few_documents_blocks_are_held_out_and_some_are_not(sentences):
    blocks = sum(-(-count // block_size(count)) for count in sentences)
    chosen = choose_blocks(range(len(sentences)), sentences, 0.01, seed=0)
    held = sum(map(len, chosen))
    assert held == (0 if blocks < 2 else max(1, round(0.01 * blocks)))
    assert choose_blocks(range(len(sentences)), sentences, 0.0, seed=0) == [set() for _ in sentences]
