"""Looking inside: `anaume inspect path | word | attention | neighbours | sizes`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle, typed
from anaume.cli.printing import megabytes, percent, printable, say, say_json, table
from anaume.cli.running import command
from anaume.errors import DataError, SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.inspection import AttentionReport, NeighbourReport, SizeReport, TextPath, WordReport
    from anaume.inspection.neighbours import Neighbour

log = get_logger(__name__)

TextArg = Annotated[str, typer.Argument(metavar="TEXT", parser=typed, help="The text.", show_default=False)]
WordArg = Annotated[str, typer.Argument(metavar="WORD", parser=typed, help="The word.", show_default=False)]


def register(app: typer.Typer) -> None:
    """Add the commands to the application."""
    inspect = typer.Typer(
        no_args_is_help=True,
        help="Look inside the very model that runs, in float32 on the CPU.",
    )
    app.add_typer(inspect, name="inspect")
    command(inspect, "path")(_path)
    command(inspect, "word")(_word)
    command(inspect, "attention")(_attention)
    command(inspect, "neighbours")(_neighbours)
    command(inspect, "sizes")(_sizes)


# -- path ----------------------------------------------------------------------------------------------------------


def _path(bundle: options.BundleArg, text: TextArg, pair: options.Pair = None, as_json: options.Json = False) -> None:
    """Follow a text through the model, station by station.

    Its tokens side by side, then name and shape of everything the text becomes.

    $ anaume inspect path all-MiniLM-L6-v2 "my dog is cute" --pair "he likes playing"
    """
    from anaume.inspection import trace_path

    path = trace_path(open_bundle(bundle, device="cpu"), text, pair)
    if as_json:
        say_json(_path_record(path))
    else:
        _show_path(path)


def _show_path(path: TextPath) -> None:
    names = ("token", "ID", "segment", "position", "mask", "characters")
    rows = [(row.token, row.token_id, row.segment, row.position, int(row.real), row.text) for row in path.rows]
    table(names, rows, right=("ID", "segment", "position", "mask"))
    say()
    stations = [
        (station.name, str(station.shape), "" if station.length is None else f"{station.length:.3f}", station.meaning)
        for station in path.stations
    ]
    table(("station", "shape", "mean length", "what it is"), stations, right=("mean length",))


def _path_record(path: TextPath) -> dict[str, Any]:
    return {
        "tokens": [row.token for row in path.rows],
        "token_ids": [row.token_id for row in path.rows],
        "segment_ids": [row.segment for row in path.rows],
        "position_ids": [row.position for row in path.rows],
        "attention_mask": [row.real for row in path.rows],
        "characters": [row.text for row in path.rows],
        "stations": [
            {"name": station.name, "shape": station.shape, "length": station.length, "meaning": station.meaning}
            for station in path.stations
        ],
    }


# -- word ----------------------------------------------------------------------------------------------------------


def _word(
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
    for number, line in _lines(file):
        sense, tab, sentence = line.partition("\t")
        if tab:
            senses.append(sense.strip())
        sentences.append(sentence if tab else line)
        if senses and len(senses) != len(sentences):
            raise DataError(f"{file}: row {number}: a sense before a tab must stand in all lines or in none")
    return sentences, senses or None


def _lines(file: str) -> list[tuple[int, str]]:
    from anaume.data import open_text

    with open_text(file) as lines:
        return [(number, line) for number, line in enumerate(lines.lines(), 1) if line.strip()]


def _show_word(report: WordReport) -> None:
    how = "found by clustering the last layer" if report.clustered else "as given"
    say(f"{printable(report.word)}: {len(report.sentences)} sentences, {len(set(report.senses))} senses ({how})")
    say()
    rows = [(row.layer, _cosine(row.within), _cosine(row.across)) for row in report.layers]
    table(("layer", "same sense", "other senses"), rows, right=("same sense", "other senses"))
    say()
    near = {row.sentence: row for row in report.nearest}
    found = []
    for place, (sense, sentence) in enumerate(zip(report.senses, report.sentences, strict=True)):
        nearest = near[place]
        mark = "same sense" if nearest.same_sense else "OTHER sense"
        found.append((place + 1, sense, f"{nearest.nearest + 1}", _cosine(nearest.cosine), mark, sentence))
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


# -- attention -----------------------------------------------------------------------------------------------------


def _attention(
    bundle: options.BundleArg,
    text: TextArg,
    pair: options.Pair = None,
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TOKEN",
            parser=typed,
            help="Who looks: a token or a position; unless said, all.",
        ),
    ] = None,
    layer: Annotated[int | None, typer.Option("--layer", metavar="N", help="One layer, from 1.")] = None,
    head: Annotated[int | None, typer.Option("--head", metavar="N", help="One head, from 1; else their mean.")] = None,
    plot: options.Plot = None,
    as_json: options.Json = False,
) -> None:
    """Show where attention goes.

    In percent; each row sums to 100. Attention is not explanation.

    $ anaume inspect attention all-MiniLM-L6-v2 "my dog is cute" --from "[CLS]"
    $ anaume inspect attention all-MiniLM-L6-v2 "my dog is cute" --layer 3 --head 5
    """
    from anaume.inspection import trace_attention

    opened = open_bundle(bundle, device="cpu")
    for name, value, count in (
        ("--layer", layer, opened.config.num_hidden_layers),
        ("--head", head, opened.config.num_attention_heads),
    ):
        if value is not None and not 1 <= value <= count:
            raise SettingsError(f"{name} must be from 1 to {count}; got {value}")
    if plot is not None and (layer is not None or head is not None):
        raise SettingsError("--plot draws all layers, the mean over heads: leave out --layer and --head")
    place: str | int | None = int(source) if source is not None and source.isascii() and source.isdigit() else source
    report = trace_attention(opened, text, pair, source=place)
    if plot is not None:
        from anaume.inspection.plots import plot_attention

        plot_attention(report, plot)
        log.info("picture: %s", plot)
    if as_json:
        say_json(_attention_record(report, layer, head))
    else:
        _show_attention(report, layer, head)


def _chosen(report: AttentionReport, head: int | None) -> Any:
    """(layers, tokens, tokens): one head's weights, or the mean over heads."""
    return report.weights.mean(axis=1) if head is None else report.weights[:, head - 1]


