"""Against sentence-transformers: its directories read here, ours opened there, every pooling."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from anaume.bundle.parts import BundleParts
from anaume.config import EmbeddingConfig
from anaume.model import pool
from tiny_bundles import TEXTS, edit_json, read_bundle, save_tiny, tiny_parts, write_bundle

st = pytest.importorskip("sentence_transformers")

POOLINGS = {"cls": "cls", "mean": "mean", "max": "max", "mean_sqrt": "mean_sqrt_len_tokens"}


def vectors_here(parts: BundleParts, texts: list[str], prompt: str = "") -> torch.Tensor:
    """What the bundle says, done by hand: prompt, cut, encode, pool, normalise."""
    embedding = parts.embedding
    assert embedding.pooling is not None
    skipped = len(parts.tokenizer.encode(prompt).token_ids) - 1 if prompt and not embedding.include_prompt else 0
    rows = []
    for encoding in parts.tokenizer.encode_batch([prompt + text for text in texts], max_length=embedding.max_length):
        with torch.no_grad():
            states = parts.model(torch.tensor([encoding.token_ids]), None).last_hidden_state
        mask = torch.ones(states.shape[:2], dtype=torch.bool)
        mask[:, :skipped] = False
        rows.append(pool(states, mask, embedding.pooling)[0])
    stacked = torch.stack(rows)
    return F.normalize(stacked, dim=-1) if embedding.normalize else stacked


def close(here: torch.Tensor, there: Any) -> bool:
    wanted = torch.as_tensor(there)
    return float((here - wanted).abs().max()) <= 1e-5 * max(1.0, float(wanted.abs().max()))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_our_bundle_opens_there(tmp_path: Path, pooling: Any, normalize: bool) -> None:
    parts = tiny_parts(embedding=EmbeddingConfig(pooling=pooling, normalize=normalize, max_length=12), pooler=True)
    write_bundle(parts, tmp_path / "b")
    model = st.SentenceTransformer(str(tmp_path / "b"), device="cpu")
    assert model.max_seq_length == 12
    assert close(vectors_here(parts, TEXTS), model.encode(TEXTS))


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_their_directory_is_read_here(tmp_path: Path, pooling: str, normalize: bool) -> None:
    """EMB-03: pooling and normalisation are the directory's; the length is wherever this version keeps it."""
    model = theirs(tmp_path, POOLINGS[pooling], normalize)
    parts = read_bundle(tmp_path / "st")
    assert parts.embedding.pooling == pooling
    assert parts.embedding.normalize is normalize
    assert parts.embedding.max_length == 14
    here = vectors_here(parts, TEXTS)
    assert close(here, model.encode(TEXTS))
    assert bool(((here.norm(dim=1) - 1).abs() < 1e-5).all()) is normalize


def theirs(
    tmp_path: Path, pooling: Any, normalize: bool = False, *, rules: dict[str, Any] | None = None, **other: Any
) -> Any:
    from sentence_transformers.sentence_transformer import modules

    save_tiny(tmp_path / "hf", pooler=True, rules=rules)
    transformer = modules.Transformer(str(tmp_path / "hf"), max_seq_length=14)
    pooled = modules.Pooling(16, pooling, include_prompt=other.pop("include_prompt", True))
    chain = [transformer, pooled, *([modules.Normalize()] if normalize else []), *other.pop("more", [])]
    model = st.SentenceTransformer(modules=chain, device="cpu", **other)
    model.save(str(tmp_path / "st"))
    return model


