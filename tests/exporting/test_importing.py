from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import anaume
from anaume.config import EmbeddingConfig
from anaume.errors import AnaumeError, BundleError, SettingsError
from anaume.exporting.importing import ImportReport, import_checkpoint
from commands import Run, runner
from helpers import SPECIALS, public_data
from tiny_bundles import foreign
from tiny_google import Values, google_variables, write_beside, write_checkpoint

VOCAB = [*SPECIALS, "my", "dog", "is", "cute", "the", "bank", "##s", "."]
CONFIG: dict[str, Any] = {
    "vocab_size": len(VOCAB),
    "hidden_size": 12,
    "num_hidden_layers": 2,
    "num_attention_heads": 3,
    "intermediate_size": 20,
    "max_position_embeddings": 16,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "initializer_range": 0.3,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "pooler_fc_size": 12,  # as published files have it
}
TEXTS = ["my dog is cute .", "the banks", ""]


@pytest.fixture(scope="module")
def theirs() -> Any:
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BertForPreTraining(transformers.BertConfig(**CONFIG))
    for parameter in model.parameters():  # norms and biases start as ones and zeros: a swap would pass unseen
        parameter.data += 0.1 * torch.randn_like(parameter)
    return model.eval()


@pytest.fixture
def variables(theirs: Any) -> dict[str, Values]:
    found = google_variables(theirs.state_dict())
    moments = {f"{name}/adam_{which}": values for name, values in found.items() for which in "mv"}
    return {**found, **moments, "global_step": np.array(900_000)}


def write(folder: Path, variables: dict[str, Values], vocab: list[str] = VOCAB, **config: Any) -> Path:
    prefix = write_checkpoint(folder / "bert_model.ckpt", variables)
    write_beside(prefix, {**CONFIG, **config}, vocab)
    return prefix


def imported(prefix: Path, **settings: Any) -> tuple[anaume.Bundle, ImportReport]:
    out = prefix.parent / "out"
    report = import_checkpoint(prefix, out, **settings)
    return anaume.load(out, device="cpu"), report


def test_the_bundle_computes_what_the_model_of_the_checkpoint_does(
    theirs: Any, variables: dict[str, Values], tmp_path: Path
) -> None:
    bundle, report = imported(write(tmp_path, variables))
    assert (report.count("loaded"), report.count("tied"), report.count("ignored")) == (45, 1, 93)
    for text in TEXTS:
        token_ids = torch.tensor([bundle.tokenizer.encode(text).token_ids])
        segments = (torch.arange(token_ids.shape[1]) > 1).long()[None]
        with torch.no_grad():
            wanted = theirs(input_ids=token_ids, token_type_ids=segments)
            states = bundle.model(token_ids, None, segments).last_hidden_state
            assert torch.allclose(bundle.model.head_logits("mlm", states, None), wanted.prediction_logits, atol=1e-5)
            nsp = bundle.model.head_logits("nsp", states, None)
            assert torch.allclose(nsp, wanted.seq_relationship_logits, atol=1e-5)


def test_every_tensor_is_told_with_what_became_of_it(variables: dict[str, Values], tmp_path: Path) -> None:
    _, report = imported(write(tmp_path, variables))
    told = {tensor.name: tensor for tensor in report.tensors}
    assert told.keys() == variables.keys()
    assert all(told[name].shape == values.shape for name, values in variables.items())
    table = told["bert/embeddings/word_embeddings"]
    assert (table.became, "output matrix" in table.note) == ("tied", True)
    key = told["bert/encoder/layer_1/attention/self/key/kernel"]
    assert (key.became, key.note) == ("loaded", "encoder.layers.1.attention.qkv.weight")
    assert (told["global_step"].became, told["global_step"].note) == ("ignored", "how many steps were trained")
    assert told["cls/predictions/output_bias"].note == "heads.mlm.bias"
    assert told["bert/pooler/dense/bias/adam_m"].note == "the optimizer's state"


def test_the_lineage_keeps_what_was_read(variables: dict[str, Values], tmp_path: Path) -> None:
    bundle, _ = imported(write(tmp_path, variables))
    (stage,) = bundle.parts.record.stages
    assert (stage.objectives, stage.source) == (("unknown",), "bert_model.ckpt")
    assert [data["name"] for data in stage.data] == ["bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"]


