"""What an index remembers of itself: which model made its vectors, and how its texts were cut."""

from __future__ import annotations

import dataclasses
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self, get_args

from anaume.bundle import Bundle
from anaume.bundle.find import public_name
from anaume.errors import DataError, SettingsError, nearest

Storage = Literal["float32", "int8", "binary"]
STORAGES: tuple[Storage, ...] = get_args(Storage)

FORMAT_VERSION = 1
LONGEST_PASSAGE = 256
"""Tokens of a passage unless asked otherwise, or the bundle's limit: a vector stands for a paragraph, not a page."""
_PASSAGE_PROMPTS = ("passage", "document", "corpus")


@dataclass(frozen=True, kw_only=True)
class IndexRecord:
    """Kept in the table beside the vectors; a table has one record for life."""

    bundle: str
    """A directory or a name, where `anaume.load` finds the model; "" where it was never saved."""
    fingerprint: str
    """Of the vectors, see `Bundle.fingerprint`."""
    precision: str
    """The precision the vectors were computed in."""
    embedding_size: int
    similarity: Literal["cosine", "dot"]
    """How vectors are compared; for the cosine they are kept at length 1."""
    passage_prompt: str
    """The name of the bundle's prompt that passages were embedded with; "" = its default."""
    query_prompt: str
    passage_length: int
    """The longest passage in tokens, special ones and prompt included."""
    overlap: int
    """How many of them may be those of the passage before."""
    storage: Storage = "float32"
    rescore: bool = False
    """Whether float32 vectors are kept beside codes, to score the best again."""
    format_version: int = FORMAT_VERSION

    @classmethod
    def of(
        cls,
        bundle: Bundle,
        fingerprint: str,
        *,
        storage: Storage = "float32",
        rescore: bool = False,
        passage_length: int | None = None,
        overlap: int | None = None,
    ) -> Self:
        """Return the record of a new index. Raises SettingsError for wrong settings."""
        bundle.parts.require_one_vector()
        embedding = bundle.embedding
        if storage not in STORAGES:
            raise SettingsError(
                f"storage must be one of {', '.join(STORAGES)}; got {storage!r}{nearest(str(storage), STORAGES)}"
            )
        if rescore and storage == "float32":
            raise SettingsError("rescore is for int8 and binary storage: float32 vectors are scored as they are")
        if embedding.similarity not in ("cosine", "dot"):
            raise SettingsError(
                f"the bundle's similarity is {embedding.similarity}; an index compares by cosine or dot"
            )
        prompt = next((name for name in _PASSAGE_PROMPTS if name in embedding.prompts), "")
        reserved = 2 + _pieces(bundle, prompt or embedding.default_prompt)
        longest = embedding.max_length
        length = min(LONGEST_PASSAGE, longest) if passage_length is None else passage_length
        if isinstance(length, bool) or not isinstance(length, int) or not reserved < length <= longest:
            raise SettingsError(
                f"a passage has from {reserved + 1} tokens (special tokens and prompt, and one of the text) up to "
                f"{longest} (the bundle's max_length); got passage_length={length!r}"
            )
        shared = (length - reserved) // 4 if overlap is None else overlap
        if isinstance(shared, bool) or not isinstance(shared, int) or not 0 <= shared < length - reserved:
            raise SettingsError(
                f"overlap must be from 0 to {length - reserved - 1} tokens for passages of {length}; got {overlap!r}"
            )
        return cls(
            bundle=remembered_name(bundle),
            fingerprint=fingerprint,
            precision=bundle.precision,
            embedding_size=bundle.embedding_size,
            similarity="dot" if embedding.similarity == "dot" else "cosine",
            passage_prompt=prompt,
            query_prompt="query" if "query" in embedding.prompts else "",
            passage_length=length,
            overlap=shared,
            storage=storage,
            rescore=rescore,
        )

    def room(self, bundle: Bundle) -> int:
        """Return how many pieces of a text fit into a passage."""
        return self.passage_length - 2 - _pieces(bundle, self.passage_prompt or bundle.embedding.default_prompt)

    def to_json(self) -> str:
        """Return the record as JSON."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str, where: str) -> Self:
        """Read a record. Raises DataError for what is none, or is of a later format."""
        try:
            content = json.loads(text)
            if (version := content["format_version"]) == FORMAT_VERSION:
                return cls(**content)
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(f"{where}: the record of the index can't be read: {error!r}") from error
        raise DataError(
            f"{where}: an index of format {version}; this anaume reads format {FORMAT_VERSION}: upgrade anaume, or "
            "build the index again"
        )

    def changes(self, other: IndexRecord) -> list[str]:
        """Return which settings of another record differ, in words; where the bundle lies is none."""
        one, two = dataclasses.asdict(self), dataclasses.asdict(other)
        return [
            f"{name} {_short(one[name])} is now {_short(two[name])}"
            for name in one
            if one[name] != two[name] and name != "bundle"
        ]


def remembered_name(bundle: Bundle) -> str:
    """Return the name or absolute path under which a bundle is found again; "" for one that was never saved."""
    source = bundle.parts.source
    if not source:
        return ""
    directory = Path(os.path.abspath(source))
    name = public_name(directory)
    return str(directory) if name == os.fsencode(directory.name).decode("utf-8", "backslashreplace") else name


def _pieces(bundle: Bundle, prompt: str | None) -> int:
    """Pieces of the prompt of this name, none for none."""
    text = bundle.embedding.prompts[prompt] if prompt else ""
    return bundle.tokenizer.encode(text).pieces if text else 0


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:12]}..."
