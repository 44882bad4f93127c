"""A label as its file spells it: the name of a class, a number, or the names of several."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from typing import Literal

from anaume.data.labelled.sources import Record, came

LabelKind = Literal["class", "number", "names"]

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_COMMA = re.compile(r"[+-]?\d+,\d+", re.ASCII)
_LARGEST = 1e30  # what is learned is float32, and its square is needed
_FLAGS = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}


def class_label(record: Record, name: str) -> str:
    """Return the name of a class, blanks around it apart ("text, label" in a csv); numbers and booleans of JSON and
    Parquet as JSON writes them (1, 0.5, true)."""
    value = record.field(name)
    if isinstance(value, str):
        if not value.strip():
            raise record.error(f"field {name!r} is empty, expected a label; fill it in or leave the row out")
        return value.strip()
    if isinstance(value, bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return json.dumps(value)
    several = "; several labels a row are the task multi-label" if isinstance(value, list) else ""
    raise record.error(f"field {name!r}: expected one label, came {came(value)}{several}")


def number_label(record: Record, name: str) -> float:
    """Return a finite number."""
    value = record.field(name)
    if isinstance(value, str):
        text = value.strip()
        if not _NUMBER.fullmatch(text):
            comma = f"; write {text.replace(',', '.')} with a point" if _COMMA.fullmatch(text) else ""
            raise record.error(f"field {name!r}: expected a number, came {value[:60]!r}{comma}")
        value = float(text)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise record.error(f"field {name!r}: expected a number, came {came(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not abs(number) <= _LARGEST:
        raise record.error(
            f"field {name!r}: expected a finite number, at most {_LARGEST:g}, came {record.fields[name]!r:.60}"
        )
    return number


def names_label(record: Record, name: str, separator: str, names: Sequence[str] | None) -> tuple[str, ...]:
    """Return the names of all labels of a row, each once, in the order given.

    A text is cut at the separator ("" = none); a list holds names, or one 0/1 or boolean for each of `names`.
    """
    value = record.field(name)
    if isinstance(value, str):
        found = [part.strip() for part in value.split(separator)] if value.strip() else []
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        found = [part.strip() for part in value]
    elif isinstance(value, list):
        if names is None:
            raise record.error(
                f"field {name!r}: expected names of labels, came {came(value)}; for flags give the names they stand "
                "for, in order: names=[...] (--column names=A,B,C)"
            )
        if len(value) != len(names):
            raise record.error(f"field {name!r}: {len(value)} flags, expected {len(names)}, one for each label")
        return tuple(own for own, part in zip(names, value, strict=True) if _flag(record, name, part))
    else:
        raise record.error(f"field {name!r}: expected a list of labels, came {came(value)}; one label is one in a list")
    if not all(found):
        raise record.error(f"field {name!r}: an empty label in {value!r:.60}")
    if names is not None and (unknown := [part for part in found if part not in names]):
        raise record.error(f"field {name!r}: label {unknown[0]!r} is none of {', '.join(names)}")
    return tuple(dict.fromkeys(found))


def flags_label(record: Record, columns: Sequence[str]) -> tuple[str, ...]:
    """Return the names of those columns that hold 1 or true; the others must hold 0 or false."""
    return tuple(name for name in columns if _flag(record, name, record.field(name)))


def _flag(record: Record, name: str, value: object) -> bool:
    key = value.strip().lower() if isinstance(value, str) else json.dumps(value, default=repr)
    if key not in _FLAGS:
        raise record.error(f"field {name!r}: expected 0 or 1, false or true, came {came(value)}")
    return _FLAGS[key]
