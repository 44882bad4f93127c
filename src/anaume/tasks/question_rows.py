"""Questions as rows: [CLS] question [SEP] context [SEP], a long context by overlapping windows (BERT, section 4.2).

A question takes at most half of a row, cut to its first pieces (the coverage tells); neighbouring windows share at most
half of what is left. A literal "[SEP]" in a context (JSQuAD writes one after the title) is text like any other.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from anaume.data.labelled import Answer, QuestionExample
from anaume.errors import DataError, SettingsError
from anaume.tasks.answers import Window
from anaume.tasks.features import IGNORED, Features, Note
from anaume.tokenization import Encoding, Tokenizer

_SHORTEST = 5  # three special tokens, a piece of the question, a piece of the context


def question_rows(
    examples: Sequence[QuestionExample],
    tokenizer: Tokenizer,
    max_length: int,
    *,
    stride: int,
    longest: int,
    learn: bool,
) -> Features:
    """Return the windows of every context, a unit each; `details` holds a `Window` a row.

    stride   pieces that neighbouring windows share
    longest  pieces of the longest answer that can be predicted; longer ones are noted
    learn    targets "start" and "end", (rows,) int64 places in the row: of the answer where the window holds it whole,
             else 0, the place of [CLS]

    Of several right answers the first is learned whose bounds are bounds of pieces, else the first. An example whose
    answer is not where it is said to be, or fits in no window, is not learned: its targets are -100, the notes tell how
    many. Raises DataError for an example without `answers`, SettingsError for a max_length too short.
    """
    if max_length < _SHORTEST:
        raise SettingsError(f"question answering needs a max_length of at least {_SHORTEST}; got {max_length}")
    rows: list[Encoding] = []
    owners: list[int] = []
    details: list[Window] = []
    coverage: list[float] = []
    places: list[tuple[int, int]] = []
    notes: dict[str, Note] = {}
    for number, example in enumerate(examples):
        windows = _windows(example, tokenizer, max_length, stride)
        of_question, of_context = windows[0].coverage
        total = of_question.total + of_context.total
        coverage.append((of_question.kept + of_context.total) / total if total else 1.0)
        rows += windows
        owners += [number] * len(windows)
        own = [_window(encoding, example.context) for encoding in windows]
        details += own
        if learn:
            found, said = _targets(example, own, longest)
            places += found
            if said:
                before = notes.get(said, Note(0, _place(example)))
                notes[said] = Note(before.count + 1, before.first)
    pairs = np.array(places, dtype=np.int64).reshape(-1, 2)
    return Features.of_rows(
        [row.token_ids for row in rows],
        [row.segment_ids for row in rows],
        coverage=coverage,
        examples=owners,
        targets={"start": pairs[:, 0], "end": pairs[:, 1]} if learn else {},
        details=details,
        pieces=sum(row.pieces for row in rows),
        unknown=sum(row.unknown for row in rows),
        notes=notes,
    )


def _windows(example: QuestionExample, tokenizer: Tokenizer, max_length: int, stride: int) -> list[Encoding]:
    room = max_length - 3
    question = min(len(tokenizer.encode(example.question)) - 2, room // 2)
    return tokenizer.windows(
        example.context,
        max_length=max_length,
        stride=min(stride, (room - question) // 2),
        question=example.question,
        max_question=question,
    )


def _window(encoding: Encoding, context: str) -> Window:
    of_question, of_context = encoding.coverage
    first = of_question.kept + 2
    spans = [_stripped(context, start, end) for start, end in encoding.offsets[first:-1]]
    bounds = (of_context.start, of_context.end)
    return Window(first, np.array(spans, dtype=np.int32).reshape(-1, 2), bounds)


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return text[start:end]'s bounds without outer white space."""
    while start < end and text[end - 1].isspace():
        end -= 1
    while start < end and text[start].isspace():
        start += 1
    return start, end


# Where answers are


_LOST = "questions are not learned: the answer does not stand where it is said to, or fits in no window"


def _targets(
    example: QuestionExample, windows: Sequence[Window], longest: int
) -> tuple[list[tuple[int, int]], str | None]:
    """Return the places of start and end in each window, and what must be said of the example."""
    if example.answers is None:
        raise DataError(f"{_place(example)}: there is nothing to learn from, the answers are not given")
    if not example.answers:
        return [(0, 0)] * len(windows), None
    known = [pointed for answer in example.answers if (pointed := _point(answer, example.context, windows))]
    if not known:
        return [(IGNORED, IGNORED)] * len(windows), _LOST
    places = next((places for places, exact in known if exact), known[0][0])
    if max(end - start for start, end in places) < longest:
        return places, None
    return places, f"answers have more than {longest} pieces and can't be predicted: raise max_answer_length"


def _place(example: QuestionExample) -> str:
    return example.place or repr(example.id)


def _point(answer: Answer, context: str, windows: Sequence[Window]) -> tuple[list[tuple[int, int]], bool] | None:
    """Return an answer's places in each window, (0, 0) where it is not, and whether its pieces end where it ends.

    None where no window holds it, or the context holds something else there.
    """
    end = answer.start + len(answer.text)
    if answer.start < 0 or context[answer.start : end] != answer.text:
        return None
    bounds = _stripped(context, answer.start, end)
    places = [_pieces(window, *bounds) for window in windows]
    holds = [number for number, place in enumerate(places) if place is not None]
    if not holds:
        return None
    window, place = windows[holds[0]], places[holds[0]]
    assert place is not None
    exact = (int(window.spans[place[0], 0]), int(window.spans[place[1], 1])) == bounds
    shifted = [
        (0, 0) if place is None else (window.first + place[0], window.first + place[1])
        for window, place in zip(windows, places, strict=True)
    ]
    return shifted, exact


def _pieces(window: Window, start: int, end: int) -> tuple[int, int] | None:
    """Return the first and the last piece that characters [start, end) touch; None where the window cuts them."""
    if start >= end or start < window.bounds[0] or end > window.bounds[1]:
        return None
    starts, ends = window.spans.T
    touched: npt.NDArray[np.int64] = np.flatnonzero((starts < end) & (ends > start) & (starts < ends))
    return (int(touched[0]), int(touched[-1])) if len(touched) else None
