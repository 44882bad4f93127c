"""Exports to ONNX and OpenVINO: bundles whose graphs were compared with the model before they were kept."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anaume
from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.engines import EMBED
from anaume.errors import BundleError, SettingsError
from anaume.exporting.exporting import export_bundle
from commands import runner
from tiny_bundles import tiny_parts
from tiny_graphs import needs
from tiny_models import every_head

FORMS: Any = [
    pytest.param("onnx", marks=needs("onnx", "onnxruntime")),
    pytest.param("openvino", marks=needs("onnx", "openvino")),
]
UNIT = EmbeddingConfig(pooling="mean", normalize=True, max_length=40, prompts={"query": "q : "}, include_prompt=False)
TEXTS = ["my dog is cute", "the bank of the river", "a", "", "the dog is the cat of the bank " * 6]


@pytest.mark.parametrize("form", FORMS)
def test_an_export_answers_as_the_bundle_does_wherever_it_lies(form: Any, tmp_path: Path) -> None:
    bundle = Bundle(tiny_parts({"classification": every_head()["classification"]}, embedding=UNIT), device="cpu")
    certificate = export_bundle(bundle, tmp_path / "e", to=form)
    assert certificate.graphs is not None
    assert certificate.graphs.keys() == {EMBED, "classification"}
    # copied as to another machine, the first one gone
    shutil.copytree(tmp_path / "e", tmp_path / "copy")
    shutil.rmtree(tmp_path / "e")
    export = anaume.load(tmp_path / "copy")
    assert export.engine.name == form
    for as_ in (None, "query"):
        with pytest.warns(anaume.AnaumeWarning, match="1 of 5 texts were longer"):
            ours = export.embed_report(TEXTS, as_=as_)
        with pytest.warns(anaume.AnaumeWarning):
            wanted = bundle.embed_report(TEXTS, as_=as_)
        assert np.abs(ours.vectors - wanted.vectors).max() < 1e-5
        assert ours.fingerprint == wanted.fingerprint  # the same vectors: they may be compared
    predicted = export.predict(TEXTS[:3])
    for one, other in zip(predicted, bundle.predict(TEXTS[:3]), strict=True):
        assert one.label == other.label
        assert np.allclose(list(one.probabilities.values()), list(other.probabilities.values()), atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
def test_blanks_are_filled_by_an_export(form: Any, tmp_path: Path) -> None:
    bundle = Bundle(tiny_parts({"mlm": every_head()["mlm"], "nsp": every_head()["nsp"]}), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    export = anaume.load(tmp_path / "e")
    assert export.exported is not None
    assert export.exported.graphs.keys() == {"mlm", "nsp"}  # no pooling was stored: heads alone
    one, other = (own.fill("my [MASK] is cute").blanks[0].guesses for own in (export, bundle))
    assert [guess.text for guess in one] == [guess.text for guess in other]
    with pytest.raises(SettingsError, match=r"no graph of text vectors \(no pooling was stored\); it has: mlm, nsp"):
        export.embed(["a"])


@pytest.mark.parametrize("form", FORMS)
def test_one_that_is_off_fails_and_leaves_nothing(form: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = Bundle(tiny_parts(embedding=UNIT), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    before = (tmp_path / "e" / "anaume.json").read_bytes()
    from anaume.engines import graphs

    monkeypatch.setattr(graphs, "_HIDDEN", -3.0)  # padding leaks a little: alone a row is right
    for place in ("e", "new"):
        with pytest.raises(BundleError, match=r"vectors\.\w+: differs from the bundle by .* nothing was exported"):
            export_bundle(bundle, tmp_path / place, to=form, overwrite=True)
    assert (tmp_path / "e" / "anaume.json").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e"]


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_the_certificate_says_every_shape_and_how_far_each_graph_was_off(form: Any, tmp_path: Path) -> None:
    bundle = Bundle(tiny_parts(every_head(), embedding=UNIT), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    told = json.loads((tmp_path / "e" / "certificate.json").read_text("utf-8"))
    assert told["made_from"] == bundle.fingerprint
    assert told["graphs"].keys() == {EMBED, *every_head()}
    for graph in told["graphs"].values():
        assert graph["largest_difference"] <= graph["bound"] <= 1e-4
        assert [17, 40] in graph["shapes"]
        assert [1, 1] in graph["shapes"]
        assert (tmp_path / "e" / graph["file"]).is_file()


@pytest.mark.parametrize("form", FORMS)
def test_the_fingerprint_travels_in_the_graph(form: Any, tmp_path: Path) -> None:
    bundle = Bundle(tiny_parts(embedding=UNIT), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    if form == "onnx":
        import onnxruntime

        session = onnxruntime.InferenceSession(str(tmp_path / "e" / "vectors.onnx"))
        told = session.get_modelmeta().custom_metadata_map
        assert told["anaume.vector_fingerprint"] == bundle.fingerprint
    else:
        import openvino

        model = openvino.Core().read_model(str(tmp_path / "e" / "vectors.xml"))
        assert model.get_rt_info(["anaume", "vector_fingerprint"]).value == bundle.fingerprint


@pytest.mark.parametrize("form", FORMS)
def test_a_text_that_is_too_long_and_a_lost_file_are_told(form: Any, tmp_path: Path) -> None:
    bundle = Bundle(tiny_parts(embedding=UNIT), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    export = anaume.load(tmp_path / "e")
    with pytest.raises(anaume.DataError, match="does not fit into 40 tokens"):
        export.embed(["my dog " * 30], long="error")
    with pytest.raises(SettingsError, match="brings its own engine"):
        anaume.load(tmp_path / "e", engine="torch")
    with pytest.raises(SettingsError, match="dimensions, texts is for a static export"):
        export_bundle(bundle, tmp_path / "x", to=form, dimensions=3, texts=["a"])
    weights = tmp_path / "e" / ("vectors.onnx" if form == "onnx" else "vectors.bin")
    weights.write_bytes(weights.read_bytes()[:-9])
    with pytest.raises(BundleError, match="truncated"):
        anaume.load(tmp_path / "e")
    weights.unlink()
    with pytest.raises(BundleError, match=r"vectors\.\w+ is missing"):
        anaume.load(tmp_path / "e")


@pytest.mark.parametrize("form", FORMS)
def test_the_command(form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = runner(monkeypatch)
    Bundle(tiny_parts(embedding=UNIT), device="cpu").save(tmp_path / "b")
    done = run("export", tmp_path / "b", "--to", form, "-o", tmp_path / "e")
    assert (done.code, done.err) == (0, "")
    assert "largest difference" in done.out
    assert run("info", tmp_path / "e").code == 0
    verified = run("verify", tmp_path / "e")
    assert verified.code == 0, verified.out
    (tmp_path / "t.txt").write_text("my dog\nthe bank\n", "utf-8")
    assert run("embed", tmp_path / "e", tmp_path / "t.txt", "-o", tmp_path / "v.npy").code == 0
    assert run("export", tmp_path / "e", "--to", form, "-o", tmp_path / "f").error().endswith("it was made of")
