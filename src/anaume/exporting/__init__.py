"""Bundles out of and into other forms: checkpoints of TensorFlow, static vectors, graphs of other engines."""
