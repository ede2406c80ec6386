"""What is known of a build folder before its wheel is planned."""

from __future__ import annotations

from dataclasses import dataclass, field

from wheelsmith.base.json_dataclass import Record
from wheelsmith.plan.recipe import KernelSource


@dataclass(frozen=True, slots=True, kw_only=True)
class HubVariant(Record):
    """What a build folder is for, by its name.

    :param release: of the framework; of a build for torch's stable ABI its floor; None where nothing is compiled.
    :param backends: kernel-builder's names for the compute platforms: several only where nothing is compiled.
    :param toolkit: what its GPU code was made with; None for the CPU, and where nothing is compiled.
    :param cxx11_abi: what the name says of the C++ ABI; None where it says nothing.
    """

    name: str
    framework: str
    release: str | None
    stable_abi: bool
    backends: tuple[str, ...]
    toolkit: str | None
    arch: str | None
    cxx11_abi: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts(Record):
    """What a build folder's metadata.json says; nothing where there is none.

    :param name: of the kernel.
    :param backend: kernel-builder's name for the compute platform.
    :param digests: path in the folder → sha256 in hex; None where it has none.
    """

    name: str | None = None
    version: int | None = None
    license: str | None = None
    upstream: str | None = None
    source: str | None = None
    python_depends: tuple[str, ...] = ()
    kernel_depends: tuple[str, ...] = ()
    backend: str | None = None
    digests: dict[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltPackage(Record):
    """The Python package of a build folder.

    :param module: what it calls itself.
    :param files: path in the package → path in the folder.
    """

    module: str
    files: dict[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFolder(Record):
    """A build folder that was read.

    :param source: its files as they lie in the repo, and the repo's licences.
    :param hashes: path in the folder → sha256 in hex.
    """

    variant: HubVariant
    facts: BuildFacts
    package: BuiltPackage
    source: KernelSource
    hashes: dict[str, str] = field(hash=False)

    @property
    def content(self) -> dict[str, str]:
        """Return what its package holds: path in the package → sha256 in hex."""
        return {path: self.hashes[inside] for path, inside in self.package.files.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantAnswer(Record):
    """What becomes of a build folder.

    :param reason: why it has no wheel; None where it has.
    :param refused: it was asked for, and cannot be taken as it is.
    :param cell: one that its wheel serves.
    """

    variant: str
    reason: str | None = None
    refused: bool = False
    cell: str | None = None
