"""The model card, README.md: what a person needs to know before using these weights.

Ours stands between two markers and is written anew at every save; everything else in the file is kept: the header and
the text of a foreign checkpoint's card, and what the user wrote.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from anaume.bundle.parts import BundleParts, Fingerprints
from anaume.bundle.record import UNKNOWN

_BEGIN = "<!-- anaume: written at every save; text outside these marks is kept -->"
_END = "<!-- anaume: end -->"
_HEADER = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_OURS = re.compile(re.escape(_BEGIN) + ".*?" + re.escape(_END) + "\n*", re.DOTALL)


def write_card(parts: BundleParts, fingerprints: Fingerprints, architecture: str, limits: list[str]) -> str:
    """Return the text of README.md; what `parts.card` holds besides our block stays."""
    before = parts.card.replace("\r\n", "\n")
    header = _HEADER.match(before)
    rest = _OURS.sub("", before[header.end() :] if header else before).strip("\n")
    top = header.group() if header else _header(parts)
    block = "\n".join([_BEGIN, "", *_block(parts, fingerprints, architecture, limits), "", _END])
    return top + "\n" + block + "\n" + (f"\n{rest}\n" if rest else "")


def _header(parts: BundleParts) -> str:
    """YAML as the hub reads it. No license is claimed: the weights are the user's."""
    lines = ["library_name: sentence-transformers" if parts.embedding.pooling else "library_name: transformers"]
    kinds = {head.kind for head in parts.model.head_configs.values()}
    pipeline = {
        "classification": "text-classification",
        "multi-label": "text-classification",
        "regression": "text-classification",
        "token-classification": "token-classification",
        "span": "question-answering",
        "mlm": "fill-mask",
    }
    if parts.embedding.pooling:
        lines.append("pipeline_tag: sentence-similarity")
    elif len({pipeline.get(kind) for kind in kinds - {"nsp"}}) == 1 and (kind := (kinds - {"nsp"}).pop()) in pipeline:
        lines.append(f"pipeline_tag: {pipeline[kind]}")
    return "---\n" + "\n".join([*lines, "tags:", "- anaume", "- bert"]) + "\n---\n"


def _block(parts: BundleParts, fingerprints: Fingerprints, architecture: str, limits: list[str]) -> list[str]:
    config, embedding, rules = parts.model.config, parts.embedding, parts.tokenizer.rules
    parameters = sum(parameter.numel() for parameter in parts.model.parameters())
    lines = [
        "# An anaume bundle",
        "",
        f"A BERT encoder: {config.num_hidden_layers} layers, hidden size {config.hidden_size}, "
        f"{config.num_attention_heads} heads, {parameters:,} parameters, {parts.tokenizer.vocab_size:,} vocabulary "
        f"entries ({rules.words} words, {rules.subwords} pieces{', lower-cased' if rules.lower_case else ''}"
        f"{', accents removed' if rules.strip_accents else ''}). `{architecture}` for transformers.",
        "",
        "## How these weights were made",
        "",
    ]
    if not parts.record.stages:
        lines.append("Freshly drawn: never trained.")
    for number, stage in enumerate(parts.record.stages, start=1):
        named = ", ".join(stage.objectives) or "changed without training"
        lines.append(f"{number}. {'objectives unknown' if stage.objectives == (UNKNOWN,) else named}"
                     + (f", from {stage.source}" if stage.source else "")
                     + (", the encoder frozen: its vectors are those of before" if stage.frozen else ""))  # fmt: skip
        lines += [f"   - data: {_plain(data)}" for data in stage.data]
        for label, content in (("settings", stage.settings), ("scores", stage.scores), ("versions", stage.versions)):
            lines += [f"   - {label}: {_plain(content)}"] if content else []
    if parts.model.head_configs:
        lines += ["", "## Heads", ""]
        for name, head in parts.model.head_configs.items():
            labels = ", ".join(head.labels[:20]) + (" ..." if len(head.labels) > 20 else "")
            reads = "" if head.layers == "last" else f", reads {head.layers} of the encoder's layers"
            lstm = f", behind a BiLSTM of {head.recurrent_layers} layers" if head.recurrent_layers else ""
            lines.append(f"- {name}: {head.kind}" + (f" ({labels})" if labels else "") + reads + lstm)
    lines += ["", "## Text vectors", ""]
    if embedding.pooling:
        lines.append(
            f"Pooling {embedding.pooling}, {'normalised to length 1' if embedding.normalize else 'not normalised'}, "
            f"made for {embedding.similarity} similarity, at most {embedding.max_length} tokens."
        )
        lines += [f"- prompt {name}: `{text}`" for name, text in embedding.prompts.items()]
    elif late := [head for head in parts.model.head_configs.values() if head.kind == "late-interaction"]:
        lines.append(f"A vector of {late[0].size} numbers a token (late interaction), none of a whole text.")
    else:
        lines.append("No pooling is stored: these weights were never trained for text similarity.")
    lines += ["", "## Limits", ""]
    lines += [f"- {limit}" for limit in limits]
    lines += ["", "## Fingerprints", ""]
    lines += [f"- tokenizer `{fingerprints.tokenizer}`", f"- weights `{fingerprints.weights}`"]
    lines += [f"- vectors `{fingerprints.vector}`"]
    return lines


def _plain(content: Mapping[str, Any]) -> str:
    return "; ".join(
        f"{key} {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for key, value in content.items()
    )
