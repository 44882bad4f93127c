"""vocab.txt: one entry a line, and the line number (from 0) is the id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from anaume.errors import TokenizerError
from anaume.tokenization.rules import TokenizerRules


def read_vocab(path: str | Path) -> list[str]:
    """Read a vocab.txt. Only LF, or CRLF where the first line ends so, ends a line: U+2028 and a lone CR are entries.

    One empty line is an entry like any other (the published Tohoku v3 vocabulary has one): ids never shift.
    Raises TokenizerError for a missing file, bytes that are not UTF-8, or a repeated entry, naming both lines.
    """
    path = Path(path)
    try:
        text = path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise TokenizerError(f"no vocabulary file at {path}") from None
    except OSError as error:
        raise TokenizerError(f"can't read the vocabulary file {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise TokenizerError(
            f"{path} is not UTF-8 at byte {error.start}; a vocab.txt must be saved as UTF-8"
        ) from error
    except ValueError as error:  # a NUL in the name, or a lone surrogate
        raise TokenizerError(f"{str(path)!r} is no path: {error}") from error
    if text.startswith("\ufeff"):
        raise TokenizerError(f"{path} starts with a byte order mark, which would join its first entry; save it without")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    if lines and lines[0].endswith("\r"):
        lines = [line.removesuffix("\r") for line in lines]
    for problem in _faults(lines):
        raise TokenizerError(f"{path}: {problem}")
    return lines


def write_vocab(vocab: Sequence[str], path: str | Path) -> None:
    """Write a vocab.txt, UTF-8 with LF ends on every system. Raises TokenizerError for an entry with a line end."""
    for token_id, token in enumerate(vocab):
        if "\n" in token or (token_id == 0 and token.endswith("\r")):
            raise TokenizerError(f"entry {token_id}, {token!r}, holds a line end and can't stand in a vocab.txt")
    Path(path).write_bytes("".join(f"{token}\n" for token in vocab).encode("utf-8"))


def check_vocab(vocab: Sequence[str], rules: TokenizerRules) -> None:
    """Refuse a vocabulary with repeated entries, or without a special token or a protected string.

    Raises TokenizerError.
    """
    for token_id, token in enumerate(vocab):
        if not isinstance(token, str):
            raise TokenizerError(f"vocabulary entry {token_id} must be a string; got {type(token).__name__}")
        if not token.isascii() and not _writable(token):
            raise TokenizerError(
                f"vocabulary entry {token_id}, {token!r}, holds a lone surrogate: no text gives it and no file holds it"
            )
    for problem in _faults(vocab):
        raise TokenizerError(f"vocabulary: {problem}")
    entries = set(vocab)
    missing = [token for token in rules.specials if token not in entries]
    if missing:
        raise TokenizerError(
            f"the vocabulary ({len(vocab)} entries) lacks the special token{'s' * (len(missing) > 1)} "
            f"{', '.join(missing)}; name the ones it uses (unk_token=..., and so on), or use the model's vocabulary"
        )
    for item in rules.protected:
        if item not in entries:
            raise TokenizerError(
                f"the protected string {item!r} is not in the vocabulary ({len(vocab)} entries), so it has no id; "
                "add it to the vocabulary or don't protect it"
            )


def _writable(token: str) -> bool:
    try:
        token.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def vocab_notes(vocab: Sequence[str]) -> tuple[str, ...]:
    """Return a note when a vocabulary has an empty entry: it keeps its id, as elsewhere, but no text can give it."""
    if "" not in vocab:
        return ()
    token_id = vocab.index("")
    return (f"line {token_id + 1} of the vocabulary is empty; it keeps its id {token_id}, which no text can give",)


def _faults(lines: Sequence[str]) -> Iterator[str]:
    first: dict[str, int] = {}
    for number, line in enumerate(lines, start=1):
        if line in first:
            yield f"lines {first[line]} and {number} are both {line!r}; every entry needs an id of its own"
        first[line] = number


def first_vocab_difference(one: Sequence[str], other: Sequence[str]) -> tuple[int, str | None, str | None] | None:
    """Return (id, entry of one, entry of other) of the first difference, or None; an ended one gives None."""
    for token_id, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return token_id, mine, theirs
    shorter = min(len(one), len(other))
    if len(one) == len(other):
        return None
    return shorter, *(side[shorter] if len(side) > shorter else None for side in (one, other))  # type: ignore[return-value]
