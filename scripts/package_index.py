"""Find and read wheels on the package index, in order to pin them."""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.model import PinnedFile
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import PipSettings, pip_settings
from wheelsmith.toolchain.remote import fetch_part
from wheelsmith.wheel.torch_wheel import is_record

ARCHES = ("x86_64", "aarch64")


@cache
def _settings() -> PipSettings:
    return pip_settings()


def published(project: str) -> dict[Version, tuple[PinnedFile, ...]]:
    """Return the wheels of every release, oldest first, without pre-releases and yanked files."""
    settings = _settings()
    with settings.client() as client:
        response = client.get(
            f"{settings.indexes[0].rstrip('/')}/{project}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
        )
        response.raise_for_status()
    found: dict[Version, list[PinnedFile]] = defaultdict(list)
    for file in response.json()["files"]:
        if not file["filename"].endswith(".whl") or file.get("yanked"):
            continue
        version = parse_wheel_filename(file["filename"])[1]
        if not version.is_prerelease:
            found[version].append(
                PinnedFile(
                    project=project,
                    version=str(version),
                    filename=file["filename"],
                    sha256=file["hashes"]["sha256"],
                    size=file["size"],
                )
            )
    return {version: tuple(found[version]) for version in sorted(found)}


def first_of_each_minor(versions: Iterable[Version]) -> dict[str, Version]:
    """Return the oldest version of each ``major.minor``, oldest first."""
    found: dict[str, Version] = {}
    for version in sorted(versions):
        found.setdefault(f"{version.major}.{version.minor}", version)
    return found


def manylinux_wheels(pins: Iterable[PinnedFile], abi: str | None = None) -> dict[str, PinnedFile]:
    """Return a manylinux wheel by CPU architecture.

    :param abi: the ABI tag of the wheels; None accepts any.
    """
    found = {}
    for pin in pins:
        for tag in parse_wheel_filename(pin.filename)[3]:
            for arch in ARCHES:
                if "manylinux" in tag.platform and tag.platform.endswith(arch) and abi in {None, tag.abi}:
                    found[arch] = pin
    return {arch: found[arch] for arch in ARCHES if arch in found}


def wheel_for_each_arch(project: str, pins: Iterable[PinnedFile], abi: str | None = None) -> dict[str, PinnedFile]:
    """Return a manylinux wheel for each CPU architecture, or exit if one is missing."""
    found = manylinux_wheels(pins, abi)
    if lacking := [arch for arch in ARCHES if arch not in found]:
        raise SystemExit(f"the package index has no wheel of {project} for {' and '.join(lacking)}")
    return found


@contextmanager
def open_wheel(pin: PinnedFile, wanted: Callable[[str], bool]) -> Iterator[zipfile.ZipFile]:
    """Fetch parts of a wheel and yield the archive.

    :param wanted: returns True for the paths to fetch.
    """
    settings = _settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_part(pin, locate(pin, settings), Path(scratch), wanted, client, ignore)
        with zipfile.ZipFile(wheel) as archive:
            yield archive


def read_member(pin: PinnedFile, name: str) -> bytes:
    """Fetch and return a file of a wheel.

    :param name: the path of the file, or ``*`` and the end of the path.
    """

    def wanted(path: str) -> bool:
        return path.endswith(name[1:]) if name.startswith("*") else path == name

    with open_wheel(pin, wanted) as archive:
        return archive.read(next(filter(wanted, archive.namelist())))


def record_sha256(pin: PinnedFile) -> str:
    """Return the sha256 of a wheel's RECORD. RECORD contains the hash of each other file."""
    with open_wheel(pin, is_record) as archive:
        return hashlib.sha256(archive.read(next(filter(is_record, archive.namelist())))).hexdigest()


def make_pin(pin: PinnedFile) -> dict[str, object]:
    """Return the entry for a wheel that is downloaded completely."""
    return {key: value for key, value in pin.to_json().items() if value is not None}


def make_partial_pin(pin: PinnedFile) -> dict[str, object]:
    """Return the entry for a wheel that is downloaded in part."""
    return {**make_pin(pin), "record_sha256": record_sha256(pin)}
