"""Resolve requirements to exact wheels, and look up exact wheels, on the indexes that pip is configured with."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from packaging.pylock import Package, Pylock, PylockValidationError
from packaging.requirements import Requirement
from packaging.tags import Tag, compatible_tags, cpython_tags, create_compatible_tags_selector
from packaging.utils import canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.base.redact import redact
from wheelsmith.base.units import numbers
from wheelsmith.frameworks import prerelease_indexes
from wheelsmith.model import TORCH, LockedWheel
from wheelsmith.toolchain.pip import local_folder, run_pip
from wheelsmith.toolchain.uv import NEWEST_GLIBC, TIMEOUT, Uv, uv_reason

_OLDEST_GLIBC = 5  # minor version of the oldest manylinux
_LEGACY = {5: "manylinux1", 12: "manylinux2010", 17: "manylinux2014"}  # PEP 600
_DIRECT = re.compile("Package `([^`]+)` was included as a URL dependency")
_YANKED = re.compile(r"^warning: `([^`=]+)==[^`]*` is yanked", re.MULTILINE)


def read_lock(path: Path) -> tuple[LockedWheel, ...] | None:
    """Return the wheels in a file from ``lock_environment``, or None if the file is missing or invalid."""
    try:
        wheels = (LockedWheel.from_json(item) for item in read_json(path.read_bytes()))
        return tuple(replace(wheel, name=canonicalize_name(wheel.name)) for wheel in wheels)
    except (OSError, ValueError, TypeError):
        return None


def lock_environment(
    requirements: tuple[str, ...], uv: Uv, path: Path, *, preferred: tuple[str, ...] = ()
) -> tuple[LockedWheel, ...]:
    """Resolve requirements to exact wheels.

    :param path: a file to write the wheels to, so that builds on later days use the same ones.
    :param preferred: requirements to try in the place of the first one, in this order.
    :raises NoEnvironmentError: the requirements cannot be resolved.
    :raises ToolchainError: uv cannot be used.
    """
    rest = requirements[1:]
    locked = _first_resolved([(first, *rest) for first in (*preferred, requirements[0])], uv)
    atomic_write(path, json.dumps([wheel.to_json() for wheel in locked]).encode())
    return locked


def _first_resolved(choices: Sequence[tuple[str, ...]], uv: Uv) -> tuple[LockedWheel, ...]:
    """Resolve the first of several lists of requirements whose first requirement is available."""
    *preferred, fallback = choices
    for requirements in preferred:
        try:
            return _resolve(requirements, uv)
        except NoEnvironmentError as error:
            if requirements[0].replace("===", "==") not in error.message:
                raise
    return _resolve(fallback, uv)


def _resolve(requirements: tuple[str, ...], uv: Uv) -> tuple[LockedWheel, ...]:
    parsed = [Requirement(text) for text in requirements]
    if direct := [each.name for each in parsed if each.url]:
        raise NoEnvironmentError(f"{direct[0]} is required at a URL, not from an index")
    pylock, _ = _compile(map(str, parsed), uv)
    tags = list(_tags(uv))
    # Sort them, so that the same wheels give the same environment.
    return tuple(sorted((_best_wheel(package, tags) for package in pylock.packages), key=lambda wheel: wheel.name))


def _compile(requirements: Iterable[str], uv: Uv, *options: str) -> tuple[Pylock, frozenset[str]]:
    """Return uv's choice, and the names of the yanked releases in it."""
    completed = uv.compile(requirements, *options)
    if completed.returncode:
        reason = uv_reason(completed.stderr)
        if direct := _DIRECT.search(reason):
            reason = f"a package requires {direct[1]} at a URL, not from an index"
        if uv.settings.constraints:
            reason += f"; pip is configured with constraints: {redact(' '.join(uv.settings.constraints))}"
        raise NoEnvironmentError(reason)
    try:
        return Pylock.from_dict(tomllib.loads(completed.stdout)), frozenset(_YANKED.findall(completed.stderr))
    except (ValueError, PylockValidationError):
        raise ToolchainError("uv's answer is not readable", remedy="python3 -m pip install --upgrade uv") from None


