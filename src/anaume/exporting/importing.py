"""Foreign checkpoints -> bundles: original TensorFlow ones, and the directories that `anaume.load` reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from anaume.bundle import find_bundle
from anaume.bundle.checkpoint import build_model, read_checkpoint
from anaume.bundle.directory import check_place
from anaume.bundle.files import read_object, sha256_of
from anaume.bundle.huggingface import parse_config
from anaume.bundle.names import Entry, encoder_entries, head_entries, natural_order, pooler_entries
from anaume.bundle.parts import BundleParts
from anaume.bundle.read import read_bundle
from anaume.bundle.record import UNKNOWN, TrainingRecord, TrainingStage
from anaume.bundle.weights import StoredTensors
from anaume.bundle.write import write_bundle
from anaume.config import EmbeddingConfig
from anaume.errors import BundleError, SettingsError
from anaume.exporting.google_names import CLASSIFIER, ignored, renamed
from anaume.exporting.tensor_bundle import TensorBundle
from anaume.tokenization import Tokenizer

CONFIG, VOCAB = "bert_config.json", "vocab.txt"
_TF2 = "/.ATTRIBUTES/VARIABLE_VALUE"
_TABLE = "bert/embeddings/word_embeddings"


@dataclass(frozen=True, kw_only=True)
class ImportedTensor:
    """What became of one tensor of a checkpoint."""

    name: str
    """As the checkpoint spells it."""
    shape: tuple[int, ...]
    became: Literal["loaded", "tied", "ignored"]
    note: str
    """Our name of what it is in, and what else it serves as; or why it was left out."""


@dataclass(frozen=True, kw_only=True)
class ImportReport:
    """What an import made."""

    parts: BundleParts
    """What was saved."""
    tensors: tuple[ImportedTensor, ...]
    """Every tensor of a TensorFlow checkpoint; () for a directory, of which `parts.report` tells."""
    notes: tuple[str, ...]
    """What the user must know, one line each."""

    def count(self, became: str) -> int:
        """Return how many tensors became so."""
        return sum(tensor.became == became for tensor in self.tensors)


def import_checkpoint(
    source: str | Path,
    out: str | Path,
    *,
    config: str | Path | None = None,
    vocab: str | Path | None = None,
    lower_case: bool | None = None,
    overwrite: bool = False,
) -> ImportReport:
    """Read a foreign checkpoint and save it as the bundle `out`: every tensor is used, or is told with the reason.

    source      a TensorFlow checkpoint ("bert_model.ckpt" and its files); or a directory or name `anaume.load` reads
    config      its bert_config.json; None = the one beside it
    vocab       its vocab.txt; None = the one beside it
    lower_case  whether its texts were lower-cased (accents go with the case); None = as the vocabulary looks
    overwrite   replace a bundle at `out`

    Raises SettingsError for arguments that don't fit, BundleError and TokenizerError for files that can't be trusted.
    """
    place = Path(out)
    check_place(place)
    if not overwrite and place.is_dir() and any(place.iterdir()):
        raise SettingsError(f"{place} holds a bundle already; name another, or overwrite=True (--overwrite)")
    if _is_directory(source):
        _refuse_around_checkpoint(Path(source))
        given = {"config": config, "vocab": vocab, "lower_case": lower_case}
        if named := [name for name, value in given.items() if value is not None]:
            raise SettingsError(f"{source}: a directory brings its own files; {', '.join(named)} is for checkpoints")
        parts = read_bundle(find_bundle(source))
        report = ImportReport(parts=parts, tensors=(), notes=parts.notes)
    else:
        report = read_tensorflow(source, config=config, vocab=vocab, lower_case=lower_case)
    write_bundle(report.parts, place)
    return report


def read_tensorflow(
    source: str | Path,
    *,
    config: str | Path | None = None,
    vocab: str | Path | None = None,
    lower_case: bool | None = None,
) -> ImportReport:
    """Read an original TensorFlow checkpoint; arguments and errors as in `import_checkpoint`."""
    checkpoint = TensorBundle(source)
    beside = checkpoint.prefix.parent
    config_path = beside / CONFIG if config is None else Path(config)
    vocab_path = beside / VOCAB if vocab is None else Path(vocab)
    for path, option in ((config_path, "config"), (vocab_path, "vocab")):
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "is not there"
            raise BundleError(f"{path} {what}: name the checkpoint's own with {option}= (--{option} FILE)")
    told = read_object(config_path)
    if CLASSIFIER in checkpoint.variables:
        told = {"architectures": ["BertForSequenceClassification"], **told}
    foreign = parse_config(told, str(config_path))
    tokenizer, notes = _tokenizer(vocab_path, lower_case)
    if tokenizer.vocab_size > foreign.encoder.vocab_size:
        raise BundleError(
            f"{vocab_path}: {tokenizer.vocab_size} entries, and vocab_size is {foreign.encoder.vocab_size} in "
            f"{config_path}: take the vocabulary the checkpoint was trained with"
        )
    stored, left_out = _stored(checkpoint)
    where = str(checkpoint.prefix)
    found = read_checkpoint(stored, foreign, where, config_path.name)
    model = build_model(foreign.encoder, found.heads, found.state, where)
    longest = foreign.encoder.max_position_embeddings
    if CLASSIFIER in checkpoint.variables:
        notes.append("a checkpoint of TensorFlow keeps no names of labels: they are LABEL_0, LABEL_1, ...")
    parts = BundleParts(
        tokenizer=tokenizer,
        model=model,
        embedding=EmbeddingConfig(max_length=longest),
        record=TrainingRecord(stages=(_stage(checkpoint),)),
        weights_dtype=stored.stored_dtype,
        notes=(*tokenizer.notes, *foreign.notes, *notes),
        report=found.report,
    )
    entries = encoder_entries(foreign.encoder.num_hidden_layers) + pooler_entries()
    for name, head in found.heads.items():
        entries += head_entries(head.kind, name)
    tensors = _accounted(checkpoint, left_out, entries, "mlm" in found.heads)
    return ImportReport(parts=parts, tensors=tensors, notes=parts.notes)


def _is_directory(source: str | Path) -> bool:
    """Whether it is for `anaume.load`: a directory, or a name and no checkpoint's files."""
    path = Path(source)
    checkpoint = ".ckpt" in path.name or path.is_file() or path.with_name(f"{path.name}.index").is_file()
    return path.is_dir() or not checkpoint


