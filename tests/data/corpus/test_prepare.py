import hashlib
import io
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest

from anaume.checks.corpus import check_corpus
from anaume.data.corpus import documents as documents_module
from anaume.data.corpus import filling, making, open_corpus, prepare_corpus
from anaume.data.corpus.workers import Workers
from anaume.errors import AnaumeError, AnaumeWarning, DataError, MissingExtra, SettingsError
from anaume.tokenization import Tokenizer
from helpers import PATIENCE

WORDS = [
    "time",
    "year",
    "people",
    "way",
    "day",
    "man",
    "thing",
    "woman",
    "life",
    "child",
    "world",
    "school",
    "state",
    "family",
    "student",
    "group",
]


def text(number: int, sentences: int = 6) -> str:
    draw = random.Random(number)
    parts = [" ".join(draw.choices(WORDS, k=draw.randint(3, 9))).capitalize() + "." for _ in range(sentences)]
    return " ".join(parts)


def write(folder: Path, count: int = 60) -> Path:
    path = folder / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text(number)}) + "\n" for number in range(count)))
    return path


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.train([f"{text(number)}\n" for number in range(30)], vocab_size=120)


def prepare(paths, out, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        return prepare_corpus(paths, out, **({"workers": 0} | how))


def shard_bytes(folder: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "corpus.json"
    }


def sentences(folder: Path, split: str = "train") -> list[list[str]]:
    """The documents of a split, each a list of its sentences, decoded."""
    corpus = open_corpus(folder)
    tokenizer = Tokenizer.from_directory(corpus.tokenizer_directory)
    found = []
    for shard in corpus.split(split).shards:
        for first, last in pairwise(shard.document_starts):
            bounds = shard.sentence_starts[first : last + 1]
            found.append([tokenizer.decode(shard.token_ids[start:stop]) for start, stop in pairwise(bounds)])
    return found


# What is in it


def test_every_sentence_is_in_the_corpus_with_its_bounds(tmp_path, tokenizer):
    summary = prepare(write(tmp_path), tmp_path / "c", tokenizer=tokenizer, held_out=0.1)
    train, held_out = sentences(tmp_path / "c"), sentences(tmp_path / "c", "held-out")
    assert (len(train), len(held_out)) == (54, 6) == (summary.train.documents, summary.held_out.documents)
    expected = [text(number).lower() for number in range(60)]
    assert sorted(" ".join(document) for document in train + held_out) == sorted(expected)
    assert {len(document) for document in train} == {6}
    # Documents keep their order.
    assert [expected.index(" ".join(document)) for document in train] == sorted(
        expected.index(" ".join(document)) for document in train
    )


def test_counts_words_and_unknown_tokens_are_those_of_the_tokens(tmp_path, tokenizer):
    summary = prepare(write(tmp_path), tmp_path / "c", tokenizer=tokenizer)
    corpus = open_corpus(tmp_path / "c")
    assert corpus.tokenizer_fingerprint == tokenizer.fingerprint == summary.tokenizer_fingerprint
    for name in ("train", "held-out"):
        split = corpus.split(name)
        ids = np.concatenate([shard.token_ids for shard in split.shards])
        assert split.token_counts().tolist() == np.bincount(ids, minlength=tokenizer.vocab_size).tolist()
        assert split.tokens == len(ids)
        assert not set(ids.tolist()) & {tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id, tokenizer.mask_id}
    shard = corpus.split("train").shards[0]
    vocab = np.array(tokenizer.vocab)
    assert shard.word_starts.tolist() == [not token.startswith("##") for token in vocab[shard.token_ids]]
    joined = sum(len(sentence) for sentence in text(0).replace(".", ".\n").splitlines())
    assert summary.train.characters + summary.held_out.characters > 50 * joined


def test_the_record_tells_where_it_came_from(tmp_path, tokenizer):
    path = write(tmp_path)
    prepare(path, tmp_path / "c", tokenizer=tokenizer)
    record = open_corpus(tmp_path / "c").record
    (source,) = record["made_from"]["sources"]
    assert source["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert record["made_from"]["settings"]["held_out"] == 0.01
    assert record["documents_read"] == 60
    assert set(record["versions"]) >= {"anaume", "tokenizers", "sentencex", "pyarrow"}
    for entry in record["shards"]:
        assert hashlib.sha256((tmp_path / "c" / entry["file"]).read_bytes()).hexdigest() == entry["sha256"]


def test_copies_are_left_out_and_counted(tmp_path, tokenizer):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": text(number % 40)}) + "\n" for number in range(100)))
    summary = prepare(path, tmp_path / "c", tokenizer=tokenizer)
    assert (summary.duplicates, summary.train.documents + summary.held_out.documents) == (60, 40)
    kept = prepare(path, tmp_path / "d", tokenizer=tokenizer, deduplicate=False, held_out=0.2)
    assert (kept.duplicates, kept.train.documents + kept.held_out.documents) == (0, 100)
    train = {tuple(document) for document in sentences(tmp_path / "d")}
    assert not train & {tuple(document) for document in sentences(tmp_path / "d", "held-out")}


def test_a_vocabulary_is_learned_from_a_sample_without_the_held_out_part(tmp_path):
    summary = prepare(write(tmp_path), tmp_path / "c", vocab_size=100, held_out=0.5)
    record = open_corpus(tmp_path / "c").record
    assert summary.sample_characters == record["learned"]["sample_characters"]
    assert 0.4 < summary.sample_characters / summary.source_characters < 0.6
    assert summary.vocab_size <= 100
    assert record["learned"]["rules"]["words"] == "bert"
    small = prepare(write(tmp_path), tmp_path / "d", vocab_size=100, sample_characters=1_000)
    assert small.sample_characters <= 1_000


def test_japanese_gets_mecab_words_unless_said_otherwise(tmp_path):
    path = tmp_path / "ja.txt"
    path.write_text("吾輩は猫である。名前はまだ無い。「どこだ。」と言った。\n" * 5)
    prepare(path, tmp_path / "c", vocab_size=200)
    assert open_corpus(tmp_path / "c").record["learned"]["rules"]["words"] == "mecab"
    settings = {"words": "bert", "strip_accents": False}
    prepare(path, tmp_path / "d", vocab_size=200, vocab_settings=settings)
    assert open_corpus(tmp_path / "d").record["learned"]["rules"]["words"] == "bert"
    shard = open_corpus(tmp_path / "c").split("train").shards[0]
    assert 0 < shard.word_starts.sum() <= shard.tokens


@pytest.mark.parametrize("layout", ["document", "sentences"])
def test_of_few_documents_blocks_of_sentences_are_held_out_and_it_is_said(tmp_path, tokenizer, layout):
    path = tmp_path / "one.txt"
    lines = [text(number, sentences=1) for number in range(608)]
    path.write_text("\n".join(lines) if layout == "sentences" else " ".join(lines))
    with pytest.warns(
        AnaumeWarning,
        match=r"too few documents to hold some out \(1, and .*blocks of sentences are held out instead \(4\)",
    ):
        summary = prepare_corpus(path, tmp_path / "c", tokenizer=tokenizer, layout=layout, held_out=0.1, workers=0)
    train, held_out = sentences(tmp_path / "c"), sentences(tmp_path / "c", "held-out")
    assert summary.held_out.sentences == 4 * 16  # a tenth of 38 blocks
    expected = [line.lower() for line in lines]
    assert sorted(chain.from_iterable(train + held_out)) == sorted(expected)
    # What lies on both sides of a hole is not one document: no two sentences follow each other that did not before.
    for document in train + held_out:
        place = expected.index(document[0])
        starts = [number for number, line in enumerate(expected) if line == document[0]]
        assert any(expected[start : start + len(document)] == document for start in [place, *starts])


def test_nothing_is_held_out_when_told_so(tmp_path, tokenizer):
    for count in (3, 60):
        summary = prepare(write(tmp_path, count), tmp_path / f"c{count}", tokenizer=tokenizer, held_out=0)
        assert summary.held_out.tokens == 0
        assert summary.notes == ()


# NSP-02
def test_blank_lines_between_all_sentences_are_told(tmp_path, tokenizer):
    path = tmp_path / "b.txt"
    path.write_text("\n\n".join(text(number, sentences=1) for number in range(40)))
    summary = prepare(path, tmp_path / "c", tokenizer=tokenizer, layout="sentences")
    assert any("100% of the documents have one sentence" in note for note in summary.notes)
    path.write_text("\n\n".join(text(number).replace(". ", ".\n") for number in range(40)))
    summary = prepare(path, tmp_path / "d", tokenizer=tokenizer, layout="sentences")
    assert (summary.train.documents, summary.train.sentences, summary.notes) == (40 - 1, 6 * 39, ())


# The same bytes, whatever happens


def make(out: Path, source: Path, tokenizer_folder: Path | None, kill_after: int = -1, **how) -> subprocess.Popen:
    """A run in a process of its own with small shards, which kills itself after so many journal entries."""
    code = """
import json, os, signal, sys, warnings
warnings.simplefilter("ignore")
from anaume.data.corpus import filling, prepare as module
from anaume.data.corpus.workspace import Workspace
from anaume.tokenization import Tokenizer
out, source, folder, after, how = json.loads(sys.argv[1])
filling.SHARD_CHARACTERS, filling._TASK_CHARACTERS = 1500, 400
note, noted = Workspace.note, 0
def killing(self, entry):
    global noted
    if noted == after:
        with open(self.folder / "journal.jsonl", "ab") as file:
            file.write(b'{"file": "half')
        os.kill(os.getpid(), signal.SIGKILL)
    noted += 1
    note(self, entry)
Workspace.note = killing
tokenizer = {"tokenizer": Tokenizer.from_directory(folder)} if folder else {"vocab_size": 100}
module.prepare_corpus(source, out, **tokenizer, **how)
"""
    arguments = json.dumps([str(out), str(source), tokenizer_folder and str(tokenizer_folder), kill_after, how])
    return subprocess.Popen([sys.executable, "-c", code, arguments], stderr=subprocess.PIPE)


def test_the_number_of_workers_changes_no_byte(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setattr(filling, "SHARD_CHARACTERS", 1_500)
    monkeypatch.setattr(filling, "_TASK_CHARACTERS", 400)
    path = write(tmp_path)
    found = []
    for workers in (0, 1, 3):
        prepare(path, tmp_path / f"c{workers}", tokenizer=tokenizer, workers=workers)
        found.append(shard_bytes(tmp_path / f"c{workers}"))
    assert found[0] == found[1] == found[2]
    assert len([name for name in found[0] if name.startswith("train-")]) > 5


@pytest.mark.parametrize("learn", [True, False])
def test_killed_at_any_moment_a_run_goes_on_to_the_same_bytes(tmp_path, monkeypatch, tokenizer, learn):
    monkeypatch.setattr(filling, "SHARD_CHARACTERS", 1_500)
    monkeypatch.setattr(filling, "_TASK_CHARACTERS", 400)
    path = write(tmp_path, 40)
    tokenizer.save(tmp_path / "tokenizer")
    folder = None if learn else tmp_path / "tokenizer"
    how = {"vocab_size": 100} if learn else {"tokenizer": Tokenizer.from_directory(tmp_path / "tokenizer")}
    whole = prepare(path, tmp_path / "whole", **how)
    out = tmp_path / "c"
    finished = 0
    for kill_after in (0, 1, 3):
        process = make(out, path, folder, kill_after)
        _, errors = process.communicate(timeout=PATIENCE)
        assert process.returncode == -signal.SIGKILL, errors
        assert not out.exists()
        with pytest.raises(DataError, match="its preparation was stopped"):
            open_corpus(out)
        finished += kill_after
    summary = prepare(path, out, **how)
    assert summary.shards_kept == finished - learn
    assert 0 < summary.shards_kept < summary.shards
    assert shard_bytes(out) == shard_bytes(tmp_path / "whole")
    assert sorted(os.listdir(out)) == sorted(os.listdir(tmp_path / "whole"))
    one, other = (open_corpus(folder).record for folder in (out, tmp_path / "whole"))
    assert one == other
    assert summary.train == whole.train
    assert not Path(f"{out}.partial").exists()


def test_texts_tokenised_before_do_no_harm_to_workers(tmp_path, tokenizer):
    """TRN-06: the tokenizer's threads, processes, and threads again, without a warning of forks or a lock held.

    Nor does TOKENIZERS_PARALLELISM change for the user's other code; a child that the user forks can tokenise too.
    """
    code = """
import os, sys, warnings
from anaume.data.corpus import prepare_corpus
from anaume.tokenization import Tokenizer
tokenizer = Tokenizer.from_directory(sys.argv[1])
texts = ["time year people. " * 20] * 500
before = [encoding.token_ids for encoding in tokenizer.encode_batch(texts)]
warnings.simplefilter("ignore")
for out in sys.argv[3:]:
    prepare_corpus(sys.argv[2], out, tokenizer=tokenizer, workers=2)
    assert [encoding.token_ids for encoding in tokenizer.encode_batch(texts)] == before
child = os.fork()
if not child:
    os._exit([encoding.token_ids for encoding in tokenizer.encode_batch(texts)] != before)
assert os.waitpid(child, 0)[1] == 0
assert "TOKENIZERS_PARALLELISM" not in os.environ
"""
    tokenizer.save(tmp_path / "tokenizer")
    folders = [tmp_path / name for name in ("one", "other")]
    arguments = [tmp_path / "tokenizer", write(tmp_path), *folders]
    environment = {name: value for name, value in os.environ.items() if name != "TOKENIZERS_PARALLELISM"}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    prepare(tmp_path / "rows.jsonl", tmp_path / "alone", tokenizer=tokenizer)
    assert shard_bytes(folders[0]) == shard_bytes(folders[1]) == shard_bytes(tmp_path / "alone")


def test_workers_end_with_their_parent(tmp_path, tokenizer):
    code = """
import sys, time, json
from anaume.data.corpus.workers import Workers
from anaume.tokenization import Tokenizer
pool = Workers(Tokenizer.from_directory(sys.argv[1]), None, 2)
print(json.dumps([process.pid for process in pool._all]), flush=True)
time.sleep(3600)
"""
    tokenizer.save(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    workers = json.loads(process.stdout.readline())
    process.kill()
    process.communicate()
    deadline = time.monotonic() + PATIENCE
    while any(alive(worker) for worker in workers):
        assert time.monotonic() < deadline, "a worker outlived its parent"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False


def test_a_worker_that_is_killed_ends_the_run_with_a_message(tokenizer):
    with Workers(tokenizer, None, 1) as pool:
        pool._all[0].kill()
        future = pool.submit([documents_module.Document("A text.")])
        with pytest.raises(AnaumeError, match="by signal 9; was there too little memory"):
            future.result()


def test_an_error_in_a_worker_comes_back_and_the_next_task_is_done(tokenizer):
    with Workers(tokenizer, None, 1) as pool:
        wrong = pool.submit([None])  # type: ignore[list-item]
        right = pool.submit([documents_module.Document("A text.")])
        with pytest.raises(AttributeError):
            wrong.result()
        assert len(right.result().document_lengths) == 1


# What is there already


def test_the_same_call_again_says_finished(tmp_path, tokenizer):
    path = write(tmp_path)
    first = prepare(path, tmp_path / "c", tokenizer=tokenizer)
    before = shard_bytes(tmp_path / "c")
    again = prepare_corpus(path, tmp_path / "c", tokenizer=tokenizer)
    assert (first.finished_before, again.finished_before) == (False, True)
    assert again.train == first.train
    assert shard_bytes(tmp_path / "c") == before
    assert not Path(f"{tmp_path / 'c'}.partial").exists()


def test_other_settings_are_refused_by_name_and_overwrite_replaces(tmp_path, tokenizer):
    path = write(tmp_path)
    prepare(path, tmp_path / "c", tokenizer=tokenizer)
    before = shard_bytes(tmp_path / "c")
    with pytest.raises(DataError, match=r"made otherwise: layout document is now lines, held_out 0\.01 is now 0\.2; "):
        prepare(path, tmp_path / "c", tokenizer=tokenizer, layout="lines", held_out=0.2)
    with pytest.raises(DataError, match="vocab_size unset is now 90"):
        prepare(path, tmp_path / "c", vocab_size=90)
    path.write_text(path.read_text() + '{"text": "more"}\n')
    with pytest.raises(DataError, match=r"1 of 1 sources have other content \(.*rows\.jsonl\)"):
        prepare(path, tmp_path / "c", tokenizer=tokenizer)
    with pytest.raises(DataError, match="the sources were 1 files and are now 2"):
        prepare([path, write(tmp_path / "c" / ".." / "c")], tmp_path / "c", tokenizer=tokenizer)
    (tmp_path / "c" / "rows.jsonl").unlink()
    assert shard_bytes(tmp_path / "c") == before
    assert not Path(f"{tmp_path / 'c'}.partial").exists()
    summary = prepare(path, tmp_path / "c", tokenizer=tokenizer, overwrite=True)
    assert summary.train.documents + summary.held_out.documents == 61
    assert sorted(os.listdir(tmp_path)) == ["c", "rows.jsonl"]


def test_work_begun_with_other_settings_is_not_thrown_away(tmp_path, tokenizer):
    path = write(tmp_path, 40)
    tokenizer.save(tmp_path / "tokenizer")
    make(tmp_path / "c", path, tmp_path / "tokenizer", 2).communicate(timeout=PATIENCE)
    work = Path(f"{tmp_path / 'c'}.partial")
    with pytest.raises(DataError, match=r"c\.partial was begun otherwise: seed 0 is now 1"):
        prepare(path, tmp_path / "c", tokenizer=Tokenizer.from_directory(tmp_path / "tokenizer"), seed=1)
    assert len(list(work.glob("*.arrow"))) >= 2
    prepare(path, tmp_path / "c", tokenizer=tokenizer, seed=1, overwrite=True)
    assert open_corpus(tmp_path / "c").record["made_from"]["settings"]["seed"] == 1
    assert not work.exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path, tokenizer):
    path = write(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    for overwrite in (False, True):
        with pytest.raises(SettingsError, match="holds something that is no corpus"):
            prepare(path, tmp_path / "mine", tokenizer=tokenizer, overwrite=overwrite)
    with pytest.raises(SettingsError, match="is a file"):
        prepare(path, path, tokenizer=tokenizer)
    with pytest.raises(SettingsError, match="does not exist; make it first"):
        prepare(path, tmp_path / "no" / "c", tokenizer=tokenizer)
    (tmp_path / "empty").mkdir()
    prepare(path, tmp_path / "empty", tokenizer=tokenizer)
    open_corpus(tmp_path / "empty")


def test_two_runs_do_not_make_one_corpus_together(tmp_path, tokenizer):
    from anaume.data.corpus.workspace import Workspace

    path = write(tmp_path)
    first = Workspace(tmp_path / "c")
    with pytest.raises(DataError, match="another run is making this corpus"):
        prepare(path, tmp_path / "c", tokenizer=tokenizer)
    first.release(keep=False)
    prepare(path, tmp_path / "c", tokenizer=tokenizer)


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "either a tokenizer or a vocab_size"),
        ({"tokenizer": "B"}, "expected a Tokenizer; got 'B'"),
        ({"vocab_size": 100, "held_out": 0.6}, "a share from 0 to 0.5"),
        ({"vocab_size": 100, "workers": -1}, "workers must be at least 0"),
        ({"vocab_size": 100, "sample_characters": 0}, "sample_characters must be at least 1"),
        ({"vocab_size": 100, "layout": "line"}, "unknown layout 'line'"),
        ({"vocab_size": 100, "vocab_settings": {"lower": True}}, "unknown tokenizer rule 'lower'"),
        ({"vocab_size": 10}, "vocab_size=10 is too small"),
    ],
)
def test_wrong_settings_leave_nothing_behind(tmp_path, how, message):
    path = write(tmp_path)
    with pytest.raises(SettingsError, match=message):
        prepare(path, tmp_path / "c", **how)
    assert sorted(os.listdir(tmp_path)) == ["rows.jsonl"]


# Hostile corpora


def test_stdin_is_a_document(tmp_path, monkeypatch, tokenizer):
    class Stdin:
        def __init__(self):
            self.buffer = io.BytesIO("\n".join(text(number) for number in range(30)).encode())

    for expected in (False, True):
        monkeypatch.setattr("sys.stdin", Stdin())
        summary = prepare("-", tmp_path / "c", tokenizer=tokenizer, layout="lines")
        assert summary.finished_before == expected
    assert summary.train.documents == 29
    assert "stdin" not in os.listdir(tmp_path / "c")
    assert open_corpus(tmp_path / "c").record["made_from"]["sources"][0]["name"] == "<stdin>"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no text in it: every document is empty"),
        (b" \n\xe3\x80\x80\n", "no text in it: every document is empty"),
        (bytes(range(256)) * 50, r"in\.txt: line 2, byte 128: not utf-8"),
        ("\ufffd\0\u0301".encode() * 900, "the tokenizer finds no piece in any document"),
        (b"\x00\x01\x02\x03" * 500, "the tokenizer finds no piece in any document"),
        (b"fine\ncaf\xe9\n", r"in\.txt: line 2, byte 8: not utf-8"),
    ],
)
def test_a_corpus_without_text_is_refused_and_leaves_nothing(tmp_path, tokenizer, content, message):
    (tmp_path / "in.txt").write_bytes(content)
    with pytest.raises(DataError, match=message):
        prepare(tmp_path / "in.txt", tmp_path / "c", tokenizer=tokenizer)
    assert sorted(os.listdir(tmp_path)) == ["in.txt"]


