"""Make a prefix from its pinned files. Every file is verified by RECORD and stays inside the prefix."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path, PurePosixPath

from installer.records import InvalidRecordEntry, parse_record_file

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.units import show_binary_size
from wheelsmith.frameworks import HIPIFIED, HIPIFY, framework
from wheelsmith.model import TORCH, PinnedFile, PrefixId
from wheelsmith.platforms import DEVELOPMENT, CudaToolkit, cuda_folder, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.platforms.header_libraries import KIND as LIBRARY
from wheelsmith.platforms.host_compilers import KIND as CXX
from wheelsmith.toolchain.cuda_compilers import install_compilers
from wheelsmith.toolchain.downloads import PrefixFiles
from wheelsmith.toolchain.progress import report_preparation

# Errors of zipfile for unknown compression methods and changed bytes.
_ZIP_ERRORS = (EOFError, RuntimeError, ValueError, zlib.error)
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
_HIPIFY = "torch/utils/hipify/"
_MAX_RECORD = 64 << 20  # bytes; torch's has 1.2 MB


def make_prefix(prefix: PrefixId, folder: Path, files: PrefixFiles) -> None:
    """Write a prefix into an empty folder.

    :raises ToolchainError: a file is not available, or differs from its pin.
    """
    maker = _PrefixMaker(files=files, folder=folder)
    makers = {"cuda": maker.cuda, DEVELOPMENT: maker.development, LIBRARY: maker.library, CXX: maker.cxx}
    makers[HIPIFIED] = maker.hipified
    makers.get(prefix.kind, maker.framework)(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrefixMaker:
    files: PrefixFiles
    folder: Path

    def cxx(self, prefix: PrefixId) -> None:
        from wheelsmith.toolchain.cxx.install import install_cxx

        toolchain = next(each for each in cxx_toolchains() if each.prefix == prefix)
        packages = {pin.filename: self.files.package(pin) for pin in toolchain.packages}
        with report_preparation(f"unpacking {toolchain.compilers.title}", self.files.listen):
            install_cxx(toolchain, packages, self.folder)

    def framework(self, prefix: PrefixId) -> None:
        calls = framework(prefix.kind)
        release = calls.find_version(prefix.version, prefix.arch)
        if release is None:
            raise ToolchainError(
                f"this machine does not know {prefix.kind} {prefix.version} for {prefix.arch}",
                remedy="plan the matrix with a network: wheelsmith plan",
            )
        self._unpack_headers(release.wheels[prefix.arch], calls.headers)

    def hipified(self, prefix: PrefixId) -> None:
        """Unpack torch's headers and its hipify, and translate the headers."""
        self.framework(replace(prefix, kind=TORCH))
        release = framework(TORCH).find_version(prefix.version, prefix.arch)
        assert release  # noqa: S101  # the headers are there
        hipify, pin = self.folder / HIPIFY, release.wheels[prefix.arch]

        def wanted(name: str) -> bool:
            return name.startswith(_HIPIFY) or name.endswith(".dist-info/RECORD")

        def place(name: str) -> str | None:
            return name if name.startswith(_HIPIFY) else None

        self.files.partial_wheel(pin, wanted, lambda wheel: unpack(pin, wheel, hipify, place))
        script = str(files(__package__) / "translate_headers.py")
        argv = [sys.executable, "-IB", script, str(hipify), str(self.folder / "include")]
        with report_preparation(f"translating the headers of torch {prefix.version} to HIP", self.files.listen):
            ended = subprocess.run(argv, capture_output=True, text=True, check=False, env={"PYTHONHASHSEED": "0"})
        if ended.returncode:
            raise ToolchainError(f"torch's hipify failed: {(ended.stderr.splitlines() or ['no message'])[-1]}")

    def library(self, prefix: PrefixId) -> None:
        library = header_library(prefix.version)
        if library.wheel:
            self._unpack_headers(library.wheel, library.headers)
        if library.archive:
            self.files.tree(library.archive, self.folder / "include")

    def cuda(self, prefix: PrefixId) -> None:
        toolkit, folder = cuda_toolkits()[prefix.version], self.folder
        host, _, target = prefix.arch.partition("-")
        for pin in toolkit.packages[host]:
            self._unpack_all(pin)
        for pin in toolkit.headers:
            self._unpack_headers(pin, cuda_folder(pin))
        if compilers := toolkit.compilers.get(host):
            install_compilers(self.files.package(compilers), folder)
        if target:
            self._use_runtime_of(toolkit, target)
        (folder / "lib64").symlink_to("lib")
        # The wheel lacks this link, which -lcudart of build systems needs.
        for library in (folder / "lib").glob("libcudart.so.*"):
            (folder / "lib" / "libcudart.so").symlink_to(library.name)

    def development(self, prefix: PrefixId) -> None:
        for pin in cuda_toolkits()[prefix.version].development:
            self._unpack_headers(pin, cuda_folder(pin))

    def _use_runtime_of(self, toolkit: CudaToolkit, target: str) -> None:
        remove_tree(self.folder / "lib")
        self._unpack_all(toolkit.target_runtime[target])

    def _unpack_all(self, pin: PinnedFile) -> None:
        root = cuda_folder(pin)
        unpack(pin, self.files.wheel(pin), self.folder, _relative_to(root, root))

    def _unpack_headers(self, pin: PinnedFile, root: str) -> None:
        headers = root if root.endswith("include/") else root + "include/"
        relative_root = root.removesuffix("include/")

        def wanted(name: str) -> bool:
            return name.startswith(headers) or name.endswith(".dist-info/RECORD")

        place = _relative_to(headers, relative_root)
        self.files.partial_wheel(pin, wanted, lambda wheel: unpack(pin, wheel, self.folder, place))


