"""The JAX face: values and gradients against float64, with jit, vmap and grad."""

import jax
import numpy as np
import pytest
from reference import SHAPES, gradients, inputs, value

from swiglu_jax import swiglu


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("call", [swiglu, jax.jit(swiglu), jax.jit(jax.vmap(swiglu))], ids=["eager", "jit", "vmap"])
def test_values(shape, call):
    gate, up, _ = inputs(shape)
    assert np.allclose(call(gate, up), value(gate, up), atol=1e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_gradients(shape):
    gate, up, dy = inputs(shape)
    found = jax.jit(jax.grad(lambda gate, up: (swiglu(gate, up) * dy).sum(), argnums=(0, 1)))(gate, up)
    for each, expected in zip(found, gradients(gate, up, dy), strict=True):
        assert np.allclose(each, expected, atol=1e-5)
