import threading

import pytest
import torch

import add_constant

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
TYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture(autouse=True)
def one():
    add_constant.set_constant(1.0)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(), (0,), (1,), (255,), (3, 257), (1 << 20,)])
def test_adds(device, dtype, shape):
    x = torch.randn(shape, device=device).to(dtype)
    add_constant.set_constant(2.5)
    y = add_constant.add(x)
    torch.testing.assert_close(y, x + 2.5, rtol=0, atol=0)
    assert y.shape == x.shape
    assert y.data_ptr() != x.data_ptr() or x.numel() == 0


@pytest.mark.parametrize("device", DEVICES)
def test_what_is_not_contiguous(device):
    x = torch.arange(12.0, device=device).reshape(3, 4).t()
    torch.testing.assert_close(add_constant.add(x), x + 1)


@pytest.mark.parametrize("device", DEVICES)
def test_a_new_constant_holds_for_later_calls_only(device):
    x = torch.zeros(4, device=device)
    before = add_constant.add(x)
    add_constant.set_constant(-7)
    assert add_constant.get_constant() == -7
    assert add_constant.add(x).tolist() == [-7] * 4
    assert before.tolist() == [1] * 4


def test_threads_see_it():
    seen = []
    add_constant.set_constant(3)
    thread = threading.Thread(target=lambda: seen.append(add_constant.get_constant()))
    thread.start()
    thread.join()
    assert seen == [3]


@pytest.mark.parametrize("device", DEVICES)
def test_integers_are_refused(device):
    with pytest.raises(TypeError, match="takes a floating-point tensor, not"):
        add_constant.add(torch.ones(2, dtype=torch.int64, device=device))


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_constant_that_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="must be finite"):
        add_constant.set_constant(value)
    assert add_constant.get_constant() == 1


def test_what_is_no_tensor_is_refused():
    with pytest.raises(TypeError, match="add"):
        add_constant.add("1")
