"""Collect the inputs of a locked matrix in one folder, for machines without a network."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from filelock import FileLock

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import MatrixError, ToolchainError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.offline import ARCHIVES, PARTS, SOURCE, VENDORED_MARK, WHEELS
from wheelsmith.model import Listener, LockedWheel, Notice, PrefixId
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.source.vendored import vendor_source
from wheelsmith.toolchain.downloads import PrefixFiles, find_vendored_wheel
from wheelsmith.toolchain.prefix_builder import make_prefix
from wheelsmith.toolchain.progress import report_preparation
from wheelsmith.toolchain.resolve import download_wheels

_MARK_TEXT = """\
Written by wheelsmith vendor: the inputs of one wheelsmith.lock. Every file is verified by its pinned or locked hash
when it is used. Copy the folder next to the matrix, then run: wheelsmith build-matrix --locked --offline
The next wheelsmith vendor replaces the folder.
"""
_MARK_START = b"Written by wheelsmith vendor"
_CONTENT = {VENDORED_MARK, WHEELS, PARTS, ARCHIVES, SOURCE}
_SCRATCH = ".scratch-"


def vendor(prepared: PreparedSet, folder: Path, listen: Listener) -> tuple[int, int]:
    """Write the folder, and return the number and the total bytes of its files.

    Files of an earlier folder are not fetched again. Each toolchain is installed once in a scratch folder, so that
    nothing is missing.

    :param prepared: a matrix that is planned with its lock file.
    :raises MatrixError: the folder exists and was not written by this command.
    :raises ToolchainError: an input is not available.
    """
    _require_own(folder)
    for text in _not_vendored(prepared):
        listen(Notice(level="warning", text=text))
    # The lock is in the cache, because next to the matrix it would become a part of the kernel's source.
    cache = prepared.request.cache / "locks"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / f".vendor-{canonical_digest(str(folder))[:16]}.lock"):
        part, old = (folder.with_name(f".{folder.name}{end}") for end in (".part", ".old"))
        if old.exists() and not folder.exists():  # a run was killed between the two renames below
            old.rename(folder)
        for left in (part, old):
            remove_tree(left)
        try:
            _write(prepared, part, listen)
            if folder.exists():
                folder.rename(old)
            part.rename(folder)
        finally:
            remove_tree(part)
        remove_tree(old)
    sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
    return len(sizes), sum(sizes)


def _require_own(folder: Path) -> None:
    """Require that the folder is new or was written by this command."""
    is_new = not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir()))
    names = {path.name for path in folder.iterdir()} if folder.is_dir() else set()
    is_own = VENDORED_MARK in names <= _CONTENT and (folder / VENDORED_MARK).read_bytes().startswith(_MARK_START)
    if folder.name and not folder.is_symlink() and (is_new or is_own):
        return
    raise MatrixError(
        f"{folder} was not written by wheelsmith vendor, which would replace its content",
        remedy="choose another folder: wheelsmith vendor FOLDER",
    )


def _write(prepared: PreparedSet, part: Path, listen: Listener) -> None:
    part.mkdir(parents=True)
    (part / VENDORED_MARK).write_text(_MARK_TEXT, encoding="utf-8")
    for name, kernel in prepared.prepared.items():
        if not kernel.matrix.kernel.path:
            vendor_source(kernel.source, kernel.matrix.kernel, part, name)
    for prefix in dict.fromkeys(prefix for plan in prepared.plans for prefix in plan.prefixes):
        _vendor_prefix(prefix, part, listen)
    projects = ((plan.project, plan.cell.arch) for plan in prepared.plans if plan.project)
    for wheels, python, arch in dict.fromkeys((each.environment, each.python, arch) for each, arch in projects):
        with report_preparation(f"fetching the wheels of Python {python}", listen):
            _vendor_wheels(wheels, python, arch, part)


def _not_vendored(prepared: PreparedSet) -> Iterator[str]:
    for image in sorted({plan.image.name for plan in prepared.plans if plan.image}):
        yield f"the image {image} is not vendored: save it to a file with podman save or docker save"
    kernels = (each.matrix.kernel for each in prepared.prepared.values())
    if any(kernel.hub and kernel.builds for kernel in kernels):
        yield "the builds of upstream are not vendored: offline, remove builds: prefer from the kernel"
    if any(plan.toolset and not plan.toolset.prefix for plan in prepared.plans):
        yield "some combinations use this machine's compilers: offline builds need the same compilers"


def _vendor_prefix(prefix: PrefixId, part: Path, listen: Listener) -> None:
    with tempfile.TemporaryDirectory(dir=part, prefix=_SCRATCH) as scratch:
        laid_out = Path(scratch, "prefix")
        laid_out.mkdir()
        make_prefix(prefix, laid_out, PrefixFiles(name=prefix.name, scratch=Path(scratch), listen=listen, keep=part))
        remove_tree(laid_out)


def _vendor_wheels(wheels: tuple[LockedWheel, ...], python: str, arch: str, part: Path) -> None:
    target = part / WHEELS
    target.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=part, prefix=_SCRATCH) as scratch:
        fetched = Path(scratch)
        vendored = {wheel: find_vendored_wheel(wheel) for wheel in wheels}
        for path in filter(None, vendored.values()):
            shutil.copyfile(path, fetched / path.name)
        if missing := [wheel for wheel, path in vendored.items() if path is None]:
            download_wheels(missing, python, arch, fetched)
        for wheel in fetched.iterdir():
            known = target / wheel.name
            if known.exists() and sha256_file(known) != sha256_file(wheel):
                raise ToolchainError(
                    f"two environments have different files with the name {wheel.name}",
                    remedy="vendor their combinations in separate folders: wheelsmith vendor --only …",
                )
            wheel.replace(known)
