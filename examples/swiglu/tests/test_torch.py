"""The torch face: values and gradients against float64."""

import numpy as np
import pytest
import torch
from reference import SHAPES, gradients, inputs, value

from swiglu import swiglu

DEVICE = "cuda" if torch.version.cuda and torch.cuda.is_available() else "cpu"


@pytest.mark.parametrize("shape", SHAPES)
def test_values_and_gradients(shape):
    gate, up, dy = inputs(shape)
    tensors = [torch.tensor(each, device=DEVICE, requires_grad=True) for each in (gate, up)]
    result = swiglu(*tensors)
    result.backward(torch.tensor(dy, device=DEVICE))
    assert np.allclose(result.detach().cpu(), value(gate, up), atol=1e-5)
    for tensor, expected in zip(tensors, gradients(gate, up, dy), strict=True):
        assert np.allclose(tensor.grad.cpu(), expected, atol=1e-5)
