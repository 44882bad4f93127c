"""A bundle as mteb's benchmarks take a model (extra `mteb`): `mteb.evaluate(MtebEncoder(bundle), tasks)`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.bundle import Bundle
from anaume.errors import SettingsError

_PROMPTS = {"query": "query", "document": "passage", "passage": "passage"}


class MtebEncoder:
    """What mteb calls an encoder, over a bundle. Queries and documents get the bundle's prompts where it has some.

    name  "owner/model", under which mteb keeps the results; the revision is the bundle's fingerprint, so results of
          other weights are never taken for these

    Raises SettingsError where mteb is not installed, or for a name of another form.
    """

    def __init__(self, bundle: Bundle, name: str = "anaume/bundle") -> None:
        if name.count("/") != 1:
            raise SettingsError(f"mteb names a model owner/model; got {name!r}")
        self.bundle, self.name = bundle, name
        _model_meta()  # said now, not at the first batch

    def encode(
        self,
        inputs: Iterable[Mapping[str, Any]],
        *,
        task_metadata: Any = None,
        hf_split: str = "",
        hf_subset: str = "",
        prompt_type: Any = None,
        **kwargs: Any,
    ) -> npt.NDArray[np.float32]:
        """Return (n, embedding_size) float32, one vector a text of these batches ("text": a list of texts)."""
        as_ = None if prompt_type is None else _PROMPTS.get(getattr(prompt_type, "value", prompt_type))
        if as_ is not None and self.bundle.embedding.prompts and as_ not in self.bundle.embedding.prompts:
            as_ = None  # the default prompt, if there is one
        texts = [text for batch in inputs for text in batch["text"]]
        found: npt.NDArray[np.float32] = self.bundle.embed_report(texts, as_=as_).vectors
        return found

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return (n, m): the similarity of every vector with every other, as the bundle was made for."""
        return self._scores(embeddings1, embeddings2, pairwise=False)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:
        """Return (n,): the similarity of vectors of one row."""
        return self._scores(embeddings1, embeddings2, pairwise=True)

    @cached_property
    def mteb_model_meta(self) -> Any:
        """What mteb writes beside the results."""
        parameters = sum(one.numel() for one in self.bundle.model.parameters())
        return _model_meta().create_empty(
            {
                "name": self.name,
                "revision": self.bundle.fingerprint[:16],
                "n_parameters": parameters,
                "max_tokens": self.bundle.embedding.max_length,
                "embed_dim": self.bundle.embedding_size,
                "similarity_fn_name": self.bundle.embedding.similarity,
                "framework": ["PyTorch"],
            }
        )

    def _scores(self, one: Any, other: Any, *, pairwise: bool) -> Any:
        import torch

        a, b = (torch.as_tensor(vectors).float() for vectors in (one, other))
        a, b = (vectors if vectors.dim() == 2 else vectors[None] for vectors in (a, b))
        if self.bundle.embedding.similarity in ("euclidean", "manhattan"):
            norm = 2.0 if self.bundle.embedding.similarity == "euclidean" else 1.0
            return -(torch.linalg.vector_norm(a - b, norm, dim=1) if pairwise else torch.cdist(a, b, norm))
        if self.bundle.embedding.similarity == "cosine":
            a, b = (torch.nn.functional.normalize(vectors, dim=1) for vectors in (a, b))
        return (a * b).sum(dim=1) if pairwise else a @ b.T


def _model_meta() -> Any:
    try:
        from mteb.models.model_meta import ModelMeta
    except ImportError as error:
        raise SettingsError(f"mteb is not installed: pip install 'anaume[mteb]' ({error})") from None
    return ModelMeta
