"""Wheels for the measured indexes: 500 kernels, 4 torch releases, 4 compute platforms, 2 CPU architectures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheel.wheelfile import WheelFile

from wheelsmith.index.entries.entry import IndexEntry, ProjectState, Provenance
from wheelsmith.index.entries.state import add_entries
from wheelsmith.index.entries.stored_states import dump_state
from wheelsmith.model import Cell, SourceId

PROJECTS = 500
# This project has the same number of wheels in every index.
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
    """A valid wheel of about a kilobyte without code.

    :param distribution: the name in file names, such as ``kernel_007``.
    :param release: the version without the local version.
    """

    distribution: str
    release: str
    cell: Cell

    @property
    def version(self) -> str:
        """Return the version with the local version."""
        return f"{self.release}+{self.cell.compute}.torch{self.cell.release}"

    @property
    def tag(self) -> str:
        """Return the tags of the wheel."""
        return f"cp39-abi3-manylinux_2_17_{self.cell.arch}"

    @property
    def filename(self) -> str:
        """Return the file name of the wheel."""
        return f"{self.distribution}-{self.version}-{self.tag}.whl"

    @property
    def metadata(self) -> bytes:
        """Return the content of METADATA."""
        return (
            f"Metadata-Version: 2.4\nName: {self.distribution}\nVersion: {self.version}\n"
            f"Requires-Python: >=3.9\nRequires-Dist: torch=={self.cell.release}.*\n"
        ).encode()

    def write(self, folder: Path) -> Path:
        """Write the wheel to a folder and return its path."""
        path, info = folder / self.filename, f"{self.distribution}-{self.version}.dist-info"
        with WheelFile(path, "w") as file:
            file.writestr(f"{info}/METADATA", self.metadata)
            file.writestr(f"{info}/WHEEL", _WHEEL.format(tag=self.tag))
        return path


def project_of(distribution: str) -> str:
    """Return the name of a project in URLs."""
    return distribution.replace("_", "-")


def items(wheels: int) -> Iterator[Item]:
    """Yield about ``wheels`` wheels, the same number for each project except ``STEADY``."""
    yield from of_project(STEADY, STEADY_WHEELS)
    for number in range(1, PROJECTS):
        yield from of_project(f"kernel_{number:03}", wheels // PROJECTS)


def of_project(distribution: str, wheels: int) -> Iterator[Item]:
    """Yield wheels of a project: all cells of a release, then those of the next release."""
    for number in range(wheels):
        release, cell = divmod(number, len(_CELLS))
        yield Item(distribution=distribution, release=f"1.{release}", cell=_CELLS[cell])


def newer(distribution: str, number: int) -> Item:
    """Return a wheel that is not in any index yet."""
    return Item(distribution=distribution, release=f"9.{number}", cell=_CELLS[4])


def entry(item: Item, wheel: Path) -> IndexEntry:
    """Return the index entry of a wheel, with all fields that entries of built wheels have."""
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
    """Write the state of a project as it is after its wheels were published."""
    state = add_entries(ProjectState(project=project_of(distribution)), entries)
    path = root / "_state" / f"{state.project}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(dump_state(state))


def listed(known: IndexEntry) -> str:
    """Return a line of dumb-pypi's package list, with all fields that dumb-pypi reads."""
    return json.dumps(
        {
            "filename": known.filename,
            "hash": f"sha256={known.sha256}",
            "requires_python": known.requires_python,
            "core_metadata": f"sha256={known.metadata_sha256}",
            "upload_timestamp": _STAMP,
        }
    )
