"""What the package index has of a project: wheels to pin, and what is read of them."""

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

ARCHES = ("x86_64", "aarch64")


@cache
def _settings() -> PipSettings:
    return pip_settings()


def published(project: str) -> dict[Version, tuple[PinnedFile, ...]]:
    """Return the wheels of every release, oldest first: no pre-releases, and nothing that was withdrawn."""
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


def by_arch(pins: Iterable[PinnedFile], abi: str | None = None) -> dict[str, PinnedFile]:
    """Return CPU architecture → a wheel for Linux, with one ABI or with any."""
    found = {}
    for pin in pins:
        for tag in parse_wheel_filename(pin.filename)[3]:
            for arch in ARCHES:
                if "manylinux" in tag.platform and tag.platform.endswith(arch) and abi in {None, tag.abi}:
                    found[arch] = pin
    return {arch: found[arch] for arch in ARCHES if arch in found}


def both(project: str, pins: Iterable[PinnedFile], abi: str | None = None) -> dict[str, PinnedFile]:
    """Return a wheel for each CPU architecture, or end where one is not published."""
    found = by_arch(pins, abi)
    if lacking := [arch for arch in ARCHES if arch not in found]:
        raise SystemExit(f"the package index has no wheel of this {project} for {' and '.join(lacking)}")
    return found


@contextmanager
def opened(pin: PinnedFile, wanted: Callable[[str], bool]) -> Iterator[zipfile.ZipFile]:
    """Yield a wheel of which only what is wanted was fetched."""
    settings = _settings()
    with settings.client() as client, tempfile.TemporaryDirectory() as scratch:
        wheel = fetch_part(pin, locate(pin, settings), Path(scratch), wanted, client, ignore)
        with zipfile.ZipFile(wheel) as archive:
            yield archive


def read_member(pin: PinnedFile, name: str) -> bytes:
    """Return one file of a wheel, by its path, or by how it ends where the path begins with an asterisk."""

    def wanted(path: str) -> bool:
        return path.endswith(name[1:]) if name.startswith("*") else path == name

    with opened(pin, wanted) as archive:
        return archive.read(next(filter(wanted, archive.namelist())))


def is_record(name: str) -> bool:
    """Say whether a member of a wheel is its RECORD."""
    return name.endswith(".dist-info/RECORD") and name.count("/") == 1


def record_sha256(pin: PinnedFile) -> str:
    """Return the hash of a wheel's RECORD: that proves each file, and this proves it."""
    with opened(pin, is_record) as archive:
        return hashlib.sha256(archive.read(next(filter(is_record, archive.namelist())))).hexdigest()


def pinned(pin: PinnedFile) -> dict[str, object]:
    """Return what a data file says of a wheel that is fetched whole."""
    return {key: value for key, value in pin.to_json().items() if value is not None}


def pinned_in_part(pin: PinnedFile) -> dict[str, object]:
    """Return what a data file says of a wheel of which only some files are fetched."""
    return {**pinned(pin), "record_sha256": record_sha256(pin)}
