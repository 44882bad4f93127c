"""WEIGHTS + CONFIG -> SOMETHING THAT RUNS A BATCH: engines behind one small protocol."""

from anaume.engines.graph_engine import GraphEngine
from anaume.engines.graph_names import EMBED, graph_names
from anaume.engines.hardware import (
    free_memory,
    has_bfloat16,
    is_out_of_memory,
    processor_instructions,
    system_memory,
)
from anaume.engines.memory import kept_memory
from anaume.engines.openvino_graphs import KeptGraph, kept_graph, openvino_engine
from anaume.engines.protocol import PRECISIONS, Batch, Engine, Precision, Vectors
from anaume.engines.rates import matrix_rate, matrix_rates, share_of_machine
from anaume.engines.runners import OnnxRunner, OpenVinoRunner, has_openvino
from anaume.engines.side_by_side import side_by_side
from anaume.engines.static_engine import StaticEngine
from anaume.engines.torch_engine import TorchEngine, pick_device

__all__ = [
    "EMBED",
    "PRECISIONS",
    "Batch",
    "Engine",
    "GraphEngine",
    "KeptGraph",
    "OnnxRunner",
    "OpenVinoRunner",
    "Precision",
    "StaticEngine",
    "TorchEngine",
    "Vectors",
    "free_memory",
    "graph_names",
    "has_bfloat16",
    "has_openvino",
    "is_out_of_memory",
    "kept_graph",
    "kept_memory",
    "matrix_rate",
    "matrix_rates",
    "openvino_engine",
    "pick_device",
    "processor_instructions",
    "share_of_machine",
    "side_by_side",
    "system_memory",
]
