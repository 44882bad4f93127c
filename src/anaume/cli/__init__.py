"""The command line: thin; each command calls a function of the levels below, data to stdout, talk to stderr."""

from anaume.cli.app import main

__all__ = ["main"]
