import gzip
import io
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anaume.data.files import open_text
from anaume.errors import AnaumeWarning, DataError, SettingsError

# What str.splitlines would cut at, and we do not.
NOT_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"


def lines(path, **how):
    with open_text(path, **how) as file:
        return list(file.lines())


def put(folder: Path, data: bytes, name: str = "in.txt") -> Path:
    path = folder / name
    path.write_bytes(data)
    return path


class Stdin:
    def __init__(self, data: bytes):
        self.buffer = io.BytesIO(data)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a", ["a"]),
        (b"a\n", ["a"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\nb", ["a", "", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b" a \t\n", [" a \t"]),
        (b"x\0y\n", ["x\0y"]),
    ],
)
def test_only_lf_and_crlf_end_a_line(tmp_path, data, expected):
    assert lines(put(tmp_path, data)) == expected


@pytest.mark.parametrize("data", [b"a\rb", b"a\rb\r", "一\r二\r".encode("utf-16")])
def test_lines_that_end_in_cr_alone_are_refused(tmp_path, data):
    """All of it would be one line."""
    with pytest.raises(DataError, match="its lines end in CR alone; only LF and CRLF end a line"):
        lines(put(tmp_path, data))
    assert lines(put(tmp_path, b"a\r")) == ["a\r"]


def test_ends_can_be_kept(tmp_path):
    with open_text(put(tmp_path, b"a\r\nb\nc")) as file:
        assert list(file.lines(keep_ends=True)) == ["a\r\n", "b\n", "c"]


def test_other_separators_stay_in_the_text(tmp_path):  # DAT-03
    text = f"a{NOT_ENDS}b"
    assert len(text.splitlines()) > 1
    assert lines(put(tmp_path, f"{text}\nc\n".encode())) == [text, "c"]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0\ufeff"), max_size=8)),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_any_text_comes_back(tmp_path_factory, texts, encoding, end, zipped):
    data = "".join(text + end for text in texts).encode(encoding)
    path = put(tmp_path_factory.mktemp("t"), gzip.compress(data) if zipped else data)
    named = encoding if encoding.endswith(("le", "be")) else "utf-8"
    assert lines(path, encoding=named) == texts


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32"])
def test_a_mark_is_honoured_and_removed(tmp_path, encoding):  # DAT-02
    assert lines(put(tmp_path, "日本\nabc".encode(encoding))) == ["日本", "abc"]
    assert lines(put(tmp_path, "日本\nabc".encode(encoding)), errors="replace") == ["日本", "abc"]


def test_only_the_first_mark_is_a_mark(tmp_path):
    assert lines(put(tmp_path, "\ufeff\ufeffa\n\ufeffb".encode())) == ["\ufeffa", "\ufeffb"]


def test_a_named_encoding_and_its_mark_may_agree(tmp_path):
    assert lines(put(tmp_path, b"\xff\xfea\0"), encoding="utf-16-le") == ["a"]
    assert lines(put(tmp_path, b"\xef\xbb\xbfa"), encoding="UTF8") == ["a"]


@pytest.mark.parametrize(("data", "encoding"), [(b"\xef\xbb\xbfa", "latin-1"), (b"\xff\xfea\0", "cp932")])
def test_a_mark_against_the_named_encoding_is_refused(tmp_path, data, encoding):
    with pytest.raises(DataError, match=r"in\.txt: starts with the mark of utf-\d+, but"):
        lines(put(tmp_path, data), encoding=encoding)


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_refused_with_the_way_out(tmp_path, encoding):
    path = put(tmp_path, "abc\ndef".encode(encoding))
    with pytest.raises(DataError, match="looks like UTF-16 without its mark"):
        lines(path)
    assert lines(path, encoding=encoding) == ["abc", "def"]


def test_bad_bytes_are_found_with_line_and_byte(tmp_path):  # DAT-04
    data = "一\nb\n".encode() + b"caf\xe9 bar\nlast\n"
    path = put(tmp_path, data)
    with pytest.raises(DataError, match=rf"in\.txt: line 3, byte {data.index(0xE9)}: not utf-8") as caught:
        lines(path)
    assert "latin-1" in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert lines(path, encoding="latin-1")[2] == "café bar"
    with pytest.warns(AnaumeWarning, match=r"in\.txt: 1 malformed utf-8"):
        assert lines(path, errors="replace") == ["一", "b", "caf\ufffd bar", "last"]


@pytest.mark.parametrize("end", [b"", b"\n", b"\nnext\n"])
def test_a_cut_character_never_eats_a_line_end(tmp_path, end):
    path = put(tmp_path, b"ok\n\xe3\x81" + end)
    with pytest.raises(DataError, match="line 2, byte 3"):
        lines(path)
    with pytest.warns(AnaumeWarning, match="1 malformed"):
        assert lines(path, errors="replace")[:2] == ["ok", "\ufffd"]
    with pytest.warns(AnaumeWarning):
        assert len(lines(path, errors="replace")) == len(("ok\nx" + end.decode()).split("\n")) - (end[-1:] == b"\n")


