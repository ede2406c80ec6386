"""Every rule that a wheel is checked by, one module each, in the order in which findings are given."""

from __future__ import annotations

from wheelsmith.wheel.rules import (
    elf,
    extension,
    gpu,
    libraries,
    metadata,
    names,
    plan,
    platform,
    purity,
    python_symbols,
    record,
    suffix,
    symbols,
    torch_ops,
    torch_requirement,
)
from wheelsmith.wheel.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    record.RULE,
    names.NAME_AND_VERSION,
    names.TAGS,
    metadata.RULE,
    torch_requirement.RULE,
    purity.RULE,
    elf.RULE,
    platform.RULE,
    libraries.RULE,
    extension.ARCHITECTURE,
    extension.SEARCH_PATH,
    suffix.RULE,
    python_symbols.ABI3,
    python_symbols.RELEASE,
    gpu.COMPUTE_PLATFORM,
    symbols.RULE,
    torch_ops.RULE,
    gpu.VARIANT,
    plan.RULE,
    gpu.PLANNED,
)

__all__ = ["RULES", "Rule"]
