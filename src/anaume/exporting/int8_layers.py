"""Which layers of a bundle's graph are in int8: all of them, less the most sensitive ones where that costs too much."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.bundle import Bundle
from anaume.bundle.embedding import embed_texts
from anaume.engines import GraphEngine, Vectors
from anaume.engines.graph_engine import Runner
from anaume.engines.runners import OpenVinoRunner
from anaume.errors import BundleError
from anaume.exporting.int8_certificate import Int8Bounds
from anaume.exporting.quantizing import Feeds, Reversible, quantize
from anaume.logs import get_logger
from anaume.tasks.retrieval import cosines

log = get_logger(__name__)

_SLACK = 0.1
"""Layers are chosen with this share of what may be lost in hand: the worst of other texts is worse."""
_RANKED = 64
"""Texts that layers are ranked on: so many of the worst, and so many of all."""
_TRIES = 3


class Int8Maker:
    """Makes the int8 graph of a bundle.

    graph        its text vectors as a serialised ONNX model
    calibration  texts that give the ranges
    choosing     texts that must keep the bounds
    """

    def __init__(
        self, bundle: Bundle, graph: bytes, calibration: Sequence[str], choosing: Sequence[str], bounds: Int8Bounds
    ) -> None:
        self._bundle, self._graph, self._choosing, self._bounds = bundle, graph, choosing, bounds
        self._batches = self._fed(calibration)

    def make(self, *, force: bool = False) -> tuple[Any, tuple[str, ...]]:
        """Return a quantised model that keeps the bounds on the texts of the choice, and which layers it leaves out.

        force  where no choice of layers keeps them: all layers in int8, in place of an error

        Raises BundleError where it would leave out every layer.
        """
        log.info("int8: calibrating, %d batches", len(self._batches))
        everywhere = model = quantize(self._graph, self._batches)
        wanted = self._vectors(OpenVinoRunner(self._graph, "float32"), self._choosing)
        found = self._cosines(model, wanted)
        kept: list[str] = []
        if self._fits(found):
            return model, ()
        log.info(
            "int8: minimum cosine %.4f, mean %.4f with every layer: which ones cost it?", found.min(), found.mean()
        )
        reversible = Reversible(quantize(self._graph, self._batches, reversible=True))
        ranked = self._ranked(reversible, wanted, found)
        count = self._fewest(reversible, ranked, wanted)
        for _ in range(_TRIES):
            if count >= len(ranked):
                if force:
                    return everywhere, ()
                raise BundleError(
                    "int8: over the bounds with any layer in it: nothing was exported; wider bounds (--bound), or "
                    "precision='bfloat16', which needs no export"
                )
            kept = ranked[:count]
            model = quantize(self._graph, self._batches, kept)
            if self._fits(self._cosines(model, wanted)):
                break
            count += 1
        log.info("int8: %d of %d layers stay in higher precision: %s", len(kept), len(ranked), ", ".join(kept))
        return model, tuple(kept)

    def _fits(self, found: npt.NDArray[np.float64]) -> bool:
        bounds = self._bounds
        tighter = (bound + (1.0 - bound) * _SLACK for bound in (bounds.mean, bounds.minimum))
        return not Int8Bounds(mean=next(tighter), minimum=next(tighter)).over(found)

    def _ranked(self, reversible: Reversible, wanted: Vectors, found: npt.NDArray[np.float64]) -> list[str]:
        """Return the layers by what putting each back alone gains, the most first."""
        worst = np.argsort(found, kind="stable")
        some = np.unique(np.concatenate([worst[:_RANKED], worst[:: max(1, len(worst) // _RANKED)]]))
        left = {}
        for name in reversible.names:
            with reversible.without([name]) as model:
                left[name] = float((1.0 - self._cosines(model, wanted, some)).mean())
            log.debug("int8: without %s the mean loss of %d texts is %.5f", name, len(some), left[name])
        return sorted(left, key=lambda name: left[name])

    def _fewest(self, reversible: Reversible, ranked: Sequence[str], wanted: Vectors) -> int:
        """Return how many of the ranked layers, put back together, are enough: by halving, as more never cost more."""
        few, enough = 1, len(ranked)
        while few < enough:
            middle = (few + enough) // 2
            with reversible.without(ranked[:middle]) as model:
                fits = self._fits(self._cosines(model, wanted))
            few, enough = (few, middle) if fits else (middle + 1, enough)
        return enough

    def _cosines(
        self, model: Any, wanted: Vectors, some: npt.NDArray[np.int64] | None = None
    ) -> npt.NDArray[np.float64]:
        """Return the cosines of a model's vectors to those wanted, (texts,)."""
        texts = self._choosing
        if some is not None:
            texts, wanted = [texts[row] for row in some], wanted[some]
        return cosines(self._vectors(OpenVinoRunner(model, "int8"), texts), wanted)

    def _vectors(self, runner: Runner, texts: Sequence[str]) -> Vectors:
        bundle = self._bundle
        report = embed_texts(
            texts,
            tokenizer=bundle.tokenizer,
            engine=GraphEngine("openvino", "float32", bundle.config, lambda name, plan: runner),
            embedding=bundle.embedding,
            embedding_size=bundle.embedding_size,
            warn=False,
        )
        return report.vectors

    def _fed(self, texts: Sequence[str]) -> list[Feeds]:
        """Return the batches that texts become, as an engine feeds them to this graph."""
        recorder = _Recorder(OpenVinoRunner(self._graph, "float32").inputs, self._bundle.embedding_size)
        self._vectors(recorder, texts)
        return recorder.fed


class _Recorder:
    """A runner that keeps what it is fed, and computes nothing."""

    at_once = 1

    def __init__(self, inputs: frozenset[str], size: int) -> None:
        self.inputs, self._size = inputs, size
        self.fed: list[Feeds] = []

    def __call__(self, feeds: Feeds) -> Vectors:
        self.fed.append(dict(feeds))
        return np.zeros((len(next(iter(feeds.values()))), self._size), dtype=np.float32)
