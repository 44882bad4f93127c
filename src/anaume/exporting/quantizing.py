"""A graph quantised to int8 by NNCF, and which of its layers stay in higher precision, named as the model names them.

Weights have a scale a channel, activations one of a whole tensor, both fixed by calibration: what a text gives does not
depend on its neighbours' range. Before that, scales move from activations into weights (SmoothQuant, Xiao et al. 2023):
after a GELU a few channels are a hundred times the rest, and one scale for all would leave those no steps.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from anaume.engines.runners import openvino_core, without_telemetry
from anaume.logs import get_logger

log = get_logger(__name__)

SMOOTHING = 0.8
"""How much of an activation's range moves into the weights, 0 to 1; NNCF's 0.95 loses more (docs/log.md)."""
_REACH = 3
"""Nodes that may stand between a product and what quantises its input: a reshape, a transpose."""

Feeds = Mapping[str, npt.NDArray[np.int64]]


@cache
def nncf() -> Any:
    """Return the module nncf, which says nothing and leaves other libraries' loggers alone. Raises MissingExtra."""
    before = logging.getLoggerClass()
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where its logger would write, among a command's results
            library = without_telemetry("nncf", "int8")
    finally:
        logging.setLoggerClass(before)
    library.set_log_level(logging.ERROR)
    return library


def quantize(graph: bytes, batches: Sequence[Feeds], kept: Collection[str] = (), *, reversible: bool = False) -> Any:
    """Return a model of OpenVINO's whose matrix products are in int8.

    graph       a serialised ONNX model, as `build_graph` writes it
    batches     what it is fed, for the ranges of its activations
    kept        names of layers that stay as they are
    reversible  keeps the weights beside their int8 form, for `Reversible`
    """
    library = nncf()
    model = openvino_core().read_model(model=graph)
    smoothing = library.AdvancedSmoothQuantParameters(matmul=SMOOTHING)
    with contextlib.redirect_stdout(io.StringIO()):  # its bars
        return library.quantize(
            model,
            library.Dataset([dict(batch) for batch in batches]),
            subset_size=len(batches),
            model_type=library.ModelType.TRANSFORMER,
            ignored_scope=library.IgnoredScope(names=sorted(kept), validate=False),
            advanced_parameters=library.AdvancedQuantizationParameters(
                smooth_quant_alphas=smoothing, backend_params={"compress_weights": not reversible}
            ),
        )


def layers_in_int8(model: Any) -> list[str]:
    """Return the products of a quantised model that are in int8, by name and in order."""
    return [node.get_friendly_name() for node in _products(model) if any(_quantizers(node))]


class Reversible:
    """A quantised model whose layers can be put back into higher precision for a while: what does each one cost?"""

    def __init__(self, model: Any) -> None:
        self.model = model
        self._quantizers = {node.get_friendly_name(): list(_quantizers(node)) for node in _products(model)}
        self.names = [name for name, found in self._quantizers.items() if found]

    @contextlib.contextmanager
    def without(self, names: Collection[str]) -> Iterator[Any]:
        """Yield the model with some layers as they were."""
        moved = []
        for name in names:
            for quantizer in self._quantizers[name]:
                for port in list(quantizer.output(0).get_target_inputs()):
                    moved.append((port, quantizer.output(0)))
                    port.replace_source_output(quantizer.input_value(0))
        try:
            yield self.model
        finally:
            for port, source in moved:
                port.replace_source_output(source)


def _products(model: Any) -> Iterator[Any]:
    return (node for node in model.get_ordered_ops() if node.get_type_name() == "MatMul")


def _quantizers(node: Any, reach: int = _REACH) -> Iterator[Any]:
    """Yield what quantises the inputs of a node: FakeQuantize nodes, also of weights that are kept in float32."""
    for port in node.inputs():
        source = port.get_source_output().get_node()
        if source.get_type_name() == "FakeQuantize":
            yield source
        elif reach and source.get_type_name() in ("Reshape", "Transpose"):
            yield from _quantizers(source, reach - 1)
