from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.data.labelled import TextExample
from anaume.errors import AnaumeError, AnaumeWarning, BundleError, SettingsError
from anaume.exporting.certificate import compare_texts, correlate_pairs
from anaume.exporting.exporting import export_bundle
from anaume.exporting.static import distil
from commands import Run, runner
from helpers import public_data
from tiny_bundles import TEXTS, VOCAB, edit_json, tiny_parts
from tiny_graphs import needs

UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=40, prompts={"query": "q : "})


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return Bundle(tiny_parts(embedding=UNIT), device="cpu")


@pytest.fixture
def static(bundle: Bundle, tmp_path: Path) -> Bundle:
    export_bundle(bundle, tmp_path / "s", to="static", dimensions=6)
    return anaume.load(tmp_path / "s")


def test_a_text_s_vector_is_the_sum_of_its_tokens_rows_wherever_they_stand(static: Bundle) -> None:
    assert static.exported is not None
    assert static.exported.table is not None
    table, tokenizer = static.exported.table.numpy(), static.tokenizer
    with pytest.warns(AnaumeWarning, match="unknown to the vocabulary"):
        vectors = static.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 6)
    for text, vector in zip(TEXTS, vectors, strict=True):
        total = table[tokenizer.encode(text).token_ids].sum(axis=0)
        length = float(np.linalg.norm(total))
        assert np.allclose(vector, total / length if length else total, atol=1e-6)
    assert not vectors[TEXTS.index("")].any()
    # Order and company change nothing: there is no context.
    assert np.allclose(static.embed(["my dog is cute"]), static.embed(["cute is dog my"]), atol=1e-6)
    assert np.array_equal(static.embed([TEXTS[1]])[0], vectors[1])


def test_rows_are_what_the_encoder_makes_of_a_token_alone(bundle: Bundle) -> None:
    distilled = distil(bundle, bundle.config.hidden_size)
    tokenizer = bundle.tokenizer
    entries = [token for token in VOCAB if not token.startswith("[")]
    assert distilled.entries == len(entries)
    assert distilled.explained == pytest.approx(1.0)
    assert not distilled.table[[0, 1, 2, 3, 4]].any()  # special tokens and [UNK]
    alone = np.stack([bundle.hidden_states([token])[0].vectors[0, 1] for token in ("dog", "cat", "bank")])
    rows = distilled.table[[tokenizer.vocab.index(token) for token in ("dog", "cat", "bank")]]
    places = [entries.index(token) + 1 for token in ("dog", "cat", "bank")]
    weights = 1e-4 / (1e-4 + 1 / np.array(places) / (1 / np.arange(1, len(entries) + 1)).sum())
    plain = rows / weights[:, None]
    # All directions kept, PCA only turns and moves: distances stay.
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert np.linalg.norm(plain[a] - plain[b]) == pytest.approx(np.linalg.norm(alone[a] - alone[b]), rel=1e-4)


def test_frequent_tokens_count_less(bundle: Bundle) -> None:
    counted = distil(bundle, 6, ["the dog is the cat of the bank"] * 200).table
    guessed = distil(bundle, 6, [" ".join(VOCAB[5:])] * 200).table  # all alike
    the, dog, cute = (bundle.tokenizer.token_to_id(token) for token in ("the", "dog", "cute"))
    share = np.linalg.norm(counted, axis=1) / np.maximum(np.linalg.norm(guessed, axis=1), 1e-12)
    assert share[the] < share[dog] < share[cute]  # three times, once, never


def test_long_texts_are_seen_whole(static: Bundle) -> None:
    report = static.embed_report(["my dog is cute " * 500, "cat"], long="error")
    assert report.cut == 0
    assert report.messages == ()
    assert report.fingerprint == static.fingerprint


def test_its_vectors_are_another_kind_and_say_so(bundle: Bundle, static: Bundle, tmp_path: Path) -> None:
    assert static.fingerprint != bundle.fingerprint
    export_bundle(bundle, tmp_path / "again", to="static", dimensions=6)
    assert anaume.load(tmp_path / "again").fingerprint == static.fingerprint
    export_bundle(bundle, tmp_path / "other", to="static", dimensions=5)
    assert anaume.load(tmp_path / "other").fingerprint != static.fingerprint
    certificate = json.loads((tmp_path / "s" / "certificate.json").read_text("utf-8"))
    assert certificate["made_from"] == bundle.fingerprint
    assert certificate["texts"] is None  # none given: not measured


