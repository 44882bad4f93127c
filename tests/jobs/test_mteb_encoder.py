"""mteb runs a bundle, where mteb is installed, and finds what we find."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from anaume.bundle import Bundle
from anaume.config import EmbeddingConfig
from anaume.errors import SettingsError
from anaume.jobs.mteb_encoder import MtebEncoder
from tiny_labels import texts
from tiny_runs import tiny_bundle

HERE = importlib.util.find_spec("mteb") is not None


@pytest.fixture
def bundle() -> Bundle:
    prompts = {"query": "the ", "passage": "a "}
    return tiny_bundle().with_embedding(EmbeddingConfig(pooling="mean", normalize=True, max_length=40, prompts=prompts))


@pytest.mark.skipif(HERE, reason="mteb is installed")
def test_without_mteb_the_line_that_installs_it(bundle: Bundle) -> None:
    with pytest.raises(SettingsError, match=r"mteb is not installed: pip install 'anaume\[mteb\]'"):
        MtebEncoder(bundle)


@pytest.mark.skipif(not HERE, reason="mteb is not installed: pip install 'anaume[mteb]'")
@pytest.mark.filterwarnings("ignore")
def test_mteb_finds_what_we_find(bundle: Bundle) -> None:
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.mocks.mock_tasks.sts import MockSTSTask
    from scipy.stats import spearmanr

    one, other, scores = texts(30), texts(30, 5), [float(number % 6) for number in range(30)]

    class Task(MockSTSTask):  # type: ignore[misc]
        min_score, max_score = 0, 5

        def load_data(self, num_proc: int | None = None, **kwargs: Any) -> None:
            rows = Dataset.from_dict({"sentence1": one, "sentence2": other, "score": scores})
            self.dataset = DatasetDict({"test": rows})
            self.data_loaded = True

    encoder = MtebEncoder(bundle, "owner/tiny")
    found = mteb.evaluate(encoder, Task(), cache=None, show_progress_bar=False)
    (result,) = found.task_results
    cosines = (bundle.embed(one) * bundle.embed(other)).sum(axis=1)
    assert result.scores["test"][0]["main_score"] == pytest.approx(spearmanr(cosines, scores)[0], abs=1e-5)
    assert (encoder.mteb_model_meta.name, encoder.mteb_model_meta.revision) == (
        "owner/tiny",
        bundle.fingerprint[:16],
    )
    from mteb.types import PromptType

    asked = encoder.encode([{"text": one[:3]}, {"text": one[3:5]}], prompt_type=PromptType.query)
    np.testing.assert_allclose(asked, bundle.embed(one[:5], as_="query"), atol=1e-6)
    stored = encoder.encode([{"text": one[:5]}], prompt_type=PromptType.document)
    np.testing.assert_allclose(stored, bundle.embed(one[:5], as_="passage"), atol=1e-6)
    assert encoder.similarity(asked, stored).shape == (5, 5)
    np.testing.assert_allclose(
        encoder.similarity(asked, stored).diagonal(), encoder.similarity_pairwise(asked, stored), atol=1e-6
    )
    with pytest.raises(SettingsError, match="mteb names a model owner/model; got 'tiny'"):
        MtebEncoder(bundle, "tiny")
