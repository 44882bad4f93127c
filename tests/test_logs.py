import json
import logging
import subprocess
import sys
import warnings
from collections.abc import Iterator

import pytest

from anaume.errors import AnaumeWarning
from anaume.logs import JsonFormatter, configure, get_logger


@pytest.fixture(autouse=True)
def _logging_as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put back what `configure` changes: the handlers of our logger, and the way warnings are shown."""
    ours = logging.getLogger("anaume")
    before = (list(ours.handlers), ours.level, ours.propagate)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)
    yield
    ours.handlers, ours.propagate = before[0], before[2]
    ours.setLevel(before[1])


def record(message: str, *args: object, **other: object) -> logging.LogRecord:
    return logging.LogRecord("anaume.data", logging.WARNING, "file.py", 1, message, args, other.get("exc_info"))


def test_a_json_line_has_time_level_logger_and_message() -> None:
    entry = record("%d rows, 穴埋め", 3)
    line = JsonFormatter().format(entry)
    assert "\n" not in line
    assert "穴埋め" in line, "Japanese stays readable"
    assert json.loads(line) == {
        "time": round(entry.created, 3),
        "level": "warning",
        "logger": "anaume.data",
        "message": "3 rows, 穴埋め",
    }


def test_a_json_line_keeps_line_breaks_quotes_and_tracebacks_on_one_line() -> None:
    try:
        raise ValueError('a "quoted"\nreason')
    except ValueError:
        line = JsonFormatter().format(record("it\nbroke", exc_info=sys.exc_info()))
    assert "\n" not in line
    row = json.loads(line)
    assert row["message"] == "it\nbroke"
    assert "Traceback" in row["exception"]
    assert 'ValueError: a "quoted"\nreason' in row["exception"]


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        ({}, ["i", "warning: w", "error: e"]),
        ({"verbose": True}, ["debug: d", "i", "warning: w", "error: e"]),
        ({"quiet": True}, ["error: e"]),
    ],
)
def test_levels(options: dict[str, bool], lines: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    configure(**options)
    log = get_logger("anaume.data.rows")
    log.debug("d")
    log.info("i")
    log.warning("w")
    log.error("e")
    shown = capsys.readouterr()
    assert shown.out == "", "stdout is for data"
    assert shown.err.splitlines() == lines


def test_json_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    configure(as_json=True)
    get_logger("anaume.data").info("read %d rows", 7)
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["message"] == "read 7 rows"


def test_configuring_twice_shows_a_line_once(capsys: pytest.CaptureFixture[str]) -> None:
    configure()
    configure(verbose=True)
    get_logger("anaume.data").info("once")
    assert capsys.readouterr().err.splitlines() == ["once"]


def test_other_loggers_are_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    root, other = logging.getLogger(), logging.getLogger("torch")

    def state() -> list[object]:
        return [(list(log.handlers), log.level, log.propagate, list(log.filters)) for log in (root, other)]

    before, disabled = state(), logging.root.manager.disable
    configure(verbose=True)
    assert state() == before
    assert logging.root.manager.disable == disabled
    other.info("not ours")
    assert "not ours" not in capsys.readouterr().err


def test_only_our_warnings_become_log_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        shown_elsewhere: list[str] = []
        warnings.showwarning = lambda message, *rest, **other: shown_elsewhere.append(str(message))
        configure()
        warnings.warn("3 of 10 texts were cut", AnaumeWarning, stacklevel=1)
        warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert capsys.readouterr().err.splitlines() == ["warning: 3 of 10 texts were cut"]
    assert shown_elsewhere == ["old"]


def test_a_program_that_does_not_listen_hears_nothing() -> None:
    """As a library: no handler but NullHandler, no line on stderr; warnings and other loggers untouched."""
    program = (
        "import logging, warnings\n"
        "shown, filters = warnings.showwarning, list(warnings.filters)\n"
        "import anaume.logs\n"
        "anaume.logs.get_logger('anaume.data').error('not heard')\n"
        "assert [type(handler) for handler in logging.getLogger('anaume').handlers] == [logging.NullHandler]\n"
        "assert logging.getLogger().handlers == [] and logging.getLogger('anaume').level == logging.NOTSET\n"
        "assert warnings.showwarning is shown and warnings.filters == filters\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
