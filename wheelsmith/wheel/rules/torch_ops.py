"""Operators of a Hub kernel are registered under a namespace that no other kernel has.

What huggingface/kernels asks of a kernel (``nix-builder/pkgs/torch-ops-check``): whatever it registers from Python goes
through ``add_op_namespace_prefix`` of its own ``_ops`` module, so that two kernels, or two versions of one, can be in
one process.
"""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.operators.kernel import HubKernels
from wheelsmith.wheel.operators.machine_code import registered_namespaces
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    if not any(f"/{name}".endswith(("/_ops.py", "/_ops/__init__.py")) for name in wheel.files):
        return  # no Hub kernel: nothing needs to be read
    kernels = HubKernels(wheel.python_files())
    if not kernels.homes:
        return
    wrong = kernels.shared()
    for name in filter(kernels.is_within, wheel.extensions):
        with wheel.binary(name) as file:
            found = sorted(registered_namespaces(file))
        wrong += [f"{name} registers {space!r}" for space in found if kernels.is_shared(space)]
    wrong = [f"{message}, which another kernel may register too" for message in wrong]
    yield finding("torch-ops", wrong, "what is registered has the kernel's own namespace")


RULE = Rule(
    name="torch-ops",
    proves="of a Hub kernel (its `_ops` module has `add_op_namespace_prefix`): every operator that is registered has "
    "the kernel's own namespace, as huggingface/kernels asks of Python code. Names are followed through constants, "
    "f-strings, imports, functions and their callers; one that cannot be read is refused where huggingface/kernels "
    "refuses it, in the decorator of a module's own function",
    leaves_open="elsewhere, names that are put together while the code runs, and code within texts (`exec`); what "
    "machine code registers where its own symbols were stripped; projects that are no Hub kernels may share what they "
    "like",
    in_the_wild="silu-and-mul-bad-registration, which huggingface/kernels keeps as an example: `myns::silu_and_mul`",
    examine=_examine,
)
