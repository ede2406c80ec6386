"""Find pre-releases of torch on its own indexes, and write the facts about their builds into the cache."""

from __future__ import annotations

import re
import tempfile
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place, ToolchainError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.json_dataclass import canonical_json
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.units import release_order
from wheelsmith.frameworks import (
    NIGHTLY,
    TORCH_INDEX_VARIABLE,
    TorchRelease,
    facts_path,
    prerelease_index,
    read_prerelease_facts,
    torch_index,
    torch_releases,
)
from wheelsmith.matrix.expand import not_excluded
from wheelsmith.matrix.types import Matrix
from wheelsmith.model import CUDA, TORCH, Listener, Notice, PinnedFile
from wheelsmith.platforms import platforms
from wheelsmith.toolchain.package_index import IndexFile, list_files
from wheelsmith.toolchain.pip import PipSettings, pip_settings
from wheelsmith.toolchain.progress import report_preparation
from wheelsmith.toolchain.remote import fetch_part, remote_size
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.torch_wheel import TorchFacts, is_fact

_PYTHON = "cp311"  # preferred among the wheels of a build, whose facts are the same
_SHOWN = 2  # versions on each side of a missing one
_NIGHTLY_VERSION = "2.0.0.dev1"  # any version of the nightly index, to derive its address

_Build = tuple[str, str]  # compute platform and CPU architecture


def with_prereleases(
    matrices: Sequence[Matrix], locked: str | None, listen: Listener
) -> tuple[tuple[Matrix, ...], str | None]:
    """Return the matrices of a file without the name ``nightly``, and the version that it stands for, or None.

    The facts about each pre-release are then in the cache.

    :param locked: the version for ``nightly`` in the lock file.
    :raises MatrixError: an index does not have a wanted build.
    :raises ToolchainError: an index or a wheel cannot be read.
    """
    wanted: dict[str, dict[_Build, None]] = defaultdict(dict)
    places: dict[str, str] = {}
    for matrix in matrices:
        places |= matrix.places
        for cell in not_excluded(matrix):
            if cell.release in matrix.places:
                wanted[cell.release][cell.compute, cell.arch] = None
    indexes, nightly = _TorchIndexes(), None
    for name, builds in wanted.items():
        where = Place(file=places[name])
        version = name
        if name == NIGHTLY:
            version = nightly = locked or indexes.newest_nightly(builds, where)
            how = "from the lock file" if locked else "the newest for all combinations"
            listen(Notice(level="info", text=f"torch nightly is {version}, {how}"))
        for build in builds:
            if read_prerelease_facts(f"{version}+{build[0]}", build[1]) is None:
                indexes.read_facts(version, build, where, listen)
    return tuple(_without_nightly(matrix, nightly) for matrix in matrices), nightly


def _without_nightly(matrix: Matrix, nightly: str | None) -> Matrix:
    releases = (nightly or name if name == NIGHTLY else name for name in matrix.releases)
    return replace(matrix, releases=tuple(dict.fromkeys(releases)), places={})


