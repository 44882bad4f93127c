"""Bytes on disk into lines of text, the way corpora need them.

Only LF and CRLF end a line, so U+2028, U+0085, VT and their kin stay in the text; byte-order marks are honoured and
removed; gzip is seen through, by content and not by name; bytes that do not decode are an error that names the place,
or are replaced and counted.
"""

from __future__ import annotations

import codecs
import gzip
import io
import sys
import warnings
import zlib
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Literal, Self, cast

from anaume.errors import AnaumeWarning, DataError, SettingsError

STDIN = "-"

_GZIP = b"\x1f\x8b"  # no UTF-8 text starts so: 0x8b can't follow 0x1f
# Longest first: the UTF-32 little-endian mark begins with the UTF-16 one.
_MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_ADVICE = (
    "pass encoding='latin-1', 'cp932' or what the file is in (--encoding), or errors='replace' (--errors) to read "
    "U+FFFD there, counted"
)

DecodeErrors = Literal["strict", "replace"]


class TextFile:
    """A text open for reading: go through `lines()` once, and close it (or use `with`).

    name is for messages; replaced counts the malformed byte sequences read as U+FFFD so far (0 unless
    errors="replace"). Closing warns (AnaumeWarning) with that count. advice is what a message says to do about others.
    """

    advice = _ADVICE

    def __init__(
        self, name: str, stream: io.BufferedReader, owned: BinaryIO | None, encoding: str, errors: str
    ) -> None:
        self.name = name
        self.encoding = encoding
        self.replaced = 0
        self._stream = stream
        self._owned = owned  # None for stdin, which is the process's to close
        self._errors = errors
        self._line = 1
        self._offset = 0  # bytes handed to the decoder, in the uncompressed text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the file (never the process's stdin); warn once if bytes were replaced."""
        if self._owned is not None:
            self._owned.close()
        if self.replaced:
            count, self.replaced = self.replaced, 0
            warnings.warn(
                f"{self.name}: {count} malformed {self.encoding} byte sequences were read as U+FFFD",
                AnaumeWarning,
                stacklevel=2,
            )

    def lines(self, *, keep_ends: bool = False, longest: int | None = None) -> Iterator[str]:
        """Yield each line, without its LF or CRLF unless keep_ends. A last line without a newline counts.

        longest: refuse a line of more bytes, before it fills the memory.

        Raises:
            DataError: bytes that are not in the encoding (names line and byte offset), a file that can't be read, a
                line that is too long, or a file whose lines end in CR alone.
        """
        decoder = codecs.getincrementaldecoder(self.encoding)(self._errors)
        # What "ignore" leaves of U+FFFD was in the file; what "replace" has beyond that was put there.
        genuine = codecs.getincrementaldecoder(self.encoding)("ignore") if self._errors == "replace" else None
        pending, at_start = "", True
        while True:
            piece = self._read_piece(-1 if longest is None else longest + 1)
            if longest is not None and len(piece) > longest:
                raise DataError(
                    f"{self.name}: line {self._line}: has more than {longest / 2**20:,.0f} MiB; "
                    "is it what it is read as?"
                )
            text = self._decode(decoder, piece)
            if genuine is not None:
                self.replaced += text.count("\ufffd") - genuine.decode(piece, final=not piece).count("\ufffd")
            if at_start and text:
                text, at_start = text.removeprefix("\ufeff"), False
            *whole, pending = (pending + text).split("\n")
            for line in whole:
                self._line += 1
                yield line + "\n" if keep_ends else line.removesuffix("\r")
            if not piece:
                break
        if self._line == 1 and "\r" in pending.removesuffix("\r"):
            raise DataError(f"{self.name}: its lines end in CR alone; only LF and CRLF end a line: save it with those")
        if pending:
            yield pending

    def blocks(self, size: int = 1 << 18) -> Iterator[str]:
        """Yield the same text in blocks of about `size` bytes, line ends as LF: for lines too long to be held whole.

        Raises:
            DataError: as `lines` does.
        """
        decoder = codecs.getincrementaldecoder(self.encoding)(self._errors)
        genuine = codecs.getincrementaldecoder(self.encoding)("ignore") if self._errors == "replace" else None
        held, at_start = "", True  # a CR at the end of a block may belong to a CRLF
        while True:
            try:
                piece = self._stream.read(size)
            except (OSError, EOFError, zlib.error) as error:
                raise DataError(f"{self.name}: line {self._line}: can't be read further: {error}") from error
            text = self._decode(decoder, piece)
            if genuine is not None:
                self.replaced += text.count("\ufffd") - genuine.decode(piece, final=not piece).count("\ufffd")
            if at_start and text:
                text, at_start = text.removeprefix("\ufeff"), False
            self._line += text.count("\n")
            text = held + text
            held = "\r" if piece and text.endswith("\r") else ""
            text = text.removesuffix(held).replace("\r\n", "\n")
            if text:
                yield text
            if not piece:
                return

    def _read_piece(self, most: int) -> bytes:
        """Return the bytes up to the next 0x0A (in UTF-16 that may lie inside a character), or b"" at the end."""
        try:
            return self._stream.readline(most)
        except (OSError, EOFError, zlib.error) as error:
            raise DataError(f"{self.name}: line {self._line}: can't be read further: {error}") from error

    def _decode(self, decoder: codecs.IncrementalDecoder, piece: bytes) -> str:
        start = self._offset - len(decoder.getstate()[0])
        self._offset += len(piece)
        try:
            return decoder.decode(piece, final=not piece)
        except UnicodeDecodeError as error:
            line = self._line + error.object[: error.start].decode(self.encoding, "ignore").count("\n")
            raise DataError(
                f"{self.name}: line {line}, byte {start + error.start}: not {self.encoding}: {error.reason} "
                f"({error.object[error.start : error.start + 4].hex(' ')}); {self.advice}"
            ) from error
        except UnicodeError as error:  # UTF-16 and UTF-32 without a mark: no byte is wrong, the order is unknown
            raise DataError(
                f"{self.name}: line {self._line}: not {self.encoding}: {error}; where the mark is missing, "
                f"name the order of the bytes, as in encoding='utf-16-le'"
            ) from error


