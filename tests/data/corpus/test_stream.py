"""The stream of rows: whole epochs, exact positions, ranks that share without overlap."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from anaume.data.corpus import stream as streams
from anaume.data.corpus.shards import CorpusSplit
from anaume.data.corpus.stream import Position, PretrainBatch, RowStream, SpecialIds
from anaume.errors import DataError, SettingsError
from tiny_corpora import numbered, realistic, write_split

SPECIALS = SpecialIds(pad=0, cls=2, sep=3)


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small blocks, so that an epoch has many."""
    monkeypatch.setattr(streams, "BLOCK_TOKENS", 500)


@pytest.fixture
def split(tmp_path: Path) -> CorpusSplit:
    lengths = realistic(120)
    return write_split(tmp_path, numbered(lengths[:70]), numbered(lengths[70:], first=500_000))


def make(split: CorpusSplit, **other: object) -> RowStream:
    settings: dict[str, object] = {"seq_len": 32, "seed": 5}
    return RowStream(split, SPECIALS, **{**settings, **other})  # type: ignore[arg-type]


def equal(one: PretrainBatch, other: PretrainBatch) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(vars(one).values(), vars(other).values(), strict=True))


def joined(batches: list[PretrainBatch]) -> np.ndarray:
    return np.concatenate([batch.token_ids for batch in batches])


@pytest.mark.usefixtures("blocks")
def test_an_epoch_holds_every_token_of_the_corpus_once(split: CorpusSplit) -> None:
    """Rows that do not divide into batches: none is lost, the next epoch begins inside a batch (TRN-05)."""
    stream = make(split)
    rows = stream.rows_in_epoch()
    assert rows % 7
    batches = []
    while stream.position.epoch < 2:
        batches.append(stream.next_batch(7))
    token_ids = joined(batches)
    for epoch in range(2):
        seen = token_ids[epoch * rows : (epoch + 1) * rows]
        expected = np.concatenate([shard.token_ids for shard in split.shards])
        assert sorted(seen[seen >= 10].tolist()) == sorted(expected.tolist())
    assert not np.array_equal(token_ids[:rows], token_ids[rows : 2 * rows])  # in another order


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("pairing", ["none", "nsp", "sop"])
def test_a_position_gives_the_same_rows_again(split: CorpusSplit, pairing: streams.Pairing) -> None:
    stream = make(split, pairing=pairing)
    visited = []
    while stream.position.epoch < 2:
        before = stream.position
        visited.append((before, stream.next_batch(7)))
    assert len({position for position, _ in visited}) == len(visited)
    assert {position.epoch for position, _ in visited} == {0, 1}
    assert max(position.block for position, _ in visited) > 3
    for position, batch in visited[:: max(1, len(visited) // 12)]:
        assert equal(make(split, pairing=pairing, position=position).next_batch(7), batch)


def test_another_seed_is_another_order(split: CorpusSplit) -> None:
    assert equal(make(split).next_batch(40), make(split).next_batch(40))
    assert not equal(make(split).next_batch(40), make(split, seed=6).next_batch(40))


def test_a_corpus_of_one_block_comes_in_another_order_each_epoch(tmp_path: Path) -> None:
    stream = make(write_split(tmp_path, numbered(realistic(60))))
    rows = stream.rows_in_epoch()
    first, second = (stream.next_batch(rows).token_ids for _ in range(2))
    assert not np.array_equal(first, second)
    assert sorted(map(tuple, first.tolist())) == sorted(map(tuple, second.tolist()))


@pytest.mark.usefixtures("blocks")
@pytest.mark.parametrize("world", [2, 3])
def test_ranks_share_a_batch_without_overlap(split: CorpusSplit, world: int) -> None:
    alone, ranks = make(split), [make(split) for _ in range(world)]
    for _ in range(30):
        whole = alone.next_batch(7)
        parts = [stream.next_batch(7, rank=rank, world=world) for rank, stream in enumerate(ranks)]
        assert whole.rows.tolist() == list(range(7))
        assert sorted(np.concatenate([part.rows for part in parts]).tolist()) == list(range(7))
        for part in parts:
            assert equal(part, PretrainBatch(*(values[part.rows] for values in vars(whole).values())))
        assert {stream.position for stream in ranks} == {alone.position}


def test_a_packed_row_is_written_out(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[2, 1], [2]]), words=[[1, 0, 1, 0, 1]])  # the second text begins cut
    batch = make(split, seq_len=12).next_batch(1)
    assert batch.token_ids.tolist() == [[2, 10, 11, 12, 3, 2, 13, 14, 3, 0, 0, 0]]
    assert batch.sequence_ids.tolist() == [[0, 0, 0, 0, 0, 1, 1, 1, 1, -1, -1, -1]]
    assert batch.position_ids.tolist() == [[0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 0]]
    assert batch.word_ids.tolist() == [[-1, 0, 0, 1, -1, -1, 2, 3, -1, -1, -1, -1]]
    assert batch.segment_ids.tolist() == [[0] * 12]
    assert batch.pair_labels.tolist() == [-100]
    assert batch.tokens == 9


