"""Get the files that prefixes are made from, from the vendored folder or the network.

Source archives and Debian packages are not on package indexes. The bytes of a tag's archive depend on the tool and the
time of packing. So the contents of its folder are pinned, and any archive with these contents is accepted.
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shutil
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path, PurePosixPath
from typing import Protocol

from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.offline import ARCHIVES, PARTS, VENDOR_REMEDY, WHEELS, is_offline, vendored_folder
from wheelsmith.base.redact import redact
from wheelsmith.base.units import show_binary_size
from wheelsmith.model import Listener, LockedWheel, PinnedFile, PinnedPackage, PinnedTree, read_wheel_name
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import PipSettings, local_folder, pip_settings
from wheelsmith.toolchain.remote import download, fetch_part, fetch_whole, sha256_bytes

_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)  # the earliest date in a zip file
_MAX_WHEEL = 8 << 30  # bytes; a wheel of torch has 0.9 GiB
_MAX_MIRRORS = 4  # mirrors, each of which may be tried
_MAX_CONFIG = 1 << 20  # bytes of a configuration file
_LIST_LINE = re.compile(r"deb\s+(?:\[[^\]]*\]\s+)?(\S+)\s+\S+")
_SOURCES_FIELD = re.compile(r"(Types|URIs|Enabled):\s*(.*)", re.IGNORECASE)
# URLs of mirrors of Debian's main archive. Other archives, such as debian-security, lack the pinned packages.
_MAIN_ARCHIVE = re.compile(r"https?://.*/debian|file:/.*")
_ARCHIVES_VARIABLE = "WHEELSMITH_ARCHIVES"
_POOL = "/pool/"  # the folder with the packages in an archive of Debian
_MAX_PACKED = 256 << 20  # bytes; CUTLASS with its pictures has 40 MB
_MAX_UNPACKED = 512 << 20
_SHARED = "toolchains"  # folder of shared files
_TAR_CHUNK = 1 << 16  # bytes
# RecursionError: tarfile reads a chain of extended headers recursively.
_TAR_ERRORS = (tarfile.TarError, zlib.error, EOFError, OSError, ValueError, OverflowError, RecursionError)


class SharedFiles(Protocol):
    """Files that machines share. Their content is not verified."""

    def fetch(self, key: str, path: Path, most: int) -> bool:
        """Copy a file of at most ``most`` bytes to a path. Return False if it is not available."""

    def report_damage(self, key: str) -> None:
        """Record that the content of a file is wrong, so that it is replaced."""

    def send(self, files: Sequence[tuple[str, Path | bytes]]) -> None:
        """Write files in the background."""


@dataclass(frozen=True, kw_only=True)
class PrefixFiles:
    """Provides the files of one prefix, from the vendored folder, from other machines or from the network.

    :param name: the prefix's name; partial wheels are vendored under it.
    :param scratch: an empty folder for downloads.
    :param keep: a folder that gets a copy of each file, or None.
    :param shared: files that machines share, for those that are not vendored; None for none.
    """

    name: str
    scratch: Path
    listen: Listener
    keep: Path | None = None
    shared: SharedFiles | None = None

    @cached_property
    def _settings(self) -> PipSettings:
        """The settings of pip. Reading them starts pip, so this waits until a file is needed."""
        return pip_settings()

    def wheel(self, pin: PinnedFile) -> Path:
        """Return the path of a complete wheel.

        :raises ToolchainError: it is not available.
        """

        def fetch() -> Path:
            with self._settings.client() as client:
                return fetch_whole(pin, locate(pin, self._settings), self.scratch, client, self.listen)

        key = f"{_SHARED}/{WHEELS}/{pin.filename}"
        path = self._take_or_fetch(key, pin.size, lambda path: sha256_file(path) == pin.sha256, fetch)
        if self.keep:
            _copy(path, self.keep / WHEELS / pin.filename)
        return path

    def partial_wheel(self, pin: PinnedFile, wanted: Callable[[str], bool], use: Callable[[Path], None]) -> None:
        """Call ``use`` with a wheel that contains at least the wanted members. A valid vendored wheel is preferred.

        :param wanted: returns True for the name of a member to fetch.
        :param use: unpacks the wheel and verifies its members by its pinned RECORD.
        :raises ToolchainError: the wheel is not available.
        """
        vendored, place = vendored_folder(), Path(PARTS, self.name, pin.filename)
        path = vendored / place if vendored and pin.record_sha256 else None
        if path is None or not (path.is_file() and self._try_use(path, use)):
            path = self._shared_part(pin, wanted, use)
        if self.keep:
            _write_partial_wheel(path, wanted, self.keep / place)

    def _shared_part(self, pin: PinnedFile, wanted: Callable[[str], bool], use: Callable[[Path], None]) -> Path:
        """Return a wheel that was used, from other machines or from the network."""
        key = f"{_SHARED}/{PARTS}/{self.name}/{pin.filename}"
        if pin.record_sha256 and (path := self._take(key, pin.size, partial(self._try_use, use=use))):
            return path
        with self._settings.client() as client:
            path = fetch_part(pin, locate(pin, self._settings), self.scratch, wanted, client, self.listen)
        use(path)
        if self.shared and pin.record_sha256:
            part = self.scratch / f"part-{pin.filename}"
            _write_partial_wheel(path, wanted, part)
            self._send(key, part)
        return path

    def _take_or_fetch(self, key: str, most: int, is_right: Callable[[Path], bool], fetch: Callable[[], Path]) -> Path:
        """Return the path of a file that another machine has shared, or else fetch and share it."""
        path = self._take(key, most, is_right)
        if path is None:
            path = fetch()
            self._send(key, path)
        return path

    def _take(self, key: str, most: int, is_right: Callable[[Path], bool]) -> Path | None:
        """Return the path of a file that another machine has shared, or None.

        :param most: the size in bytes, or a limit of it.
        """
        path = self.scratch / f"shared-{Path(key).name}"
        if self.shared is None or not self.shared.fetch(key, path, most):
            return None
        if is_right(path):
            return path
        self.shared.report_damage(key)
        return None

    def _send(self, key: str, path: Path) -> None:
        if self.shared:
            self.shared.send([(key, path.read_bytes())])  # the file is removed with the scratch folder

    def _try_use(self, path: Path, use: Callable[[Path], None]) -> bool:
        try:
            use(path)
        except ToolchainError:
            if is_offline():
                raise
            return False
        return True

    def package(self, pin: PinnedPackage) -> Path:
        """Return the path of a Debian package.

        :raises ToolchainError: it is not available.
        """
        key = f"{_SHARED}/{ARCHIVES}/{pin.sha256}/{pin.filename}"
        fetch = partial(fetch_package, pin, self.scratch, self._settings, self.listen)
        path = self._take_or_fetch(key, pin.size, lambda path: sha256_file(path) == pin.sha256, fetch)
        if self.keep:
            _copy(path, self.keep / ARCHIVES / pin.filename)
        return path

    def tree(self, tree: PinnedTree, folder: Path) -> None:
        """Write the pinned folder of an archive to ``folder``.

        :raises ToolchainError: it is not available.
        """
        key = f"{_SHARED}/{ARCHIVES}/{tree.sha256}/{tree.filename}"
        fetch = partial(fetch_tree, tree, folder, self.scratch, self._settings, self.listen)
        archive = self._take_or_fetch(key, _MAX_PACKED, lambda path: _try_tree(tree, path, folder), fetch)
        if self.keep:
            _copy(archive, self.keep / ARCHIVES / tree.filename)


def _copy(path: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)


def _write_partial_wheel(wheel: Path, wanted: Callable[[str], bool], target: Path) -> None:
    """Write a reproducible copy of a wheel that has only the wanted members."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as whole, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as part:
        for member in sorted(filter(wanted, whole.namelist())):
            entry = zipfile.ZipInfo(member, _ZIP_EPOCH)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, whole.getinfo(member).external_attr
            part.writestr(entry, whole.read(member))


