"""A directory -> parts: our own bundles, Hugging Face directories and sentence-transformers directories."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

from anaume.bundle import format as manifest_format
from anaume.bundle import sentence_transformers
from anaume.bundle.checkpoint import build_model, read_checkpoint
from anaume.bundle.directory import recover
from anaume.bundle.exported_files import read_export
from anaume.bundle.files import read_object
from anaume.bundle.find import public_name
from anaume.bundle.format import CARD, HEADS_FILE
from anaume.bundle.huggingface import parse_config, published_class
from anaume.bundle.parts import BundleParts
from anaume.bundle.record import TrainingRecord
from anaume.bundle.weights import StoredTensors, read_safetensors, read_weights, require_floats
from anaume.config import EmbeddingConfig, EncoderConfig
from anaume.errors import AnaumeError, BundleError, SettingsError
from anaume.logs import get_logger
from anaume.tokenization import Tokenizer

logger = get_logger(__name__)

CONFIG = "config.json"


def read_bundle(path: str | Path) -> BundleParts:
    """Read a directory whole, or refuse it with one clear line.

    Raises BundleError for what can't be trusted or is another architecture, TokenizerError for the tokenizer's files.
    """
    for _ in range(3):
        directory = recover(path)
        before = _identity(directory)
        try:
            parts = _read(directory)
        except (AnaumeError, OSError) as error:
            # A save by another process while we read: the files were of two bundles. Read the new one.
            if _identity(directory) != before:
                continue
            if isinstance(error, OSError):
                raise BundleError(f"{directory}: can't be read: {error.strerror} ({error.filename})") from error
            raise
        if _identity(directory) == before:
            return parts
    raise BundleError(f"{path}: was replaced three times while it was read; try again when nobody saves there")


def read_tokenizer(path: str | Path) -> Tokenizer:
    """Read the tokenizer of a directory exactly as `read_bundle` would, and leave the weights on disk.

    Raises TokenizerError for its files, BundleError when it is not the one the bundle was saved with.
    """
    directory = recover(path)
    if (directory / manifest_format.FILE).exists():
        manifest = manifest_format.read_manifest(directory)
        tokenizer = Tokenizer.from_directory(directory)
        manifest_format.check_tokenizer(tokenizer, manifest, directory)
        return tokenizer
    if (directory / sentence_transformers.MODULES).exists():
        return _sentence_tokenizer(sentence_transformers.read_settings(directory))[0]
    return Tokenizer.from_directory(directory)


def read_max_length(path: str | Path) -> int | None:
    """Return the longest text a directory takes, as `read_bundle` would; None = it holds a tokenizer alone.

    Raises BundleError as `read_bundle` does; the weights are left on disk.
    """
    directory = recover(path)
    if (directory / manifest_format.FILE).exists():
        return manifest_format.read_manifest(directory).embedding.max_length
    sentences = (directory / sentence_transformers.MODULES).exists()
    settings = sentence_transformers.read_settings(directory) if sentences else None
    folder = directory if settings is None else settings.folder
    if not (folder / CONFIG).exists():
        return None
    config = parse_config(read_object(folder / CONFIG), str(folder / CONFIG))
    return _max_length(folder, config.encoder, settings)[0]


def _identity(directory: Path) -> tuple[int, int, int] | None:
    try:
        status = os.stat(directory)
    except OSError:
        return None
    # The number of a directory that was removed is soon given to another one: the time tells them apart.
    return status.st_dev, status.st_ino, status.st_mtime_ns


def _read(directory: Path) -> BundleParts:
    if not directory.exists():
        raise BundleError(f"{directory}: there is no such directory")
    if not directory.is_dir():
        raise BundleError(f"{directory}: is a file; name the directory it lies in")
    if (directory / manifest_format.FILE).exists():
        return _read_own(directory)
    if (directory / sentence_transformers.MODULES).exists():
        return _read_sentence_transformers(directory)
    if (directory / CONFIG).exists():
        return _read_huggingface(directory)
    there = ", ".join(sorted(entry.name for entry in directory.iterdir())[:5]) or "nothing"
    raise BundleError(
        f"{directory}: neither {manifest_format.FILE} (a bundle), {sentence_transformers.MODULES} "
        f"(sentence-transformers) nor {CONFIG} (Hugging Face); there is: {there}"
    )


def _read_own(directory: Path) -> BundleParts:
    manifest = manifest_format.read_manifest(directory)
    # The tokenizer first: its message can say which word was changed, a hash can't.
    tokenizer = Tokenizer.from_directory(directory)
    manifest_format.check_tokenizer(tokenizer, manifest, directory)
    manifest_format.check_embedding(tokenizer, manifest, directory)
    manifest_format.check_files(directory, manifest)
    _check_vocab_size(tokenizer, manifest.encoder, directory)
    _check_tasks(manifest, directory / manifest_format.FILE)
    if manifest.export is not None:
        return read_export(directory, manifest, tokenizer, _card(directory))

    config = parse_config(read_object(directory / CONFIG), str(directory / CONFIG))
    architecture = published_class(manifest.encoder, manifest.heads)
    _check_config(config.encoder, manifest.encoder, directory / CONFIG)
    stored = read_weights(directory)
    found = read_checkpoint(stored, config, str(directory))
    # Our names of heads may differ from the kinds the file knows.
    names = {head.kind: name for name, head in manifest.heads.items()} if architecture != "BertModel" else {}
    state = {_renamed(key, names): tensor for key, tensor in found.state.items()}
    dtype = stored.stored_dtype
    if HEADS_FILE in manifest.files:
        tensors = read_safetensors(directory / HEADS_FILE)
        apart = StoredTensors(
            {name: tensor.float() for name, tensor in tensors.items()},
            {name: tensor.dtype for name, tensor in tensors.items()},
            (HEADS_FILE,),
        )
        require_floats(tensors, apart)
        twice = sorted(state.keys() & apart.tensors.keys())
        if twice:
            raise BundleError(f"{directory / HEADS_FILE}: {', '.join(twice)} also stand in the weights")
        state |= apart.tensors
    model = build_model(manifest.encoder, manifest.heads, state, str(directory))
    report = dataclasses.replace(
        found.report, heads=(*(("pooler",) if model.pooler is not None else ()), *manifest.heads), absent=()
    )
    return BundleParts(
        tokenizer=tokenizer,
        model=model,
        embedding=manifest.embedding,
        record=manifest.training,
        tasks=manifest.tasks,
        weights_dtype=dtype,
        source=str(directory),
        report=report,
        fingerprints=manifest.fingerprints,
        card=_card(directory),
    )


def _check_tasks(manifest: manifest_format.Manifest, path: Path) -> None:
    """Raise BundleError for a head whose task is not known here, or can't have been trained so."""
    if not manifest.tasks:
        return
    from anaume.tasks.registry import restored_task  # a tenth of a start without tasks

    longest = manifest.encoder.max_position_embeddings
    for name, told in manifest.tasks.items():
        if not 2 <= told.max_length <= longest:
            raise BundleError(f"{path}: tasks: {name!r} has a max_length of {told.max_length}; 2 to {longest} can be")
        try:
            restored_task(told.task, manifest.heads[name], told.settings)
        except SettingsError as error:
            raise BundleError(f"{path}: tasks: {name!r}: {error}") from error