def test_an_empty_file_among_others_is_counted(tmp_path, tokenizer):
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(25):
        (folder / f"{number}.txt").write_text("" if number == 3 else text(number))
    summary = prepare(folder, tmp_path / "c", tokenizer=tokenizer)
    assert summary.train.documents + summary.held_out.documents == 24
    assert summary.notes == ("documents left out because they are empty: 1",)


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_that_are_not_utf_8(tmp_path, tokenizer):
    """Old Japanese names, as archives of their time hold them: of the texts, and of the corpus."""
    folder = tmp_path / os.fsdecode("日本".encode("cp932"))
    folder.mkdir()
    summaries = [prepare(write(folder), folder / "c", tokenizer=tokenizer) for _ in range(2)]
    assert [summary.finished_before for summary in summaries] == [False, True]
    (tmp_path / "plain").mkdir()
    prepare(write(tmp_path / "plain"), tmp_path / "plain" / "c", tokenizer=tokenizer)
    assert sentences(folder / "c") == sentences(tmp_path / "plain" / "c")
    (source,) = open_corpus(folder / "c").record["made_from"]["sources"]
    assert source["name"] == str(folder / "rows.jsonl")


@pytest.mark.parametrize("content", ["a", "One sentence only.", "x" * 5_000, "漢" * 5_000])
def test_little_or_strange_text_makes_a_small_corpus(tmp_path, tokenizer, content):
    (tmp_path / "in.txt").write_text(content)
    summary = prepare(tmp_path / "in.txt", tmp_path / "c", tokenizer=tokenizer)
    assert summary.train.tokens >= 1
    assert open_corpus(tmp_path / "c").split("train").tokens == summary.train.tokens


