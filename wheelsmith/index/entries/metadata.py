"""Facts in METADATA that an index lists. The metadata of others is read in the worker."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.metadata import RawMetadata, parse_email
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import InvalidVersion

# Where torch's wheels are installed.
_PLACES = tuple(
    {
        "extra": "",
        "implementation_name": "cpython",
        "implementation_version": f"{python}.0",
        "os_name": "posix",
        "platform_machine": arch,
        "platform_python_implementation": "CPython",
        "platform_release": "",
        "platform_system": "Linux",
        "platform_version": "",
        "python_full_version": f"{python}.0",
        "python_version": python,
        "sys_platform": "linux",
    }
    for python in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
    for arch in ("x86_64", "aarch64")
)


def headers_of(metadata: bytes) -> RawMetadata:
    """Return the headers of METADATA, as the packaging library names them."""
    return parse_email(metadata)[0]


def requires_torch(metadata: bytes) -> str | None:
    """Return the versions of torch that METADATA requires on Linux, e.g. ``==2.11.*``; None if it requires none.

    All lines count together, so what is returned may be narrower than what some Python is asked for, and never wider.
    """
    needs = [each for each in _requirements(metadata) if _is_torch(each) and _may_hold(each)]
    return str(SpecifierSet(",".join(str(need.specifier) for need in needs if need.specifier))) if needs else None


def requires_beside_torch(metadata: bytes) -> tuple[str, ...]:
    """Return the requirements of METADATA beside torch, in its order, without those of extras."""
    return tuple(
        str(requirement)
        for requirement in _requirements(metadata)
        if not _is_torch(requirement) and "extra ==" not in str(requirement.marker)
    )


def unreadable_requirement(metadata: bytes) -> str | None:
    """Return the first Requires-Dist of METADATA that cannot be read, if there is one."""
    return next((text for text in _texts(metadata) if _read(text) is None), None)


def _is_torch(requirement: Requirement) -> bool:
    return requirement.name.lower() == "torch"


def _may_hold(requirement: Requirement) -> bool:
    """Return True if a requirement may hold somewhere where torch's wheels are installed."""
    try:
        return requirement.marker is None or any(map(requirement.marker.evaluate, _PLACES))
    except (UndefinedComparison, UndefinedEnvironmentName, InvalidVersion, ValueError):
        return True


def _requirements(metadata: bytes) -> Iterator[Requirement]:
    return filter(None, map(_read, _texts(metadata)))


def _texts(metadata: bytes) -> list[str]:
    return headers_of(metadata).get("requires_dist", [])


def _read(text: str) -> Requirement | None:
    try:
        return Requirement(text)
    except InvalidRequirement:
        return None
