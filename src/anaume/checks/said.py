"""Promise 4, nothing silent: what was cut, what is unknown and what is lost is said, with the right numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anaume.bundle import Bundle, EmbedReport, LongPolicy
from anaume.bundle.embedding import UNKNOWN_LIMIT
from anaume.checks.report import Check, verdict
from anaume.errors import DataError

PROMISE = 4
_RARE = ("𒀀", "𓀀", "ꙮ", "ᚠ", "🫠", "龘", "ϗ", "ж", "q", "z")
"""Characters one of which nearly every vocabulary lacks."""
_HINT = "what the model did not see stays unsaid: please report this"


def check_said(bundle: Bundle) -> Iterator[Check]:
    """Embed a text that is too long, one the vocabulary does not know, and one with voicing marks."""
    if bundle.exported is None or bundle.exported.form != "static":  # which takes texts of any length
        yield from _check_cut(bundle)
    yield from _check_unknown(bundle)
    if bundle.tokenizer.rules.strip_accents:
        messages = "; ".join(_report(bundle, ["バスに乗る"]).messages)
        said = "バス" in messages
        what = "the tokenizer strips voicing marks (バス becomes ハス)"
        yield verdict(PROMISE, what, messages or "nothing said", "said", said, _HINT)


def _check_cut(bundle: Bundle) -> Iterator[Check]:
    limit = bundle.embedding.max_length
    long_text = "a " * (2 * limit)
    pieces = len(bundle.tokenizer.encode(_prompted(bundle, long_text)).token_ids) - 2
    expected = (limit - 2) / pieces
    what = f"a text of {pieces} pieces where {limit - 2} fit"
    report = _report(bundle, ["a", long_text])
    share = float(report.coverage[1])
    kept = report.cut == 1 and abs(share - expected) < 1e-9 and any("1 of 2 texts" in said for said in report.messages)
    measured = f"{share:.1%} seen, {report.cut} of 2 texts reported as cut"
    yield verdict(PROMISE, what, measured, f"{expected:.1%} seen, 1 of 2 reported as cut", kept, _HINT)

    windows = _report(bundle, [long_text], "window")
    whole = float(windows.coverage[0])
    yield verdict(PROMISE, "the same in windows", f"{whole:.1%} seen", "100.0% seen", whole == 1.0, _HINT)
    try:
        _report(bundle, [long_text], "error")
    except DataError as error:
        yield verdict(PROMISE, "the same under long='error'", f"refused: {error}", "refused", True)
    else:
        yield verdict(PROMISE, "the same under long='error'", "embedded", "refused", False, _HINT)


def _check_unknown(bundle: Bundle) -> Iterator[Check]:
    tokenizer = bundle.tokenizer
    what = "a text of unknown characters"
    unknown = [character for character in _RARE if tokenizer.encode(character).unknown]
    if not unknown:
        hint = "the vocabulary knows every character it was tried with"
        yield Check(PROMISE, what, "", "share of [UNK] reported", "not checked", hint)
        return
    text = " ".join(unknown[:1] * 20)
    encoding = tokenizer.encode(_prompted(bundle, text), max_length=bundle.embedding.max_length)
    expected = encoding.token_ids.count(tokenizer.unk_id) / (len(encoding) - 2)
    report = _report(bundle, [text])
    said = any("unknown" in message for message in report.messages)
    kept = abs(report.unknown_share - expected) < 1e-9 and said == (expected > UNKNOWN_LIMIT)
    bound = f"{expected:.1%}, said above {UNKNOWN_LIMIT:.0%}"
    measured = f"{report.unknown_share:.1%} unknown, {'said' if said else 'unsaid'}"
    yield verdict(PROMISE, what, measured, bound, kept, _HINT)


def _prompted(bundle: Bundle, text: str) -> str:
    return bundle.embedding.prompts.get(bundle.embedding.default_prompt or "", "") + text


def _report(bundle: Bundle, texts: Sequence[str], long: LongPolicy = "truncate") -> EmbedReport:
    return next(bundle.embed_stream([texts], long=long, fingerprint=""))
