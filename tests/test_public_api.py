"""The list of public names is the contract; everything else may move."""

from __future__ import annotations

import subprocess
import sys

import anaume

PUBLIC = [
    "AnaumeError",
    "AnaumeWarning",
    "Bundle",
    "BundleError",
    "DataError",
    "EmbedReport",
    "EmbeddingConfig",
    "EncoderConfig",
    "Encoding",
    "FinetuneReport",
    "FinetuneSettings",
    "HeadConfig",
    "Hit",
    "Index",
    "InputEmbeddings",
    "MissingExtra",
    "PretrainResult",
    "PretrainSettings",
    "SettingsError",
    "TokenEmbeddings",
    "TokenVectors",
    "Tokenizer",
    "TokenizerError",
    "TokenizerRules",
    "VocabularyExtension",
    "build_index",
    "check_corpus",
    "export_bundle",
    "extend_vocabulary",
    "finetune",
    "generate_random_mask",
    "import_checkpoint",
    "load",
    "mlm_loss",
    "open_corpus",
    "open_index",
    "prepare_corpus",
    "pretrain",
    "similarity",
    "verify_bundle",
    "verify_run",
]


def test_the_public_names_are_these_and_all_resolve() -> None:
    assert sorted(anaume.__all__) == sorted(PUBLIC)
    for name in PUBLIC:
        assert getattr(anaume, name).__doc__


def test_importing_anaume_imports_nothing_heavy() -> None:
    heavy = ("torch", "numpy", "tokenizers", "pyarrow", "rich", "typer", "sklearn", "transformers")
    code = f"import sys, anaume; print([name for name in {heavy} if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"


def test_opening_a_bundle_imports_no_corpora_and_no_tasks() -> None:
    later = "anaume.data.corpus.", "anaume.data.labelled", "anaume.tasks.registry", "torch._dynamo"
    found = f"[name for name in sys.modules if name.startswith({later})]"
    code = f"import sys, gc, anaume; anaume.Bundle; print({found}, gc.isenabled())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "True"]


def test_the_tokenizer_and_the_data_layer_work_without_torch() -> None:
    code = (
        "import sys; sys.modules['torch'] = None; "
        "from anaume.tokenization import Tokenizer; import anaume.data; "
        "print(Tokenizer.train(['the dog is cute'], vocab_size=40).encode('the dog').tokens)"
    )
    assert "[CLS]" in subprocess.check_output([sys.executable, "-c", code], text=True)
