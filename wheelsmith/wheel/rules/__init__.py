"""Every rule that a wheel is checked by, one module each, in the order in which findings are given."""

from __future__ import annotations

from wheelsmith.wheel.rules import (
    bytecode,
    compute_platform,
    cuda_requirement,
    elf,
    entry_points,
    extension,
    gpu_code,
    installs,
    libraries,
    machine_code,
    metadata,
    names,
    plan,
    platform,
    purity,
    python_symbols,
    readable,
    record,
    suffix,
    symbols,
    toolkit,
    torch_ops,
    torch_requirement,
    variant,
)
from wheelsmith.wheel.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    readable.RULE,
    record.RULE,
    names.NAME_AND_VERSION,
    names.TAGS,
    metadata.RULE,
    torch_requirement.RULE,
    cuda_requirement.RULE,
    installs.RULE,
    entry_points.RULE,
    purity.RULE,
    bytecode.RULE,
    elf.RULE,
    platform.RULE,
    libraries.RULE,
    extension.ARCHITECTURE,
    extension.SEARCH_PATH,
    suffix.RULE,
    python_symbols.ABI3,
    python_symbols.RELEASE,
    compute_platform.RULE,
    toolkit.RULE,
    machine_code.RULE,
    symbols.RULE,
    torch_ops.RULE,
    variant.RULE,
    plan.RULE,
    gpu_code.RULE,
)

__all__ = ["RULES", "Rule"]
