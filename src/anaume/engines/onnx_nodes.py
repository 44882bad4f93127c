"""Nodes of an ONNX graph, written as calls: a thin layer over `onnx.helper` that names and keeps what it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET, IR_VERSION = 20, 9  # LayerNormalization and Gelu are single nodes from 20 on

Name = str
"""The name of a tensor in the graph."""


class Nodes:
    """Builds one graph; every method that computes adds a node and returns the name of its result."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Name] = {}

    def input(self, name: Name, axes: Sequence[str]) -> Name:
        """Declare an int64 input with named, dynamic axes."""
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.INT64, list(axes)))
        return name

    def weight(self, name: Name, values: npt.NDArray[Any]) -> Name:
        """Add a tensor of the model."""
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def constant(self, values: Any, dtype: type = np.int64) -> Name:
        """Add a small constant; equal ones are one."""
        array: npt.NDArray[Any] = np.asarray(values, dtype=dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = self.weight(f"constant_{len(self._constants)}", array)
        return self._constants[key]

    def __call__(self, op: str, *given: Name, outputs: int = 1, called: str = "", **attributes: Any) -> Any:
        """Add a node of ONNX; returns the name of its output, or a list of `outputs` names.

        called  the name of the node itself, by which others find it
        """
        number = len(self._nodes)
        names = [f"{op.lower()}_{number}" + (f"_{place}" if outputs > 1 else "") for place in range(outputs)]
        self._nodes.append(helper.make_node(op, list(given), names, name=called or f"{op}_{number}", **attributes))
        return names if outputs > 1 else names[0]

    def linear(self, states: Name, weight: npt.NDArray[Any], bias: npt.NDArray[Any], name: str) -> Name:
        """Return states W^T + b; `weight` is (outputs, inputs) as torch has it. The product is called `name`."""
        product = self("MatMul", states, self.weight(f"{name}.weight", weight.T), called=name)
        return str(self("Add", product, self.weight(f"{name}.bias", bias)))

    def finish(self, output: Name, name: Name, axes: Sequence[str | int], metadata: Mapping[str, str]) -> bytes:
        """Return the whole model, `output` being its one result under `name`. Raises onnx's errors for a wrong one."""
        self._nodes.append(helper.make_node("Identity", [output], [name], name="result"))
        result = helper.make_tensor_value_info(name, TensorProto.FLOAT, list(axes))
        graph = helper.make_graph(self._nodes, "anaume", self._inputs, [result], self._initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="anaume")
        model.ir_version = IR_VERSION
        helper.set_model_props(model, dict(metadata))
        return bytes(model.SerializeToString())