def test_what_fits_nowhere_is_refused_by_name(variables: dict[str, Values], tmp_path: Path) -> None:
    strange = {**variables, "bert/encoder/layer_0/adapter/kernel": np.zeros((3, 3), np.float32)}
    with pytest.raises(BundleError, match=r"Unknown \(1\): bert\.encoder\.layer\.0\.adapter\.weight"):
        imported(write(tmp_path / "a", strange))
    del strange["bert/encoder/layer_0/adapter/kernel"], strange["bert/pooler/dense/bias"]
    with pytest.raises(BundleError, match=r"Missing \(1\): pooler\.dense\.bias"):
        imported(write(tmp_path / "b", strange))
    turned = {**variables, "bert/encoder/layer_0/output/dense/kernel": np.zeros((12, 20), np.float32)}
    with pytest.raises(
        BundleError, match=r"layer\.0\.output\.dense\.weight is \(20, 12\), bert_config\.json says \(12, 20\)"
    ):
        imported(write(tmp_path / "c", turned))
    objects = {f"{name}/.ATTRIBUTES/VARIABLE_VALUE": values for name, values in variables.items()}
    with pytest.raises(BundleError, match="TensorFlow 2's objects"):
        imported(write(tmp_path / "d", objects))
    with pytest.raises(BundleError, match=r"no bert/embeddings/word_embeddings; there are a, b \.\.\."):
        imported(write(tmp_path / "e", {"a": np.zeros(1, np.float32), "b": np.zeros(1, np.float32)}))
    assert not any(tmp_path.rglob("out"))  # nothing is left of any of them


def test_missing_and_foreign_files_are_told_with_the_option_that_names_them(
    variables: dict[str, Values], tmp_path: Path
) -> None:
    prefix = write(tmp_path, variables)
    (tmp_path / "vocab.txt").rename(tmp_path / "words.txt")
    with pytest.raises(BundleError, match=r"vocab\.txt is not there.*--vocab FILE"):
        imported(prefix)
    imported(prefix, vocab=tmp_path / "words.txt")
    (tmp_path / "words.txt").write_text("\n".join([*VOCAB, "more"]), "utf-8")
    with pytest.raises(BundleError, match="14 entries, and vocab_size is 13"):
        imported(prefix, vocab=tmp_path / "words.txt", overwrite=True)
    with pytest.raises(SettingsError, match=r"holds a bundle already.*--overwrite"):
        imported(prefix, vocab=tmp_path / "words.txt")
    with pytest.raises(BundleError, match=r"is a directory: name the checkpoint's own with vocab=.*--vocab FILE"):
        imported(prefix, vocab=tmp_path, overwrite=True)
    with pytest.raises(SettingsError, match=r"directory of a TensorFlow checkpoint.*bert_model\.ckpt$"):
        import_checkpoint(tmp_path, tmp_path / "of the directory")
    (tmp_path / "bert_config.json").rename(tmp_path / "mine.json")
    (tmp_path / "words.txt").write_text("\n".join(VOCAB), "utf-8")
    told = json.loads((tmp_path / "mine.json").read_text("utf-8"))
    for layers, what in ((told["num_hidden_layers"] + 1, "Missing"), (1, "Unknown")):
        (tmp_path / "mine.json").write_text(json.dumps({**told, "num_hidden_layers": layers}), "utf-8")
        with pytest.raises(BundleError, match=rf"{what} \([1-9].*do they belong to this .*mine\.json\?"):
            imported(prefix, vocab=tmp_path / "words.txt", config=tmp_path / "mine.json", overwrite=True)


