"""What the measured indexes hold: 500 kernels for four torches, four compute platforms and two CPU architectures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheel.wheelfile import WheelRecord

from wheelsmith.index.entries.entry import IndexEntry, ProjectState, Provenance
from wheelsmith.index.entries.state import add_entries
from wheelsmith.index.entries.stored_states import dump_state
from wheelsmith.model import Cell, SourceId

PROJECTS = 500
# This one has as many wheels in an index of any size.
STEADY, STEADY_WHEELS = "kernel_steady", 20
_TIME = "2026-01-02T03:04:05Z"
_STAMP = 1767323045
_CELLS = tuple(
    Cell(release=torch, toolkit=cuda, arch=arch)
    for torch in ("2.12", "2.11", "2.10", "2.9")
    for cuda in (None, "12.8", "13.0", "13.2")
    for arch in ("x86_64", "aarch64")
)
_WHEEL = "Wheel-Version: 1.0\nGenerator: bench\nRoot-Is-Purelib: false\nTag: {tag}\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A wheel of a kilobyte: real for pip, but that there is no code in it.

    :param distribution: as file names write it, e.g. ``kernel_007``.
    :param release: a version without the local part.
    """

    distribution: str
    release: str
    cell: Cell

    @property
    def version(self) -> str:
        """Return the version with the local part."""
        return f"{self.release}+{self.cell.compute}.torch{self.cell.release}"

    @property
    def tag(self) -> str:
        """Return its tags."""
        return f"cp39-abi3-manylinux_2_17_{self.cell.arch}"

    @property
    def filename(self) -> str:
        """Return its file name."""
        return f"{self.distribution}-{self.version}-{self.tag}.whl"

    @property
    def metadata(self) -> bytes:
        """Return METADATA."""
        return (
            f"Metadata-Version: 2.4\nName: {self.distribution}\nVersion: {self.version}\n"
            f"Requires-Python: >=3.9\nRequires-Dist: torch=={self.cell.release}.*\n"
        ).encode()

    def write(self, folder: Path) -> Path:
        """Write the wheel."""
        path, info = folder / self.filename, f"{self.distribution}-{self.version}.dist-info"
        with WheelRecord(path, "w") as file:
            file.writestr(f"{info}/METADATA", self.metadata)
            file.writestr(f"{info}/WHEEL", _WHEEL.format(tag=self.tag))
        return path


def project_of(distribution: str) -> str:
    """Return a project's name as URLs write it."""
    return distribution.replace("_", "-")


def items(wheels: int) -> Iterator[Item]:
    """Yield about ``wheels`` of them, the same number in each project but one."""
    yield from of_project(STEADY, STEADY_WHEELS)
    for number in range(1, PROJECTS):
        yield from of_project(f"kernel_{number:03}", wheels // PROJECTS)


def of_project(distribution: str, wheels: int) -> Iterator[Item]:
    """Yield a project's wheels: every cell of a release, then the next release."""
    for number in range(wheels):
        release, cell = divmod(number, len(_CELLS))
        yield Item(distribution=distribution, release=f"1.{release}", cell=_CELLS[cell])


def newer(distribution: str, number: int) -> Item:
    """Return a wheel that no index holds yet."""
    return Item(distribution=distribution, release=f"9.{number}", cell=_CELLS[4])


def entry(item: Item, wheel: Path) -> IndexEntry:
    """Return what an index of ours says of a wheel, with all that it says of those which wheelsmith made."""
    data = wheel.read_bytes()
    return IndexEntry(
        filename=item.filename,
        sha256=hashlib.sha256(data).hexdigest(),
        size=len(data),
        requires_python=">=3.9",
        metadata_sha256=hashlib.sha256(item.metadata).hexdigest(),
        upload_time=_TIME,
        cells=(item.cell,),
        requires_torch=f"=={item.cell.release}.*",
        gpu_archs=("8.0", "9.0+PTX") if item.cell.toolkit else (),
        provenance=Provenance(
            cell=item.cell.id,
            source=SourceId(origin="hub:org/kernel", revision="v1", commit="c0" * 20, tree="7e" * 32),
            toolkit=item.cell.toolkit,
            compiler="g++ (Debian 12.2.0-14) 12.2.0",
            image=f"sha256:{'1a' * 32}",
            plan_digest="d1" * 32,
            wheelsmith="0.1.0",
        ),
    )


def write_state(root: Path, entries: Sequence[IndexEntry], distribution: str) -> None:
    """Write a project's state as publishing its wheels one by one leaves it."""
    state = add_entries(ProjectState(project=project_of(distribution)), entries)
    path = root / "_state" / f"{state.project}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_state(state))


def listed(known: IndexEntry) -> str:
    """Return a line of dumb-pypi's list of packages, with all that it takes."""
    return json.dumps(
        {
            "filename": known.filename,
            "hash": f"sha256={known.sha256}",
            "requires_python": known.requires_python,
            "core_metadata": f"sha256={known.metadata_sha256}",
            "upload_timestamp": _STAMP,
        }
    )