def test_one_very_long_line_is_stored_whole_in_parts(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setattr(documents_module, "LONGEST_DOCUMENT", 20_000)
    words = random.Random(0).choices(WORDS, k=100_000)
    (tmp_path / "in.txt").write_text(" ".join(words))
    for layout in ("document", "sentences", "lines"):
        summary = prepare(tmp_path / "in.txt", tmp_path / layout, tokenizer=tokenizer, layout=layout, held_out=0)
        if layout != "sentences":
            assert summary.train.documents > 10
        found = " ".join(" ".join(document) for document in sentences(tmp_path / layout))
        # A part may end in the middle of a word where the line is read in pieces.
        assert found.replace(" ", "") == "".join(words)
        assert any("cuts in sentences of more than" in note for note in summary.notes)
        assert any("stored in parts" in note for note in summary.notes)


def test_sources_that_change_under_the_run_are_noticed(tmp_path, monkeypatch, tokenizer):
    path = write(tmp_path)
    survey = making.survey

    def grown(*arguments, **how):
        found = survey(*arguments, **how)
        path.write_text(path.read_text() + '{"text": "late"}\n')
        return found

    monkeypatch.setattr(making, "survey", grown)
    with pytest.raises(DataError, match="held 60 documents when first read and 61 now"):
        prepare(path, tmp_path / "c", tokenizer=tokenizer)


def test_a_language_that_is_no_code_is_refused(tmp_path, tokenizer):
    with pytest.raises(SettingsError, match="did you mean 'ja'"):
        prepare(write(tmp_path), tmp_path / "c", tokenizer=tokenizer, language="japanese")
    with pytest.raises(SettingsError, match="did you mean 'ja'"):
        check_corpus(write(tmp_path), tokenizer=tokenizer, language="jp")


def test_progress_is_told(tmp_path, tokenizer):
    told = []
    prepare(write(tmp_path), tmp_path / "c", tokenizer=tokenizer, progress=lambda *item: told.append(item))
    assert [what for what, _, _ in told if what == "reading"]
    what, done, total = told[-1]
    assert (what, done) == ("tokenising", total)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unit", "size"),
    [("word ", 30_000_000), ("漢", 30_000_000), ("word" + " " * 96, 300_000_000)],
    ids=["words", "no blanks", "wide blanks"],  # blanks are read fast: 300 MB of pieces would take minutes
)
def test_a_line_of_many_megabytes(tmp_path, tokenizer, unit, size):
    times = size // len(unit.encode())
    path = long_line(tmp_path, unit, times)
    summary = prepare(path, tmp_path / "c", tokenizer=tokenizer, workers=None, held_out=0.01, deduplicate=False)
    assert summary.train.characters + summary.held_out.characters >= 0.99 * times * len(unit.strip())
    assert summary.train.tokens + summary.held_out.tokens >= 0.99 * times


