"""What all commands share: the common options, streams, signals, and how an end, good or bad, is told.

Exit codes: 0 done, 1 failed, 2 wrong use, 130 interrupted (Ctrl-C and SIGTERM alike), 141 the reader of stdout went
away (128 + SIGPIPE, as other tools in a pipe end).
"""

from __future__ import annotations

import errno
import functools
import inspect
import io
import logging
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Annotated, Any

import typer

from anaume.cli.options import LABELLED_READING, READING, AnyReading, LabelledReading, Reading, columns_of
from anaume.cli.printing import printable
from anaume.cli.usage import command_class, wrong_use
from anaume.errors import AnaumeError, AnaumeWarning, SettingsError
from anaume.logs import configure, get_logger

log = get_logger(__name__)

FAILED, WRONG_USE, INTERRUPTED, PIPE_CLOSED = 1, 2, 130, 141

EVERYWHERE = "Everywhere"
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", rich_help_panel=EVERYWHERE, help="Tell what happens; show tracebacks.")
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", rich_help_panel=EVERYWHERE, help="Tell errors only.")]
LogJson = Annotated[
    bool, typer.Option("--log-json", rich_help_panel=EVERYWHERE, help="Tell in JSON, one object a line.")
]
Device = Annotated[
    str, typer.Option("--device", rich_help_panel=EVERYWHERE, help="auto, cpu, cuda, cuda:1, mps.", metavar="NAME")
]

_COMMON: tuple[tuple[str, Any, Any], ...] = (
    ("device", Device, "auto"),
    ("verbose", Verbose, False),
    ("quiet", Quiet, False),
    ("log_json", LogJson, False),
)

_READINGS: dict[Any, tuple[tuple[str, Any, Any], ...]] = {
    Reading: READING,
    LabelledReading: LABELLED_READING,
    AnyReading: LABELLED_READING,
}
"""Types of a parameter that stands for options -> the options."""

_interrupted = False


def command(
    app: typer.Typer, name: str, *, many: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Register a function as a command: it gets the common options and its errors are told and become exit codes.

    The common options may stand before or after the verb, and a function that needs one takes it by its name. Under a
    function that takes no `device`, a device that was asked for is answered with a note. A parameter of the type
    `options.Reading` stands for all options that say how files are read. Several values may follow each of the options
    `many`.
    """

    def register(function: Callable[..., None]) -> Callable[..., None]:
        signature = inspect.signature(function, eval_str=True)
        names = [name for name, _, _ in _COMMON]
        own, reading, kind = [], None, None
        for parameter in signature.parameters.values():
            if parameter.annotation in _READINGS:
                reading, kind = parameter.name, parameter.annotation
                own += [_option(*option) for option in _READINGS[kind]]
            elif parameter.name not in names:
                own.append(parameter)

        @functools.wraps(function)
        def run(ctx: typer.Context, **given: Any) -> None:
            common = {key: given.pop(key, default) for key, _, default in _COMMON}
            for key, _, default in _COMMON:  # given before the verb, and not again after it
                if common[key] == default:
                    common[key] = ctx.find_root().params.get(key, default)
            given |= {key: value for key, value in common.items() if key in signature.parameters}
            with _told(common["verbose"], common["quiet"], common["log_json"]):
                if reading is not None:
                    assert kind is not None
                    values = {key: given.pop(key) for key, _, _ in _READINGS[kind]}
                    if kind is LabelledReading:
                        values |= columns_of(values.pop("column"))
                    given[reading] = kind(values)
                if "device" not in signature.parameters and common["device"] != "auto":
                    log.info("%s computes nothing on a device: --device has no effect", ctx.command_path)
                function(**given)

        extra = [_option(*option) for option in _COMMON]
        context = inspect.Parameter("ctx", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
        wrapper: Any = run
        positional = [parameter for parameter in own if parameter.kind is not inspect.Parameter.KEYWORD_ONLY]
        options = [parameter for parameter in own if parameter.kind is inspect.Parameter.KEYWORD_ONLY]
        wrapper.__signature__ = signature.replace(parameters=[context, *positional, *options, *extra])
        wrapper.__annotations__ = {p.name: p.annotation for p in wrapper.__signature__.parameters.values()}
        app.command(name, cls=command_class(many), help=_paragraphs(function.__doc__ or ""))(run)
        return function

    return register


def _option(name: str, hint: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=hint, default=default)


def _paragraphs(docstring: str) -> str:
    """Return help whose paragraphs are one line each, to be wrapped by the terminal; examples ("$ ...") stay lines."""
    paragraphs = inspect.cleandoc(docstring).split("\n\n")
    return "\n\n".join(part if part.startswith("$") else part.replace("\n", " ") for part in paragraphs)


@contextmanager
def _told(verbose: bool, quiet: bool, log_json: bool) -> Iterator[None]:
    """Run a command's body; what it raises is told on stderr and becomes a typer.Exit with its code."""
    configure(verbose=verbose, quiet=quiet, as_json=log_json)
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort):
        raise
    except BaseException as error:
        code, message = _judge(error)
        if message:
            _tell(message, error if verbose else None, log_json)
        raise typer.Exit(code) from None


