import json
import pickle

import numpy as np
import pytest

from anaume.data.corpus.shards import Shard, ShardCounts, open_corpus, write_shard
from anaume.errors import DataError, SettingsError

ARRAYS = (
    np.array([5, 6, 7, 8, 9, 10], dtype=np.int32),
    np.array([1, 0, 1, 1, 0, 1], dtype=np.uint8),
    np.array([0, 2, 3, 6], dtype=np.int64),
    np.array([0, 1, 3], dtype=np.int64),
)
COUNTS = ShardCounts(documents=2, sentences=3, tokens=6, characters=21)


def corpus(folder):
    size, digest = write_shard(folder / "train-00000.arrow", *ARRAYS)
    entry = {"file": "train-00000.arrow", "split": "train", "bytes": size, "sha256": digest, "documents": 2}
    entry |= {"sentences": 3, "tokens": 6, "characters": 21}
    np.save(folder / "token_counts.npy", np.arange(24, dtype=np.int64).reshape(2, 12))
    record = {"format_version": 1, "vocab_size": 12, "tokenizer_fingerprint": "abc", "shards": [entry]}
    (folder / "corpus.json").write_text(json.dumps(record))
    (folder / "tokenizer").mkdir()
    return record


def test_a_shard_gives_views_of_the_file(tmp_path):
    path = tmp_path / "a.arrow"
    write_shard(path, *ARRAYS)
    shard = Shard(path, COUNTS)
    views = (shard.token_ids, shard.word_starts, shard.sentence_starts, shard.document_starts)
    for view, values in zip(views, ARRAYS, strict=True):
        assert view.dtype == values.dtype
        assert view.tolist() == values.tolist()
        assert not view.flags.owndata
        assert not view.flags.writeable
    # A view is the file's own bytes: what is changed on disk is seen.
    data = bytearray(path.read_bytes())
    place = data.index(ARRAYS[0].tobytes())
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(np.int32(77).tobytes())
    assert shard.token_ids[0] == 77


def test_a_view_outlives_its_shard(tmp_path):
    write_shard(tmp_path / "a.arrow", *ARRAYS)
    view = Shard(tmp_path / "a.arrow", COUNTS).token_ids
    assert view.sum() == 45


def test_the_same_arrays_make_the_same_bytes(tmp_path):
    assert write_shard(tmp_path / "a.arrow", *ARRAYS) == write_shard(tmp_path / "b.arrow", *ARRAYS)
    assert (tmp_path / "a.arrow").read_bytes() == (tmp_path / "b.arrow").read_bytes()


def test_a_shard_travels_as_a_path(tmp_path):
    write_shard(tmp_path / "a.arrow", *ARRAYS)
    shard = Shard(tmp_path / "a.arrow", COUNTS)
    assert shard.tokens == len(shard.token_ids)
    data = pickle.dumps(shard)
    assert len(data) < 500
    assert pickle.loads(data).token_ids.tolist() == ARRAYS[0].tolist()


def test_a_corpus_adds_up(tmp_path):
    corpus(tmp_path)
    opened = open_corpus(tmp_path)
    train, held_out = opened.split("train"), opened.split("held-out")
    assert (train.documents, train.sentences, train.tokens, train.characters) == (2, 3, 6, 21)
    assert (held_out.documents, held_out.tokens, held_out.shards) == (0, 0, ())
    assert train.token_counts().tolist() == list(range(12))
    assert held_out.token_counts().tolist() == list(range(12, 24))
    assert (opened.vocab_size, opened.tokenizer_fingerprint) == (12, "abc")
    assert opened.tokenizer_directory == tmp_path / "tokenizer"
    with pytest.raises(SettingsError, match="did you mean 'held-out'"):
        opened.split("held_out")


def test_what_is_no_corpus_is_refused_and_told(tmp_path):
    with pytest.raises(DataError, match="no such folder; make a corpus with `anaume prepare"):
        open_corpus(tmp_path / "none")
    with pytest.raises(DataError, match=r"holds no corpus\.json"):
        open_corpus(tmp_path)
    (tmp_path / "x.partial").mkdir()
    with pytest.raises(DataError, match="its preparation was stopped; the same `anaume prepare` line goes on"):
        open_corpus(tmp_path / "x")
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="is a file"):
        open_corpus(tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda folder, record: record.update(format_version=2), "has format 2, and this version reads 1"),
        (lambda folder, record: record.pop("shards"), "not what anaume writes"),
        (lambda folder, record: record["shards"][0].pop("tokens"), "not what anaume writes"),
        (lambda folder, record: record.update(vocab_size=13), r"expected int64 \(2, 13\)"),
        (lambda folder, record: (folder / "train-00000.arrow").unlink(), r"arrow: is missing; .*prepare .*--overwrite"),
        (lambda folder, record: (folder / "tokenizer").rmdir(), r"tokenizer: is missing; .*prepare .*--overwrite"),
        (lambda folder, record: (folder / "train-00000.arrow").write_bytes(b"x" * 9), "has 9 bytes, expected"),
        (lambda folder, record: (folder / "token_counts.npy").unlink(), "not what anaume writes"),
    ],
)
def test_a_corpus_that_was_changed_is_refused(tmp_path, change, message):
    record = corpus(tmp_path)
    change(tmp_path, record)
    (tmp_path / "corpus.json").write_text(json.dumps(record))
    with pytest.raises(DataError, match=message):
        open_corpus(tmp_path)


def test_a_broken_record_is_refused(tmp_path):
    (tmp_path / "corpus.json").write_text("{")
    with pytest.raises(DataError, match=r"corpus\.json: can't be read"):
        open_corpus(tmp_path)


@pytest.mark.parametrize(
    ("column", "values"),
    [
        (2, [0, 2, 3, 7]),
        (2, [1, 2, 3, 6]),
        (2, [0, 3, 3, 6]),
        (3, [0, 1, 2]),
    ],
)
def test_bounds_that_do_not_fit_are_refused(tmp_path, column, values):
    arrays = list(ARRAYS)
    arrays[column] = np.array(values, dtype=np.int64)
    write_shard(tmp_path / "a.arrow", *arrays)
    with pytest.raises(DataError, match="its bounds don't fit its tokens"):
        _ = Shard(tmp_path / "a.arrow", COUNTS).token_ids


def test_a_shard_of_another_corpus_is_refused(tmp_path):
    write_shard(tmp_path / "a.arrow", *ARRAYS)
    other = ShardCounts(documents=2, sentences=3, tokens=7, characters=21)
    with pytest.raises(DataError, match="belongs to another corpus"):
        _ = Shard(tmp_path / "a.arrow", other).token_ids


@pytest.mark.parametrize("keep", [0, 8, 300, -8])
def test_a_file_cut_short_is_refused(tmp_path, keep):
    path = tmp_path / "a.arrow"
    write_shard(path, *ARRAYS)
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DataError, match="can't be read as a shard"):
        _ = Shard(path, COUNTS).token_ids


def test_a_foreign_arrow_file_is_refused(tmp_path):
    import pyarrow as pa

    with pa.ipc.new_file(str(tmp_path / "a.arrow"), pa.schema([("x", pa.int32())])) as writer:
        writer.write_batch(pa.record_batch([pa.array([1], pa.int32())], names=["x"]))
    with pytest.raises(DataError, match="is no shard of this version"):
        _ = Shard(tmp_path / "a.arrow", COUNTS).token_ids