@pytest.mark.slow
def test_a_long_line_without_a_single_piece_is_refused(tmp_path, tokenizer):
    path = long_line(tmp_path, "\ufffd", 20_000_000)
    with pytest.raises(DataError, match="no text in it: the tokenizer finds no piece"):
        prepare(path, tmp_path / "c", tokenizer=tokenizer, workers=None, held_out=0.01, deduplicate=False)


def long_line(folder, unit, times):
    path = folder / "in.txt"
    with open(path, "w", encoding="utf-8") as file:
        for _ in range(100):
            file.write(unit * (times // 100))
    return path


def test_near_copies_are_left_out_when_asked(tmp_path, tokenizer):
    pytest.importorskip("rensa")
    originals = [text(number, sentences=20) for number in range(40)]
    near = [f"{original} One more remark." for original in originals[:15]]
    halves = [original[: len(original) // 2] for original in originals[:5]]
    far = [f"{half} {text(900 + number, sentences=12)}" for number, half in enumerate(halves)]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": one}) + "\n" for one in [*originals, originals[0], *near, *far]))
    summary = prepare(path, tmp_path / "c", tokenizer=tokenizer, near_duplicates=0.8, held_out=0)
    assert (summary.duplicates, summary.near_duplicates, summary.train.documents) == (1, 15, 45)
    # The first stays, with the one more remark nowhere.
    assert {" ".join(document) for document in sentences(tmp_path / "c")} >= {one.lower() for one in originals}
    again = prepare(path, tmp_path / "d", tokenizer=tokenizer, near_duplicates=0.8, held_out=0)
    assert shard_bytes(tmp_path / "c") == shard_bytes(tmp_path / "d")
    assert again.near_duplicates == 15
    with pytest.raises(SettingsError, match="a share above 0, up to 1"):
        prepare(path, tmp_path / "e", tokenizer=tokenizer, near_duplicates=8)


def test_without_rensa_the_install_line_is_told(tmp_path, monkeypatch, tokenizer):
    monkeypatch.setitem(sys.modules, "rensa", None)
    with pytest.raises(MissingExtra, match=r"pip install 'anaume\[dedup\]'"):
        prepare(write(tmp_path), tmp_path / "c", tokenizer=tokenizer, near_duplicates=0.8)
    assert not Path(f"{tmp_path / 'c'}.partial").exists()
