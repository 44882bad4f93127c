"""`anaume vocab extend`: more words for the vocabulary of a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle
from anaume.cli.printing import facts, percent, say, say_json
from anaume.cli.running import command
from anaume.errors import SettingsError

if TYPE_CHECKING:
    from anaume.bundle import Bundle
    from anaume.tokenization import VocabularyExtension

_SHOWN = 12  # new entries


def register(vocab: typer.Typer) -> None:
    """Add the command to the family of `vocab`."""
    command(vocab, "extend")(_extend)


def _extend(
    bundle: options.BundleArg,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where it goes.", show_default=False)],
    files: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE", help="Text of your domain: txt, csv, tsv, jsonl or parquet; - is stdin.", show_default=False
        ),
    ] = None,
    add: Annotated[int, typer.Option("--add", metavar="N", help="Learn up to so many words from the files.")] = 0,
    words: Annotated[
        Path | None,
        typer.Option("--words", metavar="LIST", help="Add these words: a text file, one a line."),
    ] = None,
    min_frequency: Annotated[
        int, typer.Option("--min-frequency", metavar="N", help="How often a learned word must occur.")
    ] = 2,
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
    device: str = "auto",
) -> None:
    """Give a bundle more words of your domain.

    Learned are the words that save most pieces. Old IDs stay; a new row starts as the mean of its old pieces, and is
    worth little until the new bundle is trained on with `anaume pretrain`.

    $ anaume vocab extend my-bundle tickets.csv --column body --add 500 -o new-bundle
    $ anaume vocab extend my-bundle tickets.txt --words products.txt -o new-bundle
    """
    if add and not files:
        raise SettingsError("--add learns words from text: name its files")
    if not add and words is None:
        raise SettingsError("what shall be added? give --add N to learn words, --words LIST to bring some, or both")
    if str(words) == "-" and "-" in (files or []):
        raise SettingsError("stdin ('-') is named twice; it can be read only once")
    from anaume.data import open_text, read_rows
    from anaume.jobs.extend import extend_bundle

    rows = read_rows(files or [], **reading)
    given: list[str] = []
    if words is not None:
        with open_text(words, encoding=reading["encoding"], errors=reading["errors"]) as file:
            given = list(file.lines())
    extended, report = extend_bundle(
        open_bundle(bundle, device=device),
        (row.text for row in rows),
        out,
        add=add,
        words=given,
        min_frequency=min_frequency,
        overwrite=overwrite,
    )
    if as_json:
        say_json(_record(extended, report, out))
    else:
        _show(extended, report, out)


def _show(extended: Bundle, report: VocabularyExtension, out: Path) -> None:
    new, size = report.entries, extended.tokenizer.vocab_size
    facts(
        [
            ("entries", f"{size - len(new):,} -> {size:,}"),
            *_origins(report),
            ("first", " ".join(entry.token for entry in new[:_SHOWN]) + (" ..." if len(new) > _SHOWN else "")),
            ("new rows", _rows(report)),
            *_fits(report),
            ("tokenizer", extended.tokenizer.fingerprint),
            ("written", str(out)),
        ]
    )
    heads = "" if "mlm" in extended.model.heads else " --new-heads"
    say(f"next: anaume prepare TEXT... --bundle {out} -o SHARDS")
    say(f"      anaume pretrain SHARDS --bundle {out}{heads} --minutes M -o RUN")


def _origins(report: VocabularyExtension) -> list[tuple[str, str]]:
    given, origins = report.given, []
    if report.asked:
        learned = len(report.entries) - len(given.tokens)
        rest = f" of {report.asked:,}: the texts have no more to give" if learned < report.asked else ""
        origins.append(("learned", f"{learned:,}{rest}"))
    apart = [(given.already, "entries already"), (given.repeated, "repeated"), (given.blank, "blank")]
    apart.append((len(given.refused), "can't be entries"))
    left = ", ".join(f"{count:,} {what}" for count, what in apart if count)
    if given.tokens or left:
        origins.append(("given", f"{len(given.tokens):,}" + (f"; left out: {left}" if left else "")))
    return origins


def _rows(report: VocabularyExtension) -> str:
    unknown = sum(not entry.old_pieces for entry in report.entries)
    unseen = sum(not entry.count for entry in report.entries) if report.before.words else 0
    rows = "each the mean of its old pieces"
    rows += f"; of {unknown:,} that were unknown, the mean of all" if unknown else ""
    return rows + (f"; {unseen:,} never occur in the texts" if unseen else "")


def _fits(report: VocabularyExtension) -> list[tuple[str, str]]:
    before, after = report.before, report.after
    if before.pieces_per_word is None or after.pieces_per_word is None:
        return [("pieces per word", "not measured: no text came")]
    assert before.unknown_share is not None
    assert after.unknown_share is not None
    return [
        ("texts", f"{report.texts:,} with {before.words:,} words"),
        ("pieces per word", f"{before.pieces_per_word:.3f} -> {after.pieces_per_word:.3f}"),
        ("unknown", f"{percent(before.unknown_share)} -> {percent(after.unknown_share)} of the pieces"),
    ]


def _record(extended: Bundle, report: VocabularyExtension, out: Path) -> dict[str, Any]:
    given, size = report.given, extended.tokenizer.vocab_size
    return {
        "out": str(out),
        "size_before": size - len(report.entries),
        "size": size,
        "asked": report.asked,
        "learned": len(report.entries) - len(given.tokens),
        "given": len(given.tokens),
        "already": given.already,
        "repeated": given.repeated,
        "blank": given.blank,
        "refused": [{"line": line, "word": word, "why": why} for line, word, why in given.refused],
        "entries": [
            {
                "token": entry.token,
                "token_id": entry.token_id,
                "old_pieces": [extended.tokenizer.vocab[piece] for piece in entry.old_pieces],
                "count": entry.count,
                "given": entry.given,
            }
            for entry in report.entries
        ],
        "texts": report.texts,
        "words": report.before.words,
        "pieces_per_word_before": report.before.pieces_per_word,
        "pieces_per_word": report.after.pieces_per_word,
        "unknown_share_before": report.before.unknown_share,
        "unknown_share": report.after.unknown_share,
        "lost": report.lost,
        "tokenizer": extended.tokenizer.fingerprint,
    }
