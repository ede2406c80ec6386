"""The MindSpore face: values and gradients against float64, in both modes."""

import mindspore
import numpy as np
import pytest
from mindspore import Tensor
from reference import SHAPES, gradients, inputs, value

from swiglu_mindspore import Swiglu, swiglu

MODES = {"pynative": mindspore.PYNATIVE_MODE, "graph": mindspore.GRAPH_MODE}
NOT_EMPTY = [shape for shape in SHAPES if 0 not in shape]  # MindSpore calls no operator for an empty tensor


@pytest.fixture(params=MODES)
def mode(request):
    mindspore.set_context(mode=MODES[request.param], device_target="CPU")


@pytest.mark.parametrize("shape", NOT_EMPTY)
@pytest.mark.usefixtures("mode")
def test_values(shape):
    gate, up, _ = inputs(shape)
    for call in (swiglu, Swiglu()):
        assert np.allclose(call(Tensor(gate), Tensor(up)).asnumpy(), value(gate, up), atol=1e-5)


@pytest.mark.parametrize("shape", NOT_EMPTY)
@pytest.mark.usefixtures("mode")
def test_gradients(shape):
    gate, up, _ = inputs(shape)
    found = mindspore.grad(Swiglu(), grad_position=(0, 1))(Tensor(gate), Tensor(up))
    for each, expected in zip(found, gradients(gate, up, np.ones_like(gate)), strict=True):
        assert np.allclose(each.asnumpy(), expected, atol=1e-5)
