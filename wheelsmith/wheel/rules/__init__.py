"""Every rule that a wheel is checked by, in the order in which findings are given."""

from __future__ import annotations

from wheelsmith.wheel.rules import (
    bytecode,
    compute_platform,
    elf,
    entry_points,
    installs,
    libraries,
    metadata,
    names,
    plan,
    platform,
    purity,
    python_symbols,
    record,
    requirements,
    suffix,
    symbols,
    torch_ops,
    variant,
)
from wheelsmith.wheel.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    record.READABLE,
    record.RECORD,
    names.NAME_AND_VERSION,
    names.TAGS,
    metadata.RULE,
    requirements.TORCH_REQUIREMENT,
    requirements.FRAMEWORK_REQUIREMENT,
    requirements.TOGETHER,
    requirements.CUDA,
    entry_points.RULE,
    installs.RULE,
    purity.RULE,
    bytecode.RULE,
    elf.ELF,
    platform.RULE,
    libraries.RULE,
    elf.ARCHITECTURE,
    elf.SEARCH_PATH,
    suffix.RULE,
    python_symbols.ABI3,
    python_symbols.RELEASE,
    compute_platform.COMPUTE_PLATFORM,
    compute_platform.TOOLKIT,
    compute_platform.MACHINE_CODE,
    symbols.RULE,
    torch_ops.RULE,
    variant.RULE,
    plan.RULE,
    compute_platform.GPU_CODE,
)

__all__ = ["RULES", "Rule"]
