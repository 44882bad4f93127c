"""A longer vocabulary: new rows are means, and all else is bit for bit what it was."""

from __future__ import annotations

import dataclasses
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch

from anaume.bundle import Bundle, extend_vocabulary
from anaume.bundle.parts import BundleParts
from anaume.config import EmbeddingConfig, HeadConfig
from anaume.errors import AnaumeWarning
from anaume.tokenization import Tokenizer
from tiny_bundles import TEXTS, VOCAB, read_bundle, same_parts, tiny_parts
from tiny_models import every_head, tiny_bert

DOMAIN = ["my cats , cats", "the rivering river", "zebra zebra"]
MLM = {"mlm": HeadConfig(kind="mlm")}
TABLE = "embeddings.token_embeddings.weight"


def bundle(heads: dict[str, HeadConfig] | None = None, *, rows: int = len(VOCAB)) -> Bundle:
    embedding = EmbeddingConfig(pooling="mean", normalize=True, max_length=40)
    return Bundle(tiny_parts(heads, embedding=embedding, vocab_size=rows), device="cpu")


def test_texts_without_new_words_keep_their_ids_and_vectors() -> None:
    old = bundle()
    new, report = extend_vocabulary(old, DOMAIN, add=3)
    assert [entry.token for entry in report.entries] == ["zebra", "cats"]
    texts = [text for text in TEXTS if "cats" not in text]
    assert len(texts) > 3
    for text in texts:
        assert new.tokenizer.encode(text).token_ids == old.tokenizer.encode(text).token_ids
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", AnaumeWarning)  # some texts have unknown words, before and after
        assert np.array_equal(new.embed(texts), old.embed(texts))
        changed = ["your cats"]
        assert not np.array_equal(new.embed(changed), old.embed(changed))
    assert new.fingerprint != old.fingerprint


def test_a_new_row_is_the_mean_of_its_old_pieces() -> None:
    old = bundle(MLM)
    new, report = extend_vocabulary(old, DOMAIN, add=2, words=["rivers", "riveringing"])
    before, after = old.model.state_dict(), new.model.state_dict()
    assert [entry.token for entry in report.entries] == ["rivers", "riveringing", "zebra", "cats"]
    for name in (TABLE, "heads.mlm.bias"):
        assert len(after[name]) == len(VOCAB) + 4
        assert torch.equal(after[name][: len(VOCAB)], before[name])
        for token, pieces in (("riveringing", ["river", "##ing", "##ing"]), ("cats", ["cat", "##s"])):
            rows = before[name][[VOCAB.index(piece) for piece in pieces]]
            assert torch.equal(after[name][new.tokenizer.token_to_id(token)], rows.mean(dim=0))
        assert torch.equal(after[name][new.tokenizer.token_to_id("zebra")], before[name].mean(dim=0))


@pytest.mark.parametrize("heads", [{}, every_head(), {"guess": HeadConfig(kind="mlm"), "tags": every_head()["span"]}])
def test_all_else_stays_and_nothing_is_shared(heads: dict[str, HeadConfig]) -> None:
    old = bundle(heads)
    kept = {name: tensor.clone() for name, tensor in old.model.state_dict().items()}
    new, _ = extend_vocabulary(old, DOMAIN, add=1)
    before, after = old.model.state_dict(), new.model.state_dict()
    grown = [TABLE, *(f"heads.{name}.bias" for name, head in heads.items() if head.kind == "mlm")]
    assert after.keys() == before.keys()
    assert [name for name in after if after[name].shape != before[name].shape] == grown
    for name in after:
        assert torch.equal(after[name][: len(VOCAB)] if name in grown else after[name], before[name])
    assert new.model.head_configs == old.model.head_configs
    assert new.config == dataclasses.replace(old.config, vocab_size=len(VOCAB) + 1)
    with torch.no_grad():
        for parameter in new.model.parameters():
            parameter.add_(1.0)
    assert all(torch.equal(tensor, kept[name]) for name, tensor in old.model.state_dict().items())
    assert old.tokenizer.vocab == VOCAB