def find_vendored_wheel(wheel: LockedWheel) -> Path | None:
    """Return the path of this exact wheel in the vendored folder, or None."""
    folder = vendored_folder()
    if folder is None or not (folder / WHEELS).is_dir():
        return None
    for path in sorted((folder / WHEELS).iterdir()):
        # Links, pipes and huge files may take forever to hash.
        status = path.lstat()
        readable = stat.S_ISREG(status.st_mode) and status.st_size <= _MAX_WHEEL
        if readable and _matches_name(path.name, wheel) and sha256_file(path) == wheel.sha256:
            return path
    return None


def _matches_name(filename: str, wheel: LockedWheel) -> bool:
    try:
        name = read_wheel_name(filename)
        return (name.project, name.version) == (canonicalize_name(wheel.name), Version(wheel.version))
    except ValueError:
        return False


@cache
def debian_mirrors(root: Path = Path("/")) -> tuple[str, ...]:
    """Return the Debian archives in apt's configuration; none if the machine does not run Debian.

    :param root: the root folder of the system.
    """
    if not re.search(r'^ID="?debian"?$', _read_config(root / "etc/os-release"), re.MULTILINE):
        return ()
    apt = root / "etc/apt"
    files = [apt / "sources.list", *sorted(apt.glob("sources.list.d/*"))]
    uris = (uri.rstrip("/") for path in files for uri in _apt_uris(path))
    mirrors = (uri for uri in uris if _MAIN_ARCHIVE.fullmatch(uri))
    return tuple(dict.fromkeys(mirrors))[:_MAX_MIRRORS]


