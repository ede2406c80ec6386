"""Every rule that a wheel is checked by, one module each, in the order in which findings are given."""

from __future__ import annotations

from wheelsmith.wheel.rules import (
    extension,
    gpu,
    installs,
    metadata,
    names,
    plan,
    platform,
    purity,
    readable,
    record,
    symbols,
    torch_requirement,
)
from wheelsmith.wheel.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    readable.RULE,
    record.RULE,
    names.NAME_AND_VERSION,
    names.TAGS,
    metadata.RULE,
    torch_requirement.RULE,
    installs.RULE,
    purity.RULE,
    platform.RULE,
    extension.ARCHITECTURE,
    extension.SEARCH_PATH,
    extension.ABI3,
    gpu.COMPUTE_PLATFORM,
    symbols.RULE,
    gpu.VARIANT,
    plan.RULE,
    gpu.PLANNED,
)

__all__ = ["RULES", "Rule"]
