"""What platform tags promise, by the policies of manylinux and musllinux that auditwheel publishes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.units import numbers

# PEP 600's names for the platforms of PEP 513, 571 and 599.
_LEGACY = {"manylinux1_": "manylinux_2_5_", "manylinux2010_": "manylinux_2_12_", "manylinux2014_": "manylinux_2_17_"}
# Minor of glibc 2 → the oldest Linux that it runs on (its NEWS of 2.26), or, of older ones, that of CentOS 6 and
# CentOS 5, which the tags stand for (PEP 571, PEP 513). There was no Linux for arm64 before 3.7.
_KERNELS = ((17, (3, 2, 0)), (12, (2, 6, 32)), (0, (2, 6, 18)))
_FIRST_KERNELS = {"x86_64": (0, 0, 0), "aarch64": (3, 7, 0)}
_IGNORES_KERNEL = 36  # the minor of glibc 2 from which on the loader does not compare the kernel
_TAG = re.compile(r"(manylinux|musllinux)_(\d+)_(0|[1-9]\d*)_(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What every machine of a platform tag has.

    :param libraries: that may be needed, by DT_SONAME.
    :param blacklist: library → symbols of it that must not be needed.
    :param versions: architecture → family (``GLIBC``) → the versions that may be needed, without the family's name.
    """

    name: str
    libraries: frozenset[str]
    blacklist: dict[str, frozenset[str]]
    versions: dict[str, dict[str, frozenset[str]]]

    def allows(self, versions: Iterable[str], arch: str) -> bool:
        """Return True if every such machine has these versions of symbols; other families are allowed."""
        known = self.versions[arch]
        if not known:
            # musl has no versions; of manylinux there was no such platform for this architecture.
            return self.name.startswith("musllinux")
        parted = (version.partition("_") for version in versions)
        return all(number in known[family] for family, _, number in parted if family in known)


@cache
def policies(family: str) -> tuple[Policy, ...]:
    """Return the policies of ``manylinux`` or ``musllinux``, oldest first."""
    rows = read_facts("wheelsmith.wheel.symbols", "manylinux.json")[family]
    return tuple(
        Policy(
            name=row["name"],
            libraries=frozenset(row["libraries"]),
            blacklist={library: frozenset(symbols) for library, symbols in row["blacklist"].items()},
            versions={
                arch: {name: frozenset(known) for name, known in families.items()}
                for arch, families in row["versions"].items()
            },
        )
        for row in rows
    )


def lowest_satisfied_policy(versions: Iterable[str], arch: str, family: str = "manylinux") -> str:
    """Return the oldest platform tag that allows these versions of symbols; ``linux_<arch>`` if none does."""
    wanted = set(versions)
    found = next((policy.name for policy in policies(family) if policy.allows(wanted, arch)), "linux")
    return f"{found}_{arch}"


def oldest(versions: Sequence[str], arch: str) -> str:
    """Return that of several versions of a symbol which the oldest platform has."""
    known = policies("manylinux")

    def since(version: str) -> int:
        return next((at for at, policy in enumerate(known) if policy.allows([version], arch)), len(known))

    return min(versions, key=since)


def policy_of(platform: str) -> Policy | None:
    """Return the newest policy that is no newer than a platform tag; None for tags that promise nothing."""
    found = _TAG.fullmatch(_modern(platform))
    if not found:
        return None
    older = [policy for policy in policies(found[1]) if _release(policy.name) <= (int(found[2]), int(found[3]))]
    return older[-1] if older else None


def is_no_older(claimed: str, other: str) -> bool:
    """Return True if every machine of the tag ``claimed`` is one of ``other``, too.

    A plain ``linux`` tag promises nothing but the architecture.
    """
    if claimed.startswith("linux_"):
        return other.endswith(claimed.removeprefix("linux"))
    one, two = _TAG.fullmatch(_modern(claimed)), _TAG.fullmatch(_modern(other))
    if not one or not two:
        return claimed == other
    same = one[1] == two[1] and one[4] == two[4]
    return same and (int(one[2]), int(one[3])) >= (int(two[2]), int(two[3]))


def promises(platform: str, versions: Iterable[str], arch: str, family: str = "manylinux") -> bool:
    """Return True if every machine of a platform tag has these versions of symbols.

    A tag between two policies, as manylinux_2_25, promises the glibc that it names and what the policy before it has:
    https://peps.python.org/pep-0600/.
    """
    found, policy = _TAG.fullmatch(_modern(platform)), policy_of(platform)
    if not found or not policy or (found[1], found[4]) != (family, arch):
        return False
    named = (int(found[2]), int(found[3]))
    known = policies(family)[-1].versions[arch].get("GLIBC", frozenset())
    had = {f"GLIBC_{number}" for number in known if number[0].isdigit() and numbers(number)[:2] <= named}
    return policy.allows(set(versions) - had, arch)


def promised_kernel(platform: str, arch: str) -> tuple[int, int, int] | None:
    """Return the oldest Linux of a platform tag; None if its loader ignores the kernel that a file asks for."""
    found = _TAG.fullmatch(_modern(platform))
    if not found or found[1] != "manylinux" or int(found[3]) >= _IGNORES_KERNEL:
        return None
    return max(next(kernel for glibc, kernel in _KERNELS if int(found[3]) >= glibc), _FIRST_KERNELS[arch])


def _modern(platform: str) -> str:
    for old, new in _LEGACY.items():
        platform = platform.replace(old, new)
    return platform


def _release(name: str) -> tuple[int, int]:
    _, major, minor = name.split("_")
    return int(major), int(minor)