@dataclass(frozen=True, kw_only=True)
class _TorchIndexes:
    """The pages of torch on its indexes. Each page is read once."""

    _pages: dict[str, tuple[IndexFile, ...]] = field(default_factory=dict)

    @cached_property
    def _settings(self) -> PipSettings:
        """The settings of pip. Reading them starts pip, so this waits until they are needed."""
        return pip_settings()

    def newest_nightly(self, builds: Iterable[_Build], where: Place) -> str:
        """Return the newest version that the nightly index has for all builds.

        :raises MatrixError: there is none.
        """
        offered = [set(self._offered(_NIGHTLY_VERSION, build, where)) for build in builds]
        if common := set.intersection(*offered):
            return max(common, key=Version)
        names = ", ".join(f"{compute} on {arch}" for compute, arch in builds)
        raise MatrixError(f"no nightly build of torch exists for {names}", where=where, remedy=_REMEDY)

    def read_facts(self, version: str, build: _Build, where: Place, listen: Listener) -> None:
        """Write the facts about a build into the cache.

        :raises MatrixError: the index does not have it.
        """
        offered = self._offered(version, build, where)
        file, (compute, arch) = offered.get(version), build
        if file is None:
            order = sorted(offered, key=release_order)
            place = bisect_left(order, release_order(version), key=release_order)
            near = ", ".join(order[max(0, place - _SHOWN) : place + _SHOWN])
            raise MatrixError(
                f"torch {version} has no build for {compute} on {arch} on {_address(version, compute)}",
                where=where,
                remedy=f"the nearest ones there are {near}; or exclude the combination" if near else _REMEDY,
            )
        named = f"{version}+{compute}"
        with (
            report_preparation(f"reading torch {named} for {arch}, whose libraries are fetched once", listen),
            tempfile.TemporaryDirectory(prefix="wheelsmith-torch-") as scratch,
            self._settings.client() as client,
        ):
            size = remote_size(file.filename, file.location, client)
            pin = PinnedFile(project=TORCH, version=named, filename=file.filename, sha256=str(file.sha256), size=size)
            wheel = fetch_part(pin, file.location, Path(scratch), is_fact, client, listen)
            date = datetime.now(UTC).date().isoformat()
            with WheelReader(beside=Path(scratch)) as reader:
                facts = reader.torch_facts(wheel, version, pin.filename, date)
        _write_facts(pin, facts, build, version, date)

    def _offered(self, version: str, build: _Build, where: Place) -> dict[str, IndexFile]:
        """Return the versions that the index of a version has for a build, each with a wheel."""
        compute, arch = build
        address = prerelease_index(f"{version}+{compute}", torch_index())
        assert address  # noqa: S101  # it is a pre-release
        if is_offline():
            raise MatrixError(
                f"this machine does not know torch {version} for {compute}, and wheelsmith is offline",
                where=where,
                remedy="plan the matrix on this machine with a network first",
            )
        if address not in self._pages:
            self._pages[address] = list_files(TORCH, address, self._settings)
        return _builds(self._pages[address], compute, arch)


_REMEDY = f"see which builds torch's index has; for a mirror of it, set {TORCH_INDEX_VARIABLE}"


def _address(version: str, compute: str) -> str:
    return redact(prerelease_index(f"{version}+{compute}", torch_index()) or "")


def _builds(files: Iterable[IndexFile], compute: str, arch: str) -> dict[str, IndexFile]:
    """Return the pre-releases among the wheels for a platform, each with one wheel, for the preferred Python."""
    found: dict[str, IndexFile] = {}
    for file in sorted(files, key=lambda file: f"-{_PYTHON}-" in file.filename):
        try:
            _, version, _, tags = parse_wheel_filename(file.filename)
        except ValueError:
            continue
        fits = version.local == compute and any(re.fullmatch(rf".*linux.*_{arch}", tag.platform) for tag in tags)
        if fits and version.is_prerelease and file.sha256 and file.yanked is None:
            found[version.public] = file
    return found


def _write_facts(pin: PinnedFile, facts: TorchFacts, build: _Build, version: str, date: str) -> None:
    compute, arch = build
    built_for = platforms()[CUDA].compute(facts.cuda) if facts.cuda else "cpu"
    if built_for != compute or facts.has_cuda != (facts.cuda is not None):
        raise ToolchainError(f"{pin.filename} says that it was built for {built_for}, and its name says {compute}")
    release = TorchRelease(
        minor=version,
        version=pin.version,
        cxx_std=max(facts.least_cxx_std, list(torch_releases().values())[-1].cxx_std),
        least_cxx_std=facts.least_cxx_std,
        cxx11_abi={arch: facts.cxx11_abi},
        cuda=(facts.cuda,) if facts.cuda else (),
        cuda_source="torch/version.py of the wheel",
        cuda_date=date,
        without_cuda=() if facts.has_cuda else (arch,),
        wheels={arch: replace(pin, record_sha256=facts.record_sha256)},
        source="the wheel; kernel-builder's C++ standard of the newest release",
        date=date,
    )
    atomic_write(facts_path(pin.version, arch, ".bin"), bytes.fromhex(facts.table))
    atomic_write(facts_path(pin.version, arch, ".json"), canonical_json(release.to_json()))
