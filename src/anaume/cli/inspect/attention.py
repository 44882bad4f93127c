"""`anaume inspect attention`: who looks at whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.inspect.shared import TextArg
from anaume.cli.opening import open_bundle, typed
from anaume.cli.printing import printable, say, say_json, table
from anaume.errors import SettingsError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.inspection import AttentionReport

log = get_logger(__name__)


def attention(
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
