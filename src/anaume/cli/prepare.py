"""`anaume prepare`: training text becomes a corpus."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anaume.cli import corpus, options
from anaume.cli.corpus import Stages
from anaume.cli.opening import open_tokenizer
from anaume.cli.printing import percent, say_json
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.data.corpus import PrepareSummary

log = get_logger(__name__)

_FEW_HELD_OUT = 5_000  # tokens: 15 % of them are predicted, and the loss of 750 places swings by a tenth of a nat


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "prepare")(_prepare)


def _prepare(
    texts: corpus.TextsArg,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where it goes.", show_default=False)],
    vocab_size: corpus.VocabSize = None,
    bundle: corpus.Bundle = None,
    words: Annotated[
        options.WordsName | None,
        typer.Option(
            "--words",
            metavar="HOW",
            help="For a new vocabulary: bert (at blanks) or mecab; unless said, mecab for Japanese text.",
        ),
    ] = None,
    subwords: Annotated[
        options.SubwordsName | None,
        typer.Option("--subwords", metavar="HOW", help="For a new vocabulary: wordpiece (unless said) or character."),
    ] = None,
    lower_case: Annotated[
        bool | None,
        typer.Option("--uncased/--cased", help="For a new vocabulary: whether case is dropped.", show_default=False),
    ] = None,
    strip_accents: Annotated[
        bool | None,
        typer.Option(
            "--strip-accents/--keep-accents",
            help="For a new vocabulary: whether marks are dropped (é, and the voicing of バ).",
            show_default=False,
        ),
    ] = None,
    limit_alphabet: Annotated[
        int | None,
        typer.Option("--limit-alphabet", metavar="N", help="For a new vocabulary: keep only so many characters."),
    ] = None,
    layout: corpus.Layout = "document",
    language: corpus.Language = None,
    held_out: Annotated[
        float, typer.Option("--held-out", metavar="SHARE", help="Share of the documents kept out of training.")
    ] = 0.01,
    deduplicate: Annotated[
        bool, typer.Option("--deduplicate/--keep-duplicates", help="Leave out exact copies of documents.")
    ] = True,
    near_duplicates: Annotated[
        float | None,
        typer.Option(
            "--near-duplicates",
            metavar="SHARE",
            help="Leave out near copies too, whose runs of five words are shared to that extent: 0.8 is usual (extra "
            "dedup).",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option("--workers", metavar="N", help="Processes; unless said, one a core, at most eight.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of what is held out and sampled.")] = 0,
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON on stdout.")] = False,
    verbose: bool = False,
) -> None:
    """Turn text into a corpus to pretrain on.

    Documents, their sentences and tokens, in files that training maps into memory, with the tokenizer and a held-out
    part. The same line again goes on where it was stopped.

    $ anaume prepare books/ -o SHARDS --vocab-size 8000
    $ anaume prepare tickets.csv --column body -o SHARDS --bundle my-bundle
    """
    from anaume.data.corpus import prepare_corpus

    chosen = {
        "words": words,
        "subwords": subwords,
        "lower_case": lower_case,
        "strip_accents": strip_accents,
        "limit_alphabet": limit_alphabet,
    }
    if (bundle is None) == (vocab_size is None):
        raise SettingsError("give --vocab-size N to learn a vocabulary, or --bundle B to use one that is there")
    settings = {name: value for name, value in chosen.items() if value is not None}
    if bundle is not None and settings:
        raise SettingsError(f"{bundle} brings its own rules; {', '.join(settings)} is for a new vocabulary")
    with Stages(show=not verbose) as stages:
        summary = prepare_corpus(
            texts,
            out,
            tokenizer=None if bundle is None else open_tokenizer(bundle),
            vocab_size=vocab_size,
            vocab_settings=settings,
            layout=layout,
            language=language,
            **reading,
            held_out=held_out,
            deduplicate=deduplicate,
            near_duplicates=near_duplicates,
            workers=workers,
            seed=seed,
            overwrite=overwrite,
            progress=stages,
        )
    if as_json:
        say_json(dataclasses.asdict(summary))
    for line in _lines(summary):
        log.info("%s", line)


def _lines(summary: PrepareSummary) -> list[str]:
    if summary.finished_before:
        return [f"{summary.out} is there already, made of the same texts with the same settings: nothing to do"]
    learned = ""
    if summary.sample_characters is not None:
        share = summary.sample_characters / max(summary.source_characters, 1)
        learned = f" learned from {summary.sample_characters:,} characters ({percent(share)} of the text)"
    kept = f" ({summary.shards_kept:,} from a run before)" if summary.shards_kept else ""
    near = f" and {summary.near_duplicates:,} near ones" if summary.near_duplicates else ""
    train, held_out = summary.train, summary.held_out
    few = ": their loss will say little; a larger --held-out holds out more" if held_out.tokens < _FEW_HELD_OUT else ""
    return [
        f"vocabulary of {summary.vocab_size:,} entries{learned}; {summary.pieces_per_word:.2f} pieces a word, "
        f"{percent(summary.unknown_share)} unknown",
        f"train: {train.documents:,} documents, {train.sentences:,} sentences, {train.tokens:,} tokens; "
        f"{summary.duplicates:,} copies{near} left out",
        f"held out: {held_out.documents:,} documents, {held_out.sentences:,} sentences, "
        f"{held_out.tokens:,} tokens{few}",
        f"{summary.shards:,} shards{kept} -> {summary.out} in {summary.seconds:.1f} s",
    ]