@pytest.mark.parametrize("include_prompt", [False, True])
def test_prompts_travel_both_ways(tmp_path: Path, include_prompt: bool) -> None:
    prompts = {"query": "q : ", "passage": "x "}
    model = theirs(
        tmp_path, "mean", prompts=prompts, default_prompt_name="passage", include_prompt=include_prompt,
        similarity_fn_name="dot",
    )  # fmt: skip
    parts = read_bundle(tmp_path / "st")
    assert {name: text for name, text in parts.embedding.prompts.items() if text} == prompts
    assert parts.embedding.default_prompt == "passage"
    assert parts.embedding.include_prompt is include_prompt
    assert parts.embedding.similarity == "dot"
    write_bundle(parts, tmp_path / "b")
    back = st.SentenceTransformer(str(tmp_path / "b"), device="cpu")
    assert back.default_prompt_name == "passage"
    assert back.similarity_fn_name == "dot"
    assert read_bundle(tmp_path / "b").embedding == parts.embedding
    texts = [text for text in TEXTS if text]
    for name, text in (("query", "q : "), (None, "x ")):
        here = vectors_here(parts, texts, text)
        assert close(here, model.encode(texts, prompt_name=name))
        assert close(here, back.encode(texts, prompt_name=name))


def test_lower_casing_outside_the_tokenizer_becomes_a_rule(tmp_path: Path) -> None:
    theirs(tmp_path, "mean", rules={"lower_case": False})
    edit_json(tmp_path / "st" / "sentence_bert_config.json", do_lower_case=True)
    parts = read_bundle(tmp_path / "st")
    assert parts.tokenizer.rules.lower_case
    assert not parts.tokenizer.rules.strip_accents
    assert any("lower-cases" in note for note in parts.notes)
    texts = ["My DOG is cute", "THE BANK"]
    model = st.SentenceTransformer(str(tmp_path / "st"), device="cpu")
    assert close(vectors_here(parts, texts), model.encode(texts))
    write_bundle(parts, tmp_path / "b")
    assert close(vectors_here(parts, texts), st.SentenceTransformer(str(tmp_path / "b")).encode(texts))


@pytest.mark.parametrize("module", ["Dense", "LSTM", "WordWeights"])
def test_an_unknown_module_is_refused_by_name(tmp_path: Path, module: str) -> None:
    """EMB-03: never skipped."""
    from tiny_bundles import refusal

    theirs(tmp_path, "mean")
    path = tmp_path / "st" / "modules.json"
    modules = json.loads(path.read_text())
    modules.append({"idx": 2, "name": "2", "path": "2_X", "type": f"sentence_transformers.models.{module}"})
    path.write_text(json.dumps(modules))
    assert module in refusal(tmp_path / "st")


def test_a_dense_module_made_there_is_refused_by_name(tmp_path: Path) -> None:
    from sentence_transformers.sentence_transformer import modules

    from tiny_bundles import refusal

    theirs(tmp_path, "mean", more=[modules.Dense(16, 8)])
    assert "Dense" in refusal(tmp_path / "st")


@pytest.mark.parametrize("pooling", [("cls", "mean"), "weightedmean", "lasttoken"])
def test_other_poolings_are_refused_by_name(tmp_path: Path, pooling: Any) -> None:
    from tiny_bundles import refusal

    theirs(tmp_path, pooling)
    line = refusal(tmp_path / "st")
    for name in (pooling,) if isinstance(pooling, str) else pooling:
        assert name in line


def test_a_round_trip_through_their_library_keeps_the_bundle(tmp_path: Path) -> None:
    embedding = EmbeddingConfig(pooling="mean", normalize=True, max_length=20, prompts={"query": "q : "})
    parts = tiny_parts(embedding=embedding, pooler=True)
    write_bundle(parts, tmp_path / "b")
    st.SentenceTransformer(str(tmp_path / "b"), device="cpu").save(str(tmp_path / "c"))
    back = read_bundle(tmp_path / "c")
    prompts = {name: text for name, text in back.embedding.prompts.items() if text}
    assert dataclasses.replace(back.embedding, prompts=prompts) == embedding
    assert back.tokenizer.fingerprint == parts.tokenizer.fingerprint
    assert close(vectors_here(back, TEXTS), vectors_here(parts, TEXTS))
