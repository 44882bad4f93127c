"""Format version 1 opens in every later release: a bundle written by the first one gives its fixed numbers.

When this fails, the reader must be mended, not the numbers.
"""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pytest
import torch

from anaume.bundle.fingerprint import vector_fingerprint, weights_fingerprint
from anaume.bundle.format import check_files, read_manifest
from anaume.bundle.read import read_bundle
from anaume.bundle.write import write_bundle
from anaume.errors import AnaumeWarning

GOLDEN = Path(__file__).parent / "bundle-v1"
TEXTS = {
    "the dogs is cute , a cat .": [2, 5, 7, 10, 9, 11, 17, 6, 8, 18, 3],
    "犬 かわいい 猫": [2, 12, 14, 15, 16, 16, 13, 3],
}
FIRST = [
    [-1.378589, -0.039181, 0.075418, 0.424944],
    [-1.402872, -0.21004, 0.119852, 0.475255],
]  # last_hidden_state of [CLS], the first four, for each text
MLM = [0.399092, -0.482571, -0.668911, -0.238516]  # logits of the first text at its third place, the first four
MOOD = [-0.664793, -0.049111]  # logits of the first text


def test_it_opens_whole() -> None:
    parts = read_bundle(GOLDEN)
    assert read_manifest(GOLDEN).anaume_version == "0.1.0"
    check_files(GOLDEN, read_manifest(GOLDEN), weights=True)
    assert parts.notes == ()
    assert list(parts.model.head_configs) == ["mlm", "mood", "tags"]
    assert parts.model.head_configs["mood"].labels == ("good", "悪い")
    assert parts.model.pooler is not None
    assert parts.embedding.to_dict() == {
        "pooling": "mean_sqrt",
        "normalize": True,
        "max_length": 12,
        "prompts": {"query": "the ", "passage": ""},
        "default_prompt": "query",
        "include_prompt": False,
        "similarity": "dot",
    }
    assert parts.record.objectives == ("unknown", "mlm")
    assert parts.record.stages[1].scores == {"loss": {"mean": 2.5, "low": 2.4, "high": 2.6, "seeds": 3}}


def test_its_fingerprints_are_what_was_stored_with_vectors() -> None:
    parts = read_bundle(GOLDEN)
    assert parts.fingerprints is not None
    weights = weights_fingerprint(parts.model)
    assert weights == parts.fingerprints.weights == "9e4d5eda403da912f81f88540692d5f9c65507bbbe7e5b0057506ac9f28bfcd3"
    assert (
        parts.tokenizer.fingerprint
        == parts.fingerprints.tokenizer
        == "1f1944374a47e3f48c943c375dada3d95df61e79dcdbfeedc74569a386a6e479"
    )
    assert (
        vector_fingerprint(parts.tokenizer, weights, parts.embedding)
        == parts.fingerprints.vector
        == "3bdec01705ddb18a8248c57c007e272c837e86939b8e8a250a1c168635813419"
    )


def test_it_gives_its_fixed_numbers() -> None:
    parts = read_bundle(GOLDEN)
    for (text, token_ids), first in zip(TEXTS.items(), FIRST, strict=True):
        assert parts.tokenizer.encode(text).token_ids == token_ids
        with torch.no_grad():
            states = parts.model(torch.tensor([token_ids]), None).last_hidden_state
        assert states[0, 0, :4].tolist() == pytest.approx(first, abs=1e-5)
    ids = torch.tensor([next(iter(TEXTS.values()))])
    with torch.no_grad():
        states = parts.model(ids, None).last_hidden_state
        assert parts.model.head_logits("mlm", states, None)[0, 2, :4].tolist() == pytest.approx(MLM, abs=1e-5)
        assert parts.model.head_logits("mood", states, None)[0].tolist() == pytest.approx(MOOD, abs=1e-5)


def test_it_can_be_saved_by_this_release(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)
        write_bundle(read_bundle(GOLDEN), tmp_path / "b")
    one, other = read_bundle(GOLDEN), read_bundle(tmp_path / "b")
    assert one.fingerprints == other.fingerprints
    assert one.record == other.record
    a, b = one.model.state_dict(), other.model.state_dict()
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_it_is_small_and_the_script_still_says_what_is_in_it(tmp_path: Path) -> None:
    assert sum(file.stat().st_size for file in GOLDEN.rglob("*") if file.is_file()) < 100_000
    shutil.copy(GOLDEN.parent / "make_bundle_v1.py", tmp_path)
    namespace: dict[str, object] = {"__name__": "golden"}
    exec(compile((tmp_path / "make_bundle_v1.py").read_text("utf-8"), "make_bundle_v1.py", "exec"), namespace)
    parts = namespace["make"]()  # type: ignore[operator]
    stored = read_bundle(GOLDEN).model.state_dict()
    assert all(torch.equal(stored[name], tensor) for name, tensor in parts.model.state_dict().items())