def _renamed(key: str, names: dict[Any, str]) -> str:
    parts = key.split(".")
    if parts[0] == "heads":
        parts[1] = names.get(parts[1], parts[1])
    return ".".join(parts)


def _check_config(there: EncoderConfig, saved: EncoderConfig, path: Path) -> None:
    theirs, ours = there.to_dict(), saved.to_dict()
    for name, value in ours.items():
        if theirs[name] != value:
            raise BundleError(f"{path}: {name} is {theirs[name]!r}, and {value!r} in anaume.json: was it edited?")


def _read_huggingface(directory: Path) -> BundleParts:
    tokenizer = Tokenizer.from_directory(directory)
    return _foreign(directory, directory, tokenizer, None, ())


def _read_sentence_transformers(directory: Path) -> BundleParts:
    settings = sentence_transformers.read_settings(directory)
    tokenizer, notes = _sentence_tokenizer(settings)
    return _foreign(directory, settings.folder, tokenizer, settings, notes)


def _sentence_tokenizer(settings: sentence_transformers.SentenceSettings) -> tuple[Tokenizer, tuple[str, ...]]:
    tokenizer = Tokenizer.from_directory(settings.folder)
    if not settings.lower_case or tokenizer.rules.lower_case:
        return tokenizer, ()
    rules = dataclasses.replace(tokenizer.rules, lower_case=True)
    note = "sentence_bert_config.json lower-cases every text: that became a rule of the tokenizer"
    return Tokenizer(tokenizer.vocab, rules, notes=tokenizer.notes), (note,)


