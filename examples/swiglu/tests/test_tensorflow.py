"""The TensorFlow face: values and gradients against float64, eager and as a graph."""

import numpy as np
import pytest
import tensorflow as tf
from reference import SHAPES, gradients, inputs, value

from swiglu_tensorflow import swiglu


def graph(shape):
    """Return a graph that knows the number of dimensions only."""
    unknown = tf.TensorSpec([None] * len(shape), tf.float32)
    return tf.function(swiglu, input_signature=[unknown, unknown])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("mode", ["eager", "graph"])
def test_values_and_gradients(shape, mode):
    gate, up, dy = inputs(shape)
    call = graph(shape) if mode == "graph" else swiglu
    tensors = [tf.constant(each) for each in (gate, up)]
    with tf.GradientTape() as tape:
        tape.watch(tensors)
        result = call(*tensors)
    assert np.allclose(result, value(gate, up), atol=1e-5)
    found = tape.gradient(result, tensors, output_gradients=tf.constant(dy))
    for each, expected in zip(found, gradients(gate, up, dy), strict=True):
        assert np.allclose(each, expected, atol=1e-5)


def test_different_shapes_are_refused():
    with pytest.raises(tf.errors.InvalidArgumentError):
        swiglu(tf.zeros([2]), tf.zeros([3]))
