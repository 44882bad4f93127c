"""anaume.json: what no other file of the directory says, and the checks that the files belong together."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.bundle.files import inside, read_object, sha256_of
from anaume.bundle.fingerprint import vector_fingerprint
from anaume.bundle.parts import Fingerprints, TaskEntry
from anaume.bundle.record import TrainingRecord
from anaume.config import EmbeddingConfig, EncoderConfig, HeadConfig
from anaume.errors import BundleError, SettingsError
from anaume.tokenization import Tokenizer, TokenizerRules

FILE = "anaume.json"
HEADS_FILE = "anaume_heads.safetensors"
CARD = "README.md"
FORMAT_VERSION = 1
# Hashed at save and by `verify`; a load compares their size, and every tensor by name and shape.
_WEIGHTS = (".safetensors", ".onnx", ".bin")


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The content of anaume.json."""

    anaume_version: str
    fingerprints: Fingerprints
    files: dict[str, dict[str, Any]]
    rules: TokenizerRules
    vocab_size: int
    vocab_checks: str
    encoder: EncoderConfig
    heads: dict[str, HeadConfig]
    embedding: EmbeddingConfig
    training: TrainingRecord
    tasks: dict[str, TaskEntry]
    export: dict[str, Any] | None = None
    """What an export holds in place of weights (`exported.Exported`); None for a bundle."""

    def to_dict(self) -> dict[str, Any]:
        """Return the content, ready for JSON."""
        return {
            "format_version": FORMAT_VERSION,
            "anaume_version": self.anaume_version,
            "fingerprints": {
                "tokenizer": self.fingerprints.tokenizer,
                "weights": self.fingerprints.weights,
                "vector": self.fingerprints.vector,
            },
            "encoder": self.encoder.to_dict(),
            "heads": {name: head.to_dict() for name, head in self.heads.items()},
            "embedding": self.embedding.to_dict(),
            "tasks": {name: dataclasses.asdict(task) for name, task in self.tasks.items()},
            "training": self.training.to_dict(),
            **({} if self.export is None else {"export": self.export}),
            "files": self.files,
            "tokenizer": {
                "rules": self.rules.to_dict(),
                "vocab_size": self.vocab_size,
                "vocab_checks": self.vocab_checks,
            },
        }


def read_manifest(directory: Path) -> Manifest:
    """Read anaume.json. Raises BundleError for a newer format (with both numbers) and for anything malformed."""
    path = directory / FILE
    content = read_object(path)
    version = content.get("format_version")
    if type(version) is not int or version < 1:
        raise BundleError(f"{path}: format_version must be a whole number from 1; got {version!r}")
    if version > FORMAT_VERSION:
        raise BundleError(
            f"{path}: format version {version}, written by anaume {content.get('anaume_version')}; this anaume reads "
            f"versions up to {FORMAT_VERSION}: install a newer one"
        )
    try:
        tokenizer = content["tokenizer"]
        return Manifest(
            anaume_version=str(content["anaume_version"]),
            fingerprints=Fingerprints(**content["fingerprints"]),
            files=_files(content["files"]),
            rules=TokenizerRules.from_dict(tokenizer["rules"]),
            vocab_size=tokenizer["vocab_size"],
            vocab_checks=tokenizer["vocab_checks"],
            encoder=EncoderConfig.from_dict(content["encoder"]),
            heads={name: HeadConfig.from_dict(head) for name, head in content["heads"].items()},
            embedding=EmbeddingConfig.from_dict(content["embedding"]),
            tasks=_tasks(content.get("tasks", {}), content["heads"]),
            training=TrainingRecord.from_dict(content["training"]),
            export=_export(content.get("export")),
        )
    except SettingsError as error:
        raise BundleError(f"{path}: {error}") from error
    except KeyError as error:
        raise BundleError(f"{path}: lacks {error}: was it edited?") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise BundleError(f"{path}: malformed: {error}") from error


def check_embedding(tokenizer: Tokenizer, manifest: Manifest, where: Path) -> None:
    """Raise BundleError when pooling, lengths or prompts are not those the vectors' fingerprint was saved for."""
    saved = manifest.fingerprints
    if vector_fingerprint(tokenizer, saved.weights, manifest.embedding) != saved.vector:
        raise BundleError(
            f"{where / FILE}: its embedding (pooling, normalisation, max_length, prompts) or its fingerprints were "
            "edited after the bundle was saved: they no longer belong together; restore the file, and make such "
            "changes with Bundle.with_embedding(...) and save"
        )