def test_a_cut_utf16_character_names_its_line(tmp_path):
    data = "\ufeffab\ncd\n".encode("utf-16-le") + b"\x00\xdca\x00"
    with pytest.raises(DataError, match=rf"line 3, byte {len(data) - 4}: not utf-16"):
        lines(put(tmp_path, data))


def test_replacing_in_a_multibyte_encoding_keeps_lines(tmp_path):
    with pytest.warns(AnaumeWarning, match="cp932"):
        read = lines(put(tmp_path, "日本".encode("cp932") + b"\x81\nb\n"), encoding="cp932", errors="replace")
    assert len(read) == 2
    assert read[0].startswith("日本\ufffd")


def test_replacement_characters_of_the_file_are_not_counted(tmp_path):
    path = put(tmp_path, "a\ufffdb\n".encode())
    assert lines(path, errors="replace") == ["a\ufffdb"]  # a warning would be an error
    with pytest.warns(AnaumeWarning, match=": 2 malformed"):
        lines(put(tmp_path, "a\ufffdb".encode() + b"\xff\xff"), errors="replace")


def test_gzip_is_seen_by_content(tmp_path):
    assert lines(put(tmp_path, gzip.compress("日\n".encode()), "no-ending")) == ["日"]
    assert lines(put(tmp_path, b"plain\n", "plain.gz")) == ["plain"]
    assert lines(put(tmp_path, gzip.compress(b"a\n") + gzip.compress(b"b\n"))) == ["a", "b"]
    assert lines(put(tmp_path, gzip.compress(b""))) == []


@pytest.mark.parametrize("cut", [3, 12, -3])
def test_broken_gzip_names_the_file(tmp_path, cut):
    data = gzip.compress(os.urandom(64).hex().encode() + b"\n" * 9)
    with pytest.raises(DataError, match=r"in\.txt"):
        lines(put(tmp_path, data[:cut]))


@pytest.mark.parametrize("name", ["absent.txt", "."])
def test_what_cannot_be_opened_names_the_path(tmp_path, name):
    with pytest.raises(DataError, match="can't be read"):
        open_text(tmp_path / name)


@pytest.mark.parametrize("how", [{"encoding": "utf-9"}, {"encoding": "base64"}, {"errors": "ignore"}])
def test_settings_are_checked(tmp_path, how):
    with pytest.raises(SettingsError):
        open_text(put(tmp_path, b"a"), **how)


def test_a_closed_stdin_is_said(monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(DataError, match="is closed, so there is nothing to read"):
        open_text("-")


def test_stdin_is_read_as_bytes_and_left_open(monkeypatch):  # CLI-01: no CR of a CRLF
    stdin = Stdin("\ufeff一\r\nb\r\n".encode())
    monkeypatch.setattr(sys, "stdin", stdin)
    assert lines("-") == ["一", "b"]
    assert not stdin.buffer.closed
    monkeypatch.setattr(sys, "stdin", Stdin(b"\xff"))
    with pytest.raises(DataError, match="<stdin>: line 1, byte 0"):
        lines("-")


def run(code: str, *args: object, feed: bytes = b"", **env: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, args)],
        input=feed,
        capture_output=True,
        env={**os.environ, **env},
        check=False,
    )


def test_the_locale_plays_no_part(tmp_path):  # IMP-11
    code = """
import sys
from anaume.data import atomic_text, open_text, read_rows
with atomic_text(sys.argv[2]) as out:
    for path in (sys.argv[1], "-"):
        with open_text(path) as file:
            out.writelines(line + "\\n" for line in file.lines())
    out.writelines(row.text + "\\n" for row in read_rows(sys.argv[1]))
"""
    source = put(tmp_path, "穴埋め\n".encode(), "入力.txt")
    target = tmp_path / "モデル v1 (final).txt"
    done = run(
        code, source, target, feed="標準\r\n".encode(), LC_ALL="C", LANG="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0"
    )
    assert done.returncode == 0, done.stderr
    assert target.read_bytes().decode() == "穴埋め\n標準\n穴埋め\n"


def test_a_slow_pipe_is_read_right():
    code = "from anaume.data import open_text; print([ascii(x) for x in open_text('-').lines()])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        for piece in (b"\xef", b"\xbb", b"\xbf", "日".encode()[:1], "日".encode()[1:], b"\r", b"\n"):
            child.stdin.write(piece)
            child.stdin.flush()
            time.sleep(0.02)
        out, _ = child.communicate()
    assert out.strip() == rb"""["'\\u65e5'"]"""
