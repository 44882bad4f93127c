"""The model card: ours is written anew, everybody else's text is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from anaume.config import EmbeddingConfig, HeadConfig
from tiny_bundles import foreign, read_bundle, save_tiny, tiny_parts, write_bundle
from tiny_models import every_head

FOREIGN = "---\nlicense: mit\nlanguage: ja\n---\n# Their model\n\nTrained on 本.\n"


def card(path: Path) -> str:
    return (path / "README.md").read_text("utf-8")


def test_it_says_what_a_person_needs_to_know(tmp_path: Path) -> None:
    embedding = EmbeddingConfig(pooling="mean", normalize=True, max_length=20, prompts={"query": "q : "})
    text = card(save_tiny(tmp_path / "b", embedding=embedding))
    fingerprints = read_bundle(tmp_path / "b").fingerprints
    assert fingerprints is not None
    for said in (
        "2 layers, hidden size 16, 2 heads",
        "Freshly drawn: never trained.",
        "Pooling mean, normalised to length 1, made for cosine similarity, at most 20 tokens.",
        "- prompt query: `q : `",
        "At most 40 tokens at once",
        fingerprints.tokenizer,
        fingerprints.weights,
        fingerprints.vector,
    ):
        assert said in text


@pytest.mark.parametrize("head", every_head())
def test_its_header_is_one_the_hub_takes(tmp_path: Path, head: str) -> None:
    hub = pytest.importorskip("huggingface_hub")
    save_tiny(tmp_path / "b", {"h": every_head()[head]})
    data = hub.ModelCard(card(tmp_path / "b")).data.to_dict()
    assert data["library_name"] == "transformers"
    assert "anaume" in data["tags"]
    expected = {
        "mlm": "fill-mask",
        "span": "question-answering",
        "token-classification": "token-classification",
        "nsp": None,
        "multiple-choice": None,
    }
    assert data.get("pipeline_tag") == expected.get(head, "text-classification")
    save_tiny(tmp_path / "b", embedding=EmbeddingConfig(pooling="cls", max_length=9))
    assert hub.ModelCard(card(tmp_path / "b")).data.pipeline_tag == "sentence-similarity"


def test_a_foreign_card_is_kept_with_its_header(tmp_path: Path) -> None:
    path = foreign(tmp_path / "theirs")
    (path / "README.md").write_text(FOREIGN, "utf-8")
    write_bundle(read_bundle(path), tmp_path / "b")
    text = card(tmp_path / "b")
    assert text.startswith("---\nlicense: mit\nlanguage: ja\n---\n")
    assert "1. objectives unknown, from theirs" in text
    assert text.endswith("# Their model\n\nTrained on 本.\n")
    assert (path / "README.md").read_text("utf-8") == FOREIGN


def test_what_the_user_wrote_is_kept_and_ours_is_written_anew(tmp_path: Path) -> None:
    path = save_tiny(tmp_path / "b")
    text = card(path)
    (path / "README.md").write_text(
        text.replace("Freshly drawn", "Wrongly edited") + "\n## My notes\n\nメモ\n", "utf-8"
    )
    for _ in range(3):
        write_bundle(read_bundle(path), path)
        again = card(path)
        assert again.count("# An anaume bundle") == 1
        assert "Wrongly edited" not in again
        assert again.endswith("## My notes\n\nメモ\n")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe broken", b"no header\r\n\r\nlines\r\n", b"---\nnever closed\n"])
def test_any_card_that_lies_there(tmp_path: Path, content: bytes) -> None:
    path = foreign(tmp_path / "theirs")
    (path / "README.md").write_bytes(content)
    write_bundle(read_bundle(path), tmp_path / "b")
    assert "# An anaume bundle" in card(tmp_path / "b")
    first = card(tmp_path / "b")
    write_bundle(read_bundle(tmp_path / "b"), tmp_path / "b")
    assert card(tmp_path / "b") == first


def test_labels_and_heads_are_listed(tmp_path: Path) -> None:
    write_bundle(tiny_parts({"mood": HeadConfig(kind="classification", labels=("良い", "bad"))}), tmp_path / "b")
    assert "- mood: classification (良い, bad)" in card(tmp_path / "b")
