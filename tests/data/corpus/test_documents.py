import gzip
import json
import os
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from anaume.data.corpus import documents as module
from anaume.data.corpus.documents import DocumentReader, Reading
from anaume.data.corpus.inputs import find_inputs
from anaume.errors import DataError, SettingsError


def reader(paths, **how) -> DocumentReader:
    return DocumentReader(find_inputs(paths).inputs, Reading(**how))


def texts(paths, **how) -> list[str]:
    return [document.text for document in reader(paths, **how)]


def put(folder: Path, text: str | bytes, name: str = "in.txt") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def test_a_file_is_a_document(tmp_path):
    path = put(tmp_path, "One. Two.\r\nThree.\r\n\r\nFour.\r\n")
    assert texts(path) == ["One. Two.\nThree.\n\nFour.\n"]


# NSP-02: blank lines between sentences made every sentence a document, and blank documents crashed.
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("A one.\nA two.\n\nB one.\nB two.\n", [("A one.", "A two."), ("B one.", "B two.")]),
        ("One.\n\nTwo.\n\nThree.\n\n", [("One.",), ("Two.",), ("Three.",)]),
        ("\n\n \t\nOne.\nTwo.\n\u3000\n\n\n  \nThree.", [("One.", "Two."), ("Three.",)]),
        ("One.\r\nTwo.\r\n\r\nThree.\r\n", [("One.", "Two."), ("Three.",)]),
        ("\n \n", []),
        ("", []),
    ],
)
def test_berts_own_form(tmp_path, content, expected):
    found = list(reader(put(tmp_path, content), layout="sentences"))
    assert [document.sentences for document in found] == expected


# DAT-03 and DAT-02: other separators are no line ends, and a mark is no character, however a corpus is laid out.
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("layout", ["document", "sentences", "lines"])
def test_only_lf_and_crlf_end_a_line_of_a_corpus(tmp_path, layout, encoding):
    lines = [f"a{separator}b" for separator in "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"]
    path = tmp_path / "in.txt"
    path.write_bytes("\r\n".join(lines).encode(encoding))
    found = list(reader(path, layout=layout))
    expected = lines if layout == "lines" else ["\n".join(lines)]
    assert [document.text for document in found] == expected
    assert found[0].sentences == (tuple(lines) if layout == "sentences" else None)


def test_lines_can_be_documents(tmp_path):
    read = reader(put(tmp_path, "One. Two.\n\nThree.\n"), layout="lines")
    assert [document.text for document in read] == ["One. Two.", "Three."]
    assert read.blank == 1


BERTS_FORM = "A cat came.\nIt sat down.\nIt slept.\n\nA dog came.\nIt barked at it.\nThen it left.\n"
WRAPPED = """This text was wrapped by
an editor at a width of
some twenty characters
and so its lines end in
the middle of
sentences. It goes on
"""


@pytest.mark.parametrize(
    ("content", "layout", "said"),
    [
        (BERTS_FORM, "document", "looks like BERT's own form"),
        (WRAPPED, "sentences", "looks like running text"),
        (BERTS_FORM, "sentences", None),
        (WRAPPED, "document", None),
        (
            "One paragraph. Of two.\n\nAnother one. Here.\n\nA third.\n\nA fourth.\n\nFifth.\n\nSixth.\n",
            "document",
            None,
        ),
    ],
)
def test_a_file_in_the_other_form_is_said(tmp_path, content, layout, said):
    read = reader(put(tmp_path, content), layout=layout)
    assert list(read)
    assert [note for note in read.notes if said and said in note] == (read.notes if said else [])
    assert bool(read.notes) == bool(said)


def test_rows_are_documents(tmp_path):
    rows = ["one. two.", "NA", "", "三つ\n四つ"]
    csv = put(tmp_path, 'text,n\n"one. two.",1\nNA,2\n"",3\n"三つ\n四つ",4\n', "a.csv")
    jsonl = put(tmp_path, "".join(json.dumps({"body": row}) + "\n" for row in rows), "a.jsonl")
    pq.write_table(pa.table({"text": rows}), tmp_path / "a.parquet")
    expected = ["one. two.", "NA", "三つ\n四つ"]
    assert texts(csv) == texts(tmp_path / "a.parquet") == expected
    assert texts(jsonl, column="body") == expected


def test_compressed_files_archives_folders_and_globs_read_alike(tmp_path):
    folder = tmp_path / "in"
    (folder / "b").mkdir(parents=True)
    put(folder, "second", "b/two.txt")
    put(folder, "first", "a.txt")
    put(folder, "hidden", ".hidden.txt")
    put(folder, b"\x00\x01", "picture.png")
    with gzip.open(folder / "c.txt.gz", "wt") as file:
        file.write("third")
    with zipfile.ZipFile(folder / "d.zip", "w") as archive:
        archive.writestr("x/fourth.txt", "fourth")
        archive.writestr("__MACOSX/x/fourth.txt", "no")
        archive.writestr("README", "no")
        archive.writestr("rows.jsonl", '{"text": "fifth"}\n')
    # Files of a folder before those of the folders in it, each by name.
    assert texts(folder) == ["first", "third", "fourth", "fifth", "second"]
    assert texts(str(folder / "*.txt*")) == ["first", "third"]
    found = find_inputs(folder)
    assert any("of no known ending: 2" in note and "picture.png" in note for note in found.notes)
    assert any("d.zip: files left out because they are hidden or of no known ending: 2" in note for note in found.notes)


