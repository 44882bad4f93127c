"""Lines of a txt, or of stdin, each a text by itself; what is plainly something else is refused."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice

from anaume.data.labelled.conll import are_columns
from anaume.data.labelled.sources import TEXT, Record
from anaume.errors import DataError

_LOOKED_AT = 20
_FEWEST = 3  # fewer lines may look alike by chance


def lines_of_text(source: str, records: Iterator[Record], *, tagged: bool) -> Iterator[Record]:
    """Yield the records of a txt, or of stdin, whose format nobody named, its first lines looked at before.

    tagged  whether words with tags may be meant

    A labelled .txt is read in columns, and the same file to be predicted would be read as one text a line, tags and
    all, without a sound. Raises DataError for columns of words and tags, and for a table parted by tabs.
    """
    head = list(islice(records, _LOOKED_AT))
    lines = [line for record in head if (line := str(record.fields[TEXT])).strip()]
    if len(lines) >= _FEWEST:
        if tagged and are_columns(lines):
            raise DataError(
                f"{source}: its lines look like words with their tags, and without a format a text a line is read; "
                "format='conll' (--format conll) reads the words, format='txt' (--format txt) each line as a text"
            )
        tabs = {line.count("\t") for line in lines}
        if len(tabs) == 1 and tabs != {0}:
            column = "format='conll' (--format conll) as words in columns, " if tagged else ""
            raise DataError(
                f"{source}: its lines look like a table parted by tabs, and without a format a text a line is read; "
                f"{column}format='tsv' (--format tsv) reads it as a table, format='txt' (--format txt) each line as a "
                "text"
            )
    yield from chain(head, records)