def test_a_pair_is_written_out(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[2, 2]]))
    batches = [make(split, seq_len=12, pairing="sop", seed=seed).next_batch(1) for seed in range(20)]
    rows = {tuple(batch.token_ids[0].tolist()): batch for batch in batches if batch.tokens == 7}
    assert set(rows) == {(2, 10, 11, 3, 12, 13, 3, 0, 0, 0, 0, 0), (2, 12, 13, 3, 10, 11, 3, 0, 0, 0, 0, 0)}
    for token_ids, batch in rows.items():
        assert batch.segment_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0]]
        assert batch.position_ids.tolist() == [[0, 1, 2, 3, 4, 5, 6, 0, 0, 0, 0, 0]]
        assert batch.sequence_ids.tolist() == [[0] * 7 + [-1] * 5]
        assert batch.word_ids.tolist() == [[-1, 0, 1, -1, 2, 3, -1] + [-1] * 5]
        assert batch.pair_labels.tolist() == [0 if token_ids[1] == 10 else 1]


def test_a_text_of_another_shard_is_read_from_there(tmp_path: Path) -> None:
    split = write_split(tmp_path, numbered([[5] * 20]), numbered([[5] * 20], first=1000))
    batch = make(split, seq_len=16, pairing="nsp").next_batch(30)
    sides = [np.unique(row[row >= 10] // 1000, return_counts=True)[0].tolist() for row in batch.token_ids]
    mixed = [len(found) == 2 for found in sides]
    assert mixed == (batch.pair_labels == 1).tolist()
    assert any(mixed)


def test_fewer_tokens_than_a_batch_come_again(tmp_path: Path) -> None:
    stream = make(write_split(tmp_path, numbered([[3], [4]])))
    batch = stream.next_batch(16)
    assert (batch.tokens, stream.position) == (16 * 11, Position(16, 0, 0))


@pytest.mark.usefixtures("blocks")
def test_a_block_without_rows_is_passed_over(tmp_path: Path) -> None:
    """Sentences of one token have no two halves: a block of them has no row, wherever a batch begins."""
    stream = make(write_split(tmp_path, [[[7]]], numbered([[9, 9]]), [[[8]]]), pairing="sop")
    for _ in range(20):
        assert stream.next_batch(1).tokens > 0


def test_a_corpus_that_gives_no_row_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="too short for pairs"):
        make(write_split(tmp_path, [[[7]], [[8]]]), pairing="sop").next_batch(4)


def test_what_can_not_be_used_is_refused(tmp_path: Path, split: CorpusSplit) -> None:
    with pytest.raises(SettingsError, match="at least 8; got 7"):
        make(split, seq_len=7)
    with pytest.raises(DataError, match="no documents"):
        make(CorpusSplit("train", [], np.zeros(3, np.int64)))
    with pytest.raises(DataError, match="at least two documents"):
        make(write_split(tmp_path, numbered([[9, 9]])), pairing="nsp")