def open_text(path: str | Path, *, encoding: str = "utf-8", errors: DecodeErrors = "strict") -> TextFile:
    """Open a text for reading; "-" is stdin. Gzip is recognised by content, whatever the name.

    encoding "utf-8" (the default) also reads UTF-16 and UTF-32 that carry their mark. A named encoding is taken at its
    word, except that a file whose mark says otherwise is refused rather than misread. The locale plays no part.

    Raises:
        DataError: the file can't be opened, or its first bytes contradict the encoding.
        SettingsError: an unknown encoding or error policy.
    """
    name = source_name(path)
    if str(path) == STDIN:
        if sys.stdin is None:
            raise DataError("stdin ('-') is closed, so there is nothing to read; name a file, or pipe the texts in")
        return open_text_stream(cast(BinaryIO, sys.stdin.buffer), name, encoding=encoding, errors=errors, owned=False)
    try:
        source = open(path, "rb")  # noqa: SIM115  TextFile closes it
    except OSError as error:
        raise DataError(f"{name}: can't be read: {error.strerror}") from error
    return open_text_stream(source, name, encoding=encoding, errors=errors)


def open_text_stream(
    source: BinaryIO, name: str, *, encoding: str = "utf-8", errors: DecodeErrors = "strict", owned: bool = True
) -> TextFile:
    """Open a binary stream (a member of an archive) as `open_text` opens a file.

    name: what messages call it. owned: whether closing the text, or an error here, closes the stream.
    """
    try:
        _check_decoding(encoding, errors)
        head, stream = _peek(source)
        if head.startswith(_GZIP):
            head, stream = _peek(cast(BinaryIO, gzip.GzipFile(fileobj=stream)))
        return TextFile(name, stream, source if owned else None, _true_encoding(name, head, encoding), errors)
    except (OSError, EOFError, zlib.error) as error:
        if owned:
            source.close()
        raise DataError(f"{name}: can't be read: {getattr(error, 'strerror', None) or error}") from error
    except (DataError, SettingsError):
        if owned:
            source.close()
        raise


def _check_decoding(encoding: str, errors: str) -> None:
    if errors not in ("strict", "replace"):
        raise SettingsError(f"errors is {errors!r}, expected 'strict' or 'replace'")
    try:
        b"a".decode(encoding, "replace")  # codecs.lookup would also take base64 and other non-texts
    except LookupError as error:
        raise SettingsError(
            f"unknown encoding {encoding!r}; Python's names are meant, such as 'utf-8', 'cp932'"
        ) from error


def source_name(path: str | Path) -> str:
    """Return how messages call this input."""
    return "<stdin>" if str(path) == STDIN else str(path)


class _Rejoined(io.RawIOBase):
    """The bytes already taken from a stream, then the rest of it: a peek that works on pipes, however slow."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head = head
        self._rest = rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._head:
            taken, self._head = self._head[: len(buffer)], self._head[len(buffer) :]
        else:
            # read1: one line typed into a pipe is handed on at once, not when a block is full.
            taken = cast(io.BufferedIOBase, self._rest).read1(len(buffer))
        buffer[: len(taken)] = taken
        return len(taken)


def _peek(source: BinaryIO) -> tuple[bytes, io.BufferedReader]:
    head = source.read(4)
    return head, io.BufferedReader(_Rejoined(head, source), buffer_size=1 << 16)


def _true_encoding(name: str, head: bytes, asked: str) -> str:
    """Return the encoding to decode with: the mark's where the default was asked, else the one asked."""
    canonical = codecs.lookup(asked).name.removesuffix("-sig")
    for mark, marked in _MARKS:
        if head.startswith(mark):
            if canonical == "utf-8" or canonical == marked:
                return marked
            if canonical.startswith(marked):  # utf-16-le on FF FE: right, and lines() drops the mark
                return canonical
            raise DataError(
                f"{name}: starts with the mark of {marked}, but encoding={asked!r} was asked; leave encoding out, "
                "or remove the mark if the file is not what it says"
            )
    every_second_is_nul = len(head) == 4 and (head[0] == head[2] == 0) != (head[1] == head[3] == 0)
    if canonical == "utf-8" and every_second_is_nul:
        raise DataError(f"{name}: looks like UTF-16 without its mark; pass encoding='utf-16-le' or 'utf-16-be'")
    return canonical
