"""ELF files, read as the loader of glibc or musl reads them, within bounds that no crafted file exceeds."""

from wheelsmith.wheel.elf.extension import Extension, is_for_the_cpu, read_extension
from wheelsmith.wheel.elf.symbols import Reference
from wheelsmith.wheel.elf.versions import NeededVersion

__all__ = ["Extension", "NeededVersion", "Reference", "is_for_the_cpu", "read_extension"]
