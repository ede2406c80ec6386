"""Operators that a Hub kernel registers: under its own namespace, or under one that others may have, too."""

import io

import pytest
from wheels import make_wheel

from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.operators.kernel import HubKernels
from wheelsmith.wheel.operators.machine_code import registered_namespaces

OPS = b"""
import torch
from . import _kernel_cuda_1a2b
ops = torch.ops._kernel_cuda_1a2b
def add_op_namespace_prefix(name):
    return f'_kernel_cuda_1a2b::{name}'
"""


@pytest.mark.parametrize(
    ("code", "shared"),
    [
        ('@torch.library.custom_op(add_op_namespace_prefix("f"), mutates_args=())\ndef f(x): ...', False),
        ('@triton_op(_ops.add_op_namespace_prefix("f"))\ndef f(x): ...', False),
        ("@f.register_fake\ndef g(x): ...", False),
        ('torch.library.impl("_kernel_cuda_1a2b::f", "CPU")(f)', False),
        ('lib = torch.library.Library("aten", "IMPL")', False),
        ('@torch.library.custom_op("_kernel_cuda_1a2b::f")\ndef f(x): ...', False),
        ("@torch.library.register_fake()\ndef f(x): ...", False),
        (f"@torch.library.register_fake(0x{'f' * 5000})\ndef f(x): ...", True),
        (f"@torch.library.register_fake({'-' * 900}1)\ndef f(x): ...", True),
        ('torch.library.define("\\ud800::f")', True),
        ('torch.library.define("a\\0b::f")', True),
        ('@torch.library.custom_op("myns::f", mutates_args=())\ndef f(x): ...', True),
        ("@torch.library.register_fake(NAME)\ndef f(x): ...", True),
        ('@torch.library.triton_op(f"{NS}::f")\nasync def f(x): ...', True),
        ('def build():\n    @torch.library.custom_op("myns::f")\n    def f(x): ...', True),
        ('torch.library.define("myns::f", "(Tensor x) -> Tensor")', True),
        ('lib = torch.library.Library("myns", "DEF")', True),
        ('lib = Library("myns", kind="FRAGMENT")', True),
    ],
)
def test_operators_under_a_shared_namespace(code, shared, tmp_path):
    source = f"import torch\nfrom ._ops import add_op_namespace_prefix\n{code}\n".encode()
    files = {"kernel/_ops.py": OPS, "kernel/op.py": source}
    report = check_wheel(make_wheel(tmp_path, "kernel", "1.0", requires=("torch",), files=files))
    assert [found.ok for found in report.findings if found.rule == "torch-ops"] == [not shared]


def test_operators_of_a_project_that_is_no_hub_kernel(tmp_path):
    files = {"kernel/op.py": b'import torch\n@torch.library.custom_op("kernel::f")\ndef f(x): ...\n'}
    report = check_wheel(make_wheel(tmp_path, "kernel", "1.0", requires=("torch",), files=files))
    assert "torch-ops" not in {found.rule for found in report.findings}


def test_namespaces_that_machine_code_registers():
    text = b"\0_ZL23TORCH_LIBRARY_init_mynsRN5torch7LibraryE\0_ZL42TORCH_LIBRARY_FRAGMENT_static_init_other_3\0"
    assert registered_namespaces(io.BytesIO(text)) == {"myns", "other"}
    assert registered_namespaces(io.BytesIO(b"\x7fELF")) == set()


def test_a_name_that_goes_on_in_the_next_piece():
    symbol = b"_ZL30TORCH_LIBRARY_init__kernel_123RN5torch7LibraryE"
    assert registered_namespaces(io.BytesIO(symbol)) == {"_kernel_123"}
    for cut in (1, 5, 30, 40):
        assert registered_namespaces(io.BytesIO(bytes(2**24 - cut) + symbol)) == {"_kernel_123"}, cut


def test_numbers_without_end_are_no_lengths():
    # Python reads no number of 5000 digits, and a search that starts anew at each digit would take minutes.
    digits = b"9" * 200_000
    assert registered_namespaces(io.BytesIO(digits + b"TORCH_LIBRARY_init_x")) == set()
    assert registered_namespaces(io.BytesIO(b"5TORCH_LIBRARY_init_x")) == set()


@pytest.mark.parametrize(
    ("ops", "namespaces"),
    [
        ("def add_op_namespace_prefix(n):\n    return '_k_1::' + n", {"_k_1": False, "_k_2": True, "aten": True}),
        ("add_op_namespace_prefix = '_k_1::{}'.format", {"_k_1": False, "_k_\0": False, "k_\0": True}),
        ("import x\ndef add_op_namespace_prefix(n):\n    return f'_k_{x.y}_1::{n}'", {"_k_cpu_1": False, "_k_1": True}),
        ("import x\nadd_op_namespace_prefix = x.prefix", {"_k_1": False, "aten": True, "\0": False}),
    ],
)
def test_a_kernels_own_namespace(ops, namespaces, tmp_path):
    path = make_wheel(tmp_path, "kernel", "1.0", requires=("torch",), files={"kernel/_ops.py": ops.encode()})
    with Inspection(path) as wheel:
        kernels = HubKernels(wheel.python_files())
        assert kernels.homes == ("kernel",)
        assert {space: kernels.is_shared(space) for space in namespaces} == namespaces
        assert kernels.is_within("kernel/x.so")
        assert not kernels.is_within("kernels/x.so")


def test_more_code_than_is_parsed(tmp_path):
    files = {f"kernel/f{number}.py": b"from torch.library import define\n" + b"()\n" * 50_000 for number in range(5)}
    path = make_wheel(tmp_path, "kernel", "1.0", requires=("torch",), files={"kernel/_ops.py": OPS, **files})
    (told,) = [found for found in check_wheel(path).findings if found.rule == "torch-ops"]
    assert not told.ok
    assert "has more code than is parsed, and may register whatever" in told.message


def test_code_that_is_no_part_of_it_may_be_long(tmp_path):
    files = {f"kernel/f{number}.py": b"()\n" * 50_000 for number in range(5)}
    path = make_wheel(tmp_path, "kernel", "1.0", requires=("torch",), files={"kernel/_ops.py": OPS, **files})
    assert [found.ok for found in check_wheel(path).findings if found.rule == "torch-ops"] == [True]
