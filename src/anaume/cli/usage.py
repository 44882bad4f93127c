"""How a command line is read, and how one that can't be is told: in one line, as every other error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand

WrongUse: type[Exception] = typer.BadParameter.__mro__[2]
"""What is raised for a command line that can't be read: the root of typer's own exceptions."""

_TYPED = "anaume: as typed"


class Command(TyperCommand):
    """A command that refuses an option given twice: the last would win without a word."""

    many: ClassVar[tuple[str, ...]] = ()
    """Options that several values may follow."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as ever, after a look at what came more than once."""
        for option in self.many:
            args = spread(args, option)
        typed, _, order = self.make_parser(ctx).parse_args(list(args))
        ctx.meta[_TYPED] = typed
        options: list[Any] = [param for param in order if param.param_type_name == "option" and not param.multiple]
        for option in options:
            switch = option.is_flag and not option.secondary_opts  # -v -v says nothing else than -v
            if options.count(option) > 1 and not switch:
                last = typed.get(option.name)
                times = f"given {options.count(option)} times, last as {last!r}; give it once"
                raise typer.BadParameter(times, ctx=ctx, param=option)
        return super().parse_args(ctx, args)


def command_class(many: Sequence[str]) -> type[Command]:
    """Return the class of a command with options that several values may follow."""
    return type("Command", (Command,), {"many": tuple(many)}) if many else Command


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


def wrong_use(error: Any) -> str:
    """Return the one line for a command line that can't be read: what is missing or wrong, what came, who tells more.

    "" where help was asked for by saying nothing, and was shown.
    """
    message, context = error.format_message().rstrip("."), error.ctx
    if context is None or not message:
        return str(message)
    param = getattr(error, "param", None)
    if param is not None and message.startswith("Missing") and getattr(param, "help", None):
        message = f"{message} ({param.help.rstrip('.')})"
        taken = [option for option in getattr(context.command, "many", ()) if context.meta[_TYPED].get(option[2:])]
        if param.param_type_name == "argument" and taken:
            message = f"{message}; {taken[0]} takes all that follows it"
    elif param is not None and (came := context.meta.get(_TYPED, {}).get(param.name)) is not None:
        message = message if repr(came) in message else f"{message}; got {came!r}"
    path = context.command_path
    return f"{path}: {message[0].lower()}{message[1:]}; {path} -h shows how it is used"
