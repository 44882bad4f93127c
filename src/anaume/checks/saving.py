"""Promises 1 and 5: what is saved is what is loaded, and what does not belong together is refused by name."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import safetensors.torch
import torch
from torch import Tensor

from anaume.bundle import Bundle
from anaume.bundle.format import FILE, check_files, read_manifest, vocab_checks
from anaume.bundle.weights import SAFETENSORS
from anaume.checks.report import Check, verdict
from anaume.errors import AnaumeError, AnaumeWarning, BundleError
from anaume.tokenization import Tokenizer

_HINT = "the saved bundle is not the one in memory: please report this"


def save_quietly(bundle: Bundle, place: Path) -> None:
    """Save; that some heads can only be read by anaume is no news to who verifies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        bundle.save(place)


def check_files_on_disk(source: Path) -> Iterator[Check]:
    """Compare every file of a bundle directory, weights included, with the hashes in its anaume.json."""
    what, bound = "the files on disk are those that were saved", "every sha256 equal"
    if not (source / FILE).is_file():
        hint = f"no {FILE}: save it as a bundle to have its files checked"
        yield Check(1, what, "", bound, "not checked", hint)
        return
    manifest = read_manifest(source)
    try:
        check_files(source, manifest, weights=True)
    except BundleError as error:
        yield verdict(1, what, str(error), bound, False, "restore the bundle from where it was saved")
    else:
        yield verdict(1, what, f"{len(manifest.files)} files", bound, True)


def check_round_trip(bundle: Bundle, saved: Path, texts: Sequence[str]) -> Iterator[Check]:
    """Load what was saved and compare it bit for bit."""
    loaded = Bundle.load(saved, device="cpu")
    ours, theirs = bundle.model.state_dict(), loaded.model.state_dict()
    differing = sorted(ours.keys() ^ theirs.keys())
    differing += [name for name in ours.keys() & theirs.keys() if not _same_bits(ours[name], theirs[name])]
    measured = f"{len(ours)} tensors, {len(differing)} differ" + (f": {', '.join(differing[:3])}" if differing else "")
    yield verdict(1, "saved and loaded: tensors", measured, "all equal bit for bit", not differing, _HINT)

    wanted, found = (one.tokenizer.encode_batch(texts) for one in (bundle, loaded))
    wrong = sum(a.token_ids != b.token_ids for a, b in zip(wanted, found, strict=True))
    kept = wrong == 0 and bundle.tokenizer.fingerprint == loaded.tokenizer.fingerprint
    measured = f"{len(texts)} texts, {wrong} with other IDs"
    yield verdict(1, "saved and loaded: token IDs", measured, "0, same tokenizer fingerprint", kept, _HINT)

    same = (
        bundle.config == loaded.config
        and bundle.model.head_configs == loaded.model.head_configs
        and bundle.embedding == loaded.embedding
        and bundle.parts.record == loaded.parts.record
    )
    measured = "equal" if same else "different"
    yield verdict(1, "saved and loaded: settings, heads, labels, record", measured, "equal", same, _HINT)
    same = bundle.fingerprint == loaded.fingerprint
    measured = loaded.fingerprint[:16]
    yield verdict(1, "saved and loaded: fingerprint", measured, bundle.fingerprint[:16], same, _HINT)


def check_swapped_vocabulary(bundle: Bundle, saved: Path) -> Iterator[Check]:
    """Swap two tokens in every tokenizer file of the saved bundle: same size, other words. Then restore them."""
    what = "two lines of the vocabulary swapped, same size"
    rules, vocab = bundle.tokenizer.rules, bundle.tokenizer.vocab
    pair = _swappable(vocab, rules.specials)
    if pair is None:
        hint = "it needs two ordinary tokens"
        yield Check(1, what, "", "refused", "not checked", hint)
        return
    first, second = pair
    vocab[first], vocab[second] = vocab[second], vocab[first]
    limit = bundle.embedding.max_length
    Tokenizer(vocab, rules).save(saved, max_length=limit)
    yield refused(1, what, saved, f"ID {first}, now {vocab[first]!r}")
    bundle.tokenizer.save(saved, max_length=limit)


def check_refusals(saved: Path) -> Iterator[Check]:
    """Damage the weights of the saved bundle in three ways, as a foreign file would be damaged; it stays damaged."""
    (saved / FILE).unlink()  # with it the size of the file gives the damage away, and no tensor is ever looked at
    tensors = safetensors.torch.load_file(saved / SAFETENSORS)
    name = max((name for name in tensors if ".layer." in name), key=lambda name: (tensors[name].numel() == 0, name))
    _write(saved, {other: tensor for other, tensor in tensors.items() if other != name})
    yield refused(5, "a tensor is missing", saved, name.removeprefix("bert."))
    _write(saved, {**tensors, "surplus.weight": torch.zeros(2, 2)})
    yield refused(5, "a tensor is not expected", saved, "surplus.weight")
    poisoned = tensors[name].clone()
    poisoned.view(-1)[-1] = float("nan")
    _write(saved, {**tensors, name: poisoned})
    yield refused(5, "one number is NaN", saved, name)


def refused(promise: int, what: str, saved: Path, names: str) -> Check:
    """Return a row that is ok when the directory is refused with one of our errors whose message holds `names`."""
    bound = f"refused, naming {names!r}"
    try:
        Bundle.load(saved, device="cpu")
    except AnaumeError as error:
        message = str(error).removeprefix(f"{saved}: ")
        hint = "the refusal does not say what is wrong: please report this"
        return verdict(promise, what, f"refused: {message}", bound, names in message, hint)
    return verdict(promise, what, "opened", bound, False, "a damaged bundle was opened: please report this")


def _write(saved: Path, tensors: Mapping[str, Tensor]) -> None:
    safetensors.torch.save_file(dict(tensors), saved / SAFETENSORS, metadata={"format": "pt"})


def _same_bits(one: Tensor, other: Tensor) -> bool:
    one, other = one.detach().cpu(), other.detach().cpu()
    return one.shape == other.shape and one.dtype == other.dtype and torch.equal(one, other)


def _swappable(vocab: Sequence[str], specials: Sequence[str]) -> tuple[int, int] | None:
    """Two ordinary tokens in the middle whose checks differ, so that the first difference can be told."""
    places = [place for place, token in enumerate(vocab) if token not in specials]
    places = places[len(places) // 2 :] + places[: len(places) // 2]
    for other in places[1:]:
        if vocab_checks([vocab[places[0]]]) != vocab_checks([vocab[other]]):
            return min(places[0], other), max(places[0], other)
    return None
