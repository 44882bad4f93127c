"""Exports to ONNX and OpenVINO: bundles whose graphs were compared with the model before they were kept."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.bundle import Bundle
from anaume.bundle.parts import TaskEntry
from anaume.config import EmbeddingConfig, HeadConfig
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


QUESTION = ("which bank ?", "the bank of the river is open and the cat is cute")
INPUTS: dict[str, list[Any]] = {
    "classification": ["my dog", ("my dog", "the bank"), ""],
    "multi-label": ["my dog", "the river is open", "my dog is cute and " * 6],
    "regression": ["my dog", ("my dog", "the bank")],
    "ranking": [("my dog", "the bank"), ("my dog", "a cat")],
    "ner": [["my", "dog", "is", "cute"], ["the", "bank"]],
    "question-answering": [QUESTION],
    "multiple-choice": [("my dog", ["a cat and your river", "the bank", "cute ?"])],
}
HEADS = {
    **every_head(),
    "ner": HeadConfig(kind="token-classification", labels=("O", "B-X", "I-X")),
    "ranking": HeadConfig(kind="regression"),
    "question-answering": HeadConfig(kind="span"),
}
SETTINGS: dict[str, dict[str, Any]] = {"multi-label": {"thresholds": {"a": 0.69, "b": 0.45, "c": 0.5}}}


def told(prediction: Any) -> Any:
    """A prediction's fields, its numbers to four digits."""

    def rounded(value: Any) -> Any:
        if isinstance(value, float):
            return pytest.approx(value, abs=1e-4)
        if isinstance(value, dict):
            return {key: rounded(own) for key, own in value.items()}
        return type(value)(map(rounded, value)) if isinstance(value, list | tuple) else value

    return rounded(dataclasses.asdict(prediction))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("task", INPUTS)
def test_an_export_predicts_what_the_bundle_does_for_every_task(task: str, form: Any, tmp_path: Path) -> None:
    """ONX-03: labels, thresholds and lengths travel with the graph."""
    head = HEADS[task]
    entry = TaskEntry(task=task, max_length=20, settings=SETTINGS.get(task, {}))
    parts = dataclasses.replace(tiny_parts({head.kind: head}), tasks={head.kind: entry})
    bundle = Bundle(parts, device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    export = anaume.load(tmp_path / "e")
    assert (export.task.name, export.task.settings(), export.task_length) == (task, bundle.task.settings(), 20)
    assert export.predict([]) == []
    ours, wanted = (own.predict_report(INPUTS[task], warn=False).predictions for own in (export, bundle))
    assert [dataclasses.asdict(one) for one in ours] == [told(one) for one in wanted]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_an_export_of_a_model_in_training_or_in_half_precision_is_float32_without_dropout(
    dtype: torch.dtype, form: Any, tmp_path: Path
) -> None:
    """IMP-08, NUM-06. The place has a name of many alphabets (IMP-11)."""
    other = EmbeddingConfig(pooling="max", normalize=False, max_length=40)
    bundle = Bundle(tiny_parts(embedding=other, hidden_dropout=0.5, attention_dropout=0.5), device="cpu")
    bundle.model.to(dtype).train()
    place = tmp_path / "モデル v1 (final)"
    export_bundle(bundle, place, to=form)
    assert bundle.model.training
    export = anaume.load(place)
    wanted = bundle.embed(TEXTS[:4])
    assert np.abs(export.embed(TEXTS[:4]) - wanted).max() <= 1e-5 * np.abs(wanted).max()
    assert np.array_equal(export.embed(TEXTS[:4]), export.embed(TEXTS[:4]))
    assert export.precision == "float32"


@pytest.mark.parametrize("form", [*FORMS, "static"])
def test_no_texts_and_long_texts_are_as_in_any_bundle(form: Any, tmp_path: Path) -> None:
    """LIM-07, LIM-02: no vectors of the right size, and windows where a text does not fit."""
    bundle = Bundle(tiny_parts(embedding=UNIT), device="cpu")
    export_bundle(bundle, tmp_path / "e", to=form)
    export = anaume.load(tmp_path / "e")
    none = export.embed_report([])
    assert (none.vectors.shape, none.vectors.dtype) == ((0, 16), np.float32)
    assert none.coverage.shape == (0,)
    long = export.embed_report(["my dog is cute " * 30], long="window")
    assert (long.cut, long.messages) == (0, ())
    if form != "static":  # which has no limit
        wanted = bundle.embed(["my dog is cute " * 30], long="window")
        assert np.abs(long.vectors - wanted).max() < 1e-5


@pytest.mark.parametrize("form", [*FORMS, "static"])
def test_weights_that_are_no_numbers_and_the_bundle_s_own_place_are_refused(form: Any, tmp_path: Path) -> None:
    Bundle(tiny_parts(embedding=UNIT), device="cpu").save(tmp_path / "b")
    bundle = anaume.load(tmp_path / "b", device="cpu")
    (tmp_path / "link").symlink_to(tmp_path / "b")
    for place in (tmp_path / "b", tmp_path / "link", tmp_path / "b" / ".." / "b"):
        with pytest.raises(SettingsError, match=r"is the bundle to be exported.*name another"):
            export_bundle(bundle, place, to=form, overwrite=True)
    assert np.array_equal(anaume.load(tmp_path / "b", device="cpu").embed(["a"]), bundle.embed(["a"]))
    with torch.no_grad():
        bundle.model.encoder.layers[1].attention_norm.bias[3] = float("nan")  # type: ignore[union-attr, index]
    with pytest.raises(BundleError, match=r"NaN or infinite values: encoder\.layers\.1\.attention_norm\.bias; go"):
        export_bundle(bundle, tmp_path / "e", to=form)
    assert not (tmp_path / "e").exists()


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
