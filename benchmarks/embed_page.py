"""The page of `benchmarks.embed`: a table a mix, one text alone, starts and memory, and the goals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anaume.engines import Precision, share_of_machine
from benchmarks.embed_rows import BEST16, DEFAULT, DIRECT, INT8, LEFT_OUT, OURS, OURS16, Row
from benchmarks.embed_run import Mix, Run
from benchmarks.harness import MatrixRates, table

GB = 1e9


def parts(
    run: Run, rates: MatrixRates, repeats: int, stream: int, left_out: Mapping[str, str], checkpoint: str, longest: int
) -> list[str]:
    """Return the page's paragraphs and tables."""
    told = _Told(run, rates, repeats, stream)
    rows = [row for row in run.rows if row.name not in run.failed]
    made = [told.about(checkpoint, longest, rows)]
    for mix in run.mixes:
        made += [f"## {mix.name.capitalize()}", told.mix(mix, rows)]
    made += ["## One text alone, starts, memory", told.alone(rows)]
    made += ["## Goals", told.goals()]
    reasons = {**left_out, **LEFT_OUT}
    made += ["## Left out", "\n".join(f"- {name}: {reason}" for name, reason in reasons.items())]
    return made


class _Told:
    def __init__(self, run: Run, rates: MatrixRates, repeats: int, stream: int) -> None:
        self.run, self.rates, self.repeats, self.stream = run, rates, repeats, stream

    # -- figures -------------------------------------------------------------------------------------------------

    def seconds(self, row: Row, what: str) -> list[float]:
        found = [self.run.results.get(f"{row.name}: {what}", round_) for round_ in range(self.repeats)]
        return [seconds for seconds in found if seconds is not None]

    def ratio(self, other: Row, own: Row, what: str) -> float | None:
        """How many times faster `own` is: the median over the rounds, in each of which both ran."""
        pairs = zip(self.seconds(other, what), self.seconds(own, what), strict=False)
        found = [theirs / ours for theirs, ours in pairs]
        return statistics.median(found) if found else None

    def percentiles(self, row: Row) -> tuple[float, float] | None:
        """p50 and p95 of one text, in seconds: of each round, and the median of the rounds."""
        rounds = [self.run.results.get(f"{row.name}: single", round_) for round_ in range(self.repeats)]
        found = [np.percentile(calls, [50, 95]) for calls in rounds if calls]
        if not found:
            return None
        p50, p95 = np.median(found, axis=0)
        return float(p50), float(p95)

    def share(self, row: Row, mix: Mix) -> float | None:
        if row.precision is None:
            return None
        seconds = statistics.median(self.seconds(row, mix.name))
        return share_of_machine(mix.flops, seconds, self.rates.best(row.precision))

    def cosine(self, row: Row, mix: str) -> float | None:
        found: float | None = (self.run.results.get(f"cosines {row.name}") or {}).get(mix)
        return found

    def streamed(self, row: Row) -> dict[str, Any] | None:
        found: dict[str, Any] | None = self.run.results.get(f"{row.name}: stream {self.stream}")
        return found

    # -- tables --------------------------------------------------------------------------------------------------

    def about(self, checkpoint: str, longest: int, rows: Sequence[Row]) -> str:
        kinds = "; ".join(
            f"{mix.name}: {len(mix.texts):,} texts of {np.mean(mix.lengths):.1f} tokens on average "
            f"({min(mix.lengths)} to {max(mix.lengths)})"
            for mix in self.run.mixes
        )
        versions: dict[str, list[str]] = {}
        for row in rows:
            for name, version in ((self.run.results.get(f"about {row.name}") or {}).get("versions", {})).items():
                known = versions.setdefault(name, [])
                known += [version] if version not in known else []
        rates = ", ".join(f"{self.rates.best(precision):,.0f} GFLOP/s in {precision}" for precision in _PRECISIONS)
        libraries = ", ".join(f"{name} {', '.join(known)}" for name, known in sorted(versions.items()))
        return (
            f"{checkpoint}, every tool cutting at {longest} tokens; {kinds}. Text in, normalised vectors out, "
            f"tokenisation included. The median of {self.repeats} runs taken turn by turn, each tool in a process of "
            "its own; the spread is (slowest - fastest) / median; ratios are medians over the rounds, pair by pair. "
            f"The share is of the best matrix rate measured between the rounds ({rates}), for the operations that the "
            "encoder needs without padding. The cosine is the smallest to the float32 vectors of "
            f"{self.run.reference().name}. Tools: {libraries}. Ratios are those of this machine: how much of "
            "a processor a library reaches differs (MKL, which torch's float32 calls, reaches half of some of AMD's); "
            "the share of the matrix rate says more about another one."
        )

    def mix(self, mix: Mix, rows: Sequence[Row]) -> str:
        lines = []
        for row in rows:
            taken = self.seconds(row, mix.name)
            if not taken:
                continue
            seconds = statistics.median(taken)
            share, times, cosine = self.share(row, mix), self.ratio(DEFAULT, row, mix.name), self.cosine(row, mix.name)
            lines.append(
                [
                    row.name + "".join(f" ({note})" for note in self._notes(row, mix)),
                    f"{len(mix.texts) / seconds:,.0f}",
                    f"{sum(mix.lengths) / seconds:,.0f}",
                    f"{(max(taken) - min(taken)) / seconds:.0%}",
                    "" if times is None else f"{times:.2f}",
                    "" if share is None else f"{share:.0%}",
                    "" if cosine is None else f"{cosine:.5f}",
                ]
            )
        columns = ["how", "texts/s", "tokens/s", "spread", "times the default", "of the matrix rate", "min cosine"]
        return table(columns, lines)

    def alone(self, rows: Sequence[Row]) -> str:
        lines = []
        for row in rows:
            found, cold = self.percentiles(row), self.seconds(row, "cold")
            peak, stream = self.run.results.get(f"{row.name}: peak"), self.streamed(row)
            lines.append(
                [
                    row.name,
                    *(("", "") if found is None else (f"{1e3 * found[0]:.2f}", f"{1e3 * found[1]:.2f}")),
                    f"{statistics.median(cold):.2f} ({(max(cold) - min(cold)) / statistics.median(cold):.0%})"
                    if cold
                    else "",
                    "" if peak is None else f"{peak / GB:.2f}",
                    "" if stream is None else f"{stream['peak'] / GB:.2f}",
                ]
            )
        many = f"peak, {self.stream:,} texts (GB)"
        columns = ["how", "p50 (ms)", "p95 (ms)", "process start to first vector (s)", "peak, mixes (GB)", many]
        return table(columns, lines)

    def goals(self) -> str:
        lines = []

        def goal(what: str, wanted: float, reached: float | None, *, most: bool = False, form: str = ".2f") -> None:
            bound = f"{'at most' if most else 'at least'} {wanted:{form}}"
            if reached is None:
                lines.append([what, bound, "", "not measured"])
                return
            met = reached <= wanted if most else reached >= wanted
            lines.append([what, bound, f"{reached:{form}}", "met" if met else "MISSED"])

        default, passages = DEFAULT.name, self.run.mixes[1]
        goal(f"float32, times {default}, passages", 4.3, self.ratio(DEFAULT, OURS, "passages"))
        goal(f"bfloat16, times {default}, passages", 7.0, self.ratio(DEFAULT, OURS16, "passages"))
        theirs = [row for row in BEST16 if self.seconds(row, "passages")]
        best = min(theirs, key=lambda row: statistics.median(self.seconds(row, "passages")), default=None)
        name = "sentence-transformers at its best in bfloat16" if best is None else best.name
        goal(f"bfloat16, times {name}, passages", 1.9, best and self.ratio(best, OURS16, "passages"))
        measured = self.seconds(OURS16, "passages")
        goal("bfloat16, share of the matrix rate, passages", 0.8, self.share(OURS16, passages) if measured else None)
        int8 = next((row for row in self.run.rows if row.name == INT8), None)
        goal(f"int8, times {default}, passages", 10.0, int8 and self.ratio(DEFAULT, int8, "passages"))
        cosines = [self.cosine(OURS16, mix.name) for mix in self.run.mixes]
        known = [cosine for cosine in cosines if cosine is not None]
        goal("bfloat16, smallest cosine to float32, every mix", 0.9999, min(known, default=None), form=".5f")
        for precision, own in (("float32", OURS), ("bfloat16", OURS16)):
            for mix in self.run.mixes:
                direct = DIRECT[precision]  # type: ignore[index]
                goal(f"{precision}, times {direct.name}, {mix.name}", 0.97, self.ratio(direct, own, mix.name))
        ours, others = self.percentiles(OURS), self.percentiles(DEFAULT)
        both = ours is not None and others is not None
        goal(f"one text, p50 over that of {default}", 0.4, ours[0] / others[0] if both else None, most=True)  # type: ignore[index]
        goal("one text, p95 over p50", 1.5, None if ours is None else ours[1] / ours[0], most=True)
        cold = self.ratio(OURS, DEFAULT, "cold")
        goal(f"process start to first vector, over that of {default}", 0.33, cold, most=True)
        mine, theirs_too = self.streamed(OURS16), self.streamed(BEST16[0])
        memory = None if mine is None or theirs_too is None else mine["peak"] / theirs_too["peak"]
        goal(f"peak memory of {self.stream:,} texts, over that of {BEST16[0].name}", 0.5, memory, most=True)
        return table(["goal", "wanted", "reached", ""], lines)

    def _notes(self, row: Row, mix: Mix) -> list[str]:
        """What the tool chose for this mix; its notes begin with the number of texts."""
        notes: list[str] = (self.run.results.get(f"about {row.name}") or {}).get("notes", [])
        own = f"{len(mix.texts):,} texts "
        return [note.removeprefix(own) for note in notes if note.startswith(own)]


_PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