@contextmanager
def silent_process() -> Iterator[None]:
    """Be one of many processes, and not the first: that one talks, and tells wrong use too."""
    configure(quiet=True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", AnaumeWarning)
            yield
    except SettingsError:
        raise typer.Exit(WRONG_USE) from None


def _judge(error: BaseException) -> tuple[int, str]:
    """Return the exit code and the line to print ("" for none)."""
    if isinstance(error, KeyboardInterrupt) or _interrupted:
        # Libraries may wrap the interrupt that came while they called back into Python: the flag tells.
        return INTERRUPTED, "interrupted"
    if isinstance(error, BrokenPipeError):
        drop_stdout()
        return PIPE_CLOSED, ""
    if isinstance(error, AnaumeError):
        return WRONG_USE if isinstance(error, SettingsError) else FAILED, str(error)
    if _is_out_of_memory(error):
        smaller = "smaller files, a shorter --max-length, a smaller model, or, to train, fewer rows at once"
        return FAILED, f"out of memory: give {smaller} (--set run.micro_rows; of finetune run.micro_tokens)"
    if isinstance(error, OSError):
        if error.filename is None:  # a full disk behind `> file`: don't try to flush there again
            drop_stdout()
        where = f"{error.filename}: " if error.filename is not None else ""
        return FAILED, f"{where}{error.strerror or error}"
    if isinstance(error, Exception):
        what = f"{type(error).__name__}: {error}"
        return FAILED, f"{what} - this is a bug in anaume, please report it; run again with -v for the traceback"
    raise error  # SystemExit and its kin are somebody's decision


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, RuntimeError) and "torch" in sys.modules:
        from anaume.engines import is_out_of_memory

        return is_out_of_memory(error)
    return isinstance(error, MemoryError)


def _tell(message: str, error: BaseException | None, log_json: bool) -> None:
    line = printable(" ".join(message.split("\n")), sys.stderr)
    if log_json:
        log.error("%s", line, exc_info=error)
        return
    with suppress(OSError):
        if error is not None:
            traceback.print_exception(error, file=sys.stderr)
        print(f"error: {line}", file=sys.stderr)


def tell_wrong_use(error: Exception, arguments: Sequence[str]) -> int:
    """Tell of a command line that can't be read, and return the exit code."""
    log_json = "--log-json" in arguments
    configure(as_json=log_json)
    if message := wrong_use(error):
        _tell(message, None, log_json)
    return WRONG_USE


@contextmanager
def process() -> Iterator[None]:
    """Prepare the process for a command, and leave it as it was: streams, signals, warnings and our logger."""
    global _interrupted
    _interrupted = False
    _prepare_streams()
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # read by torch at its first tensor: see engines/memory.py
    before = {}
    for number, default in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
        # One that somebody else set, or told to be ignored (nohup, "&" in a script), stays.
        if signal.getsignal(number) == default:
            with suppress(ValueError):  # not the main thread: signals are not ours
                before[number] = signal.signal(number, _interrupt)
    ours = logging.getLogger("anaume")
    handlers, level, propagate = ours.handlers, ours.level, ours.propagate
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always", AnaumeWarning)
            yield
    finally:
        ours.handlers, ours.propagate = handlers, propagate
        ours.setLevel(level)
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    global _interrupted
    _interrupted = True
    raise KeyboardInterrupt


def _prepare_streams() -> None:
    """Make stdout and stderr take any text: what a console's encoding can't hold is backslash-escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None and name == "stdout":
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(_ClosedStdout()), encoding="utf-8")
        elif stream is None:  # closed by who started us: nobody wants the talk
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  as long as the process
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


class _ClosedStdout(io.RawIOBase):
    """Where stdout was closed before we began: a result that would be lost there is an error, told once."""

    told = False

    def writable(self) -> bool:
        """Return True: whoever writes learns it from `write`."""
        return True

    def write(self, data: object) -> int:
        """Raise OSError the first time; the interpreter's own last flush then ends in silence."""
        if not self.told:
            self.told = True
            raise OSError(errno.EBADF, "stdout is closed, so the result is lost: leave it open, or name a file with -o")
        return len(memoryview(data))  # type: ignore[arg-type]


def drop_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's last flush does not complain about a pipe that is gone."""
    with suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, sys.stdout.fileno())
        os.close(nothing)