def test_a_file_named_twice_is_read_once_and_said(tmp_path):
    put(tmp_path, "only", "a.txt")
    found = find_inputs([tmp_path / "a.txt", tmp_path])
    assert len(found.inputs) == 1
    assert found.notes == ("files named more than once and read once: 1",)


def test_an_output_inside_the_input_folder_is_passed_by(tmp_path):
    put(tmp_path, "text", "a.txt")
    (tmp_path / "out" / "tokenizer").mkdir(parents=True)
    put(tmp_path, "[PAD]", "out/tokenizer/vocab.txt")
    found = find_inputs(tmp_path, without=[tmp_path / "out"])
    assert [Path(one.path).name for one in found.inputs] == ["a.txt"]
    found = find_inputs(f"{tmp_path}/**/*.txt", without=[tmp_path / "out"])
    assert [Path(one.path).name for one in found.inputs] == ["a.txt"]


def test_a_pipe_with_a_name_is_refused_rather_than_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(DataError, match="is no regular file; a corpus is read more than once"):
        find_inputs(tmp_path / "a.txt")


def test_a_json_line_without_end_is_refused_before_it_fills_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("anaume.data.records.OBJECT_LIMIT", 1 << 20)
    put(tmp_path, '{"text": "short"}\n{"text": "' + "x" * (1 << 20) + '"}\n', "a.jsonl")
    with pytest.raises(DataError, match=r"a\.jsonl: line 2: has more than 1 MiB"):
        texts(tmp_path / "a.jsonl")
    put(tmp_path, '{"text": "' + "x" * ((1 << 20) - 13) + '"}\n', "b.jsonl")
    assert len(texts(tmp_path / "b.jsonl")[0]) == (1 << 20) - 13


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.txt", "no such file"),
        ("*.nothing", "no file matches"),
        ("empty", "no text in it"),
        ("a.bin", "tells no format"),
        ("broken.zip", "can't be read as a zip file"),
        ("table.zip", "Parquet can't be read inside an archive"),
        ("junk.zip", "no text in it.*it has a.png"),
    ],
)
def test_what_can_not_be_read_is_named(tmp_path, name, message):
    (tmp_path / "empty").mkdir()
    put(tmp_path, b"\0\1", "a.bin")
    put(tmp_path, b"PK no", "broken.zip")
    for archive_name, member in (("table.zip", "a.parquet"), ("junk.zip", "a.png")):
        with zipfile.ZipFile(tmp_path / archive_name, "w") as archive:
            archive.writestr(member, "x")
    with pytest.raises(DataError, match=message):
        find_inputs(tmp_path / name)


def test_a_locked_archive_says_so(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", "x")
    data = bytearray(path.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag "encrypted" in both headers
        data[data.index(mark) + place] |= 1
    path.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.zip/a\.txt: .*unpack it first"):
        texts(path)


# DAT-04: bytes that are not UTF-8 stopped a long run in the middle, or were silently eaten.
def test_wrong_bytes_are_found_with_file_line_and_byte(tmp_path):
    path = put(tmp_path, b"one\ntwo\ncaf\xe9 bar\nfour\n")
    for layout in ("document", "sentences", "lines"):
        with pytest.raises(DataError, match=r"in\.txt: line 3, byte 11: not utf-8"):
            texts(path, layout=layout)
        assert "\n".join(texts(path, layout=layout, encoding="latin-1")).split("\n")[2] == "café bar"
    read = reader(path, layout="lines", errors="replace")
    assert [document.text for document in read] == ["one", "two", "caf\ufffd bar", "four"]
    assert read.notes == ["malformed utf-8 byte sequences read as U+FFFD: 1"]
    cut = put(tmp_path, b"one\n\xe3\x81", "cut.txt")
    with pytest.raises(DataError, match=r"cut\.txt: line 2, byte 4"):
        texts(cut)


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_blocks_cut_neither_characters_nor_line_ends(tmp_path, monkeypatch, ending):
    from anaume.data.files import open_text

    text = "日本語のテキスト。" + ending + "é" * 5 + ending * 2 + "x\ry" + ending
    path = put(tmp_path, text)
    for size in range(1, 12):
        with open_text(path) as file:
            assert "".join(file.blocks(size)) == text.replace("\r\n", "\n")


@pytest.mark.parametrize("layout", ["document", "sentences", "lines"])
@pytest.mark.parametrize("text", ["ab cd. " * 400, "漢字" * 1_500, "line of text.\n" * 300])
def test_a_document_too_long_is_parted_without_loss(tmp_path, monkeypatch, layout, text):
    monkeypatch.setattr(module, "LONGEST_DOCUMENT", 500)
    monkeypatch.setattr(module, "_BLOCK", 64)
    read = reader(put(tmp_path, text), layout=layout)
    parts = [document.text for document in read]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert len(parts) > 3
    if "\n" not in text or layout == "document":
        assert any("stored in parts, each a document of its own: 1" in note for note in read.notes)


def test_lone_surrogates_are_replaced_and_counted(tmp_path):
    read = reader(put(tmp_path, '{"text": "a\\ud800b"}\n', "a.jsonl"))
    assert [document.text for document in read] == ["a\ufffdb"]
    assert read.notes == ["lone surrogates read as U+FFFD: 1"]


def test_a_pass_can_be_repeated(tmp_path):
    read = reader(put(tmp_path, "One.\n\nTwo.\n"), layout="sentences")
    assert list(read) == list(read)
    assert read.blank == 0


def test_an_unknown_layout_is_refused_with_the_nearest():
    with pytest.raises(SettingsError, match=r"unknown layout 'sentence' \(did you mean 'sentences'\?\)"):
        Reading(layout="sentence")
