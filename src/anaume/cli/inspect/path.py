"""`anaume inspect path`: every station of a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anaume.cli import options
from anaume.cli.inspect.shared import TextArg
from anaume.cli.opening import open_bundle
from anaume.cli.printing import say, say_json, table

if TYPE_CHECKING:
    from anaume.inspection import TextPath


def path(bundle: options.BundleArg, text: TextArg, pair: options.Pair = None, as_json: options.Json = False) -> None:
    """Follow a text through the model, station by station.

    Its tokens side by side, then name and shape of everything the text becomes.

    $ anaume inspect path all-MiniLM-L6-v2 "my dog is cute" --pair "he likes playing"
    """
    from anaume.inspection import trace_path

    path = trace_path(open_bundle(bundle, device="cpu"), text, pair)
    if as_json:
        say_json(_path_record(path))
    else:
        _show_path(path)


def _show_path(path: TextPath) -> None:
    names = ("token", "ID", "segment", "position", "mask", "characters")
    rows = [(row.token, row.token_id, row.segment, row.position, int(row.real), row.text) for row in path.rows]
    table(names, rows, right=("ID", "segment", "position", "mask"))
    say()
    stations = [
        (station.name, str(station.shape), "" if station.length is None else f"{station.length:.3f}", station.meaning)
        for station in path.stations
    ]
    table(("station", "shape", "mean length", "what it is"), stations, right=("mean length",))


def _path_record(path: TextPath) -> dict[str, Any]:
    return {
        "tokens": [row.token for row in path.rows],
        "token_ids": [row.token_id for row in path.rows],
        "segment_ids": [row.segment for row in path.rows],
        "position_ids": [row.position for row in path.rows],
        "attention_mask": [row.real for row in path.rows],
        "characters": [row.text for row in path.rows],
        "stations": [
            {"name": station.name, "shape": station.shape, "length": station.length, "meaning": station.meaning}
            for station in path.stations
        ],
    }