def _apt_uris(path: Path) -> Iterator[str]:
    text = _read_config(path)
    if path.suffix == ".list":
        yield from (match[1] for line in text.splitlines() if (match := _LIST_LINE.match(line.strip())))
    elif path.suffix == ".sources":
        for paragraph in re.split(r"\n\s*\n", text):
            fields = {
                match[1].lower(): match[2].split()
                for match in map(_SOURCES_FIELD.match, paragraph.splitlines())
                if match
            }
            if "deb" in fields.get("types", ()) and fields.get("enabled", ["yes"]) != ["no"]:
                yield from fields.get("uris", ())


def _read_config(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_MAX_CONFIG).decode("utf-8", "replace")
    except OSError:
        return ""


def fetch_tree(tree: PinnedTree, folder: Path, scratch: Path, settings: PipSettings, listen: Listener) -> Path:
    """Write the pinned folder of an archive, from the first place that has it. Return the path of the archive.

    :param folder: an existing empty folder.
    :raises ToolchainError: no place has it.
    """
    problems = []
    for place in _candidate_places(tree):
        try:
            archive = _fetch_archive(tree.filename, place, scratch, settings, listen, most=_MAX_PACKED)
            _write_tree(tree, archive, folder)
        except ToolchainError as error:
            problems.append(f"{redact(place)}: {error.message}")
            continue
        return archive
    hint = f"; to make it from a clone: git archive --prefix {tree.folder.partition('/')[0]}/ -o {tree.filename} TAG"
    raise _unavailable_error(tree, problems, hint)


def fetch_package(pin: PinnedPackage, scratch: Path, settings: PipSettings, listen: Listener) -> Path:
    """Return the path of a package, from the first place that has the pinned file.

    :raises ToolchainError: no place has it.
    """
    problems = []
    for place in _candidate_places(pin):
        try:
            path = _fetch_archive(pin.filename, place, scratch, settings, listen, most=pin.size)
            if sha256_file(path) == pin.sha256:
                return path
            problem = "its sha256 differs from the pinned one"
        except ToolchainError as error:
            problem = error.message
        except OSError as error:
            problem = f"it cannot be read: {error.strerror or error}"
        problems.append(f"{redact(place)}: {problem}")
    raise _unavailable_error(pin, problems)


def _unavailable_error(pin: PinnedTree | PinnedPackage, problems: list[str], hint: str = "") -> ToolchainError:
    """Return the error for a file that no place has.

    :param hint: an addition to the remedy.
    """
    if is_offline():
        message = f"{pin.filename} is not available, and wheelsmith is offline"
        return ToolchainError("; ".join((message, *problems)), remedy=VENDOR_REMEDY)
    return ToolchainError(
        f"{pin.filename} is not available: {'; '.join(problems)}",
        remedy=f"name a folder or mirror that has a file of this name: {_ARCHIVES_VARIABLE}=FOLDER-OR-URL …{hint}",
    )


def is_available_locally(pin: PinnedTree | PinnedPackage) -> bool:
    """Return True if a local folder for archives has this file."""
    for place in _candidate_places(pin):
        try:
            if _local_archive(place):
                return True
        except ToolchainError:
            continue
    return False


def _candidate_places(pin: PinnedTree | PinnedPackage) -> Iterator[str]:
    if vendored := vendored_folder():
        yield str(vendored / ARCHIVES / pin.filename)
    for base in os.environ.get(_ARCHIVES_VARIABLE, "").split():
        if not is_offline() or local_folder(base):
            yield f"{base.rstrip('/')}/{pin.filename}"
    if is_offline():
        return
    if isinstance(pin, PinnedPackage):
        _, is_in_pool, path = pin.url.partition(_POOL)
        yield from (f"{mirror}{_POOL}{path}" for mirror in debian_mirrors() if is_in_pool)
    yield pin.url
    if isinstance(pin, PinnedPackage):
        yield from pin.mirrors


def _fetch_archive(
    filename: str, place: str, scratch: Path, settings: PipSettings, listen: Listener, *, most: int
) -> Path:
    if path := _local_archive(place):
        return path
    target = scratch / filename
    # Each download needs its own client, because a deadline closes the client.
    with settings.client() as client:
        download(filename, place, target, client, listen, most=most)
    return target


