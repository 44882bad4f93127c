"""Answers as the official evaluation of SQuAD reads them: one JSON object, id -> answer, "" where there is none."""

from __future__ import annotations

from pathlib import Path

from anaume.data.files import open_text
from anaume.data.labelled.sources import came
from anaume.data.records import JSON
from anaume.errors import DataError


def read_answers(path: str | Path) -> dict[str, str]:
    """Return id -> answer. Raises DataError for a file that holds anything else."""
    with open_text(path) as file:
        text = "".join(file.blocks())
        try:
            answers = JSON.decode(text.strip())
        except (ValueError, RecursionError) as error:
            raise DataError(f"{file.name}: not JSON: {error}") from error
        if not isinstance(answers, dict):
            raise DataError(f'{file.name}: expected one object, {{"id": "answer", ...}}, came {came(answers)}')
        for id, answer in answers.items():
            if not isinstance(answer, str):
                raise DataError(
                    f'{file.name}: the answer to {id!r:.60} must be a text, "" where there is none; came {came(answer)}'
                )
    return answers
