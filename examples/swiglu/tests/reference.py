"""SwiGLU and its gradient in float64."""

import numpy as np

SHAPES = [(1,), (7,), (3, 5, 129), (0, 4)]


def inputs(shape):
    """Return gate, up and dy as float32."""
    random = np.random.default_rng(7)
    return [random.standard_normal(shape).astype("float32") for _ in range(3)]


def value(gate, up):
    gate = gate.astype("float64")
    return gate / (1 + np.exp(-gate)) * up


def gradients(gate, up, dy):
    gate = gate.astype("float64")
    sigmoid = 1 / (1 + np.exp(-gate))
    return dy * up * sigmoid * (1 + gate * (1 - sigmoid)), dy * gate * sigmoid
