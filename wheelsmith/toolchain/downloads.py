"""The files that prefixes are made from: out of the vendored folder, or fetched."""

from __future__ import annotations

import shutil
import stat
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.offline import ARCHIVES, PARTS, WHEELS, is_offline, vendored_folder
from wheelsmith.model import Listener, LockedWheel, PinnedFile, PinnedPackage, PinnedTree, read_wheel_name
from wheelsmith.toolchain.archives import fetch_package, fetch_tree
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip_settings import PipSettings, pip_settings
from wheelsmith.toolchain.remote import fetch_part, fetch_whole

_DATE = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold
_LARGEST = 8 << 30  # bytes: torch's own has 0.9 GiB


@dataclass(frozen=True, kw_only=True)
class Supply:
    """Gives the files that one prefix is made from, whoever has them.

    :param name: of the prefix, under which parts of wheels are kept.
    :param scratch: an empty folder.
    :param keep: a folder that gets a copy of each; None keeps none.
    """

    name: str
    scratch: Path
    listen: Listener
    keep: Path | None = None

    @cached_property
    def _settings(self) -> PipSettings:
        """Pip's own, which is started for them; not before something is to be fetched."""
        return pip_settings()

    def whole(self, pin: PinnedFile) -> Path:
        """Return a whole wheel.

        :raises ToolchainError: it cannot be had.
        """
        with self._settings.client() as client:
            path = fetch_whole(pin, locate(pin, self._settings), self.scratch, client, self.listen)
        if self.keep:
            _copy(path, self.keep / WHEELS / pin.filename)
        return path

    def part(self, pin: PinnedFile, wanted: Callable[[str], bool], use: Callable[[Path], None]) -> None:
        """Have a wheel used that has at least the members that are wanted; one that was vendored, where it is good.

        :param use: takes the wheel, and proves by its RECORD, which is pinned, that all of it is there.
        :raises ToolchainError: it cannot be had.
        """
        vendored, place = vendored_folder(), Path(PARTS, self.name, pin.filename)
        path = vendored / place if vendored and pin.record_sha256 else None
        if path is None or not (path.is_file() and self._is_used(path, use)):
            with self._settings.client() as client:
                path = fetch_part(pin, locate(pin, self._settings), self.scratch, wanted, client, self.listen)
            use(path)
        if self.keep:
            _cut(path, wanted, self.keep / place)

    def _is_used(self, path: Path, use: Callable[[Path], None]) -> bool:
        try:
            use(path)
        except ToolchainError:
            if is_offline():
                raise
            return False
        return True

    def package(self, pin: PinnedPackage) -> Path:
        """Return a Debian package.

        :raises ToolchainError: it cannot be had.
        """
        path = fetch_package(pin, self.scratch, self._settings, self.listen)
        if self.keep:
            _copy(path, self.keep / ARCHIVES / pin.filename)
        return path

    def tree(self, tree: PinnedTree, folder: Path) -> None:
        """Write a folder of an archive.

        :raises ToolchainError: it cannot be had.
        """
        archive = fetch_tree(tree, folder, self.scratch, self._settings, self.listen)
        if self.keep:
            _copy(archive, self.keep / ARCHIVES / tree.filename)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _cut(wheel: Path, wanted: Callable[[str], bool], target: Path) -> None:
    """Write a wheel anew, of the same bytes whoever does so, with the members that are wanted alone."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as part:
        for member in sorted(filter(wanted, whole.namelist())):
            entry = zipfile.ZipInfo(member, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, whole.getinfo(member).external_attr
            part.writestr(entry, whole.read(member))


def vendored_wheel(wheel: LockedWheel) -> Path | None:
    """Return the file that is just this wheel; None where there is none."""
    folder = vendored_folder()
    if folder is None or not (folder / WHEELS).is_dir():
        return None
    for path in sorted((folder / WHEELS).iterdir()):
        # A link or a pipe may have no end, and a file as good as none.
        found = path.lstat()
        readable = stat.S_ISREG(found.st_mode) and found.st_size <= _LARGEST
        if readable and _is_named(path.name, wheel) and sha256_file(path) == wheel.sha256:
            return path
    return None


def _is_named(filename: str, wheel: LockedWheel) -> bool:
    try:
        name = read_wheel_name(filename)
        return (name.project, name.version) == (canonicalize_name(wheel.name), Version(wheel.version))
    except ValueError:
        return False
