"""Every rule that a wheel is checked by, one module each, in the order in which findings are given."""

from __future__ import annotations

from wheelsmith.wheel.rules import (
    compute_platform,
    extension,
    gpu_code,
    installs,
    machine_code,
    metadata,
    names,
    plan,
    platform,
    purity,
    readable,
    record,
    symbols,
    toolkit,
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
    installs.RULE,
    purity.RULE,
    platform.RULE,
    extension.ARCHITECTURE,
    extension.SEARCH_PATH,
    extension.ABI3,
    compute_platform.RULE,
    toolkit.RULE,
    machine_code.RULE,
    symbols.RULE,
    variant.RULE,
    plan.RULE,
    gpu_code.RULE,
)

__all__ = ["RULES", "Rule"]