def _show_attention(report: AttentionReport, layer: int | None, head: int | None) -> None:
    weights = _chosen(report, head)
    heads = "mean over heads" if head is None else f"head {head}"
    if layer is None:
        looks = weights.mean(axis=1) if report.source is None else weights[:, report.source]
        whose = "mean over all tokens" if report.source is None else f"from {report.tokens[report.source]}"
        say(f"% of the attention each token gets, a column a layer; {printable(whose)}, {heads}")
        names = [str(number) for number in range(1, len(looks) + 1)]
        rows = [
            (place, token, *(f"{100 * share:.0f}" for share in looks[:, place]))
            for place, token in enumerate(report.tokens)
        ]
        table(("", "token", *names), rows, right=("", *names))
        return
    say(f"% of the attention in layer {layer}, {heads}; a row looks at the columns")
    looking = range(len(report.tokens)) if report.source is None else [report.source]
    names = [f"{place} {token}" for place, token in enumerate(report.tokens)]
    rows = [(names[row], *(f"{100 * share:.0f}" for share in weights[layer - 1, row])) for row in looking]
    table(("from", *names), rows, right=names)


def _attention_record(report: AttentionReport, layer: int | None, head: int | None) -> dict[str, Any]:
    weights = report.weights
    layers = list(range(1, len(weights) + 1)) if layer is None else [layer]
    heads = list(range(1, weights.shape[1] + 1)) if head is None else [head]
    chosen = weights[[number - 1 for number in layers]][:, [number - 1 for number in heads]]
    if report.source is not None:
        chosen = chosen[:, :, [report.source]]
    looking = list(range(len(report.tokens))) if report.source is None else [report.source]
    return {
        "tokens": report.tokens,
        "layers": layers,
        "heads": heads,
        "from": looking,
        "weights": chosen.tolist(),
        "axes": ["layer", "head", "from", "to"],
    }


# -- neighbours ----------------------------------------------------------------------------------------------------


def _neighbours(
    bundle: options.BundleArg,
    word: WordArg,
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="Sentences to search, one a line; - is stdin.")
    ] = None,
    sentence: Annotated[
        str | None, typer.Option("--in", metavar="SENTENCE", parser=typed, help="Where the word stands; needs FILE.")
    ] = None,
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="How many.")] = 10,
    as_json: options.Json = False,
) -> None:
    """Find what lies near a word.

    In the token table, where a word has one vector; and, with --in, among the words of other sentences.

    $ anaume inspect neighbours all-MiniLM-L6-v2 bank
    $ anaume inspect neighbours all-MiniLM-L6-v2 bank texts.txt --in "the bank lent money"
    """
    if (file is None) != (sentence is None):
        raise SettingsError("--in SENTENCE and FILE go together: the word's vector there is compared with FILE's words")
    if top_k < 1:
        raise SettingsError(f"--top-k must be at least 1; got {top_k}")
    sentences = [] if file is None else [line for _, line in _lines(file)]
    from anaume.inspection import trace_neighbours

    report = trace_neighbours(
        open_bundle(bundle, device="cpu"), word, sentence=sentence, sentences=sentences, top_k=top_k
    )
    if as_json:
        say_json(_neighbours_record(report, sentences))
    else:
        _show_neighbours(report, sentences)


