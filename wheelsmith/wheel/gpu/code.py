"""What GPU code a file holds."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from wheelsmith.base.units import numbers
from wheelsmith.platforms import cuda_toolkits

_NOTHING = frozenset[str]()
# Capabilities that went before the first toolkit that is known here.
_EARLIER = frozenset({"1.0", "1.1", "1.2", "1.3", "2.0", "2.1", "3.0", "3.2", "3.5", "3.7"})


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuCode:
    """What a file holds, as capabilities: ``8.0``, ``9.0a``, and what made it, as toolkits: ``12.4``.

    :param machine_code: linked, so that a GPU can run it.
    :param ptx: text that a driver compiles.
    :param relocatable: machine code and PTX that has yet to be linked (``nvcc -rdc=true``).
    :param intermediate: what only nvcc's own linker reads: LTO IR and tile IR.
    :param assemblers: toolkits whose ptxas made the machine code.
    :param ptx_versions: of the PTX, e.g. ``8.4``: all that is left of what it says of itself.
    :param others: whose GPUs the rest is for, which is not looked into: ``AMD``, ``Vulkan``.
    :param runtime: whether CUDA's runtime itself is within (``nvcc -cudart static``, which is nvcc's default).
    :param mistakes: what is broken, or not what its label says, and where.
    """

    machine_code: frozenset[str] = _NOTHING
    ptx: frozenset[str] = _NOTHING
    relocatable: frozenset[str] = _NOTHING
    intermediate: frozenset[str] = _NOTHING
    assemblers: frozenset[str] = _NOTHING
    ptx_versions: frozenset[str] = _NOTHING
    others: frozenset[str] = _NOTHING
    runtime: bool = False
    mistakes: tuple[str, ...] = ()

    @property
    def present(self) -> bool:
        """Say whether there is any, broken code included."""
        nvidia = self.machine_code or self.ptx or self.relocatable or self.intermediate
        return bool(nvidia or self.others or self.mistakes)

    @property
    def runs(self) -> tuple[str, ...]:
        """Return the capabilities that there is machine code for, ascending: with PTX too, as ``9.0+PTX``."""
        ascending = sorted(self.machine_code, key=lambda text: (numbers(text.rstrip("af")), text))
        return tuple(f"{text}+PTX" if text in self.ptx else text for text in ascending)

    @property
    def front_ends(self) -> frozenset[str]:
        """Return the known toolkits that write PTX of these versions."""
        return frozenset(name for name, toolkit in cuda_toolkits().items() if toolkit.ptx in self.ptx_versions)


def impossible_targets(code: GpuCode) -> list[str]:
    """Return machine code that no toolkit which made the file's makes, and PTX for what no toolkit knows, in words.

    A toolkit that is not known may make what it likes.
    """
    toolkits = cuda_toolkits()
    wrong = []
    if code.assemblers and code.assemblers <= toolkits.keys():
        made = {one for name in code.assemblers for one in toolkits[name].capabilities}
        strange = sorted((code.machine_code | code.relocatable - code.ptx) - made)
        named = ", ".join(sorted(code.assemblers))
        wrong += [f"it has machine code for {one}, which CUDA {named} does not make" for one in strange]
    ever = _EARLIER.union(*(toolkit.capabilities for toolkit in toolkits.values()))
    if code.ptx_versions and code.ptx_versions <= {toolkit.ptx for toolkit in toolkits.values()}:
        wrong += [f"it has PTX for {one}, and there is no such GPU" for one in sorted(code.ptx - ever)]
    return wrong


def joined(codes: Iterable[GpuCode]) -> GpuCode:
    """Return what several pieces of code are together."""
    codes = list(codes)
    return GpuCode(
        machine_code=_NOTHING.union(*(code.machine_code for code in codes)),
        ptx=_NOTHING.union(*(code.ptx for code in codes)),
        relocatable=_NOTHING.union(*(code.relocatable for code in codes)),
        intermediate=_NOTHING.union(*(code.intermediate for code in codes)),
        assemblers=_NOTHING.union(*(code.assemblers for code in codes)),
        ptx_versions=_NOTHING.union(*(code.ptx_versions for code in codes)),
        others=_NOTHING.union(*(code.others for code in codes)),
        runtime=any(code.runtime for code in codes),
        mistakes=tuple(mistake for code in codes for mistake in code.mistakes),
    )


def capability(number: int, suffix: str = "") -> str:
    """Return the capability of an architecture: ``9.0a`` of sm_90a.

    :param number: as ``sm_90`` has it.
    :param suffix: ``a`` for code that only this architecture runs, ``f`` for its family's, or none.
    """
    return f"{number // 10}.{number % 10}{suffix}"
