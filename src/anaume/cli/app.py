"""The application: what `anaume` is, its families of verbs, and the way in and out of the process."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from anaume import __version__
from anaume.cli import (
    bundles,
    check,
    doctor,
    embed,
    exchange,
    fill,
    finetune,
    index,
    inspect,
    mine,
    predict,
    prepare,
    pretrain,
    search,
    story,
    text,
    vocab,
)
from anaume.cli.running import Device, LogJson, Quiet, Verbose, process, tell_wrong_use
from anaume.cli.usage import WrongUse

app = typer.Typer(
    name="anaume",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        print(f"anaume {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    device: Device = "auto",
    verbose: Verbose = False,
    quiet: Quiet = False,
    log_json: LogJson = False,
) -> None:
    """Train, adapt and run BERT encoders: from text to vectors, English and Japanese.

    The thing acted on comes first, then files; - is stdin. Data goes to stdout, talk to stderr.

    $ anaume demo
    $ anaume tokenize all-MiniLM-L6-v2 "my dog is cute"
    $ anaume embed all-MiniLM-L6-v2 texts.txt -o vectors.npy
    """


_FAMILIES = (
    story, text, vocab, bundles, inspect, embed, fill, prepare, check, doctor, pretrain, mine, finetune, predict,
    exchange, index, search,
)  # fmt: skip
for family in _FAMILIES:
    family.register(app)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line (sys.argv's by default) and return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with process():
        try:
            return app(args=given, prog_name="anaume", standalone_mode=False) or 0
        except WrongUse as error:
            return tell_wrong_use(error, given)
        except SystemExit as end:
            if end.code is None or isinstance(end.code, int):
                return end.code or 0
            print(end.code, file=sys.stderr)
            return 1
