"""A multi-variant wheel factory for Hub kernels."""

__version__ = "0.1.0.dev0"