def _best_wheel(package: Package, tags: list[Tag]) -> LockedWheel:
    """Return the wheel of a release that pip would choose.

    :param tags: best first.
    :raises NoEnvironmentError: none of its wheels fits.
    """
    named = [(wheel, parse_wheel_filename(wheel.filename)) for wheel in package.wheels or ()]
    by_build_number = sorted(named, key=lambda each: each[1][2], reverse=True)
    select = create_compatible_tags_selector(tags)
    for wheel in select((wheel, own) for wheel, (_, _, _, own) in by_build_number):
        return LockedWheel(name=package.name, version=str(package.version), sha256=wheel.hashes["sha256"])
    raise NoEnvironmentError(f"{package.name} {package.version} has no wheel for manylinux_2_{NEWEST_GLIBC} or older")


def _tags(uv: Uv) -> Iterator[Tag]:
    platforms = [*_platforms(uv.arch)]
    python, abi = numbers(uv.python)[:2], f"cp{uv.python.replace('.', '')}"
    yield from cpython_tags(python, [abi], platforms)
    yield from compatible_tags(python, abi.removesuffix("t"), platforms)


def _platforms(arch: str) -> Iterator[str]:
    for minor in range(NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1):
        yield f"manylinux_2_{minor}_{arch}"
        if minor in _LEGACY:
            yield f"{_LEGACY[minor]}_{arch}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWheel:
    """A wheel on an index or in a folder.

    :param address: its URL, which may contain a password.
    :param size: bytes; None if the index does not list it.
    :param is_yanked: True if the project has yanked it.
    """

    wheel: LockedWheel
    address: str
    size: int | None
    is_yanked: bool = False


def find_wheels(wheels: Iterable[LockedWheel], uv: Uv) -> tuple[FoundWheel, ...]:
    """Look up exactly these wheels on the user's indexes.

    :raises NoEnvironmentError: one of them is not available.
    :raises ToolchainError: uv cannot be used.
    """
    exact = [*wheels]
    pylock, yanked = _compile(
        map(_only_version, exact), replace(uv, settings=replace(uv.settings, constraints=())), "--no-deps"
    )
    found: dict[str, Package] = {package.name: package for package in pylock.packages}
    return tuple(_found_wheel(wheel, found[wheel.name], is_yanked=wheel.name in yanked) for wheel in exact)


def _only_version(wheel: LockedWheel) -> str:
    # == would also match the release with a local version, such as 2.13.0+cpu, which sorts higher.
    try:
        return f"{wheel.name}==={Version(wheel.version)}"
    except InvalidVersion as error:
        raise ToolchainError(f"the build environment cannot be made: {wheel.name}: {error}") from None


def _found_wheel(wheel: LockedWheel, package: Package, *, is_yanked: bool) -> FoundWheel:
    for each in package.wheels or ():
        if each.hashes.get("sha256") == wheel.sha256 and each.url:
            path = local_folder(each.url)
            size = path.stat().st_size if path else each.size
            return FoundWheel(wheel=wheel, address=each.url, size=size, is_yanked=is_yanked)
    raise NoEnvironmentError(f"{wheel.name}=={wheel.version} was replaced on the index: its sha256 differs")


def download_wheels(wheels: Iterable[LockedWheel], python: str, arch: str, folder: Path) -> None:
    """Download exactly these wheels into a folder with pip, because uv keeps only their content.

    :raises ToolchainError: pip failed.
    """
    options = ["--quiet", "--no-deps", "--require-hashes", "--only-binary", ":all:", "--python-version", python]
    options += (word for platform in _platforms(arch) for word in ("--platform", platform))
    wheels = tuple(wheels)
    for index in prerelease_indexes(wheel.version for wheel in wheels if wheel.name == TORCH):
        options += ("--extra-index-url", index)
    lines = (f"{_only_version(wheel)} --hash=sha256:{wheel.sha256}\n" for wheel in wheels)
    source = ("--requirement", "/dev/stdin", "--dest", str(folder))
    completed = run_pip("download", *options, *source, stdin="".join(lines), seconds=TIMEOUT)
    if completed.returncode:
        errors = (line.removeprefix("ERROR: ") for line in completed.stderr.splitlines() if line.startswith("ERROR: "))
        raise ToolchainError(f"the wheels cannot be downloaded: {redact(next(errors, 'pip failed'))}")
