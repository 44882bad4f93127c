"""verify_bundle: the promises that can be re-checked on one bundle, re-checked on that very bundle, with numbers."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from anaume.bundle import Bundle
from anaume.bundle.late import encoder_alone
from anaume.checks.answers import check_answers, check_token_vectors
from anaume.checks.ecosystem import check_sentence_transformers, check_transformers
from anaume.checks.report import Check, VerifyReport, guarded
from anaume.checks.said import check_said
from anaume.checks.samples import SAMPLE_TEXTS
from anaume.checks.saving import (
    check_files_on_disk,
    check_refusals,
    check_round_trip,
    check_swapped_vocabulary,
    save_quietly,
)
from anaume.engines import EMBED
from anaume.errors import SettingsError
from anaume.logs import get_logger

log = get_logger(__name__)


def verify_bundle(bundle: Bundle, *, texts: Sequence[str] | None = None) -> VerifyReport:
    """Re-check promises 1, 2, 4, 5 and 7 on a bundle.

    texts  what it is tried with; None = a few built-in ones, English, Japanese and hostile

    Copies of the bundle are written to a temporary directory, up to twice its size at a time; the bundle and its own
    directory stay untouched. Promise 7 needs transformers and sentence-transformers: without them its rows are "not
    checked". Raises SettingsError (a ValueError) when there is no text.
    """
    texts = list(SAMPLE_TEXTS if texts is None else texts)
    if not texts or not all(isinstance(text, str) for text in texts):
        raise SettingsError(f"texts must be a list of at least one string; got {texts!r:.60}")
    rows = sorted(_rows(bundle, texts), key=lambda row: row.promise)
    for row in rows:
        log.debug("promise %d, %s: %s, bound %s: %s", row.promise, row.what, row.measured, row.bound, row.status)
    return VerifyReport(tuple(rows))


def _in_int8(bundle: Bundle, texts: Sequence[str]) -> Iterator[Check]:
    for row in check_answers(Bundle(bundle.parts, precision="int8", device="cpu"), texts):
        yield replace(row, what=f"int8, {row.what}")


def _rows(bundle: Bundle, texts: Sequence[str]) -> Iterator[Check]:
    source = Path(bundle.parts.source or "no directory")
    yield from guarded(1, "the files on disk", lambda: check_files_on_disk(source))
    if bundle.exported is not None and bundle.exported.form != "static" and EMBED not in bundle.exported.graphs:
        yield Check(2, "same text, same answer", "", "", "not checked", "an export of heads alone gives no vectors")
        return
    encoder = bundle
    if bundle.parts.is_late:
        yield from guarded(2, "token vectors", lambda: check_token_vectors(bundle, texts))
        encoder = Bundle(encoder_alone(bundle.parts), precision=bundle.precision, device=bundle.device)
    yield from guarded(2, "same text, same answer", lambda: check_answers(encoder, texts))
    if bundle.exported is not None and bundle.exported.int8 and bundle.precision != "int8":
        yield from guarded(2, "same text, same answer, in int8", lambda: _in_int8(bundle, texts))
    yield from guarded(4, "nothing silent", lambda: check_said(encoder))
    if bundle.exported is not None:
        for promise in (5, 7):
            yield Check(promise, "weights", "", "", "not checked", "an export: verify the bundle it was made of")
        return
    with tempfile.TemporaryDirectory(prefix="anaume-verify-") as folder:
        saved = Path(folder) / "bundle"
        try:
            save_quietly(bundle, saved)
        except Exception as error:  # whatever it is: a bundle that can't be saved is a finding
            found = f"{type(error).__name__}: {error}"
            yield Check(1, "saved and loaded", found, "saved", "failed", "make room for a copy, or see the message")
            for promise in (5, 7):
                yield Check(promise, "on a saved copy", "", "", "not checked", "the bundle could not be saved")
            return
        yield from guarded(1, "saved and loaded", lambda: check_round_trip(bundle, saved, texts))
        yield from guarded(7, "opened in transformers", lambda: check_transformers(bundle, saved, texts))
        what = "opened in sentence-transformers"
        yield from guarded(7, what, lambda: check_sentence_transformers(bundle, saved, texts))
        yield from guarded(1, "a swapped vocabulary", lambda: check_swapped_vocabulary(bundle, saved))
        yield from guarded(5, "damaged weights", lambda: check_refusals(saved))
