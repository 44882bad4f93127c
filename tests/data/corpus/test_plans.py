"""Rows as spans: every token once, nothing too long, labels that are true."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anaume.data.corpus import plans
from anaume.data.corpus.plans import FOLLOWS, NO_PAIR, RANDOM, RowPlan, pack_documents, pair_sentences
from anaume.data.corpus.shards import CorpusSplit
from tiny_corpora import numbered, realistic, write_split


def spans(plan: RowPlan) -> list[list[list[int]]]:
    """The parts of each row."""
    starts = plan.row_starts
    return [plan.parts[starts[row] : starts[row + 1]].tolist() for row in range(len(plan))]


def packed(split: CorpusSplit, seq_len: int) -> RowPlan:
    return pack_documents(split.shards, 0, range(split.documents), seq_len)


@pytest.mark.parametrize("seq_len", [8, 16, 33])
@pytest.mark.parametrize(
    "lengths",
    [
        [[3]],
        [[6], [6], [14], [15], [1], [31]],  # just as long as a row's room, and one more
        [[100, 50], [1], [2, 2]],  # longer than rows
        realistic(300),
    ],
    ids=["one", "edges", "long", "realistic"],
)
def test_every_token_is_in_exactly_one_row_and_no_row_is_too_long(
    tmp_path: Path, lengths: list[list[int]], seq_len: int
) -> None:
    split = write_split(tmp_path, numbered(lengths))
    plan = packed(split, seq_len)
    taken = np.concatenate([np.arange(start, stop) for row in spans(plan) for _, start, stop, _ in row])
    assert sorted(taken.tolist()) == list(range(split.tokens))
    for row in spans(plan):
        assert sum(stop - start + 2 for _, start, stop, _ in row) <= seq_len
        assert all(segment == 0 and start < stop for _, start, stop, segment in row)
    assert plan.labels.tolist() == [NO_PAIR] * len(plan)


def test_a_row_holds_pieces_of_documents_never_across_their_bounds(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered(realistic(200)))
    bounds = split.shards[0].sentence_starts[split.shards[0].document_starts]
    for row in spans(packed(split, 32)):
        for _, start, stop, _ in row:
            assert np.searchsorted(bounds, start, side="right") == np.searchsorted(bounds, stop - 1, side="right")


@pytest.mark.parametrize(("seq_len", "share"), [(32, 0.95), (128, 0.95), (512, 0.95)])
def test_rows_are_full(tmp_path: Path, seq_len: int, share: float) -> None:
    split = write_split(tmp_path, numbered(realistic(2000)))
    plan = packed(split, seq_len)
    filled = sum(stop - start + 2 for row in spans(plan) for _, start, stop, _ in row) / (len(plan) * seq_len)
    print(f"{filled:.2%} of the places of rows of {seq_len} are filled")
    assert filled > share


def test_the_ends_of_documents_share_rows_by_best_fit(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[4], [4], [10], [10]]))  # 6 + 6 and 12 + 12 of 18 with their two places
    rows = sorted(sorted(stop - start for _, start, stop, _ in row) for row in spans(packed(split, 18)))
    assert rows == [[4, 10], [4, 10]]


def test_shuffling_moves_rows_and_their_labels_together(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered(realistic(50)))
    plan = pair_sentences(split.shards, 0, range(50), 32, "nsp", np.random.default_rng(0))
    moved = plan.shuffled(np.random.default_rng(1))

    def together(of: RowPlan) -> list[str]:
        return [f"{row} {label}" for row, label in zip(spans(of), of.labels.tolist(), strict=True)]

    assert together(moved) != together(plan)
    assert sorted(together(moved)) == sorted(together(plan))


class Pairs:
    """Pairs of a split, with what is known of each side."""

    def __init__(self, split: CorpusSplit, pairing: plans.Pairing, seq_len: int = 128, seed: int = 0) -> None:
        self.split, self.seq_len = split, seq_len
        self.rows: list[list[list[int]]] = []
        labels = []
        for number, shard in enumerate(split.shards):
            generator = np.random.default_rng([seed, number])
            plan = pair_sentences(split.shards, number, range(shard.documents), seq_len, pairing, generator)
            self.rows += spans(plan)
            labels.append(plan.labels)
        self.labels = np.concatenate(labels)

    def document(self, part: list[int]) -> tuple[int, int]:
        """Shard and number of the document a part is in; its tokens are all from one."""
        number, start, stop, _ = part
        shard = self.split.shards[number]
        bounds = shard.sentence_starts[shard.document_starts]
        found = [int(np.searchsorted(bounds, place, side="right")) for place in (start, stop - 1)]
        assert found[0] == found[1]
        return number, found[0]


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Pairs:
    split = write_split(tmp_path_factory.mktemp("pairs"), numbered(realistic(4500)))
    pairs = Pairs(split, "nsp", seq_len=64)
    assert len(pairs.rows) > 20_000
    return pairs


def test_half_of_the_second_segments_follow(many: Pairs) -> None:
    share = float((many.labels == FOLLOWS).mean())
    print(f"{share:.2%} of {len(many.labels):,} pairs are true")
    assert abs(share - 0.5) < 0.01


def test_a_random_segment_is_always_from_another_document(many: Pairs) -> None:
    for (first, second), label in zip(many.rows, many.labels.tolist(), strict=True):
        assert (many.document(first) == many.document(second)) == (label == FOLLOWS)


def test_a_true_segment_follows_directly_but_for_what_was_cut(many: Pairs) -> None:
    room, whole = many.seq_len - 3, 0
    for (first, second), label in zip(many.rows, many.labels.tolist(), strict=True):
        assert first[3] == 0
        assert second[3] == 1
        length = first[2] - first[1] + second[2] - second[1]
        assert length <= room
        assert first[1] < first[2]
        assert second[1] < second[2]
        if label == FOLLOWS:
            gap = second[1] - first[2]
            assert gap >= 0
            if length < room:  # nothing was cut
                assert gap == 0
                whole += 1
    assert whole > 2_000


def test_a_tenth_of_the_pairs_is_made_short_on_purpose(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[10] * 2000, [10] * 2000]))
    pairs = Pairs(split, "nsp", seq_len=128)
    lengths = [sum(stop - start for _, start, stop, _ in row) for row in pairs.rows]
    # Without the short ones all pairs but the documents' last are 125 long; of the short ones 115 / 124 show it.
    short = sum(length < 115 for length in lengths) / len(lengths)
    assert abs(short - 0.1 * 113 / 124) < 0.025
    assert min(lengths) < 30


def test_documents_of_one_sentence_give_pairs_too(tmp_path: Path) -> None:
    alone = Pairs(write_split(tmp_path, numbered([[9]] * 40)), "nsp", seq_len=32)
    assert len(alone.rows) == 40
    assert alone.labels.tolist() == [RANDOM] * 40  # nothing ever follows


def test_a_forced_random_pair_is_made_up_for(tmp_path: Path) -> None:
    """A third of the documents has one sentence: the published way would give two thirds of random pairs."""
    lengths = [[9], [9, 9, 9], [9, 9]] * 2000
    pairs = Pairs(write_split(tmp_path, numbered(lengths)), "nsp", seq_len=64)
    assert abs(float((pairs.labels == FOLLOWS).mean()) - 0.5) < 0.01


def test_sentences_that_were_not_used_come_again(tmp_path: Path) -> None:
    pairs = Pairs(write_split(tmp_path, numbered([[5] * 30] * 2)), "nsp", seq_len=64)
    for document in range(2):
        used = set()
        for (first, second), label in zip(pairs.rows, pairs.labels.tolist(), strict=True):
            for part in (first, second) if label == FOLLOWS else (first,):
                if pairs.document(part)[1] == document + 1:
                    used |= set(range(part[1] // 5, -(-part[2] // 5)))
        assert used == set(range(30 * document, 30 * document + 30))


def test_a_shard_of_one_document_takes_its_random_segments_from_the_others(tmp_path: Path) -> None:
    shards = [numbered([[9] * 400]), numbered([[9] * 400]), numbered([[9] * 100, [9] * 50])]
    pairs = Pairs(write_split(tmp_path, *shards), "nsp", seq_len=32)
    from_where = set()
    for (first, second), label in zip(pairs.rows, pairs.labels.tolist(), strict=True):
        assert (pairs.document(first) == pairs.document(second)) == (label == FOLLOWS)
        if label == RANDOM and first[0] == 0:
            from_where.add(pairs.document(second))
    assert from_where == {(1, 1), (2, 1), (2, 2)}
    assert abs(float((pairs.labels == FOLLOWS).mean()) - 0.5) < 0.1


def test_sentence_order_swaps_half_of_the_neighbours(tmp_path: Path) -> None:
    pairs = Pairs(write_split(tmp_path, numbered(realistic(1500))), "sop", seq_len=64)
    for (first, second), label in zip(pairs.rows, pairs.labels.tolist(), strict=True):
        assert pairs.document(first) == pairs.document(second)
        assert (first[1] > second[1]) == (label == RANDOM)
    assert abs(float((pairs.labels == FOLLOWS).mean()) - 0.5) < 0.02


def test_sentence_order_halves_a_lone_sentence(tmp_path: Path) -> None:
    pairs = Pairs(write_split(tmp_path, numbered([[1], [9], [2]])), "sop", seq_len=32)
    assert sorted(sorted(stop - start for _, start, stop, _ in row) for row in pairs.rows) == [[1, 1], [4, 5]]


def test_the_longer_side_is_cut_at_both_ends(tmp_path: Path) -> None:
    """Token by token from the longer side, as published: the shorter one keeps what it has."""
    generator = np.random.default_rng(0)
    fronts = set()
    for _ in range(50):
        first, second = plans._trimmed((0, 0, 100), (0, 100, 110), 60, generator)
        assert second == (0, 100, 110)
        assert first[2] - first[1] == 50
        fronts.add(first[1])
    assert 15 < np.mean(list(fronts)) < 35
    first, second = plans._trimmed((0, 0, 50), (0, 50, 100), 61, generator)
    assert (first[2] - first[1], second[2] - second[1]) == (31, 30)  # at equal lengths B loses first
    assert plans._trimmed((0, 0, 20), (0, 20, 40), 40, generator) == ((0, 0, 20), (0, 20, 40))


def test_the_same_generator_makes_the_same_pairs(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered(realistic(50)))
    assert Pairs(split, "nsp", seed=3).rows == Pairs(split, "nsp", seed=3).rows
    assert Pairs(split, "nsp", seed=3).rows != Pairs(split, "nsp", seed=4).rows