def test_rows_beyond_the_vocabulary_are_used_before_the_table_grows() -> None:
    """Published tables are padded to round numbers of rows."""
    old = bundle(MLM, rows=len(VOCAB) + 2)
    two, _ = extend_vocabulary(old, DOMAIN, add=2)
    assert two.config.vocab_size == len(VOCAB) + 2
    three, _ = extend_vocabulary(old, DOMAIN, add=2, words=["rivering"])
    assert three.config.vocab_size == len(VOCAB) + 3
    before = old.model.state_dict()
    for new, tokens in ((two, 2), (three, 3)):
        after = new.model.state_dict()
        for name in (TABLE, "heads.mlm.bias"):
            cats = before[name][[VOCAB.index("cat"), VOCAB.index("##s")]].mean(dim=0)
            assert torch.equal(after[name][new.tokenizer.token_to_id("cats")], cats)
            # What stood in the unused rows has no part in the mean of all.
            everything = before[name][: len(VOCAB)].mean(dim=0)
            assert torch.equal(after[name][new.tokenizer.token_to_id("zebra")], everything)
            assert new.tokenizer.vocab_size == len(VOCAB) + tokens


def test_the_output_matrix_is_the_table_still() -> None:
    new, _ = extend_vocabulary(bundle(MLM), DOMAIN, add=2)
    ids = torch.tensor([new.tokenizer.encode("my cats").token_ids])
    output = new.model(ids, None)
    logits = new.model.head_logits("mlm", output.last_hidden_state, None)
    assert logits.shape[-1] == len(VOCAB) + 2
    logits[..., -1].sum().backward()  # of "cats" alone, which is not read here but predicted
    gradient = new.model.embeddings.token_embeddings.weight.grad
    assert gradient is not None
    assert gradient[-1].abs().sum() > 0
    assert new.fill("my [MASK] is cute", candidates=["cats", "dog"]).blanks


def test_it_is_saved_with_where_it_came_from(tmp_path: Path) -> None:
    old = bundle(MLM)
    new, report = extend_vocabulary(old, DOMAIN, add=2, words=["rivering", "cat"])
    new.save(tmp_path / "b")
    back = read_bundle(tmp_path / "b")
    assert same_parts(back, new.parts)
    (stage,) = back.record.stages
    assert back.record.objectives == ()
    assert stage.settings["vocab_size_before"] == len(VOCAB)
    assert stage.settings["vocab_size"] == len(VOCAB) + 3
    assert stage.settings["given"] == 1
    assert stage.scores["pieces_per_word"] == report.after.pieces_per_word
    assert stage.scores["pieces_per_word_before"] == report.before.pieces_per_word
    assert stage.data == ({"texts": 3, "words": 9, "sha256": report.sha256},)
    card = (tmp_path / "b" / "README.md").read_text("utf-8")
    assert "1. changed without training\n" in card
    assert f"vocab_size {len(VOCAB) + 3}" in card


def test_the_lineage_and_what_belongs_to_the_bundle_go_on() -> None:
    parts = dataclasses.replace(bundle().parts, source="somewhere", notes=("of that load",), card="# mine\n")
    once, _ = extend_vocabulary(Bundle(parts, device="cpu"), words=["zebra"])
    twice, _ = extend_vocabulary(once, words=["gnu"])
    assert len(twice.parts.record.stages) == 2
    assert (twice.parts.card, twice.parts.source, twice.parts.notes) == ("# mine\n", "", ())
    assert twice.embedding == parts.embedding
    assert twice.tokenizer.vocab == [*VOCAB, "zebra", "gnu"]


def test_it_is_on_the_device_and_in_the_precision_of_the_old_one() -> None:
    old = Bundle(bundle().parts, device="cpu", precision="bfloat16")
    new, _ = extend_vocabulary(old, words=["zebra"])
    assert (new.device, new.precision) == (old.device, old.precision)


def test_a_mecab_bundle(tmp_path: Path) -> None:
    pytest.importorskip("fugashi")
    vocab = [*VOCAB, "の", "前", "で", "員", "##行", "##員"]
    tokenizer = Tokenizer(vocab, tiny_parts(rules={"words": "mecab"}).tokenizer.rules)
    old = Bundle(
        BundleParts(
            tokenizer=tokenizer,
            model=tiny_bert(MLM, vocab_size=len(vocab)),
            embedding=EmbeddingConfig(pooling="mean", max_length=40),
        ),
        device="cpu",
    )
    texts = ["銀行員の前で銀行", "銀行の銀行で銀行の前", "バスの前で", "バスで"]
    new, report = extend_vocabulary(old, texts, add=4)
    assert [entry.token for entry in report.entries] == ["銀行", "バス"]
    table = old.model.state_dict()[TABLE]
    rows = table[[vocab.index("銀"), vocab.index("##行")]]
    assert torch.equal(new.model.state_dict()[TABLE][len(vocab)], rows.mean(dim=0))
    assert report.before.unknown == 2
    assert report.after.unknown == 0
    new.save(tmp_path / "b")
    assert not (tmp_path / "b" / "tokenizer.json").exists()
    assert same_parts(read_bundle(tmp_path / "b"), new.parts)
