"""Text to token IDs: `anaume tokenize`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_tokenizer, stdin_lines, typed
from anaume.cli.printing import percent, printable, say, say_json, table
from anaume.cli.running import command

if TYPE_CHECKING:
    from anaume.tokenization import Encoding, Tokenizer


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "tokenize")(_tokenize)


def _tokenize(
    bundle: options.TokenizerArg,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", parser=typed, help="The text; - reads one a line from stdin.", show_default=False
        ),
    ],
    pair: options.Pair = None,
    max_length: Annotated[
        int | None, typer.Option("--max-length", metavar="N", help="Cut after so many tokens, special ones included.")
    ] = None,
    words: options.WordsOrNone = None,
    subwords: options.SubwordsOrNone = None,
    lower_case: options.LowerCaseOrNone = None,
    as_json: options.Json = False,
) -> None:
    """Show a text as the model gets it.

    Tokens, IDs, segments, positions, and the characters of the text that each stands for.

    $ anaume tokenize all-MiniLM-L6-v2 "my dog is cute" --pair "he likes playing"
    $ anaume tokenize vocab.txt --cased "Zürich"
    $ anaume tokenize my-bundle - --json < texts.txt
    """
    tokenizer = open_tokenizer(bundle, words=words, subwords=subwords, lower_case=lower_case)
    for number, one in enumerate(stdin_lines() if text == "-" else iter([text])):
        encoding = tokenizer.encode(one, pair, max_length=max_length)
        if as_json:
            say_json(_encoding_record(tokenizer, encoding, one, pair))
            continue
        if number:
            say()
        if text == "-":
            say(printable(one))
        _show_encoding(encoding, one, pair)


def _show_encoding(encoding: Encoding, text: str, pair: str | None) -> None:
    rows = []
    columns = (encoding.tokens, encoding.token_ids, encoding.segment_ids, encoding.offsets, encoding.special_mask)
    for place, (token, token_id, segment, (start, end), special) in enumerate(zip(*columns, strict=True)):
        source = text if segment == 0 else pair or ""
        offsets, characters = ("", "") if special else (f"{start}:{end}", source[start:end])
        rows.append((token, token_id, segment, place, offsets, characters))
    names = ("token", "ID", "segment", "position", "offsets", "characters")
    table(names, rows, right=("ID", "segment", "position", "offsets"))
    say(f"{len(encoding)} tokens; {_unknown(encoding.unknown, encoding.pieces)}; {_seen(encoding)}")


def _unknown(unknown: int, pieces: int) -> str:
    return f"{unknown} of {pieces} pieces unknown"


def _seen(encoding: Encoding) -> str:
    names = ("text",) if len(encoding.coverage) == 1 else ("text", "pair")
    parts = [
        f"{percent(part.share)} of the {name} kept ({part.kept} of {part.total} pieces)" if part.share < 1.0 else ""
        for name, part in zip(names, encoding.coverage, strict=True)
    ]
    return ", ".join(part for part in parts if part) or "all of it kept"


def _encoding_record(tokenizer: Tokenizer, encoding: Encoding, text: str, pair: str | None) -> dict[str, Any]:
    return {
        "text": text,
        "pair": pair,
        "tokens": encoding.tokens,
        "token_ids": encoding.token_ids,
        "segment_ids": encoding.segment_ids,
        "position_ids": list(range(len(encoding))),
        "offsets": encoding.offsets,
        "special": encoding.special_mask,
        "pieces": encoding.pieces,
        "unknown": encoding.unknown,
        "coverage": [
            {"share": part.share, "kept": part.kept, "total": part.total, "start": part.start, "end": part.end}
            for part in encoding.coverage
        ],
        "tokenizer": tokenizer.fingerprint,
    }