def _foreign(
    directory: Path,
    folder: Path,
    tokenizer: Tokenizer,
    settings: sentence_transformers.SentenceSettings | None,
    notes: tuple[str, ...],
) -> BundleParts:
    """Read config and weights in `folder`; `settings` are those of a sentence-transformers directory."""
    config = parse_config(read_object(folder / CONFIG), str(folder / CONFIG))
    padded = _check_vocab_size(tokenizer, config.encoder, directory)
    stored = read_weights(folder)
    found = read_checkpoint(stored, config, str(folder))
    model = build_model(config.encoder, found.heads, found.state, str(folder))
    max_length, length_notes = _max_length(folder, config.encoder, settings)
    embedding = EmbeddingConfig() if settings is None else settings.embedding
    absent = [f"not in the weights, and not made up: {', '.join(found.report.absent)}"] if found.report.absent else []
    return BundleParts(
        tokenizer=tokenizer,
        model=model,
        embedding=dataclasses.replace(embedding, max_length=max_length),
        record=TrainingRecord.foreign(public_name(directory)),
        weights_dtype=stored.stored_dtype,
        source=str(directory),
        notes=(*tokenizer.notes, *notes, *config.notes, *padded, *length_notes, *absent),
        report=found.report,
        card=_card(directory),
    )


def _check_vocab_size(tokenizer: Tokenizer, encoder: EncoderConfig, directory: Path) -> list[str]:
    entries, rows = tokenizer.vocab_size, encoder.vocab_size
    if entries > rows:
        raise BundleError(
            f"{directory}: the vocabulary has {entries} entries and the embedding table {rows} rows: they do not "
            "belong together; take the vocabulary the weights were trained with"
        )
    if entries < rows:
        return [f"the embedding table has {rows} rows for {entries} vocabulary entries; the rest is unused"]
    return []


def _max_length(
    folder: Path, encoder: EncoderConfig, settings: sentence_transformers.SentenceSettings | None
) -> tuple[int, list[str]]:
    """sentence_bert_config.json, else tokenizer_config.json (version 6 keeps it there), else the position table."""
    longest = encoder.max_position_embeddings
    told = settings.max_length if settings is not None else None
    path = folder / "tokenizer_config.json"
    if told is None and path.exists():
        value = read_object(path).get("model_max_length")
        told = int(value) if isinstance(value, (int, float)) and 3 <= value < 1e9 else None
    if told is None:
        return longest, []
    if told > longest:
        return longest, [
            f"the longest text is given as {told} tokens, the position table has {longest}: {longest} are used"
        ]
    return told, []


def _card(directory: Path) -> str:
    path = directory / CARD
    try:
        return path.read_bytes().decode("utf-8", "replace") if path.is_file() else ""
    except OSError:
        return ""
