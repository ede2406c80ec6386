"""Put everything that a locked matrix is built from into one folder, for machines without a network."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import MatrixError, ToolchainError
from wheelsmith.base.files import read_bounded, sha256_file
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.offline import ARCHIVES, MARK, PARTS, SOURCE, WHEELS
from wheelsmith.model import BuildPlan, Listener, LockedWheel, Notice, PrefixId
from wheelsmith.run.prepare import Prepared
from wheelsmith.source.vendored import vendor_source
from wheelsmith.toolchain.downloads import Supply
from wheelsmith.toolchain.environment import fetch_wheels
from wheelsmith.toolchain.prefix_builder import make_prefix
from wheelsmith.toolchain.progress import preparing

_WRITTEN = """\
Written by wheelsmith vendor: what the wheels of one wheelsmith.lock are built from. Every file is compared with
what was pinned or locked when it is used. Copy it beside the matrix, then: wheelsmith build-matrix --locked --offline
The next wheelsmith vendor replaces these files, and leaves a folder alone that has others:
"""
_PART, _OLD = ".part", ".old"  # what its name ends in while it is written, and replaced
_OWN = {MARK, WHEELS, PARTS, ARCHIVES, SOURCE}
_SCRATCH = ".scratch-"
_LONGEST = 64 << 20  # bytes of the mark, which names every file


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendored:
    """What a vendored folder holds: ``size`` in bytes."""

    files: int
    size: int


def vendor(prepared: Prepared, folder: Path, listen: Listener) -> Vendored:
    """Write the folder anew; what an earlier one has is not fetched again.

    Each toolchain is laid out once from what was written, so that nothing is missing.

    :param prepared: a matrix that keeps to its lock.
    :raises MatrixError: the folder is somebody else's.
    :raises ToolchainError: something is not to be had.
    """
    if not folder.name:
        raise MatrixError(f"{folder} cannot be replaced", remedy="name another folder: wheelsmith vendor FOLDER")
    for text in _left_out(prepared):
        listen(Notice(level="warning", text=text))
    # In the cache, for beside the matrix a lock would be taken for the kernel's.
    cache = prepared.request.cache / "locks"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f".vendor-{canonical_digest(str(folder))[:16]}.lock"):
        _finish_replacing(folder)
        _check_own(folder)
        _check_untouched(folder)
        _write(prepared, folder, listen)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return Vendored(files=len(sizes), size=sum(sizes))


def _write(prepared: Prepared, folder: Path, listen: Listener) -> None:
    part = folder.with_name(f".{folder.name}{_PART}")
    part.mkdir(parents=True)
    try:
        (part / MARK).write_text(_WRITTEN, encoding="utf-8")
        if not prepared.matrix.kernel.path:
            vendor_source(prepared.source, prepared.matrix.kernel, part)
        for prefix in dict.fromkeys(prefix for plan in prepared.plans for prefix in plan.prefixes):
            _vendor_prefix(prefix, part, listen)
        for wheels, python, arch in _environments(prepared.plans):
            with preparing(f"fetching the wheels of Python {python}", listen):
                _vendor_wheels(wheels, python, arch, part)
        (part / MARK).write_text(_WRITTEN + "".join(f"{name}\n" for name in sorted(_files(part))), encoding="utf-8")
        _replace(part, folder)
    finally:
        remove_tree(part)


def _finish_replacing(folder: Path) -> None:
    """Put right what a killed run left, which had the lock that is held now."""
    part, old = folder.with_name(f".{folder.name}{_PART}"), folder.with_name(f".{folder.name}{_OLD}")
    if _is_own(old) and not folder.exists():
        old.rename(folder)
    for left in (part, old):
        _check_own(left)
        remove_tree(left)


def _check_own(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not _is_own(folder)):
        raise MatrixError(
            f"{folder} was not written by wheelsmith vendor, which would replace all of it",
            remedy="name another folder: wheelsmith vendor FOLDER",
        )


def _check_untouched(folder: Path) -> None:
    """Refuse a folder into which somebody put files of their own."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    listed = _mark(folder).removeprefix(_WRITTEN).splitlines()
    if more := sorted(_files(folder) - set(listed)):
        raise MatrixError(
            f"{folder} has {more[0]}, which wheelsmith vendor did not write and would remove",
            remedy="move it elsewhere, or name another folder: wheelsmith vendor FOLDER",
        )


def _files(folder: Path) -> set[str]:
    """Return what is in a folder, but for the mark: each as JSON, for names may hold line ends."""
    found = (
        path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir() or path.is_symlink()
    )
    return {json.dumps(name) for name in found if name != MARK}


def _is_own(folder: Path) -> bool:
    """Say whether a folder is empty, or one that is written here, finished or not."""
    try:
        names = {path.name for path in folder.iterdir() if not path.name.startswith(_SCRATCH)}
        return not names or (names <= _OWN and _mark(folder).startswith(_WRITTEN))
    except (OSError, ValueError):
        return False


def _mark(folder: Path) -> str:
    return read_bounded(folder / MARK, _LONGEST).decode()


def _left_out(prepared: Prepared) -> Iterator[str]:
    for image in sorted({plan.image.name for plan in prepared.plans if plan.image}):
        yield f"the image {image} is not vendored: podman save, or docker save, puts it into a file"
    if any(plan.toolset and not plan.toolset.prefix for plan in prepared.plans):
        yield "cells that are built by the machine's own compilers need the same ones where they are built offline"


def _vendor_prefix(prefix: PrefixId, part: Path, listen: Listener) -> None:
    with tempfile.TemporaryDirectory(dir=part, prefix=_SCRATCH) as scratch:
        laid_out = Path(scratch, "prefix")
        laid_out.mkdir()
        make_prefix(prefix, laid_out, Supply(name=prefix.name, scratch=Path(scratch), listen=listen, keep=part))
        remove_tree(laid_out)


def _environments(plans: Iterable[BuildPlan]) -> Iterator[tuple[tuple[LockedWheel, ...], str, str]]:
    found = ((plan.project.environment, plan.project.python, plan.cell.arch) for plan in plans if plan.project)
    yield from dict.fromkeys(found)


def _vendor_wheels(wheels: tuple[LockedWheel, ...], python: str, arch: str, part: Path) -> None:
    target = part / WHEELS
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=part, prefix=_SCRATCH) as scratch:
        fetched = Path(scratch, "wheels")
        fetch_wheels(wheels, python, arch, fetched)
        for wheel in fetched.iterdir():
            known = target / wheel.name
            if known.exists() and sha256_file(known) != sha256_file(wheel):
                raise ToolchainError(
                    f"two environments have different files of the name {wheel.name}, and one folder holds one",
                    remedy="vendor their cells apart: wheelsmith vendor --only …",
                )
            wheel.replace(known)


def _replace(part: Path, folder: Path) -> None:
    if not folder.exists():
        part.rename(folder)
        return
    old = folder.with_name(f".{folder.name}{_OLD}")
    folder.rename(old)
    part.rename(folder)
    remove_tree(old)