def _show_neighbours(report: NeighbourReport, sentences: Sequence[str]) -> None:
    pieces = "" if report.tokens == (report.word,) else f" = {printable(' '.join(report.tokens))}"
    say(f"in the token table (static), near {printable(report.word)}{pieces}")
    table(("cosine", "token"), [(_cosine(found.cosine), found.word) for found in report.static], right=("cosine",))
    if report.contextual:
        say()
        say("in sentences (last layer)")
        rows = [(_cosine(found.cosine), found.word, _sentence(found, sentences)) for found in report.contextual]
        table(("cosine", "word", "sentence"), rows, right=("cosine",))


def _sentence(found: Neighbour, sentences: Sequence[str]) -> str:
    return "" if found.sentence is None else sentences[found.sentence]


def _neighbours_record(report: NeighbourReport, sentences: Sequence[str]) -> dict[str, Any]:
    return {
        "word": report.word,
        "tokens": report.tokens,
        "static": [{"token": found.word, "cosine": found.cosine} for found in report.static],
        "contextual": [
            {"word": found.word, "cosine": found.cosine, "sentence": _sentence(found, sentences)}
            for found in report.contextual
        ],
    }


# -- sizes ---------------------------------------------------------------------------------------------------------


def _sizes(
    bundle: Annotated[
        str | None, typer.Argument(metavar="[B]", help="A bundle; without it, the named sizes.", show_default=False)
    ] = None,
    vocab_size: Annotated[
        int | None, typer.Option("--vocab-size", metavar="N", help="For the named sizes; 30522 unless said.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Count parameters, and the memory they take.

    $ anaume inspect sizes --vocab-size 32000
    $ anaume inspect sizes all-MiniLM-L6-v2
    """
    if bundle is not None and vocab_size is not None:
        raise SettingsError("--vocab-size is for the named sizes; a bundle has its own")
    from anaume.inspection import measure_sizes, named_sizes

    if bundle is None:
        reports = named_sizes(30522 if vocab_size is None else vocab_size)
    else:
        opened = open_bundle(bundle, device="cpu")
        reports = [measure_sizes(opened.model, Path(opened.parts.source).name or bundle)]
    if as_json:
        say_json([_size_record(report) for report in reports])
    elif bundle is None:
        _show_named_sizes(reports)
    else:
        _show_size(reports[0])


def _show_named_sizes(reports: Sequence[SizeReport]) -> None:
    say(f"vocabulary {reports[0].vocab_size:,}; with pooler and masked-word head, as pretrained")
    names = ("size", "layers", "hidden", "heads", "parameters", "in the token table", "float32", "bfloat16", "training")
    rows = [
        (
            report.name,
            report.layers,
            report.hidden_size,
            report.heads,
            f"{report.parameters:,}",
            percent(report.embedding_share),
            _mb(report.memory()),
            _mb(report.memory(2)),
            _mb(report.training_memory),
        )
        for report in reports
    ]
    table(names, rows, right=names[1:])
    say("training: weights, gradients and Adam's two moments in float32, activations apart")


def _show_size(report: SizeReport) -> None:
    say(
        f"{printable(report.name)}: {report.layers} layers x {report.hidden_size}, {report.heads} heads, vocabulary "
        f"{report.vocab_size:,}"
    )
    rows = [
        (name, f"{count:,}", percent(count / report.parameters), megabytes(4 * count))
        for name, count in report.parts.items()
    ]
    rows.append(("all", f"{report.parameters:,}", percent(1.0), megabytes(report.memory())))
    names = ("part", "parameters", "share", "in float32")
    table(names, rows, right=names[1:])
    say(
        f"the token table holds {percent(report.embedding_share)} of it; bfloat16 {megabytes(report.memory(2))}; "
        f"training {megabytes(report.training_memory)}, activations apart"
    )


def _size_record(report: SizeReport) -> dict[str, Any]:
    return {
        "name": report.name,
        "layers": report.layers,
        "hidden_size": report.hidden_size,
        "heads": report.heads,
        "vocab_size": report.vocab_size,
        "parts": dict(report.parts),
        "parameters": report.parameters,
        "embedding_share": report.embedding_share,
        "memory_float32": report.memory(),
        "memory_bfloat16": report.memory(2),
        "training_memory": report.training_memory,
    }


def _mb(count: int) -> str:
    return f"{count / 1e6:,.1f} MB"


def _cosine(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:.3f}"


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value
