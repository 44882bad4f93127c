"""`anaume inspect word`: one word in several sentences."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.inspect.shared import WordArg, cosine_cell, file_lines
from anaume.cli.opening import open_bundle
from anaume.cli.printing import printable, say, say_json, table
from anaume.errors import DataError, SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.inspection import WordReport

log = get_logger(__name__)


def word(
    bundle: options.BundleArg,
    word: WordArg,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="One sentence a line, or sense, tab, sentence; - is stdin.", show_default=False
        ),
    ],
    clusters: Annotated[
        int, typer.Option("--clusters", metavar="N", help="How many senses to find where the file gives none.")
    ] = 2,
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Show how a word's vector moves with its sentence.

    Layer by layer: the mean cosine of the word's vectors in sentences of one sense, and of different senses.

    $ anaume inspect word all-MiniLM-L6-v2 bank sentences.txt --plot bank.png
    """
    sentences, senses = _read_senses(file)
    if clusters < 1:
        raise SettingsError(f"--clusters must be at least 1; got {clusters}")
    from anaume.inspection import trace_word

    report = trace_word(open_bundle(bundle, device="cpu"), word, sentences, senses, clusters=clusters)
    if plot is not None:
        from anaume.inspection.plots import plot_word

        plot_word(report, plot)
        log.info("picture: %s", plot)
    if as_json:
        say_json(_word_record(report))
    else:
        _show_word(report)


def _read_senses(file: str) -> tuple[list[str], list[str] | None]:
    """Return the sentences of a file, and their senses where every line has one before a tab; blank lines apart."""
    sentences: list[str] = []
    senses: list[str] = []
    for number, line in file_lines(file):
        sense, tab, sentence = line.partition("\t")
        if tab:
            senses.append(sense.strip())
        sentences.append(sentence if tab else line)
        if senses and len(senses) != len(sentences):
            raise DataError(f"{file}: row {number}: a sense before a tab must stand in all lines or in none")
    return sentences, senses or None


def _show_word(report: WordReport) -> None:
    how = "found by clustering the last layer" if report.clustered else "as given"
    say(f"{printable(report.word)}: {len(report.sentences)} sentences, {len(set(report.senses))} senses ({how})")
    say()
    rows = [(row.layer, cosine_cell(row.within), cosine_cell(row.across)) for row in report.layers]
    table(("layer", "same sense", "other senses"), rows, right=("same sense", "other senses"))
    say()
    near = {row.sentence: row for row in report.nearest}
    found = []
    for place, (sense, sentence) in enumerate(zip(report.senses, report.sentences, strict=True)):
        nearest = near[place]
        mark = "same sense" if nearest.same_sense else "OTHER sense"
        found.append((place + 1, sense, f"{nearest.nearest + 1}", cosine_cell(nearest.cosine), mark, sentence))
    table(("no.", "sense", "nearest", "cosine", "", "sentence"), found, right=("no.", "nearest", "cosine"))
    say()
    say(_word_in_words(report))


def _word_in_words(report: WordReport) -> str:
    first, last = report.layers[0], report.layers[-1]
    static = [value for value in (first.within, first.across) if not math.isnan(value)]
    one_row = all(value > 0.9995 for value in static)
    row = "one row of the table for every sense" if one_row else "its pieces differ between the sentences"
    told = f"The token row is {min(static):.3f} everywhere: {row}." if one_row else f"In the token table {row}."
    if not (math.isnan(last.within) or math.isnan(last.across)):
        told += f" In {last.layer} one sense is at {last.within:.3f} and different senses at {last.across:.3f}:"
        told += " the sentence has moved it." if last.within > last.across else " the senses are not told apart."
    if math.isnan(last.within):
        return f"{told} No sense has two sentences, so nothing can be said of their nearest."
    same = sum(row.same_sense for row in report.nearest)
    return f"{told} {same} of {len(report.nearest)} sentences have one of their own sense nearest."


def _word_record(report: WordReport) -> dict[str, Any]:
    return {
        "word": report.word,
        "clustered": report.clustered,
        "sentences": [
            {
                "sentence": sentence,
                "sense": sense,
                "nearest": row.nearest,
                "cosine": row.cosine,
                "same_sense": row.same_sense,
            }
            for sentence, sense, row in zip(report.sentences, report.senses, report.nearest, strict=True)
        ],
        "layers": [
            {"layer": row.layer, "within": _number(row.within), "across": _number(row.across)} for row in report.layers
        ],
        "agreement": report.agreement,
    }


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
