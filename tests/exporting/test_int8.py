"""int8 exports: calibrated on one half of the texts, measured on the other, refused over a bound."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.data.labelled import TextExample, read_texts
from anaume.engines import runners
from anaume.errors import AnaumeWarning, BundleError, DataError, SettingsError
from anaume.exporting.certificate import agreement
from anaume.exporting.exporting import export_bundle
from anaume.exporting.int8 import split_texts
from anaume.exporting.int8_certificate import Int8Bounds
from benchmarks.texts import paragraphs
from commands import runner
from helpers import public_data, wheel_checkpoint
from tiny_bundles import VOCAB, tiny_parts
from tiny_graphs import needs
from tiny_models import every_head

pytestmark = needs("onnx", "openvino", "nncf")

UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=40, prompts={"query": "q : "}, include_prompt=False)
_WORDS = [token for token in VOCAB if token.isalpha()]
_DRAW = np.random.default_rng(0)
TEXTS = [" ".join(_DRAW.choice(_WORDS, 1 + number % 9)) for number in range(240)]
LOOSE = Int8Bounds(mean=0.9, minimum=0.8, score=50.0)
PAIRS = [
    TextExample(text=one, pair=other, label=float(len(one))) for one, other in zip(TEXTS, TEXTS[30:], strict=False)
]


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    return Bundle(tiny_parts({"classification": every_head()["classification"]}, embedding=UNIT), device="cpu")


@pytest.fixture(scope="module")
def export(bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("int8") / "B8"
    export_bundle(bundle, path, to="openvino", int8=True, texts=TEXTS, pairs=PAIRS, bounds=LOOSE)
    return path


def cosines(one: Any, other: Any) -> Any:
    return (one * other).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(other, axis=1)


def test_int8_is_a_precision_of_the_export_and_float32_stays_what_it_was(bundle: Bundle, export: Path) -> None:
    held_out = split_texts(TEXTS).held_out
    float32, int8 = anaume.load(export), anaume.load(export, precision="int8", engine="openvino")
    wanted = bundle.embed(held_out)
    assert np.abs(float32.embed(held_out) - wanted).max() < 1e-5
    report = int8.embed_report(held_out)
    assert (report.precision, int8.precision, report.fingerprint) == ("int8", "int8", bundle.fingerprint)
    assert not np.allclose(report.vectors, wanted, atol=1e-4)  # it is in int8 indeed
    told = json.loads((export / "certificate.json").read_text("utf-8"))["int8"]
    found = cosines(report.vectors, wanted)
    assert told["mean"] == pytest.approx(found.mean(), abs=2e-4)
    assert told["minimum"] == pytest.approx(found.min(), abs=2e-3)
    assert not told["over"]
    assert (told["held_out"], told["given"]) == (len(held_out), len(TEXTS))
    assert told["layers"] == 2 * 5  # of each layer: qkv, scores, output, expand, contract
    together = int8.embed(held_out)[:50]
    alone = np.concatenate([int8.embed([text]) for text in held_out[:50]])
    assert told["alone"] == pytest.approx(np.abs(alone - together).max(), abs=2e-3)
    assert told["neighbours"] == pytest.approx(agreement(wanted, report.vectors).neighbours, abs=0.02)
    assert told["texts_per_second"].keys() >= {"float32", "int8"}
    score = told["score"]
    assert score["pairs"] == len(PAIRS)
    assert score["difference"]["mean"] == pytest.approx(score["int8"]["mean"] - score["float32"]["mean"])
    assert score["difference"]["low"] <= score["difference"]["mean"] <= score["difference"]["high"]
    # prompts that don't count have their mask in int8, too
    assert cosines(int8.embed(TEXTS[:20], as_="query"), bundle.embed(TEXTS[:20], as_="query")).min() > LOOSE.minimum


def test_heads_stay_in_float32_and_are_refused_in_int8(bundle: Bundle, export: Path) -> None:
    int8 = anaume.load(export, precision="int8")
    with pytest.raises(SettingsError, match="text vectors in int8, and the head 'classification' is not"):
        int8.predict(TEXTS[:2])
    assert [one.label for one in anaume.load(export).predict(TEXTS[:5])] == [
        one.label for one in bundle.predict(TEXTS[:5])
    ]


def test_a_text_s_vector_hardly_depends_on_its_company(export: Path) -> None:
    int8 = anaume.load(export, precision="int8")
    together = int8.embed(TEXTS[:60])
    alone = np.concatenate([int8.embed([text]) for text in TEXTS[:60]])
    assert np.abs(together - alone).max() < 5e-2


def test_calibration_and_certificate_share_no_text() -> None:
    texts = [*TEXTS, *TEXTS[:30], "", "  "]
    split = split_texts(texts)
    assert not set(split.choosing) & set(split.held_out)
    assert set(split.calibration) <= set(split.choosing)
    assert split.given == len(texts)
    assert "" not in split.held_out
    assert len(split.choosing) + len(split.held_out) == len(set(TEXTS))
    many = split_texts([f"text {number}" for number in range(9000)])
    assert (len(many.calibration), len(many.choosing), len(many.held_out)) == (300, 1000, 1000)
    assert many.held_out[-1] == "text 8999"  # from the first to the last
    with pytest.raises(SettingsError, match=r"at least 100 different texts.*got 3 \(in 150 rows\)"):
        split_texts(["a", "b", "c"] * 50)


@pytest.mark.slow
def test_over_the_bound_nothing_is_written_unless_forced_and_then_it_says_so(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    strict = Int8Bounds(mean=1.0, minimum=1.0)
    with pytest.raises(BundleError, match="over the bounds with any layer in it: nothing was exported"):
        export_bundle(bundle, tmp_path / "B8", to="openvino", int8=True, texts=TEXTS, bounds=strict)
    assert not list(tmp_path.iterdir())
    export_bundle(bundle, tmp_path / "B8", to="openvino", int8=True, texts=TEXTS, bounds=strict, force=True)
    with pytest.warns(AnaumeWarning, match=r"over their bounds \(mean cosine 0\.\d+, under 1;.*was forced"):
        anaume.load(tmp_path / "B8", precision="int8")
    anaume.load(tmp_path / "B8")  # float32 is what it always was: no warning
    done = runner(monkeypatch)("info", tmp_path / "B8")
    assert "over their bounds, and were forced" in done.out


def test_bounds_say_what_is_over() -> None:
    found = np.full(10, 0.999)
    assert Int8Bounds().over(found, 0.2) == []
    assert Int8Bounds().over(found, 0.31) == ["the score lost 0.31 points, over 0.3"]
    assert Int8Bounds().over(np.array([1.0, 0.97])) == [
        "mean cosine 0.985000, under 0.995",
        "minimum cosine 0.970000, under 0.98",
    ]
    assert len(Int8Bounds().over(np.array([np.nan]))) == 2
    for wrong in ({"mean": 1.5}, {"score": -1.0}, {"minimum": True}):
        with pytest.raises(SettingsError, match="must be from 0 to"):
            Int8Bounds(**wrong)  # type: ignore[arg-type]


@pytest.mark.slow
def test_layers_that_cost_most_stay_in_higher_precision(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As on a processor without bfloat16, whose rounding would hide what so small an encoder loses by int8.
    monkeypatch.setattr(runners, "has_bfloat16", lambda device: False)
    plain = export_bundle(bundle, tmp_path / "all", to="openvino", int8=True, texts=TEXTS, bounds=LOOSE).int8
    assert plain is not None
    assert (plain.rest, plain.kept) == ("float32", ())
    choosing = split_texts(TEXTS).choosing
    found = cosines(anaume.load(tmp_path / "all", precision="int8").embed(choosing), bundle.embed(choosing)).mean()
    # Half of that loss is allowed, on the very texts that choose, which keep a tenth in hand: some layers must go.
    bounds = Int8Bounds(mean=float((1 + found) / 2 - 0.1) / 0.9, minimum=0.5)
    kept = export_bundle(bundle, tmp_path / "B8", to="openvino", int8=True, texts=TEXTS, bounds=bounds).int8
    assert kept is not None
    assert 0 < len(kept.kept) < kept.layers == plain.layers
    assert all(name.startswith("encoder.layers.") for name in kept.kept)
    assert kept.mean > plain.mean


def test_int8_is_refused_where_it_was_not_exported(bundle: Bundle, tmp_path: Path) -> None:
    bundle.save(tmp_path / "B")
    export_bundle(bundle, tmp_path / "E", to="openvino")
    line = "--to openvino --int8 --calibrate texts.jsonl -o B8"
    for name in ("B", "E"):
        with pytest.raises(SettingsError, match=line):
            anaume.load(tmp_path / name, precision="int8")
    with pytest.raises(SettingsError, match="int8 is for OpenVINO"):
        export_bundle(bundle, tmp_path / "x", to="onnx", int8=True, texts=TEXTS)
    with pytest.raises(SettingsError, match="bounds and force are for int8"):
        export_bundle(bundle, tmp_path / "x", to="openvino", force=True)
    heads = Bundle(tiny_parts({"mlm": every_head()["mlm"]}), device="cpu")
    with pytest.raises(SettingsError, match="heads alone"):
        export_bundle(heads, tmp_path / "x", to="openvino", int8=True, texts=TEXTS)


def test_int8_vectors_mix_with_no_others(export: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from anaume.data.stored import join, read_vectors

    run = runner(monkeypatch)
    (tmp_path / "t.txt").write_text("\n".join(TEXTS[:20]), "utf-8")
    for precision in ("float32", "bfloat16", "int8"):
        done = run("embed", export, tmp_path / "t.txt", "-o", tmp_path / f"{precision}.npy", "--precision", precision)
        assert done.code == 0, done.err
        assert precision in done.err
        assert ("has int8 vectors, too" in done.err) == (precision != "int8")
    stored = {name: read_vectors(tmp_path / f"{name}.npy") for name in ("float32", "bfloat16", "int8")}
    assert stored["int8"].metadata["precision"] == "int8"
    assert stored["int8"].fingerprint == stored["float32"].fingerprint  # precision is a field beside it
    for other in ("float32", "bfloat16"):
        for pair in ((stored["int8"], stored[other]), (stored[other], stored["int8"])):
            with pytest.raises(DataError, match="not near enough to be mixed"):
                join(*pair)
    assert len(join(stored["int8"], stored["int8"]).vectors) == 40


@needs("lancedb")
def test_an_index_of_int8_vectors_takes_int8_alone(export: Path, tmp_path: Path) -> None:
    from anaume.search import Index, open_index

    index = Index.create(tmp_path / "i", anaume.load(export, precision="int8"))
    index.add([{"id": str(number), "text": text} for number, text in enumerate(TEXTS[:30])])
    with pytest.raises(BundleError, match=r"holds int8 vectors, and the bundle makes float32.*precision='int8'"):
        open_index(tmp_path / "i", anaume.load(export))
    index = open_index(tmp_path / "i")  # the bundle it remembers, as it was
    assert index.bundle.precision == "int8"
    assert index.search(TEXTS[3], top_k=1)
    assert open_index(tmp_path / "i", export).bundle.precision == "int8"


def test_the_command(bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner(monkeypatch)
    bundle.save(tmp_path / "b")
    (tmp_path / "t.txt").write_text("\n".join(TEXTS), "utf-8")
    told = ("export", tmp_path / "b", "--to", "openvino", "--int8")
    given = ("--calibrate", tmp_path / "t.txt")
    done = run(*told, *given, "--bound", "mean=0.9", "--bound", "minimum=0.8", "-o", tmp_path / "B8")
    assert done.code == 0, done.err
    assert "cosine to float32, lowest" in done.out
    assert "were measured" in done.out
    assert "int8" in run("info", tmp_path / "B8").out
    verified = run("verify", tmp_path / "B8")
    assert verified.code == 0, verified.out
    assert "int8, in batches of 2" in verified.out
    assert "needs at least 100 different texts" in run(*told, "-o", tmp_path / "x").error()
    assert "NAME=NUMBER" in run(*told, *given, "--bound", "means=1", "-o", tmp_path / "x").error()
    twice = run(*told, *given, "--bound", "mean=0.9", "--bound", "mean=0.8", "-o", tmp_path / "x")
    assert "--bound mean is given twice: once 0.9, once 0.8" in twice.error()
    assert (
        "--calibrate is for --int8"
        in run("export", tmp_path / "b", "--to", "openvino", *given, "-o", tmp_path / "x").error()
    )
    refused = run("embed", tmp_path / "b", tmp_path / "t.txt", "--precision", "int8").error()
    assert f"anaume export {tmp_path / 'b'} --to openvino --int8 --calibrate texts.jsonl -o B8" in refused
    assert not (tmp_path / "x").exists()


@pytest.mark.real
def test_all_minilm_keeps_its_bounds_on_texts_it_was_not_calibrated_on(tmp_path: Path) -> None:
    """Calibrated on some sentences and paragraphs, it keeps them on others: STS-B dev, and paragraphs held out."""
    examples = read_texts(public_data("glue/STS-B/train.tsv.gz"), kind="number", paired=True)
    sentences = [example.text for example in islice(examples, 0, None, 60)]
    found = paragraphs(400)
    bundle = Bundle.load(wheel_checkpoint(), device="cpu")
    certificate = export_bundle(
        bundle, tmp_path / "B8", to="openvino", int8=True, texts=[*sentences, *found[: len(sentences)]]
    ).int8
    assert certificate is not None
    assert certificate.over == ()
    dev = list(islice(read_texts(public_data("glue/STS-B/dev.tsv"), kind="number", paired=True), 0, None, 15))
    int8 = anaume.load(tmp_path / "B8", precision="int8")
    for texts in ([example.text for example in dev], found[-100:]):
        close = cosines(int8.embed(texts), bundle.embed(texts))
        assert close.mean() >= 0.995
        assert close.min() >= 0.98