def _relative_to(wanted: str, root: str) -> Callable[[str], str | None]:
    """Return a function that maps a member below ``wanted`` to its path relative to ``root``.

    The function leaves out ``__init__.py``, which is in these folders only to make them packages.
    """

    def place(name: str) -> str | None:
        is_wanted = name.startswith(wanted) and not name.endswith("/__init__.py")
        return name.removeprefix(root) if is_wanted else None

    return place


def unpack(pin: PinnedFile, wheel: Path, target: Path, place: Callable[[str], str | None]) -> None:
    """Write members of a wheel below ``target``.

    :param place: member name → path relative to ``target``, or None to leave it out.
    :raises ToolchainError: the wheel is broken, or a file differs from RECORD.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                if member.compress_type not in _COMPRESSIONS:
                    raise ToolchainError(f"{pin.filename}: {member.filename} has an unsupported compression")
            record = _read_record(pin, archive)
            _check_complete(pin, record, archive, place)
            for member in archive.infolist():
                path = None if member.is_dir() else place(member.filename)
                if path is not None:
                    _write_member(pin, archive, member, record, target / _check_relative(pin, path))
    except (zipfile.BadZipFile, InvalidRecordEntry, *_ZIP_ERRORS) as error:
        raise ToolchainError(
            f"{pin.filename} cannot be unpacked: {error}",
            remedy="try again; if it fails again, report the broken file to the owner of the index",
        ) from error


def _read_record(pin: PinnedFile, archive: zipfile.ZipFile) -> dict[str, tuple[str, str]]:
    """Return each member's hash and size from RECORD. If RECORD is pinned, verify it first."""
    name = next((n for n in archive.namelist() if n.endswith(".dist-info/RECORD") and n.count("/") == 1), None)
    if name is None:
        raise ToolchainError(f"{pin.filename} has no RECORD")
    if archive.getinfo(name).file_size > _MAX_RECORD:
        raise ToolchainError(f"{pin.filename}: RECORD is larger than {show_binary_size(_MAX_RECORD)}")
    data = archive.read(name)
    if pin.record_sha256 and hashlib.sha256(data).hexdigest() != pin.record_sha256:
        raise ToolchainError(f"{pin.filename}: RECORD differs from the pinned one")
    return {path: (digest, size) for path, digest, size in parse_record_file(data.decode("utf-8").splitlines())}


def _check_complete(
    pin: PinnedFile,
    record: dict[str, tuple[str, str]],
    archive: zipfile.ZipFile,
    place: Callable[[str], str | None],
) -> None:
    """Refuse a wheel that lacks a file of RECORD, because a compiler might then find another file of that name."""
    names = set(archive.namelist())
    if missing := next((name for name in record if place(name) is not None and name not in names), None):
        raise ToolchainError(f"{pin.filename}: {missing} is in RECORD, but missing in the wheel")


def _write_member(
    pin: PinnedFile,
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    record: dict[str, tuple[str, str]],
    path: Path,
) -> None:
    digest, size = record.get(member.filename, ("", ""))
    # Do not unpack a member that is larger than its entry in RECORD.
    data = archive.read(member) if str(member.file_size) == size else b""
    actual = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    if actual != digest:
        raise ToolchainError(
            f"{pin.filename}: {member.filename} differs from RECORD",
            remedy="try again; if it fails again, report the broken file to the owner of the index",
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    path.chmod(0o755 if member.external_attr >> 16 & 0o111 else 0o644)


def _check_relative(pin: PinnedFile, path: str) -> PurePosixPath:
    relative = PurePosixPath(path)
    if relative.is_absolute() or ".." in relative.parts:
        raise ToolchainError(f"{pin.filename} would write outside its folder: {path!r}")
    return relative
