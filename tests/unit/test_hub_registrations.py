"""The namespaces that a Hub kernel registers operators under."""

import pytest
from wheels import make_wheel

from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.python_code import registered_namespaces

OPS = b"import torch\nops = torch.ops._k_1\ndef add_op_namespace_prefix(name):\n    return f'_k_1::{name}'\n"
REGISTERS = b'import torch\n@torch.library.custom_op("myns::f", mutates_args=())\ndef f(x): ...\n'


def _findings(folder, files):
    report = check_wheel(make_wheel(folder, "kernel", "1.0", requires=("torch",), files=files))
    return [found for found in report.findings if found.rule == "torch-ops"]


def test_the_place_of_a_shared_namespace_is_named(tmp_path):
    (found,) = _findings(tmp_path, {"kernel/_ops.py": OPS, "kernel/op.py": REGISTERS})
    assert found.message == "kernel/op.py:2 registers 'myns', which another kernel may register too"


@pytest.mark.parametrize("files", [{}, {"kernel/_ops.py": b"import torch\nops = torch.ops.kernel\n"}])
def test_a_project_that_is_no_hub_kernel_may_share_a_namespace(files, tmp_path):
    assert _findings(tmp_path, {"kernel/op.py": REGISTERS, **files}) == []


def test_code_outside_of_the_kernel_may_share_a_namespace(tmp_path):
    (found,) = _findings(tmp_path, {"kernel/_ops.py": OPS, "kernels/op.py": REGISTERS})
    assert found.ok


@pytest.mark.parametrize(
    ("content", "namespaces"),
    [
        (b"\0_ZL23TORCH_LIBRARY_init_mynsRN5torch7LibraryE\0", {"myns"}),
        (b"_ZL42TORCH_LIBRARY_FRAGMENT_static_init_other_3\0", {"other"}),
    ],
)
def test_namespaces_that_machine_code_registers(content, namespaces, tmp_path):
    path = tmp_path / "x.so"
    path.write_bytes(content)
    with path.open("rb") as file:
        assert registered_namespaces(file) == namespaces