def _local_archive(place: str) -> Path | None:
    """Return the path of an archive on this machine, or None for a URL on the network.

    :raises ToolchainError: it does not exist, cannot be inspected or is too large.
    """
    try:
        path = local_folder(place)
        size = path.stat().st_size if path and path.is_file() else None
    except (OSError, ValueError, RuntimeError) as error:  # of stat; of an invalid URL; of a `~user` that does not exist
        raise ToolchainError(f"it cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if path and size is None:
        raise ToolchainError("it does not exist")
    if size is not None and size > _MAX_PACKED:
        raise ToolchainError(f"it is larger than {show_binary_size(_MAX_PACKED)}")
    return path


def _read_tree(tree: PinnedTree, archive: Path) -> Iterator[tuple[str, bytes]]:
    """Yield (path, content) of each file in the pinned folder, up to the pinned count and size."""
    count = size = 0
    try:
        for member in tar_members(archive, most_bytes=_MAX_UNPACKED):
            info = member.info
            name = info.name.removeprefix("./")
            if info.isdir() or not name.startswith(tree.folder):
                continue
            count, size = count + 1, size + info.size
            if not info.isreg() or count > tree.files or size > tree.size:
                raise ToolchainError("its files differ from the pinned ones")
            yield name.removeprefix(tree.folder), b"".join(member.chunks())
    except BadArchiveError as error:
        raise ToolchainError(str(error)) from error


def _verify_tree(tree: PinnedTree, files: dict[str, bytes]) -> None:
    try:
        digest = canonical_digest(sorted([name, sha256_bytes(content)] for name, content in files.items()))
    except UnicodeEncodeError:  # pinned names are valid text
        digest = None
    if digest != tree.sha256:
        raise ToolchainError("its files differ from the pinned ones")


def _try_tree(tree: PinnedTree, archive: Path, folder: Path) -> bool:
    """Write the pinned folder of an archive. Return False if it differs from the pin."""
    try:
        _write_tree(tree, archive, folder)
    except ToolchainError:
        return False
    return True


def _write_tree(tree: PinnedTree, archive: Path, folder: Path) -> None:
    files = dict(_read_tree(tree, archive))
    _verify_tree(tree, files)
    for name, content in files.items():
        # The names are safe, because the pinned hash covers them.
        path = folder / PurePosixPath(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(0o644)


class BadArchiveError(Exception):
    """An archive cannot be unpacked. The message does not include the name of the archive."""


@dataclass(frozen=True, slots=True)
class TarMember:
    """A member of an archive that is being read."""

    info: tarfile.TarInfo
    _archive: tarfile.TarFile

    def chunks(self) -> Iterator[bytes]:
        """Yield the content of a regular file.

        :raises BadArchiveError: it cannot be unpacked.
        """
        with _tar_errors():
            content = self._archive.extractfile(self.info)
            while content and (chunk := content.read(_TAR_CHUNK)):
                yield chunk


def tar_members(path: Path, *, most_bytes: int) -> Iterator[TarMember]:
    """Yield the members of a .tar.gz archive in its order. Their names may be unsafe.

    :param most_bytes: the largest allowed unpacked size, including headers and skipped members.
    :raises BadArchiveError: it is not a .tar.gz, or is larger.
    """
    with _tar_errors(), _LimitedGzip(path, most_bytes) as stream:
        with tarfile.open(fileobj=stream, mode="r:", encoding="utf-8") as archive:
            for info in archive:
                if info.issparse() or info.size < 0:
                    raise BadArchiveError(f"{info.name!r} is a sparse file")
                yield TarMember(info, archive)
        while stream.read(_TAR_CHUNK):  # tarfile stops before the checksum of gzip
            pass


@contextmanager
def _tar_errors() -> Iterator[None]:
    try:
        yield
    except _TAR_ERRORS as error:
        raise BadArchiveError(f"it cannot be unpacked: {error}") from error


class _LimitedGzip(gzip.GzipFile):
    """A gzip file with a limit of unpacked bytes, which also applies to seeks because skipping a member unpacks it."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path)
        self._most = most

    def read(self, size: int | None = -1) -> bytes:
        self._check_limit(self.tell() + (size or 0))
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        self._check_limit(offset)
        return super().seek(offset, whence)

    def _check_limit(self, end: int) -> None:
        if end > self._most:
            raise BadArchiveError(f"it unpacks to more than {show_binary_size(self._most)}")
