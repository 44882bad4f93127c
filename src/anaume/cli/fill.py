"""Filling blanks: `anaume fill`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from anaume.cli import options
from anaume.cli.opening import open_bundle, stdin_lines, typed
from anaume.cli.printing import printable, say, say_json, table
from anaume.cli.running import Device, command
from anaume.errors import DataError

if TYPE_CHECKING:
    from anaume.tasks.fill import Filled


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    command(app, "fill")(_fill)


def _fill(
    bundle: options.BundleArg,
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT", parser=typed, help="A text with [MASK] in it; - reads one a line.", show_default=False
        ),
    ],
    top_k: Annotated[int, typer.Option("--top-k", metavar="N", help="Guesses a blank.")] = 5,
    max_pieces: Annotated[
        int, typer.Option("--max-pieces", metavar="N", help="Let a guess have up to so many pieces.")
    ] = 1,
    candidates: Annotated[
        str | None,
        typer.Option("--candidates", metavar="A,B,...", parser=typed, help="Only these words, with commas between."),
    ] = None,
    engine: options.EngineOption = "auto",
    as_json: options.Json = False,
    device: Device = "auto",
) -> None:
    """Fill the blanks of a text.

    Only here is [MASK] in a text a blank; everywhere else it is ordinary text. Each blank is guessed with the others
    still hidden. Needs a bundle with a masked-word head.

    $ anaume fill RUN/bundle "the [MASK] was too small"
    $ anaume fill RUN/bundle "the [MASK] was too small" --candidates "house,car,idea"
    $ anaume fill RUN/bundle - --json < texts.txt
    """
    opened = open_bundle(bundle, device=device, engine=engine)
    words = [word.strip() for word in candidates.split(",") if word.strip()] if candidates is not None else None
    for number, one in enumerate(stdin_lines() if text == "-" else iter([text])):
        try:
            filled = opened.fill(one, top_k=top_k, max_pieces=max_pieces, candidates=words)
        except DataError as error:
            if text != "-":
                raise
            raise DataError(f"<stdin>: line {number + 1}: {error}") from error
        if as_json:
            say_json(_record(filled))
        else:
            if number:
                say()
            _show(filled)


def _show(filled: Filled) -> None:
    for number, blank in enumerate(filled.blanks, start=1):
        if len(filled.blanks) > 1:
            say(f"blank {number}, at character {blank.place}")
        rows = [(_told(guess.probability), guess.text, " ".join(guess.tokens)) for guess in blank.guesses]
        table(("probability", "word", "pieces"), rows, right=("probability",))
    say(printable(filled.best))


def _told(probability: float) -> str:
    """Return it with four decimals; where these are all 0, as a word of many pieces has it, its magnitude."""
    return f"{probability:.4f}" if probability >= 5e-5 or probability == 0 else f"{probability:.0e}"


def _record(filled: Filled) -> dict[str, Any]:
    return {
        "text": filled.text,
        "best": filled.best,
        "blanks": [
            {
                "place": blank.place,
                "guesses": [
                    {"text": guess.text, "tokens": guess.tokens, "probability": guess.probability}
                    for guess in blank.guesses
                ],
            }
            for blank in filled.blanks
        ],
    }
