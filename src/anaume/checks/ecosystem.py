"""Promise 7: other libraries open the saved directory and give the same numbers and IDs, where they are installed.

They are imported here, when a user asks for this check and has them, and nowhere else in the package.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from anaume.bundle import Bundle
from anaume.bundle.files import read_object
from anaume.checks.answers import apart, embed_in_chunks, largest
from anaume.checks.report import Check, compared, verdict
from anaume.data import pad
from anaume.engines import Batch
from anaume.tokenization import Tokenizer

PROMISE = 7
BOUND = 1e-5
TRANSFORMERS, SENTENCES = "transformers", "sentence_transformers"
_HINT = "what is saved here means something else there: please report this, with the versions of both libraries"
_SURROGATES = re.compile("[\ud800-\udfff]")


def check_transformers(bundle: Bundle, saved: Path, texts: Sequence[str]) -> Iterator[Check]:
    """Open the saved directory with the class its config.json names, and with AutoTokenizer."""
    what = "opened in transformers"
    if importlib.util.find_spec(TRANSFORMERS) is None:
        yield _not_installed(what, "the same token IDs and vectors", "transformers")
        return
    comparable = [text for text in texts if is_comparable(text, bundle.tokenizer)]
    rows = [
        encoding.token_ids
        for encoding in bundle.tokenizer.encode_batch(comparable, max_length=bundle.embedding.max_length)
    ]
    with _as_guest() as transformers:
        tokenizer = transformers.AutoTokenizer.from_pretrained(saved, local_files_only=True)
        theirs = [
            tokenizer(text, truncation=True, max_length=bundle.embedding.max_length)["input_ids"] for text in comparable
        ]
        model, left = _open_model(transformers, bundle, saved)
        states = []
        with torch.inference_mode():
            for row in rows:
                states.append(model(input_ids=torch.tensor([row])).last_hidden_state[0].float().numpy())
    wrong = sum(list(a) != b for a, b in zip(theirs, rows, strict=True))
    skipped = len(texts) - len(comparable)
    apart_by = f"{skipped} with special tokens or surrogates left out" if skipped else "none left out"
    measured = f"{wrong} of {len(rows)} texts differ, {apart_by}"
    yield verdict(PROMISE, f"{what}: token IDs", measured, "0 differ", wrong == 0, _HINT)
    measured = "none" if not left else ", ".join(left[:3])
    yield verdict(PROMISE, f"{what}: tensors left over or missing", measured, "none", not left, _HINT)

    engine = Bundle(bundle.parts, device="cpu").engine
    ours = [
        engine.hidden_states(Batch(*pad([row], bundle.tokenizer.pad_id))).last_hidden_state[0].numpy() for row in rows
    ]
    bound = BOUND * max(1.0, max(map(largest, ours)))
    difference = max(apart(a, b) for a, b in zip(ours, states, strict=True))
    yield compared(PROMISE, f"{what}: last_hidden_state", difference, bound, _HINT)


def check_sentence_transformers(bundle: Bundle, saved: Path, texts: Sequence[str]) -> Iterator[Check]:
    """Open the saved directory as a SentenceTransformer."""
    what = "opened in sentence-transformers: vectors"
    if bundle.embedding.pooling is None:
        hint = "the bundle has no pooling, so it is no sentence-transformers directory"
        yield Check(PROMISE, what, "", f"{BOUND:.1e}", "not checked", hint)
        return
    if importlib.util.find_spec(SENTENCES) is None or importlib.util.find_spec(TRANSFORMERS) is None:
        yield _not_installed(what, f"{BOUND:.1e}", "sentence-transformers")
        return
    # It strips texts before it cuts them into tokens; MeCab sees the difference, BERT's own rules don't.
    comparable = [text for text in texts if is_comparable(text, bundle.tokenizer) and text == text.strip()]
    with _as_guest():
        library = importlib.import_module(SENTENCES)
        model = library.SentenceTransformer(str(saved), device="cpu", local_files_only=True)
        theirs = np.asarray(model.encode(comparable, show_progress_bar=False), dtype=np.float32)
    ours = embed_in_chunks(Bundle(bundle.parts, device="cpu"), [comparable])
    bound = BOUND * max(1.0, largest(ours))
    yield compared(PROMISE, what, apart(ours, theirs), bound, _HINT)


def is_comparable(text: str, tokenizer: Tokenizer) -> bool:
    """Whether promise 7 covers a text: literal special tokens and lone surrogates mean something else there."""
    special = any(token in text for token in tokenizer.rules.specials)
    return not special and _SURROGATES.search(text) is None


def _open_model(transformers: Any, bundle: Bundle, saved: Path) -> tuple[Any, list[str]]:
    """Return the encoder and the tensors that were not used or not there."""
    architecture = str(read_object(saved / "config.json")["architectures"][0])
    options = {"local_files_only": True, "output_loading_info": True}
    if architecture == "BertModel" and bundle.model.pooler is None:
        options["add_pooling_layer"] = False
    whole, told = getattr(transformers, architecture).from_pretrained(saved, dtype=torch.float32, **options)
    left = [*told["missing_keys"], *told["unexpected_keys"], *told["mismatched_keys"]]
    return whole.eval().base_model, sorted(map(str, left))


@contextmanager
def _as_guest() -> Iterator[Any]:
    """Lend transformers without its progress bars and warnings; afterwards its switches stand as they stood."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        transformers = importlib.import_module(TRANSFORMERS)
        log = importlib.import_module("transformers.utils.logging")
        bars, verbosity = log.is_progress_bar_enabled(), log.get_verbosity()
        log.disable_progress_bar()
        log.set_verbosity_error()
        try:
            yield transformers
        finally:
            log.set_verbosity(verbosity)
            if bars:
                log.enable_progress_bar()


def _not_installed(what: str, bound: str, package: str) -> Check:
    return Check(PROMISE, what, "", bound, "not checked", f"pip install {package}")
