"""`anaume check --task`: what labelled files hold, shown."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anaume.cli import options
from anaume.cli.corpus import Stages
from anaume.cli.opening import longest_text, open_tokenizer
from anaume.cli.printing import clipped, percent, say, say_json, table
from anaume.errors import DataError
from anaume.logs import get_logger

if TYPE_CHECKING:
    from anaume.checks.labelled import LabelledCheck
    from anaume.checks.labelled_part import LabelledPart

log = get_logger(__name__)

_MOST_SHOWN = 20  # labels


def check_files(
    task: str,
    train: Sequence[str],
    dev: Sequence[str] | None,
    bundle: str | None,
    max_length: int | None,
    reading: options.AnyReading,
    *,
    as_json: bool,
    verbose: bool,
) -> None:
    """Look at labelled files and tell what there is; max_length None = where a fine-tuning of the bundle would cut.

    Raises DataError, once all is told, for what a fine-tuning would refuse.
    """
    from anaume.checks.labelled import check_labelled

    if max_length is None and bundle is not None:
        max_length = longest_text(bundle)
    columns = options.columns_of(reading["column"])
    with Stages(show=not verbose) as stages:
        check = check_labelled(
            task,
            train,
            dev=dev,
            tokenizer=None if bundle is None else open_tokenizer(bundle),
            max_length=512 if max_length is None else max_length,
            progress=stages,
            **{name: value for name, value in reading.items() if name != "column"} | columns,
        )
    if as_json:
        say_json(_record(check))
    else:
        _show(check)
    for note in check.notes:
        log.warning("%s", note)
    if check.refusals:
        raise DataError(f"a fine-tuning would refuse this: {'; '.join(check.refusals)}")


def _record(check: LabelledCheck) -> dict[str, Any]:
    record = dataclasses.asdict(check)
    for name, part in (("train", check.train), ("dev", check.dev)):
        if part is not None:
            record[name]["long_share"] = part.long_share
    return record


def _show(check: LabelledCheck) -> None:
    parts = [("train", check.train)] + ([] if check.dev is None else [("dev", check.dev)])
    lines: list[tuple[Any, ...]] = [
        ("examples", *(f"{part.examples:,}" for _, part in parts)),
        ("copies of others", *(_of(part.copies.duplicates, part) for _, part in parts)),
        ("contents with several labels", *(f"{part.copies.conflicts:,}" for _, part in parts)),
        ("blank texts", *(f"{part.blank:,}" for _, part in parts)),
    ]
    if check.train.long is not None:
        lines += [
            (f"over {check.max_length} tokens", *(_of(part.long or 0, part) for _, part in parts)),
            ("tokens unknown", *(percent(part.unknown_share or 0.0) for _, part in parts)),
        ]
    if check.train.split_entities is not None:
        lines.append(("entities that split a token", *(f"{part.split_entities or 0:,}" for _, part in parts)))
    if check.overlap is not None and check.dev is not None:
        lines += [
            ("in train too", "", _of(check.overlap, check.dev)),
            ("with other labels there", "", f"{check.overlap_conflicts:,}"),
        ]
    if check.majority is not None:
        told = f"{percent(check.majority.accuracy)} (always {clipped(check.majority.label, 20)!r})"
        lines.append(("most frequent label scores", *([""] * (len(parts) - 1)), told))
    if check.task in ("multi-label", "ner"):
        lines.append(("without any", *(_of(part.without, part) for _, part in parts)))
    names = [name for name, _ in parts]
    table(["", *names], lines, right=names)
    say()
    _show_labels(check, parts)


def _show_labels(check: LabelledCheck, parts: Sequence[tuple[str, LabelledPart]]) -> None:
    names = [name for name, _ in parts]
    numbers = [part.numbers for _, part in parts if part.numbers is not None]
    if numbers:
        rows = [
            ("lowest", *(f"{one.lowest:g}" for one in numbers)),
            ("highest", *(f"{one.highest:g}" for one in numbers)),
            ("mean", *(f"{one.mean:.3f}" for one in numbers)),
            ("deviation", *(f"{one.deviation:.3f}" for one in numbers)),
        ]
        table(["targets", *names], rows, right=names)
        return
    labels = list(dict.fromkeys(label for _, part in parts for label in part.labels))
    totals = [max(sum(part.labels.values()), 1) for _, part in parts]
    rows = [
        (
            clipped(label, 40),
            *(
                f"{part.labels.get(label, 0):,} ({percent(part.labels.get(label, 0) / total)})"
                for (_, part), total in zip(parts, totals, strict=True)
            ),
        )
        for label in labels[:_MOST_SHOWN]
    ]
    table(["entities" if check.task == "ner" else "labels", *names], rows, right=names)
    if len(labels) > _MOST_SHOWN:
        say(f"... and {len(labels) - _MOST_SHOWN:,} more (--json tells all)")


def _of(count: int, part: LabelledPart) -> str:
    return f"{count:,} ({percent(count / max(part.examples, 1))})"
