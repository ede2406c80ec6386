"""The libraries and symbol versions that platform tags promise, from auditwheel's manylinux and musllinux policies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from wheelsmith.base.files import read_facts
from wheelsmith.base.units import numbers

# PEP 600's names for the platforms of PEP 513, 571 and 599.
_LEGACY = {"manylinux1_": "manylinux_2_5_", "manylinux2010_": "manylinux_2_12_", "manylinux2014_": "manylinux_2_17_"}
# Minor of glibc 2 → the oldest Linux that it runs on (NEWS of glibc 2.26). For older tags, the kernels of CentOS 6 and
# CentOS 5, which PEP 571 and PEP 513 name. Linux supports arm64 since 3.7.
_OLDEST_KERNELS = ((17, (3, 2, 0)), (12, (2, 6, 32)), (0, (2, 6, 18)))
_FIRST_KERNELS = {"x86_64": (0, 0, 0), "aarch64": (3, 7, 0)}
_IGNORES_KERNEL = 36  # the loader of glibc 2.36 and later does not compare the kernel
_TAG = re.compile(r"(manylinux|musllinux)_(\d+)_(0|[1-9]\d*)_(\w+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The libraries and symbol versions that every machine of a platform tag has.

    :param libraries: allowed libraries, by DT_SONAME.
    :param blacklist: library → its forbidden symbols.
    :param versions: architecture → family (``GLIBC``) → allowed versions, without the family's name.
    """

    name: str
    libraries: frozenset[str]
    blacklist: dict[str, frozenset[str]]
    versions: dict[str, dict[str, frozenset[str]]]

    def allows(self, versions: Iterable[str], arch: str) -> bool:
        """Return True if the policy allows these symbol versions. Families that it does not list are allowed."""
        known = self.versions[arch]
        if not known:
            # musl has no symbol versions. A manylinux policy without versions does not exist for the architecture.
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
    """Return the oldest platform tag that allows these symbol versions, or ``linux_<arch>`` if none does."""
    wanted = set(versions)
    found = next((policy.name for policy in policies(family) if policy.allows(wanted, arch)), "linux")
    return f"{found}_{arch}"


def oldest_version(versions: Sequence[str], arch: str) -> str:
    """Return the version of a symbol that the oldest policy allows.

    :param versions: all versions of the symbol.
    """
    known = policies("manylinux")

    def since(version: str) -> int:
        return next((at for at, policy in enumerate(known) if policy.allows([version], arch)), len(known))

    return min(versions, key=since)


def newest_policy(platform: str) -> Policy | None:
    """Return the newest policy that is not newer than a platform tag, or None for a tag without a policy."""
    found = _TAG.fullmatch(_without_legacy_name(platform))
    if not found:
        return None
    older = [policy for policy in policies(found[1]) if _policy_release(policy.name) <= (int(found[2]), int(found[3]))]
    return older[-1] if older else None


def implies_tag(claimed: str, other: str) -> bool:
    """Return True if every machine of the tag ``claimed`` also satisfies the tag ``other``.

    A plain ``linux`` tag promises only the architecture.
    """
    if claimed.startswith("linux_"):
        return other.endswith(claimed.removeprefix("linux"))
    one, two = _TAG.fullmatch(_without_legacy_name(claimed)), _TAG.fullmatch(_without_legacy_name(other))
    if not one or not two:
        return claimed == other
    same = one[1] == two[1] and one[4] == two[4]
    return same and (int(one[2]), int(one[3])) >= (int(two[2]), int(two[3]))


def promises_versions(platform: str, versions: Iterable[str], arch: str, family: str = "manylinux") -> bool:
    """Return True if every machine of a platform tag has these symbol versions.

    A tag between two policies, such as manylinux_2_25, promises its glibc and the versions of the older policy:
    https://peps.python.org/pep-0600/.
    """
    found, policy = _TAG.fullmatch(_without_legacy_name(platform)), newest_policy(platform)
    if not found or not policy or (found[1], found[4]) != (family, arch):
        return False
    named = (int(found[2]), int(found[3]))
    known = policies(family)[-1].versions[arch].get("GLIBC", frozenset())
    had = {f"GLIBC_{number}" for number in known if number[0].isdigit() and numbers(number)[:2] <= named}
    return policy.allows(set(versions) - had, arch)


def oldest_kernel(platform: str, arch: str) -> tuple[int, int, int] | None:
    """Return the oldest Linux of a platform tag, or None if its loader ignores the kernel that a file requires."""
    found = _TAG.fullmatch(_without_legacy_name(platform))
    if not found or found[1] != "manylinux" or int(found[3]) >= _IGNORES_KERNEL:
        return None
    return max(next(kernel for glibc, kernel in _OLDEST_KERNELS if int(found[3]) >= glibc), _FIRST_KERNELS[arch])


def _without_legacy_name(platform: str) -> str:
    for old, new in _LEGACY.items():
        platform = platform.replace(old, new)
    return platform


def _policy_release(name: str) -> tuple[int, int]:
    _, major, minor = name.split("_")
    return int(major), int(minor)
