"""Docs can't drift: links resolve, the commands shown exist, the outputs shown are what the commands print."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from helpers import refresh_check

ROOT = Path(__file__).resolve().parent.parent
GUIDES = sorted(
    str(path.relative_to(ROOT)) for folder in ("guides", "ja/guides") for path in (ROOT / "docs" / folder).glob("*.md")
)
SHOWING = [
    "README.md",
    "README.ja.md",
    "docs/ja/bert.md",
    "docs/ja/faq.md",
    "docs/scaling.md",
    "docs/ja/scaling.md",
    *GUIDES,
]
"""The pages that show commands with what they print."""
PAGES = sorted(path for path in [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")] if "node_modules" not in path.parts)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
COMMAND = re.compile(r"^(?:\$ )?(?:.*(?:\||-m) )?(anaume [a-z].*)$", re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_to_a_file_resolves(page: Path) -> None:
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


@pytest.mark.parametrize("name", SHOWING)
def test_every_command_shown_exists(name: str) -> None:
    """The first words after `anaume` are a command that can say what it does."""
    from typer.main import get_command

    from anaume.cli.app import app

    blocks = re.findall(r"```(?:sh|console)\n(.*?)```", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL)
    shown = [command for block in blocks for command in COMMAND.findall(block)]
    assert shown
    for line in shown:
        command = get_command(app)
        words = line.split()[1:]
        while hasattr(command, "commands"):
            assert words[0] in command.commands, f"{name}: no command {words[0]!r} in: {line}"
            command = command.commands[words.pop(0)]
        options = {option for parameter in command.params for option in parameter.opts}
        for word in words:
            if word.startswith("--"):
                assert word.split("=")[0] in options, f"{name}: {line}: no option {word}"


def test_the_readmes_name_the_same_two_commands() -> None:
    for name in ("README.md", "README.ja.md"):
        page = (ROOT / name).read_text(encoding="utf-8")
        assert "make demo" in page
        assert "make test" in page


@pytest.mark.real
@pytest.mark.parametrize("name", [name for name in SHOWING if name not in GUIDES])
def test_every_output_shown_is_what_the_commands_print_now(name: str) -> None:
    # As a reader's machine would: with all its threads (conftest.py takes one for tiny tensors).
    refresh_check(name, {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"})