def test_prompts_stay_and_count(static: Bundle) -> None:
    assert np.allclose(static.embed(["my dog"], as_="query"), static.embed(["q : my dog"]), atol=1e-6)


def test_sentence_transformers_opens_it_with_the_same_numbers(static: Bundle, tmp_path: Path) -> None:
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SentenceTransformer(str(tmp_path / "s"), device="cpu")
    texts = [*TEXTS, "my dog is cute " * 300]
    ours = static.embed(texts)
    assert np.abs(theirs.encode(texts) - ours).max() < 1e-6
    assert np.abs(theirs.encode(["cat"], prompt_name="query") - static.embed(["cat"], as_="query")).max() < 1e-6


@needs("lancedb")
def test_an_index_is_made_of_it_and_takes_no_vectors_of_the_encoder(
    bundle: Bundle, static: Bundle, tmp_path: Path
) -> None:
    from anaume.search import Index, open_index

    index = Index.create(tmp_path / "i", static)
    texts = ["my dog is cute", "the bank of the river", "your cat is open"]
    index.add([{"id": str(number), "text": text} for number, text in enumerate(texts)])
    found = open_index(tmp_path / "i").search("the river bank of the", top_k=1)[0]  # by the export that it remembers
    assert (found.id, found.text) == ("1", texts[1])
    cosine = static.embed(["the river bank of the"], as_="query")[0] @ static.embed(texts[1:2])[0]
    assert found.score == pytest.approx(float(cosine), abs=1e-6)
    bundle.save(tmp_path / "b")
    with pytest.raises(BundleError, match=r"holds vectors of .*index migrate"):
        open_index(tmp_path / "i", anaume.load(tmp_path / "b", device="cpu"))


def test_what_needs_an_encoder_is_refused_with_the_way_out(bundle: Bundle, static: Bundle, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="use the bundle it was made of"):
        static.hidden_states(["a"])
    with pytest.raises(SettingsError, match="holds no weights to look at"):
        _ = static.model
    with pytest.raises(SettingsError, match="holds no weights to save"):
        static.save(tmp_path / "copy")
    with pytest.raises(SettingsError, match="needs a masked-word head"):
        static.fill("a [MASK]")
    with pytest.raises(SettingsError, match="predicting needs a head"):
        static.predict(["a"])
    with pytest.raises(SettingsError, match="change the bundle it was made of"):
        static.with_embedding(UNIT)
    with pytest.raises(SettingsError, match="an export itself"):
        export_bundle(static, tmp_path / "t", to="static")
    for settings in ({"precision": "bfloat16"}, {"device": "meta"}):
        with pytest.raises(SettingsError, match="static"):
            anaume.load(tmp_path / "s", **settings)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match=r"dimensions must be from 1 to 16.*got 17"):
        export_bundle(bundle, tmp_path / "t", to="static", dimensions=17)
    with pytest.raises(SettingsError, match=r"to must be one of static, onnx, openvino.*did you mean"):
        export_bundle(bundle, tmp_path / "t", to="statics")  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="--overwrite"):
        export_bundle(bundle, tmp_path / "s", to="static")
    assert not (tmp_path / "t").exists()


def edited(path: Path, change: Any) -> None:
    manifest = json.loads((path / "anaume.json").read_text("utf-8"))
    change(manifest)
    (path / "anaume.json").write_text(json.dumps(manifest), "utf-8")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["export"].update(form="tflite"), "form .tflite.; anaume reads static, onnx, openvino"),
        (lambda m: m["export"].update(embedding_size=7), r"expected embedding.weight of 7 columns; got .*\(35, 6\)"),
        (lambda m: m.update(export=[1]), "export must be an object"),
        (lambda m: m["export"].update(graphs={"embed": "../x"}), "not a file inside the directory"),
        (lambda m: m["embedding"].update(normalize=False), "no longer belong together"),
    ],
)
def test_a_changed_export_is_refused(static: Bundle, tmp_path: Path, change: Any, message: str) -> None:
    edited(tmp_path / "s", change)
    with pytest.raises(BundleError, match=message):
        anaume.load(tmp_path / "s")