def _tasks(told: Any, heads: Any) -> dict[str, TaskEntry]:
    """Return what heads were trained for, each entry checked."""
    tasks = {name: TaskEntry(**entry) for name, entry in told.items()}
    for name, task in tasks.items():
        if name not in heads:
            raise TypeError(f"tasks: {name!r} is none of the heads: {', '.join(heads) or 'none'}")
        if type(task.task) is not str or type(task.max_length) is not int or not isinstance(task.settings, dict):
            raise TypeError(f"tasks: {name!r} needs task, a text, max_length, a whole number, and settings, an object")
    return tasks


def _export(told: Any) -> dict[str, Any] | None:
    if told is not None and not isinstance(told, dict):
        raise TypeError(f"export must be an object; got {told!r:.80}")
    return told


def _files(told: Any) -> dict[str, dict[str, Any]]:
    """Return the table of files, each entry checked: nothing for the card, size and sha256 for the rest."""
    for name, entry in told.items():
        if name != CARD and (type(entry["bytes"]) is not int or not isinstance(entry["sha256"], str)):
            raise TypeError(f"files: {name!r} needs bytes, a whole number, and sha256, a text; got {entry!r:.80}")
    return dict(told)


def describe_files(directory: Path, names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return what anaume.json says of each file: its size, and the sha256 of all but the model card."""
    table = {}
    for name in sorted(names):
        size = (directory / name).stat().st_size
        # The card is the user's to edit.
        table[name] = {} if name == CARD else {"bytes": size, "sha256": sha256_of(directory / name)}
    return table


def check_files(directory: Path, manifest: Manifest, *, weights: bool = False) -> None:
    """Raise BundleError naming the first file that is missing, cut, or not the one that was saved.

    Weights are compared by size, and by content only when `weights` is set (`anaume verify`).
    """
    path = directory / FILE
    for name, told in manifest.files.items():
        file = inside(directory, name, path)
        if name == CARD:
            continue
        if not file.is_file():
            raise BundleError(f"{directory}: {name} is missing: copy the whole bundle")
        size = file.stat().st_size
        if name.endswith(_WEIGHTS) and size != told["bytes"]:
            raise BundleError(f"{file}: {size:,} bytes, and {told['bytes']:,} were saved: truncated? Copy it again")
        if (weights or not name.endswith(_WEIGHTS)) and sha256_of(file) != told["sha256"]:
            meant = "import the directory anew without anaume.json if the change is meant"
            raise BundleError(
                f"{file} was changed after the bundle was saved (its sha256 differs from anaume.json): restore it, or "
                f"{meant if manifest.export is None else 'export the bundle it was made of anew'}"
            )


def vocab_checks(vocab: Sequence[str]) -> str:
    """Return one byte of sha256 for each token, as base64: enough to say where an edited vocabulary first differs."""
    return base64.b64encode(bytes(hashlib.sha256(token.encode()).digest()[0] for token in vocab)).decode("ascii")


def check_tokenizer(tokenizer: Tokenizer, manifest: Manifest, where: Path) -> None:
    """Raise BundleError when this is not the tokenizer that was saved: says where it first differs."""
    if tokenizer.fingerprint == manifest.fingerprints.tokenizer:
        return
    vocab = tokenizer.vocab
    if len(vocab) != manifest.vocab_size:
        what = f"{len(vocab)} entries, {manifest.vocab_size} were saved"
    else:
        try:
            saved = base64.b64decode(manifest.vocab_checks, validate=True)
        except ValueError:
            saved = b""
        now = base64.b64decode(vocab_checks(vocab))
        changed = [token_id for token_id, (a, b) in enumerate(zip(saved, now, strict=False)) if a != b]
        rules, told = tokenizer.rules.to_dict(), manifest.rules.to_dict()
        flags = [f"{name} is {rules[name]!r}, {told[name]!r} was saved" for name in rules if rules[name] != told[name]]
        if changed:
            what = f"{len(changed)} entries differ, first ID {changed[0]}, now {vocab[changed[0]]!r}"
        else:
            what = "; ".join(flags) or "same size, other entries"
    raise BundleError(
        f"{where}: the tokenizer is not the one this bundle was saved with ({what}): the weights would read other "
        "words. Restore vocab.txt and the tokenizer files"
    )
