"""Compilers for C and C++ that are the same on every machine, and the C library that what they make needs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.sandbox_paths import CXX
from wheelsmith.model import PINNED, PinnedPackage, PrefixId, Toolset
from wheelsmith.model.pinned import pinned_prefix

KIND = "cxx"
_LAYOUT = 5  # raised when toolchain/cxx lays the same packages out in another way


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCompilers(Record):
    """GCC and binutils for one machine.

    :param name: e.g. ``gcc-12.2.0``.
    :param title: for people.
    :param machine: that they run on.
    :param arch: that they make code for.
    :param triplet: what their folders are called after; and GCC's own after its ``major``.
    :param runtime: the C library that they themselves run with.
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
        """Return what ``g++`` or ``ar`` is called: where they make code for another machine, after that."""
        return name if self.machine == self.arch else f"{self.triplet}-{name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPolicy(Record):
    """What a manylinux policy allows.

    :param name: as ``2_28``.
    :param newest: the newest version of symbols that may be needed, by the versions' prefix: ``GLIBC`` → ``2.28``.
    :param packages: architecture → a C library whose headers need no newer one.
    """

    name: str
    newest: dict[str, str]
    packages: dict[str, tuple[PinnedPackage, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CxxToolchain:
    """Compilers that make what a policy allows."""

    compilers: HostCompilers
    policy: LinkPolicy

    @property
    def packages(self) -> tuple[PinnedPackage, ...]:
        """Return all that they are laid out from."""
        made = self.compilers
        return (*made.packages, made.runtime, *self.policy.packages[made.arch])

    @property
    def prefix(self) -> PrefixId:
        """Name the folder that they are laid out in, by what they come from."""
        version = f"{self.compilers.name}-manylinux_{self.policy.name}"
        made = self.compilers
        places = made.arch if made.machine == made.arch else f"{made.machine}-{made.arch}"
        return pinned_prefix(KIND, version, places, self.packages, layout=_LAYOUT)

    @property
    def toolset(self) -> Toolset:
        """Return what a plan says of them."""
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
    """Return every combination that is known, what is taken first of all first."""
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
    """Return compilers for a machine that make code for an architecture; None where there are none.

    :param name: theirs; ``pinned`` takes the first.
    :param policy: as ``2_28``.
    """
    for each in cxx_toolchains():
        found = each.compilers
        named = name in {PINNED, found.name} and each.policy.name == policy
        if named and (found.machine, found.arch) == (machine, arch):
            return each
    return None
