"""A Hub kernel registers its operators under a namespace that no other kernel has.

Two kernels, or two versions of one, can then be in one process.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from wheelsmith.wheel.hub_registrations import (
    HubKernel,
    hub_kernels,
    is_ops_module,
    parse,
    registered_by_machine_code,
    registrations,
)
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule


def _examine(wheel: Inspection) -> Iterator[Finding]:
    sources = wheel.python_code(b"torch")
    kernels = list(hub_kernels(_trees({name: sources[name] for name in sources if is_ops_module(name)})))
    wrong = [message for kernel in kernels for message in _shared(wheel, kernel, sources)]
    if kernels:
        yield finding("torch-ops", wrong, "what is registered has the kernel's own namespace")


def _trees(sources: Mapping[str, bytes]) -> Iterator[tuple[str, ast.Module]]:
    """Yield the syntax tree of each file that can be parsed, one at a time."""
    for name, source in sources.items():
        if tree := parse(source):
            yield name, tree


def _shared(wheel: Inspection, kernel: HubKernel, sources: Mapping[str, bytes]) -> Iterator[str]:
    """Yield what a kernel registers under namespaces that another kernel may use too."""
    found = []
    if kernel.namespace:
        found.append((f"{kernel.folder}/_ops.py", kernel.namespace))
    for name, tree in _trees({name: sources[name] for name in filter(kernel.contains, sources)}):
        found += [(f"{name}:{line}", namespace) for line, namespace in registrations(tree)]
    for name in filter(kernel.contains, wheel.extensions):
        with wheel.binary(name) as file:
            found += [(name, namespace) for namespace in sorted(registered_by_machine_code(file))]
    for place, namespace in found:
        if not kernel.owns(namespace):
            yield f"{place} registers {namespace!r}, which another kernel may register too"


RULE = Rule(
    name="torch-ops",
    proves="a Hub kernel (a package whose `_ops` module has `add_op_namespace_prefix`) registers operators under its "
    "own namespace, as huggingface/kernels asks. They are read from literals, constants and f-strings in calls of "
    "`torch.library`, and from the symbols that `TORCH_LIBRARY` makes",
    leaves_open="names that are put together while the code runs or come from another file, and stripped symbols; "
    "projects that are no Hub kernels may share a namespace",
    in_the_wild="silu-and-mul-bad-registration, which huggingface/kernels keeps as an example: `myns::silu_and_mul`",
    examine=_examine,
)
