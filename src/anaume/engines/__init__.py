"""WEIGHTS + CONFIG -> SOMETHING THAT RUNS A BATCH: engines behind one small protocol."""

from anaume.engines.hardware import free_memory, has_bfloat16, processor_instructions, system_memory
from anaume.engines.memory import kept_memory
from anaume.engines.protocol import PRECISIONS, Batch, Engine, Precision, Vectors
from anaume.engines.rates import matrix_rate, matrix_rates, share_of_machine
from anaume.engines.static_engine import StaticEngine
from anaume.engines.torch_engine import TorchEngine, pick_device

__all__ = [
    "PRECISIONS",
    "Batch",
    "Engine",
    "Precision",
    "StaticEngine",
    "TorchEngine",
    "Vectors",
    "free_memory",
    "has_bfloat16",
    "kept_memory",
    "matrix_rate",
    "matrix_rates",
    "pick_device",
    "processor_instructions",
    "share_of_machine",
    "system_memory",
]
