"""All rules of the wheel check, in the order of their findings."""

from __future__ import annotations

from wheelsmith.wheel.rules import compute_platform, contents, elf, metadata, requirements, symbols
from wheelsmith.wheel.rules.rule import Rule

RULES: tuple[Rule, ...] = (
    contents.READABLE,
    contents.RECORD,
    metadata.NAME_AND_VERSION,
    metadata.TAGS,
    metadata.METADATA,
    requirements.TORCH_REQUIREMENT,
    requirements.FRAMEWORK_REQUIREMENT,
    requirements.REQUIREMENTS,
    requirements.CUDA,
    contents.ENTRY_POINTS,
    contents.INSTALLS,
    contents.PURITY,
    contents.BYTECODE,
    elf.ELF,
    elf.PLATFORM_TAG,
    elf.LIBRARIES,
    elf.ARCHITECTURE,
    elf.SEARCH_PATH,
    contents.SUFFIX,
    symbols.ABI3,
    symbols.PYTHON_SYMBOLS,
    compute_platform.COMPUTE_PLATFORM,
    compute_platform.TOOLKIT,
    compute_platform.MACHINE_CODE,
    symbols.SYMBOLS,
    symbols.TORCH_OPS,
    metadata.VARIANT,
    metadata.RECORDED_PLAN,
    metadata.PLAN,
    compute_platform.GPU_CODE,
)
