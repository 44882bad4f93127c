"""Vocabularies: `anaume vocab train`, `anaume vocab report`; `anaume vocab extend` has a file of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import extend, options
from anaume.cli.opening import open_tokenizer
from anaume.cli.printing import facts, percent, printable, say, say_json
from anaume.cli.running import command

if TYPE_CHECKING:
    from anaume.jobs.vocab import TrainedVocabulary
    from anaume.tokenization import Tokenizer, VocabularyReport


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    vocab = typer.Typer(no_args_is_help=True, help="Learn a vocabulary, see how one fits your text, or extend it.")
    app.add_typer(vocab, name="vocab")
    command(vocab, "train")(_train)
    command(vocab, "report")(_report)
    extend.register(vocab)


def _train(
    files: options.FilesArg,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where it goes.", show_default=False)],
    vocab_size: Annotated[
        int, typer.Option("--vocab-size", metavar="N", help="The most entries it may have.", show_default=False)
    ],
    words: options.Words = "bert",
    subwords: options.Subwords = "wordpiece",
    lower_case: Annotated[
        bool | None,
        typer.Option(
            "--uncased/--cased",
            help="Whether case is dropped; unless said, with bert words it is, with mecab not.",
            show_default=False,
        ),
    ] = None,
    strip_accents: Annotated[
        bool | None,
        typer.Option(
            "--strip-accents/--keep-accents",
            help="Whether marks are dropped (accents, voicing of kana); unless said, as case is.",
            show_default=False,
        ),
    ] = None,
    split_cjk: Annotated[
        bool, typer.Option("--split-cjk/--join-cjk", help="Whether every kanji is a word (bert words only).")
    ] = True,
    nfkc: Annotated[
        bool | None,
        typer.Option(
            "--nfkc/--no-nfkc", help="Whether widths are made alike first; unless said, for mecab.", show_default=False
        ),
    ] = None,
    min_frequency: Annotated[
        int, typer.Option("--min-frequency", metavar="N", help="How often a learned piece must occur.")
    ] = 2,
    limit_alphabet: Annotated[
        int | None,
        typer.Option("--limit-alphabet", metavar="N", help="Keep only so many characters; what is lost is told."),
    ] = None,
    reading: options.Reading = options.NO_READING,
    overwrite: options.Overwrite = False,
    as_json: options.Json = False,
) -> None:
    """Learn a vocabulary from files.

    The same files give the same vocabulary in the same order, in every process.

    $ anaume vocab train a.txt b.txt -o my-tokenizer --vocab-size 8000
    $ anaume vocab train ja.txt -o ja --vocab-size 32000 --words mecab
    """
    from anaume.data import read_rows
    from anaume.jobs.vocab import train_vocabulary

    flags = {
        "words": words,
        "subwords": subwords,
        "lower_case": lower_case,
        "strip_accents": strip_accents,
        "split_cjk": split_cjk,
        "nfkc": nfkc,
    }
    rows = read_rows(files, **reading)
    trained = train_vocabulary(
        (row.text for row in rows),
        out,
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        limit_alphabet=limit_alphabet,
        overwrite=overwrite,
        **{key: value for key, value in flags.items() if value is not None},
    )
    if as_json:
        say_json(_trained_record(trained, out))
    else:
        _show_trained(trained, out)


def _show_trained(trained: TrainedVocabulary, out: Path) -> None:
    report, sample = trained.report, trained.sample
    size = f"{report.size:,}"
    if report.size < report.asked_size:
        size += f" of the {report.asked_size:,} asked for: the texts have no more to give"
    lost = "none"
    if report.lost_characters:
        lost = (
            f"{len(report.lost_characters)}, {percent(report.lost_share)} of the text: {_few(report.lost_characters)}"
        )
    facts(
        [
            ("entries", size),
            ("texts", f"{report.texts:,}"),
            ("words", f"{report.words:,}, {report.distinct_words:,} distinct"),
            ("characters", f"{report.characters:,} distinct"),
            ("lost", lost),
            ("pieces per word", f"{sample.pieces_per_word:.2f} (on the first {sample.texts:,} texts)"),
            ("unknown", f"{percent(sample.unknown_share)} of their pieces"),
            ("tokenizer", trained.tokenizer.fingerprint),
            ("written", f"{out}: {', '.join(trained.files)}"),
        ]
    )
    for warning in trained.tokenizer.self_check.warnings:
        say(f"mind: {printable(warning)}")


def _trained_record(trained: TrainedVocabulary, out: Path) -> dict[str, Any]:
    report, sample = trained.report, trained.sample
    return {
        "out": str(out),
        "files": trained.files,
        "size": report.size,
        "asked_size": report.asked_size,
        "texts": report.texts,
        "words": report.words,
        "distinct_words": report.distinct_words,
        "characters": report.characters,
        "lost_characters": report.lost_characters,
        "lost_share": report.lost_share,
        "sample_texts": sample.texts,
        "pieces_per_word": sample.pieces_per_word,
        "unknown_share": sample.unknown_share,
        "tokenizer": trained.tokenizer.fingerprint,
        "warnings": trained.tokenizer.self_check.warnings,
    }


def _report(
    bundle: options.TokenizerArg,
    files: options.FilesArg,
    words: options.WordsOrNone = None,
    subwords: options.SubwordsOrNone = None,
    lower_case: options.LowerCaseOrNone = None,
    reading: options.Reading = options.NO_READING,
    as_json: options.Json = False,
) -> None:
    """Measure how a vocabulary fits texts.

    Pieces per word, the share it does not know, and the characters it loses.

    $ anaume vocab report all-MiniLM-L6-v2 tickets.csv --column body
    """
    from anaume.data import read_rows
    from anaume.tokenization import vocabulary_report

    tokenizer = open_tokenizer(bundle, words=words, subwords=subwords, lower_case=lower_case)
    rows = read_rows(files, **reading)
    report = vocabulary_report(tokenizer, (row.text for row in rows))
    if as_json:
        say_json(_report_record(tokenizer, report))
    else:
        _show_report(tokenizer, report)


def _show_report(tokenizer: Tokenizer, report: VocabularyReport) -> None:
    lost = "none"
    if report.lost_characters:
        count = sum(times for _, times in report.lost_characters)
        names = [character for character, _ in report.lost_characters]
        lost = f"{len(names):,} distinct, {count:,} in all: {_few(names)}"
    voiced = f"{report.voiced_kana:,} lose their mark (バ becomes ハ)" if report.voiced_kana else "kept"
    facts(
        [
            ("texts", f"{report.texts:,}"),
            ("words", f"{report.words:,}"),
            ("pieces", f"{report.pieces:,}"),
            ("pieces per word", f"{report.pieces_per_word:.2f}"),
            ("unknown", f"{report.unknown:,}, {percent(report.unknown_share)} of the pieces"),
            ("characters lost", lost),
            ("voiced kana", voiced),
        ]
    )
    for warning in tokenizer.self_check.warnings:
        say(f"mind: {printable(warning)}")


def _report_record(tokenizer: Tokenizer, report: VocabularyReport) -> dict[str, Any]:
    return {
        "texts": report.texts,
        "words": report.words,
        "pieces": report.pieces,
        "pieces_per_word": report.pieces_per_word,
        "unknown": report.unknown,
        "unknown_share": report.unknown_share,
        "lost_characters": [{"character": c, "count": count} for c, count in report.lost_characters],
        "voiced_kana": report.voiced_kana,
        "tokenizer": tokenizer.fingerprint,
        "warnings": tokenizer.self_check.warnings,
    }


def _few(characters: tuple[str, ...] | list[str]) -> str:
    return " ".join(characters[:40]) + (" ..." if len(characters) > 40 else "")
