"""WEIGHTS + CONFIG -> SOMETHING THAT RUNS A BATCH: engines behind one small protocol."""

from anaume.engines.protocol import PRECISIONS, Batch, Engine, Precision, Vectors
from anaume.engines.torch_engine import TorchEngine, pick_device

__all__ = ["PRECISIONS", "Batch", "Engine", "Precision", "TorchEngine", "Vectors", "pick_device"]