@pytest.mark.parametrize(
    ("words", "given", "lower", "note"),
    [
        ("dog", None, True, "no entry has a capital letter: taken as uncased"),
        ("Dog", None, False, "1 entries have capital letters, 'Dog' first: taken as cased"),
        ("dog", False, False, ""),
        ("Dog", True, True, "never reached"),
    ],
)
def test_case_is_as_the_vocabulary_looks_unless_told(
    variables: dict[str, Values], tmp_path: Path, words: str, given: bool | None, lower: bool, note: str
) -> None:
    vocab = [words if token == "dog" else token for token in VOCAB]
    bundle, report = imported(write(tmp_path, variables, vocab), lower_case=given)
    assert bundle.tokenizer.rules.lower_case is lower
    assert any(note in line for line in report.notes) if note else report.notes == ()


def test_heads_of_the_fine_tuning_scripts_are_read_too(variables: dict[str, Values], tmp_path: Path) -> None:
    plain = {name: values for name, values in variables.items() if not name.startswith("cls/")}
    weights = np.random.default_rng(0).standard_normal((3, 12)).astype(np.float32)
    tuned = {**plain, "output_weights": weights, "output_bias": np.arange(3, dtype=np.float32)}
    bundle, report = imported(write(tmp_path / "classes", tuned))
    assert bundle.model.head_configs["classification"].labels == ("LABEL_0", "LABEL_1", "LABEL_2")
    assert torch.equal(bundle.model.heads["classification"].dense.weight, torch.from_numpy(weights))  # type: ignore[union-attr, arg-type]
    assert any("no names of labels" in note for note in report.notes)
    answers = {**plain, "cls/squad/output_weights": weights[:2], "cls/squad/output_bias": np.zeros(2, np.float32)}
    assert list(imported(write(tmp_path / "answers", answers))[0].model.head_configs) == ["span"]


def test_a_hugging_face_directory_is_imported_by_the_same_verb(tmp_path: Path) -> None:
    source = foreign(tmp_path / "theirs", embedding=EmbeddingConfig(pooling="mean", max_length=40))
    report = import_checkpoint(source, tmp_path / "ours")
    assert report.tensors == ()
    assert np.array_equal(anaume.load(tmp_path / "ours").embed(["a dog"]), anaume.load(source).embed(["a dog"]))
    with pytest.raises(SettingsError, match="vocab is for checkpoints"):
        import_checkpoint(source, tmp_path / "more", vocab="vocab.txt")


@pytest.mark.real
def test_the_public_checkpoint_is_read_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = public_data("tiny_checkpoints/keras-bert_tf1_ckpt")
    run: Run = runner(monkeypatch)
    done = run("import", folder / "bert_model.ckpt", "-o", tmp_path / "b")
    assert (done.code, done.err) == (0, "")
    assert "tensors  139: 45 loaded, 1 tied, 93 ignored" in done.out
    bundle = anaume.load(tmp_path / "b")
    raw = (folder / "bert_model.ckpt.data-00000-of-00001").read_bytes()
    # Two tensors by hand: their places in the file as the index has them.
    assert np.frombuffer(raw[:16], "<f4").tolist() == bundle.model.embeddings.layer_norm.bias.tolist()
    assert np.frombuffer(raw[48:64], "<f4").tolist() == bundle.model.embeddings.layer_norm.weight.tolist()
    assert bundle.fill("all work and no [MASK] makes jack a dull boy").blanks[0].guesses
    with pytest.raises(AnaumeError, match="vocab_size"):
        import_checkpoint(
            folder / "bert_model.ckpt", tmp_path / "c", vocab=public_data("vocab/bert-base-cased-vocab.txt")
        )


def test_the_command_tells_it_for_people_and_for_programs(
    variables: dict[str, Values], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = runner(monkeypatch)
    prefix = write(tmp_path, variables)
    line = [prefix, "--config", tmp_path / "bert_config.json", "--vocab", tmp_path / "vocab.txt", "-o", tmp_path / "b"]
    done = run("import", *line)
    assert (done.code, done.err) == (0, "")
    assert "tensors  139: 45 loaded, 1 tied, 93 ignored" in done.out
    assert "note: no entry has a capital letter" in done.out
    done = run("import", *line, "--json", "--overwrite", "--cased")
    record = json.loads(done.out)
    assert (len(record["tensors"]), record["heads"], record["notes"]) == (139, ["mlm", "nsp"], [])
    assert run("import", *line).error().endswith("(--overwrite)")