def _refuse_around_checkpoint(folder: Path) -> None:
    """Raise SettingsError for a directory that holds a TensorFlow checkpoint and no bundle."""
    inside = sorted(path.with_suffix("") for path in folder.glob("*.index"))
    if inside and not any(path.name != CONFIG for path in folder.glob("*.json")):
        raise SettingsError(f"{folder} is the directory of a TensorFlow checkpoint: name the checkpoint, {inside[0]}")


def _tokenizer(path: Path, lower_case: bool | None) -> tuple[Tokenizer, list[str]]:
    tokenizer = Tokenizer.from_vocab(path, lower_case=True if lower_case is None else lower_case)
    rules = tokenizer.rules
    specials = {rules.pad_token, rules.unk_token, rules.cls_token, rules.sep_token, rules.mask_token}
    capitals = [
        token
        for token in tokenizer.vocab
        if token not in specials and not token.startswith("[unused") and token != token.lower()
    ]
    if lower_case is None and capitals:
        tokenizer = Tokenizer.from_vocab(path, lower_case=False)
        return tokenizer, [f"{len(capitals):,} entries have capital letters, {capitals[0]!r} first: taken as cased"]
    if lower_case is None:
        return tokenizer, ["no entry has a capital letter: taken as uncased, accents removed; --cased says otherwise"]
    if lower_case and capitals:
        return tokenizer, [
            f"{len(capitals):,} entries have capital letters, {capitals[0]!r} first, and are never reached: texts are "
            "lower-cased, as was asked for"
        ]
    return tokenizer, []


def _stored(checkpoint: TensorBundle) -> tuple[StoredTensors, dict[str, str]]:
    """Return the weights under Hugging Face's names, and why the other variables are left out."""
    left_out = {name: why for name in checkpoint.variables if (why := ignored(name))}
    names = [name for name in checkpoint.variables if name not in left_out]
    if any(name.endswith(_TF2) for name in names):
        raise BundleError(
            f"{checkpoint.index}: a checkpoint of TensorFlow 2's objects, whose names follow a program's classes; "
            "anaume reads the published form, bert/encoder/layer_0/..."
        )
    if _TABLE not in names:
        raise BundleError(
            f"{checkpoint.index}: no {_TABLE}; there are {', '.join(names[:3]) or 'no variables'} ...: is this a BERT "
            "of google-research/bert?"
        )
    tensors, dtypes = {}, {}
    for name in names:
        theirs, transposed = renamed(name)
        values = checkpoint.read(name)
        dtypes[theirs] = getattr(torch, checkpoint.variables[name].dtype)
        if values.dtype.kind == "f":
            values = values.astype(np.float32)
        tensors[theirs] = torch.from_numpy(np.array(values.T if transposed else values, order="C"))
    files = tuple(path.name for path in checkpoint.files())
    return StoredTensors(tensors, dtypes, files), left_out


def _stage(checkpoint: TensorBundle) -> TrainingStage:
    data: list[Mapping[str, Any]] = [{"name": path.name, "sha256": sha256_of(path)} for path in checkpoint.files()]
    return TrainingStage(objectives=(UNKNOWN,), source=checkpoint.prefix.name, data=tuple(data))


def _accounted(
    checkpoint: TensorBundle, left_out: Mapping[str, str], entries: list[Entry], has_mlm: bool
) -> tuple[ImportedTensor, ...]:
    ours = {name: entry.ours for entry in entries for name in entry.theirs}
    report = []
    for name in sorted(checkpoint.variables, key=natural_order):
        shape = checkpoint.variables[name].shape
        if name in left_out:
            report.append(ImportedTensor(name=name, shape=shape, became="ignored", note=left_out[name]))
            continue
        note = ours[renamed(name)[0].removeprefix("bert.")]
        tied = has_mlm and name == _TABLE
        if tied:
            note += ", and the output matrix of the mlm head, which is the same"
        report.append(ImportedTensor(name=name, shape=shape, became="tied" if tied else "loaded", note=note))
    return tuple(report)
