"""anaume: train, adapt and run BERT encoders on your own text."""

__version__ = "0.1.0"
