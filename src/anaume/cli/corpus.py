"""Training text: `anaume prepare` makes a corpus of it, `anaume check` looks at it first."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import typer
from typer.core import TyperCommand

from anaume.cli import options
from anaume.cli.opening import open_tokenizer
from anaume.cli.printing import clipped, facts, percent, say, say_json, table
from anaume.cli.running import command
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.checks.corpus import CorpusCheck
    from anaume.data import PrepareSummary

log = get_logger(__name__)

TextsArg = Annotated[
    list[str],
    typer.Argument(
        metavar="TEXT...",
        help="txt, csv, tsv, jsonl, parquet, .gz of them, .zip, folders; - is stdin.",
        show_default=False,
    ),
]
Bundle = Annotated[
    str | None,
    typer.Option("--bundle", metavar="B", help="Use this bundle's tokenizer, or a tokenizer's own directory or file."),
]
VocabSize = Annotated[
    int | None,
    typer.Option("--vocab-size", metavar="N", help="Learn a vocabulary of at most so many entries from the text."),
]
Layout = Annotated[
    Literal["document", "sentences", "lines"],
    typer.Option(
        "--layout",
        metavar="HOW",
        help="A txt file is one document, or one sentence a line with blank lines between documents (sentences), or "
        "one document a line (lines).",
    ),
]
Language = Annotated[
    str | None,
    typer.Option("--language", metavar="CODE", help="en, ja, de, ...; unless said, English or Japanese by its look."),
]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    command(app, "prepare")(_prepare)
    command(app, "check")(_check)
    app.registered_commands[-1].cls = _ManyAgainst


class _ManyAgainst(TyperCommand):
    """Lets several files follow one --against."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat --against before each further file."""
        return super().parse_args(ctx, spread(args, "--against"))


def spread(arguments: Sequence[str], option: str) -> list[str]:
    """Repeat an option before each of the values that follow it, up to the next option.

    >>> spread(["a", "--against", "b", "c", "--json"], "--against")
    ['a', '--against', 'b', '--against', 'c', '--json']
    """
    spread: list[str] = []
    values = -1  # how many of the option's values came; -1: what comes is not one
    for argument in arguments:
        if argument.startswith("-") and argument != "-":
            values = 0 if argument == option else -1
        elif values >= 0:
            values += 1
            if values > 1:
                spread.append(option)
        spread.append(argument)
    return spread


def _prepare(
    texts: TextsArg,
    out: Annotated[Path, typer.Option("-o", "--out", metavar="DIR", help="Where it goes.", show_default=False)],
    vocab_size: VocabSize = None,
    bundle: Bundle = None,
    words: Annotated[
        options.WordsName | None,
        typer.Option("--words", help="For a new vocabulary: unless said, mecab for Japanese text, else bert."),
    ] = None,
    subwords: Annotated[
        options.SubwordsName | None, typer.Option("--subwords", help="For a new vocabulary: wordpiece unless said.")
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
    layout: Layout = "document",
    language: Language = None,
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
    from anaume.data import prepare_corpus

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
    with _Stages(show=not verbose) as stages:
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
    return [
        f"vocabulary of {summary.vocab_size:,} entries{learned}; {summary.pieces_per_word:.2f} pieces a word, "
        f"{percent(summary.unknown_share)} unknown",
        f"train: {train.documents:,} documents, {train.sentences:,} sentences, {train.tokens:,} tokens; held out: "
        f"{held_out.documents:,}, {held_out.sentences:,}, {held_out.tokens:,}; "
        f"{summary.duplicates:,} copies{near} left out",
        f"{summary.shards:,} shards{kept} -> {summary.out} in {summary.seconds:.1f} s",
    ]


def _check(
    texts: TextsArg,
    bundle: Bundle = None,
    vocab_size: VocabSize = None,
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
        int, typer.Option("--max-length", metavar="N", help="Count documents that don't fit so many tokens.")
    ] = 512,
    label_column: Annotated[
        str, typer.Option("--label-column", metavar="NAME", help="Of tables, whose values are counted.")
    ] = "label",
    layout: Layout = "document",
    language: Language = None,
    reading: options.Reading = options.NO_READING,
    as_json: options.Json = False,
    verbose: bool = False,
) -> None:
    """Look at a training text before any training.

    Its size, copies and scripts, how a vocabulary fits it, the loss to be expected at first and that of guessing
    blindly, and whether evaluation sets leaked into it.

    $ anaume check books/ --vocab-size 8000
    $ anaume check corpus.txt --bundle my-bundle --against dev.tsv test.tsv
    """
    from anaume.checks.corpus import check_corpus

    with _Stages(show=not verbose) as stages:
        check = check_corpus(
            texts,
            tokenizer=None if bundle is None else open_tokenizer(bundle),
            vocab_size=vocab_size,
            against=against or (),
            against_columns=against_columns or (),
            max_length=max_length,
            label_column=label_column,
            layout=layout,
            language=language,
            **reading,
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


class _Stages:
    """A bar for each stage of the work, one after the other."""

    def __init__(self, *, show: bool) -> None:
        self._show = show
        self._stack = ExitStack()
        self._what = ""
        self._done = 0
        self._advance: Callable[[int], None] = lambda count: None

    def __call__(self, what: str, done: int, total: int | None) -> None:
        from anaume.jobs.progress import progress_bar

        if what != self._what:
            self._stack.close()
            self._advance = self._stack.enter_context(progress_bar(what, total, show=self._show))
            self._what, self._done = what, 0
        self._advance(done - self._done)
        self._done = done

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()
