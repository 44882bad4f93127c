"""The pages docs/benchmarks/four-corners.md and docs/ja/four-corners.md: templates filled with whatever rows are there.

A template holds what is true whatever the numbers; every number, and every sentence that depends on one, is filled in.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import Any

from benchmarks import corpora, harness
from benchmarks.corner_words import SEEN, WORDS, Language
from benchmarks.rates import machines
from benchmarks.study import Row, Study

Line = dict[str, Any]

CORNERS = {
    "causal-next": ("model.causal=true", "objective.target=next"),
    "causal-masked": ("model.causal=true", "objective.target=masked"),
    "bidirectional-next": ("model.causal=false", "objective.target=next"),
    "bidirectional-masked": ("model.causal=false", "objective.target=masked"),
}
"""Name -> the two switches."""

COMMAND = "python -m benchmarks.four_corners -o docs/benchmarks/four-corners.md --ja docs/ja/four-corners.md"
TEMPLATES = harness.ROOT / "benchmarks" / "templates"
BESIDE = "four-corners-beside.json"
POINTS = 5


def shared(row: Row) -> dict[str, Any]:
    """Return what the corners share with the untrained model."""
    return {name: getattr(row, name) for name in ("layers", "width", "corpus", "tokenizer", "seed")}


def beside(row: Row, kept: Path) -> Line:
    """Return what is kept to compare the corners with, {} where there is nothing of their shape."""
    path = kept / BESIDE
    there: Line = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    return there if shared(row).items() <= there.get("about", {}).items() else {}


def make_page(study: Study, language: Language = "en") -> str:
    """Return the page; what was not run says so."""
    template = Template((TEMPLATES / f"four-corners.{language}.md").read_text(encoding="utf-8"))
    return template.substitute(_Page(study, WORDS[language]).parts())


class _Page:
    """The rows that are there, and the parts made of them."""

    def __init__(self, study: Study, words: dict[str, str]) -> None:
        self._words = words
        self._rows = {row.name: row for row in study.rows}
        self._lines = {name: line for name, row in self._rows.items() if (line := study.result(row)) is not None}
        self._beside = beside(study.rows[0], study.path.parent)

    def parts(self) -> dict[str, str]:
        """Return the values of the template's names."""
        some = next(iter(self._rows.values()))
        losses = {f"loss_{name.replace('-', '_')}": self._loss(name) for name in CORNERS}
        return {
            **losses,
            "about": self._about(),
            "picture": self._picture(),
            "minutes": f"{some.minutes:g}",
            "shape": f"{some.layers} x {some.width}",
            "vocabulary": self._vocabulary(some),
            "corpus": f"{self._recipe(some)}\n{self._corpus(some.corpus)}",
            "handicap": self._handicap(),
            "runs": self._runs(),
            "curve": self._curve(),
            "pos": self._probes("pos", ("accuracy", "macro F1"), "accuracy"),
            "entities": self._probes("entities", ("accuracy", "macro F1", "entity F1"), "entity F1"),
            "sst2": self._probes("sst2", ("accuracy",), "accuracy"),
            "best": self._best(),
            "command": COMMAND,
        }

    # -- losses -------------------------------------------------------------------------------------------------------

    def _last(self, name: str) -> Line | None:
        line = self._lines.get(name)
        return line["curve"][-1] if line is not None and line["curve"] else None

    def _loss(self, name: str) -> str:
        last = self._last(name)
        return self._words["not yet"] if last is None else f"{last['held_out_loss']:.2f}"

    def _handicap(self) -> str:
        one, other = self._last("causal-masked"), self._last("bidirectional-masked")
        if one is None or other is None:
            return ""
        return self._words["handicap"].format(one["held_out_loss"] - other["held_out_loss"])

    def _picture(self) -> str:
        """Two by two cells in plain characters, wide ones counted as two."""
        words = self._words
        cells = {
            name: [
                words[f"title {name}"],
                f"{words['asked']} {SEEN[name][0]}",
                f"{words['seen']} {SEEN[name][1]}",
                f"{words['loss']} {self._loss(name)}",
            ]
            for name in CORNERS
        }
        side = max(_width(words["causal"]), _width(words["bidirectional"])) + 1
        inner = max(_width(text) for lines in cells.values() for text in lines) + 2
        ruler = " " * side + f"+{'-' * inner}+{'-' * inner}+"
        drawn = [" " * side + "  " + _padded(words["next"], inner + 1) + words["masked"], ruler]
        for mask in ("causal", "bidirectional"):
            for number, pair in enumerate(zip(cells[f"{mask}-next"], cells[f"{mask}-masked"], strict=True)):
                left = _padded(words[mask] if number == 0 else "", side)
                drawn.append(left + "".join(f"| {_padded(text, inner - 1)}" for text in pair) + "|")
            drawn.append(ruler)
        return "\n".join(line.rstrip() for line in drawn)

    def _runs(self) -> str:
        names = ("corner", "steps", "step", "epochs", "training", "held-out", "right")
        cells: Sequence[Callable[[Line], str]] = (
            lambda line: f"{line['steps']:,}",
            lambda line: f"{1000 * line['seconds_a_step']:.0f}",
            lambda line: f"{line['epochs']:.1f}",
            lambda line: f"{line['training_loss']:.3f}",
            lambda line: f"{line['curve'][-1]['held_out_loss']:.3f}",
            lambda line: f"{line['curve'][-1]['held_out_accuracy']:.1%}",
        )
        return self._table([self._words[name] for name in names], cells)

    def _curve(self) -> str:
        def at(point: int) -> Callable[[Line], str]:
            def cell(line: Line) -> str:
                for one in line["curve"]:
                    if int(one["fraction"] * POINTS + 1e-6) == point:
                        training = "" if one["training_loss"] is None else f"{one['training_loss']:.2f}"
                        return f"{training} / {one['held_out_loss']:.2f}"
                return ""

            return cell

        points = range(1, POINTS + 1)
        return self._table(
            [self._words["corner"], *(f"{point / POINTS:.0%}" for point in points)], [at(point) for point in points]
        )

    def _table(self, columns: Sequence[str], cells: Sequence[Callable[[Line], str]]) -> str:
        missing = [self._words["not yet"], *[""] * (len(cells) - 1)]
        rows = []
        for name in CORNERS:
            line = self._lines.get(name)
            rows.append([self._words[name], *([cell(line) for cell in cells] if line is not None else missing)])
        return harness.table(columns, rows)

    # -- probes -------------------------------------------------------------------------------------------------------

    def _scored(self) -> list[tuple[str, list[Line] | None]]:
        """Return who was probed: the corners, then an untrained model."""
        corners = [(name, self._lines[name]["scores"]["probes"] if name in self._lines else None) for name in CORNERS]
        return [*corners, ("untrained", self._beside.get("untrained"))]

    def _probes(self, task: str, scores: Sequence[str], by_table: str) -> str:
        columns = ["who", "kind", *scores, f"table {by_table}"]
        rows = []
        for name, scored in self._scored():
            if scored is None:
                rows.append([self._words[name], self._words["not yet"], *[""] * (len(scores) + 1)])
                continue
            static, best = (one for one in scored if one["task"] == task)
            told = [_interval(best["scores"][score]) for score in scores]
            rows.append([self._words[name], self._kind(best["by"]), *told, f"{static['scores'][by_table][0]:.3f}"])
        for one in self._beside.get("baselines", []):
            if one["task"] == task:
                rows.append([self._words[one["by"]], "", *(_interval(one["scores"][score]) for score in scores), ""])
        return harness.table([self._words[column] for column in columns], rows)

    def _kind(self, by: str) -> str:
        return self._words["layer"].format(by.split()[1]) if by.startswith("layer ") else self._words[by]

    def _best(self) -> str:
        if len(self._lines) < len(CORNERS):
            return ""
        found = []
        for task, score in (("pos", "accuracy"), ("entities", "entity F1"), ("sst2", "accuracy")):
            values = {
                name: one["scores"][score][0]
                for name, line in self._lines.items()
                for one in line["scores"]["probes"]
                if one["task"] == task and one["by"] != "token table"
            }
            who = max(values, key=lambda name: values[name])
            named = {"task": self._words[task], "who": self._words[who], "value": f"{values[who]:.3f}"}
            found.append(self._words["best of"].format(**named))
        return self._words["best"].format(self._words["between"].join(found))

    # -- what was run -------------------------------------------------------------------------------------------------

    def _about(self) -> str:
        def all_of(name: str) -> str:
            return ", ".join(dict.fromkeys(line[name] for line in self._lines.values())) or self._words["not yet"]

        versions = next((line["versions"] for line in self._lines.values()), harness.versions())
        return self._words["about"].format(
            command=COMMAND,
            date=all_of("date"),
            commit=all_of("commit"),
            machine="; ".join(machines(self._lines.values())) or self._words["not yet"],
            versions=", ".join(f"{name} {version}" for name, version in versions.items()),
        )

    def _recipe(self, row: Row) -> str:
        settings = row.pretrain_settings()
        return self._words["recipe"].format(
            batch=settings.run.batch_rows,
            length=settings.data.seq_len,
            rate=settings.optimizer.learning_rate,
            dropout=settings.model.dropout,
            seed=row.seed,
        )

    def _corpus(self, name: str) -> str:
        about = corpora.about(name)
        sizes = {source: own["characters"] for source, own in about["sources"].items()}
        return self._words["corpus"].format(
            name=name,
            characters=self._characters(sum(sizes.values())),
            sources=", ".join(f"{source} {self._characters(size)}" for source, size in sizes.items()),
            left_out=sum(own["leaks left out"] for own in about["sources"].values()),
            found=", ".join(f"{source} {found} / {of:,}" for source, (found, of) in about["overlap"].items()),
        ) + "".join(f" {note}." for note in about["notes"])

    def _characters(self, count: int) -> str:
        return self._words["characters"].format(millions=count / 1e6, tens_of_thousands=count / 1e4)

    def _vocabulary(self, row: Row) -> str:
        match = corpora.OWN.fullmatch(row.tokenizer)
        return f"{int(match[1]):,}" if match else row.tokenizer


def _interval(numbers: Sequence[float]) -> str:
    value, low, high = numbers
    return f"{value:.3f} ({low:.3f} - {high:.3f})"


def _width(text: str) -> int:
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in text)


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))
