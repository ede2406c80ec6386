"""Pinned C and C++ compilers, with the C library that they link against."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.sandbox_paths import CXX
from wheelsmith.model import PINNED, PinnedPackage, PrefixId, Toolset
from wheelsmith.model.pinned import pinned_prefix

KIND = "cxx"
_LAYOUT = 5  # increase it if toolchain/cxx unpacks the same packages in another way


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompilers(Record):
    """GCC and binutils for one machine.

    :param name: e.g. ``gcc-12.2.0``.
    :param title: the display name.
    :param machine: the architecture that they run on.
    :param arch: the architecture that they compile for.
    :param triplet: the name of their folders.
    :param major: the name of GCC's own folder below the triplet's.
    :param runtime: the C library that the compilers themselves run with.
    """

    name: str
    title: str
    machine: str
    arch: str
    triplet: str
    major: str
    packages: tuple[PinnedPackage, ...]
    runtime: PinnedPackage

    def program(self, name: str) -> str:
        """Return the name of a program such as ``g++`` or ``ar``; cross compilers have the triplet as a prefix."""
        return name if self.machine == self.arch else f"{self.triplet}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPolicy(Record):
    """A manylinux policy.

    :param name: e.g. ``2_28``.
    :param newest: prefix of symbol versions → the newest version that a binary may need: ``GLIBC`` → ``2.28``.
    :param packages: architecture → the packages of a C library that is no newer than the policy's.
    """

    name: str
    newest: dict[str, str]
    packages: dict[str, tuple[PinnedPackage, ...]]


@dataclass(frozen=True, kw_only=True)
class CxxToolchain:
    """Compilers and a C library, for binaries that satisfy a manylinux policy."""

    compilers: HostCompilers
    policy: LinkPolicy

    @property
    def packages(self) -> tuple[PinnedPackage, ...]:
        """All packages that the toolchain is unpacked from."""
        made = self.compilers
        return (*made.packages, made.runtime, *self.policy.packages[made.arch])

    @cached_property
    def prefix(self) -> PrefixId:
        """The ID of the toolchain's folder."""
        version = f"{self.compilers.name}-manylinux_{self.policy.name}"
        made = self.compilers
        places = made.arch if made.machine == made.arch else f"{made.machine}-{made.arch}"
        return pinned_prefix(KIND, version, places, self.packages, layout=_LAYOUT)

    @cached_property
    def toolset(self) -> Toolset:
        """The description of the compilers that a plan contains."""
        prefix = self.prefix
        return Toolset(
            arch=self.compilers.arch,
            cxx=f"{CXX}/bin/{self.compilers.program('g++')}",
            version=self.compilers.title,
            digest=prefix.digest,
            prefix=prefix,
            policy=f"manylinux_{self.policy.name}",
        )


@cache
def cxx_toolchains() -> tuple[CxxToolchain, ...]:
    """Return every known toolchain, the preferred one first."""
    facts = read_facts(__package__, "host_compilers.json")
    policies = [LinkPolicy.from_json(row) for row in facts["policies"]]
    compilers = [HostCompilers.from_json(row) for row in facts["compilers"]]
    return tuple(
        CxxToolchain(compilers=each, policy=policy)
        for each in compilers
        for policy in policies
        if each.arch in policy.packages
    )


def cxx_toolchain(name: str, policy: str, machine: str, arch: str) -> CxxToolchain | None:
    """Return the toolchain that runs on ``machine`` and compiles for ``arch``, or None.

    :param name: the compilers' name; ``pinned`` selects the preferred ones.
    :param policy: the manylinux policy, e.g. ``2_28``.
    """
    for each in cxx_toolchains():
        found = each.compilers
        named = name in {PINNED, found.name} and each.policy.name == policy
        if named and (found.machine, found.arch) == (machine, arch):
            return each
    return None


def gcc_folder(toolset: Toolset) -> str | None:
    """Return the folder of GCC's own libraries in the sandbox; None for compilers of the machine or an image."""
    found = next((each.compilers for each in cxx_toolchains() if each.prefix == toolset.prefix), None)
    return f"{CXX}/usr/lib/gcc/{found.triplet}/{found.major}" if found else None
