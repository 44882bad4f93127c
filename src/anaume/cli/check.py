"""`anaume check`: a look at training text, or at labelled files, before any training."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import corpus, options
from anaume.cli.check_labelled import check_files
from anaume.cli.corpus import Stages
from anaume.cli.opening import open_tokenizer
from anaume.cli.printing import clipped, facts, percent, say, say_json, table
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.checks.corpus import CorpusCheck

log = get_logger(__name__)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "check", many=("--against", "--dev"))(_check)


def _check(
    texts: corpus.TextsArg,
    bundle: corpus.Bundle = None,
    vocab_size: corpus.VocabSize = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            metavar="FILE...",
            help="Evaluation files, one or more: do their rows or lines occur in the text?",
        ),
    ] = None,
    against_columns: Annotated[
        list[str] | None,
        typer.Option("--against-column", metavar="NAME", help="Its column; may be given more than once."),
    ] = None,
    max_length: Annotated[
        int | None,
        typer.Option(
            "--max-length",
            metavar="N",
            help="Count what doesn't fit so many tokens.",
            show_default="512; with --task what the bundle takes",
        ),
    ] = None,
    label_column: Annotated[
        str, typer.Option("--label-column", metavar="NAME", help="Of tables, whose values are counted.")
    ] = "label",
    layout: corpus.Layout = "document",
    language: corpus.Language = None,
    task: Annotated[
        str | None,
        typer.Option(
            "--task", metavar="TASK", help="Look at labelled files of a task (classification, ner, ...) instead."
        ),
    ] = None,
    dev: Annotated[
        list[str] | None,
        typer.Option("--dev", metavar="FILE...", help="With --task: held-out files, one or more."),
    ] = None,
    reading: options.AnyReading = options.NO_ANY_READING,
    as_json: options.Json = False,
    verbose: bool = False,
) -> None:
    """Look at training text, or (--task) at labelled files, before training.

    Of a text: its size, copies and scripts, how a vocabulary fits it, the loss to be expected at first and that of
    guessing blindly, and whether evaluation sets leaked into it.

    Of labelled files: labels, what the most frequent one scores, copies, rows of --dev that are in the training files
    too, and with --bundle what does not fit and entities that no tokens end at. What `anaume finetune` would refuse is
    an error here too.

    $ anaume check books/ --vocab-size 8000
    $ anaume check corpus.txt --bundle my-bundle --against dev.tsv test.tsv
    $ anaume check --task classification train.tsv --dev dev.tsv --bundle my-bundle
    """
    from anaume.checks.corpus import check_corpus

    if task is not None:
        if against or against_columns or vocab_size is not None or language is not None:
            raise SettingsError(
                "--against, --vocab-size and --language are for training text, --task for labelled files"
            )
        check_files(task, texts, dev, bundle, max_length, reading, as_json=as_json, verbose=verbose)
        return
    if dev:
        raise SettingsError("--dev goes with --task, for labelled files; --against compares training text")
    with Stages(show=not verbose) as stages:
        check = check_corpus(
            texts,
            tokenizer=None if bundle is None else open_tokenizer(bundle),
            vocab_size=vocab_size,
            against=against or (),
            against_columns=against_columns or (),
            max_length=512 if max_length is None else max_length,
            label_column=label_column,
            layout=layout,
            language=language,
            **options.one_column(reading),
            progress=stages,
        )
    if as_json:
        say_json(_record(check))
    else:
        _show(check)
    for note in check.notes:
        log.warning("%s", note)


def _show(check: CorpusCheck) -> None:
    rows: list[tuple[str, Any]] = [
        ("documents", f"{check.documents:,}"),
        ("copies", f"{check.duplicates:,} ({percent(check.duplicate_share)})"),
        ("sentences", f"{check.sentences:,}"),
        ("characters", f"{check.characters:,}"),
        ("scripts", ", ".join(f"{name} {percent(share)}" for name, share in check.scripts.items())),
    ]
    if (counts := check.counts) is not None:
        how = "learned from a sample of it" if counts.learned else f"fingerprint {counts.fingerprint[:12]}"
        rows += [
            ("vocabulary", f"{counts.vocab_size:,} entries, {how}"),
            ("tokens", f"{counts.tokens:,}"),
            ("pieces a word", f"{counts.pieces_per_word:.2f}"),
            ("unknown", f"{counts.unknown:,} ({percent(counts.unknown_share)})"),
            (f"over {counts.max_length} tokens", f"{counts.long_documents:,} documents ({percent(counts.long_share)})"),
            ("loss at first", f"{counts.first_loss:.3f} (ln of the vocabulary's size)"),
            ("loss of a guess", f"{counts.entropy_floor:.3f} (entropy of single tokens: where blind guessing stays)"),
        ]
    else:
        rows.append(("tokens", "not counted: give --bundle or --vocab-size"))
    if check.labels:
        total = sum(check.labels.values())
        shown = [f"{clipped(name, 20)} {percent(count / total)}" for name, count in list(check.labels.items())[:10]]
        rows.append(("labels", ", ".join(shown) + (" ..." if len(check.labels) > 10 else "")))
    facts(rows)
    if check.overlaps:
        say()
        names = ("against", "texts", "whole", "share", "as a part", "share of it", "of those short")
        lines = [
            (
                one.source,
                one.texts,
                one.whole,
                percent(one.whole_share),
                one.part,
                percent(one.part_share),
                one.short_part,
            )
            for one in check.overlaps
        ]
        table(names, lines, right=names[1:])


def _record(check: CorpusCheck) -> dict[str, Any]:
    record = dataclasses.asdict(check) | {"duplicate_share": check.duplicate_share}
    if (counts := check.counts) is not None:
        names = ("pieces_per_word", "unknown_share", "first_loss")
        record["counts"] |= {name: getattr(counts, name) for name in names}
    for row, one in zip(record["overlaps"], check.overlaps, strict=True):
        row |= {"whole_share": one.whole_share, "part_share": one.part_share}
    return record
