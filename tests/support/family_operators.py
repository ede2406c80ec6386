"""Operators of Hub kernels: registered under the kernel's own namespace, or under one that others may have."""

from __future__ import annotations

from functools import partial

from forge import Wheel, legal, lie

_OPS = "import torch\nops = torch.ops._x_1\ndef add_op_namespace_prefix(name):\n    return f'_x_1::{name}'\n"
_START = "import torch\nfrom torch.library import Library, custom_op, define\nfrom ._ops import add_op_namespace_prefix, ops\n"
# What kernel-builder writes for a kernel with nothing compiled: the backend is known once it runs.
_NOARCH = (
    "import torch\ndef _find():\n    return f'_x_{torch.version.cuda and 'cuda'}_1a2b'\n_NAME = _find()\n"
    "ops = getattr(torch.ops, _NAME)\ndef add_op_namespace_prefix(name: str) -> str:\n    return f'{_NAME}::{name}'\n"
)


def _register(register, name: str, says: str, code: str | dict[str, str]) -> None:
    files = {"_ops.py": _OPS, **({"ops.py": code} if isinstance(code, str) else code)}
    if "ops.py" in files:
        files["ops.py"] = _START + files["ops.py"]

    def change(wheel: Wheel) -> None:
        wheel.files |= {f"forged/{path}": text.encode() for path, text in files.items()}

    register(says, base="cpu", family="operators", name=name, arches=("x86_64",))(change)


for _name, _code in {
    "literal": "torch.library.define('shared::op', '() -> ()')\n",
    "decorator": "@custom_op('shared::op', mutates_args=())\ndef op(x): ...\n",
    "decorator in a function": "def build():\n    @custom_op('shared::op', mutates_args=())\n    def op(x): ...\n",
    "decorator for torch.compile": "@torch.library.register_fake('shared::op')\ndef _(x): ...\n",
    "constant": "N = 'shared::op'\ndefine(N, '() -> ()')\n",
    "f-string": "NS = 'shared'\n@custom_op(f'{NS}::op', mutates_args=())\ndef op(x): ...\n",
    "library": "lib = Library('shared', 'DEF')\n",
    "library by keyword": "lib = torch.library.Library('shared', kind='FRAGMENT')\n",
    "prefix that is everybody's": {"_ops.py": _OPS.replace("_x_1", "shared")},
    "in _ops itself": {"_ops.py": _OPS + "torch.library.define('shared::op', '() -> ()')\n"},
    "package of operators": {
        "_ops.py": "",
        "k/_ops/__init__.py": _OPS,
        "k/ops.py": "import torch\ntorch.library.define('shared::op', '() -> ()')\n",
    },
}.items():
    _register(partial(lie, "ops"), _name, "an operator under a namespace that other kernels may have", _code)

for _name, _code in {
    "alias of the prefix": "p = add_op_namespace_prefix\n@custom_op(p('op'), mutates_args=())\ndef op(x): ...\n",
    "another library's define": "import cffi\ncffi.FFI().define('shared::op')\ncffi.define('int a; // ::')\n",
    "comment and docstring": "'''torch.library.define('shared::op')'''\n# define('shared::op')\n",
    "constant of its own": "@custom_op('_x_1::op', mutates_args=())\ndef op(x): ...\n",
    "implementation of torch's own": "lib = Library('aten', 'IMPL')\nlib.impl('relu', lambda x: x, 'CUDA')\n",
    "operator that is registered": "@torch.library.register_fake(ops.op.default)\ndef _(x): ...\n",
    "registered on the operator": "@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n"
    "@op.register_fake\ndef _(x): ...\n",
    "unread name": "import os\nn = os.environ['NS']\ndefine(f'{n}::op', '() -> ()')\n",
    "code of another Python": {"old.py": "import torch\nprint 'no Python 3'\n"},
    "backend that is known later": {
        "_ops.py": _NOARCH,
        "ops.py": "@custom_op(add_op_namespace_prefix('op'), mutates_args=())\ndef op(x): ...\n"
        "lib = Library('_x_cuda_1a2b', 'FRAGMENT')\n",
    },
}.items():
    _register(legal, _name, "the kernel's own, or no registration", _code)
