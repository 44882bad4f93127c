"""The files of sentence-transformers <-> EmbeddingConfig. Read up to version 6, written as version 5 does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anaume.bundle.files import inside, json_text, read_json, read_object, some, write_text
from anaume.config import EmbeddingConfig, PoolingMethod
from anaume.errors import BundleError, SettingsError

MODULES = "modules.json"
TRANSFORMER = "sentence_bert_config.json"
MODEL = "config_sentence_transformers.json"
POOLING = "1_Pooling"
NORMALIZE = "2_Normalize"
STATIC_NORMALIZE = "1_Normalize"

# theirs (the new form, then the old boolean), ours
_POOLING: tuple[tuple[str, str, PoolingMethod], ...] = (
    ("cls", "pooling_mode_cls_token", "cls"),
    ("max", "pooling_mode_max_tokens", "max"),
    ("mean", "pooling_mode_mean_tokens", "mean"),
    ("mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", "mean_sqrt"),
)
_NOT_OURS = (("weightedmean", "pooling_mode_weightedmean_tokens"), ("lasttoken", "pooling_mode_lasttoken"))
_PLAIN_TASK = {
    "transformer_task": "feature-extraction",
    "modality_config": {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    "module_output_name": "token_embeddings",
}


@dataclass(frozen=True, kw_only=True)
class SentenceSettings:
    """What a sentence-transformers directory says besides the encoder."""

    folder: Path
    """Where config.json, the weights and the tokenizer lie: the directory itself, or a folder in it."""
    embedding: EmbeddingConfig
    max_length: int | None
    """max_seq_length of sentence_bert_config.json; None = version 6 keeps it in tokenizer_config.json."""
    lower_case: bool
    """do_lower_case: every text is lower-cased before the tokenizer sees it."""


def read_settings(directory: Path) -> SentenceSettings:
    """Understand a sentence-transformers directory.

    Raises BundleError for modules, poolings and settings anaume has not, each by its name.
    """
    modules = _modules(directory)
    kinds = [kind for kind, _ in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise BundleError(
            f"{directory / MODULES}: the modules are {', '.join(kinds)}; anaume runs Transformer, Pooling and then, "
            "at most, Normalize"
        )
    folder = modules[0][1]
    pooling, include_prompt = _pooling(modules[1][1] / "config.json")
    if len(modules) == 3:
        _check_normalize(modules[2][1] / "config.json")
    max_length, lower_case = _transformer(folder / TRANSFORMER)
    told = read_object(directory / MODEL) if (directory / MODEL).exists() else {}
    try:
        embedding = EmbeddingConfig(
            pooling=pooling,
            normalize=len(modules) == 3,
            include_prompt=include_prompt,
            **_embedding(told, directory / MODEL),
        )
    except SettingsError as error:
        raise BundleError(f"{directory}: {error}") from error
    return SentenceSettings(folder=folder, embedding=embedding, max_length=max_length, lower_case=lower_case)


def _modules(directory: Path) -> list[tuple[str, Path]]:
    """Return (last part of the type, folder) of each module. A type is an import path: compared, never imported."""
    path = directory / MODULES
    listed = read_json(path)
    if not isinstance(listed, list) or not all(isinstance(module, dict) for module in listed):
        raise BundleError(f"{path}: expected a list of modules")
    modules = []
    if not all(type(module.get("idx")) is int for module in listed):
        raise BundleError(f"{path}: every module needs a whole number idx, its place in the order")
    for module in sorted(listed, key=lambda module: module["idx"]):
        kind = str(module.get("type"))
        short = kind.rpartition(".")[2]
        if not kind.startswith("sentence_transformers.") or short not in (
            "Transformer",
            "Pooling",
            "Normalize",
            "BERT",
        ):
            raise BundleError(
                f"{path}: the module {some([kind])} is unknown here, and without it the vectors would be "
                "others; anaume runs Transformer, Pooling and Normalize"
            )
        folder = inside(directory, module["path"], path) if module.get("path") else directory
        modules.append(("Transformer" if short == "BERT" else short, folder))
    return modules


def _pooling(path: Path) -> tuple[PoolingMethod, bool]:
    config = read_object(path)
    known = {"word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"}
    known |= {old for _, old, _ in _POOLING} | {old for _, old in _NOT_OURS}
    odd = sorted(config.keys() - known)
    if odd:
        raise BundleError(f"{path}: unknown settings {', '.join(odd)}; they may change the vectors")
    named = config.get("pooling_mode")
    if named is None:
        olds = [(new, old) for new, old, _ in _POOLING] + list(_NOT_OURS)
        modes = [new for new, old in olds if config.get(old)]
        if not modes and not any(old in config for _, old in olds):
            modes = ["mean"]
    else:
        modes = [str(mode) for mode in named] if isinstance(named, list) else [str(named)]
    if len(modes) != 1:
        raise BundleError(
            f"{path}: {len(modes)} poolings at once ({', '.join(modes) or 'none switched on'}); anaume stores one"
        )
    for new, _, ours in _POOLING:
        if modes[0] == new:
            return ours, config.get("include_prompt", True) is not False
    raise BundleError(
        f"{path}: the pooling {modes[0]!r} is unknown here; anaume has {', '.join(new for new, _, _ in _POOLING)}"
    )


def _check_normalize(path: Path) -> None:
    config = read_object(path) if path.exists() else {}
    for key, value in config.items():
        if key not in ("module_input_name", "module_output_name") or value not in ("sentence_embedding", None):
            raise BundleError(f"{path}: {key} is {value!r}; anaume normalises the text's vector only")


def _transformer(path: Path) -> tuple[int | None, bool]:
    config = read_object(path) if path.exists() else {}
    for key, value in config.items():
        if key in ("max_seq_length", "do_lower_case") or value is None or value == {} or _PLAIN_TASK.get(key) == value:
            continue
        raise BundleError(f"{path}: {key} is {str(value)[:80]!r}, which anaume can't follow")
    max_length = config.get("max_seq_length")
    if max_length is not None and (type(max_length) is not int or max_length < 3):
        raise BundleError(f"{path}: max_seq_length must be a whole number from 3; got {max_length!r}")
    return max_length, bool(config.get("do_lower_case", False))


def _embedding(told: Mapping[str, Any], path: Path) -> dict[str, Any]:
    known = {"__version__", "model_type", "prompts", "default_prompt_name", "similarity_fn_name", "truncate_dim"}
    odd = sorted(key for key in told if key not in known and told[key] is not None)
    if odd:
        raise BundleError(f"{path}: unknown settings {', '.join(odd)}; they may change the vectors")
    if told.get("model_type", "SentenceTransformer") != "SentenceTransformer":
        raise BundleError(f"{path}: a {told['model_type']}, not a SentenceTransformer: its numbers are no text vectors")
    if told.get("truncate_dim") is not None:
        raise BundleError(f"{path}: truncate_dim is {told['truncate_dim']}; anaume keeps every dimension")
    prompts = told.get("prompts") or {}
    if not isinstance(prompts, dict) or not all(isinstance(text, str) for text in prompts.values()):
        raise BundleError(f"{path}: prompts must map names to texts")
    default = told.get("default_prompt_name")
    if default is None and not any(prompts.values()):
        prompts = {}  # version 6 writes empty ones for models that have none
    # What is null or missing means cosine there.
    return {
        "prompts": prompts,
        "default_prompt": default,
        "similarity": told.get("similarity_fn_name") or "cosine",
    }


def write_static_settings(directory: Path, embedding: EmbeddingConfig) -> list[str]:
    """Write the files that make a table and its tokenizer a StaticEmbedding of unit vectors, and return their names."""
    modules = [("", "StaticEmbedding"), (STATIC_NORMALIZE, "Normalize")]
    return _write(directory, modules, {f"{STATIC_NORMALIZE}/config.json": {}, MODEL: _model(embedding)})


def write_settings(directory: Path, embedding: EmbeddingConfig, hidden_size: int) -> list[str]:
    """Write the files for a bundle with a pooling, and return their names."""
    assert embedding.pooling is not None
    modules = [("", "Transformer"), (POOLING, "Pooling")] + ([(NORMALIZE, "Normalize")] if embedding.normalize else [])
    contents: dict[str, Any] = {
        TRANSFORMER: {"max_seq_length": embedding.max_length, "do_lower_case": False},
        f"{POOLING}/config.json": {
            "word_embedding_dimension": hidden_size,
            **{old: ours == embedding.pooling for _, old, ours in _POOLING},
            **{old: False for _, old in _NOT_OURS},
            "include_prompt": embedding.include_prompt,
        },
        MODEL: _model(embedding),
    }
    if embedding.normalize:
        contents[f"{NORMALIZE}/config.json"] = {}
    return _write(directory, modules, contents)


def _model(embedding: EmbeddingConfig) -> dict[str, Any]:
    return {
        "__version__": {"sentence_transformers": "5.0.0"},  # the layout, not the writer
        "model_type": "SentenceTransformer",
        "prompts": dict(embedding.prompts),
        "default_prompt_name": embedding.default_prompt,
        "similarity_fn_name": embedding.similarity,
    }


def _write(directory: Path, modules: list[tuple[str, str]], contents: dict[str, Any]) -> list[str]:
    # These import paths are the format: version 5 knows no other, version 6 still takes them.
    listed = [
        {"idx": idx, "name": str(idx), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for idx, (path, kind) in enumerate(modules)
    ]
    contents = {MODULES: listed, **contents}
    for name, content in contents.items():
        (directory / name).parent.mkdir(exist_ok=True)
        write_text(directory / name, json_text(content))
    return list(contents)
