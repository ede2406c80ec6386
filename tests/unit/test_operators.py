"""Operators that a Hub kernel registers: under its own namespace, or under one that others may have, too."""

import io

import pytest
from wheels import make_wheel

from wheelsmith.wheel.check import check_wheel
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
