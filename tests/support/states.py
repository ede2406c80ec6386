"""States of projects, without any wheel behind them."""

from __future__ import annotations

from dataclasses import replace

from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, NoWheel, ProjectState, Provenance
from wheelsmith.model import Cell, CellSettings, SourceId

HIDDEN = CellSettings(advertise=False)


def cell(
    torch: str, cuda: str | None, arch: str = "x86_64", *, python: str | None = None, hidden: bool = False
) -> Cell:
    """Return a cell; a hidden one is built and not advertised."""
    return Cell(release=torch, toolkit=cuda, arch=arch, python=python, settings=HIDDEN if hidden else CellSettings())


def entry(version: str, *cells: Cell, tag: str = "cp39-abi3-manylinux_2_34_x86_64", **fields) -> IndexEntry:
    """Return the entry of ``k-version-tag.whl``; its torch requirement is its version's, as the plan writes it."""
    torch = version.partition("torch")[2]
    given = {
        "sha256": (version + tag).encode().hex().ljust(64, "0")[-64:],
        "size": 123456,
        "requires_python": ">=3.9",
        "requires_torch": f"=={torch}.*" if torch else None,
    }
    return IndexEntry(
        filename=f"k-{version}-{tag}.whl",
        metadata_sha256="cd" * 32,
        upload_time="2026-01-02T03:04:05Z",
        cells=cells,
        **{**given, **fields},
    )


def of_torch(torch: str, cuda: str | None, arch: str = "x86_64", *, version: str = "1.0", **fields) -> IndexEntry:
    """Return the wheel of one cell."""
    made = cell(torch, cuda, arch)
    tag = f"cp39-abi3-manylinux_2_34_{arch}"
    return entry(f"{version}+{made.compute}.torch{torch}", made, tag=tag, provenance=provenance(made), **fields)


def provenance(made_for: Cell) -> Provenance:
    """Return how a wheel was made."""
    return Provenance(
        cell=made_for.id,
        source=SourceId(origin="hub:org/k", revision="v1", commit="c0" * 20, tree="7e" * 32),
        toolkit=made_for.toolkit,
        compiler="g++ 12.2.0",
        image=None,
        plan_digest="d1" * 32,
        wheelsmith="0.1",
    )


def unserved(
    made: Cell, status: NoWheel, reason: str, *, version: str = "1.0", tail: tuple[str, ...] = ()
) -> CellWithoutWheel:
    """Return why a cell has no wheel."""
    return CellWithoutWheel(cell=made, version=version, status=status, reason=reason, tail=tail)


def project(*entries: IndexEntry, **fields) -> ProjectState:
    """Return a project."""
    return ProjectState(project="k", entries=tuple(sorted(entries, key=lambda item: item.filename)), **fields)


def named(name: str, *entries: IndexEntry, **fields) -> ProjectState:
    """Return a project with another name than ``k``."""
    renamed = [replace(each, filename=each.filename.replace("k-", f"{name}-", 1)) for each in entries]
    return replace(project(**fields), project=name, entries=tuple(sorted(renamed, key=lambda item: item.filename)))


def stable(cuda: str = "13.0") -> ProjectState:
    """Return a project with one wheel for torch's stable ABI, which was built for two torches."""
    cells = [cell(torch, cuda) for torch in ("2.11", "2.12")]
    return named("stable", entry(f"0.3+{cells[0].compute}.torchstable", *cells, requires_torch=">=2.10"))