def test_a_cut_table_and_a_swapped_certificate_are_refused(static: Bundle, tmp_path: Path) -> None:
    table = tmp_path / "s" / "model.safetensors"
    table.write_bytes(table.read_bytes()[:-4])
    with pytest.raises(AnaumeError, match="truncated"):
        anaume.load(tmp_path / "s")
    edit_json(tmp_path / "s" / "certificate.json", made_from="another")
    with pytest.raises(
        BundleError, match=r"certificate\.json was changed after.*restore it, or export the bundle it was made of anew"
    ):
        anaume.load(tmp_path / "s")


def test_the_certificate_s_numbers_are_what_they_say(bundle: Bundle) -> None:
    texts = ["my dog", "my cat", "the bank", "the river", "cute"]
    same = compare_texts(bundle, bundle, texts)
    assert (same.texts, same.cosines, same.neighbours) == (5, 1.0, 1.0)
    other = Bundle(tiny_parts(embedding=UNIT, initializer_range=0.8), device="cpu")
    assert compare_texts(bundle, other, texts).cosines < 1.0
    cosine = anaume.similarity(bundle.embed(texts[:4]), bundle.embed(texts[1:]))
    pairs = [TextExample(text=texts[i], pair=texts[i + 1], label=float(cosine[i, i])) for i in range(4)]
    assert correlate_pairs({"encoder": bundle}, pairs).spearman == {"encoder": 1.0}
    with pytest.raises(SettingsError, match=r"row 3: expected two texts and a number"):
        correlate_pairs({}, [TextExample(text="a", pair="b", label="x", place="row 3")])
    with pytest.raises(SettingsError, match="at least three"):
        compare_texts(bundle, bundle, ["a"])


def test_the_command_measures_on_what_it_is_given(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Run = runner(monkeypatch)
    bundle.save(tmp_path / "b")
    (tmp_path / "t.txt").write_text("".join(f"my dog is cute {word}\n" for word in VOCAB[5:] * 3), "utf-8")
    (tmp_path / "sts.tsv").write_text(
        "sentence1\tsentence2\tscore\nmy dog\tmy dog\t5\na cat\tthe bank\t1\nthe river\tthe bank\t3\n", "utf-8"
    )
    done = run("export", tmp_path / "b", "--to", "static", "-o", tmp_path / "s")
    assert (done.code, done.err) == (0, "")
    assert "what it costs: not measured" in done.out
    line = ["export", tmp_path / "b", "--to", "static", "--texts", tmp_path / "t.txt", "--sts", tmp_path / "sts.tsv"]
    assert run(*line, "-o", tmp_path / "s").error().endswith("(--overwrite)")
    done = run(*line, "-o", tmp_path / "s", "--overwrite", "--dimensions", 4)
    assert (done.code, done.err) == (0, "")
    for expected in ("counted in 81 texts", "9 held-out texts", "input table", "3 pairs, Spearman"):
        assert expected in done.out
    record = json.loads(run(*line, "-o", tmp_path / "s2", "--json").out)
    assert record["pairs"]["spearman"].keys() == {"input table", "static", "encoder"}
    info = run("info", tmp_path / "s").out
    assert "static: one vector a token, no encoder" in info
    verified = run("verify", tmp_path / "s")
    assert verified.code == 0, verified.out
    embedded = run("embed", tmp_path / "s", tmp_path / "t.txt", "-o", tmp_path / "v.npy")
    assert embedded.code == 0, embedded.err
    assert np.load(tmp_path / "v.npy").shape == (90, 4)


@pytest.mark.real
@pytest.mark.slow
def test_the_real_checkpoint_keeps_what_static_vectors_can(tmp_path: Path) -> None:
    from anaume.data.labelled import read_texts

    encoder = anaume.load("all-MiniLM-L6-v2", device="cpu")
    pairs = list(read_texts(public_data("glue/STS-B/dev.tsv"), kind="number"))
    certificate = export_bundle(encoder, tmp_path / "s", to="static", pairs=pairs)
    assert certificate.pairs is not None
    scores = certificate.pairs.spearman
    assert scores["encoder"] == pytest.approx(0.8672, abs=5e-4)
    assert scores["input table"] < 0.66
    assert scores["static"] > 0.78
