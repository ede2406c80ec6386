"""Resolve, install and look up the Python build environment of a project."""

from __future__ import annotations

import itertools
import json
import lzma
import os
import re
import shutil
import subprocess
import tempfile
import zipfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from importlib.metadata import Distribution
from pathlib import Path
from threading import Event

from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.base.files import atomic_write
from wheelsmith.base.json_dataclass import read_json
from wheelsmith.base.offline import VENDOR_REMEDY, is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import show_binary_size, show_size
from wheelsmith.frameworks.torch_without_cuda import CPU_EDITS, CUDA_HEADERS
from wheelsmith.model import LockedWheel
from wheelsmith.toolchain.pip import run_pip

_SCRIPT_GROUPS = ("console_scripts", "gui_scripts")
_ENTRY_POINTS = ".dist-info/entry_points.txt"
_MAX_ENTRY_POINTS = 1 << 20  # bytes
_TIMEOUT = 7200.0  # seconds; torch with CUDA has up to 5 GB, which takes an hour on a slow connection
# Limit of the unpacked size: factor and extra bytes. Unpacked, torch 2.13 has twice the size of its wheel, compilers
# three times, and headers up to seven times.
_MAX_GROWTH, _EXTRA_SIZE = 8, 256 << 20
# Part of the folder's name. Raise it when the layout of environments changes.
LAYOUT = 2
# The first lines of a script that pip writes, for a short and for a long path of the interpreter.
_SHEBANG = re.compile(rb"#!(?:/bin/sh\n'''exec' [^\n]*\n' '''|[^\n]*python[^\n]*)\n")
_MAX_SHEBANG = 1 << 13  # bytes
_MIN_ENTRY_SIZE = 4096  # bytes; the least that a file or folder is counted as
_OLDEST_GLIBC, _NEWEST_GLIBC = 17, 28  # minor versions; a build environment must run in manylinux_2_28
_LOOKUP_TIMEOUT = 600.0  # seconds
_MAX_REASON = 500  # characters of pip's error
_WITHOUT_CUDA = re.compile(r"^cuda\b.*= None$", re.MULTILINE)


class _EntryPoints(Distribution):
    """The entry points of a wheel, parsed as pip does."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "entry_points.txt" else None

    def locate_file(self, path: object) -> Path:
        raise FileNotFoundError(path)


def check_programs(wheel: Path) -> None:
    """Refuse a wheel that would install a program outside of the folder for programs.

    :raises ToolchainError: the name of a program is a path, or entry_points.txt cannot be read.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_ENTRY_POINTS) or member.filename.count("/") > 1:
                continue
            try:
                with archive.open(member) as content:
                    text = content.read(_MAX_ENTRY_POINTS + 1)
            except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError):
                raise _entry_points_error(wheel, "cannot be read") from None
            _check_entry_points(wheel, text)


def _check_entry_points(wheel: Path, content: bytes) -> None:
    if len(content) > _MAX_ENTRY_POINTS:
        raise _entry_points_error(wheel, f"is larger than {show_binary_size(_MAX_ENTRY_POINTS)}")
    try:
        scripts = [point for point in _EntryPoints(content.decode()).entry_points if point.group in _SCRIPT_GROUPS]
    except (ValueError, TypeError):  # invalid UTF-8; a line without a name
        raise _entry_points_error(wheel, "cannot be read") from None
    if paths := [point.name for point in scripts if "/" in point.name]:
        raise _entry_points_error(wheel, f"names a program by a path: {visible(paths[0][:80])}")


def _entry_points_error(wheel: Path, why: str) -> ToolchainError:
    return ToolchainError(f"the build environment cannot be made: entry_points.txt of {wheel.name} {why}")


def read_lock(path: Path) -> tuple[LockedWheel, ...] | None:
    """Return the wheels in a file from ``lock_environment``, or None if the file is missing or invalid."""
    try:
        wheels = (LockedWheel.from_json(item) for item in read_json(path.read_bytes()))
        return tuple(replace(wheel, name=canonicalize_name(wheel.name)) for wheel in wheels)
    except (OSError, ValueError, TypeError):
        return None


def lock_environment(
    requirements: tuple[str, ...], python: str, arch: str, path: Path, *, preferred: tuple[str, ...] = ()
) -> tuple[LockedWheel, ...]:
    """Resolve requirements with pip to exact wheels.

    :param python: ``major.minor``.
    :param path: a file to write the wheels to, so that builds on later days use the same ones.
    :param preferred: requirements to try in the place of the first one, in this order.
    :raises NoEnvironmentError: the requirements cannot be resolved.
    :raises ToolchainError: pip's report is not readable.
    """
    rest = requirements[1:]
    locked = _first_resolved([(first, *rest) for first in (*preferred, requirements[0])], python, arch)
    atomic_write(path, json.dumps([wheel.to_json() for wheel in locked]).encode())
    return locked


def _first_resolved(choices: Sequence[tuple[str, ...]], python: str, arch: str) -> tuple[LockedWheel, ...]:
    """Resolve the first of several lists of requirements whose first requirement is available."""
    *preferred, fallback = choices
    for requirements in preferred:
        try:
            return _resolve(requirements, python, arch)
        except NoEnvironmentError as error:
            if requirements[0] not in error.message:
                raise
    return _resolve(fallback, python, arch)


def _resolve(requirements: tuple[str, ...], python: str, arch: str) -> tuple[LockedWheel, ...]:
    completed = run_pip_report(*requirements, python=python, arch=arch, seconds=_TIMEOUT)
    if completed.returncode:
        raise NoEnvironmentError(_pip_errors(completed.stderr)[0])
    try:
        items = json.loads(completed.stdout)["install"]
        if direct := [item["metadata"]["name"] for item in items if item.get("is_direct")]:
            raise NoEnvironmentError(f"a package requires {direct[0]} at a URL, not from an index")
        # Sort them, so that the same wheels give the same environment.
        return tuple(sorted(map(_locked_wheel, items), key=lambda wheel: wheel.name))
    except (ValueError, KeyError, TypeError):
        raise report_error() from None


def run_pip_report(*arguments: str, python: str, arch: str, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run ``pip install --dry-run``. It writes the wheels that it would install as JSON to stdout.

    :param arguments: requirements and their options.
    :param python: ``major.minor``.
    :param seconds: the time limit.
    """
    with tempfile.TemporaryDirectory() as target:
        return run_pip(
            *("install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-", "--target", target),
            *(*_target_options(python, arch), *arguments),
            seconds=seconds,
        )


def report_error() -> ToolchainError:
    """Return the error for a report of pip that cannot be parsed."""
    return ToolchainError("pip's report is not readable", remedy="python3 -m pip install --upgrade pip")


def install_environment(
    wheels: tuple[LockedWheel, ...], python: str, arch: str, folder: Path, cancel: Event | None = None
) -> None:
    """Install exactly these wheels into ``folder``. No code of the wheels is run.

    :param cancel: stops pip when it is set.
    :raises ToolchainError: pip failed, or the unpacked wheels would be suspiciously large.
    """
    # Use the same file system as the folder: wheels may have gigabytes, and /tmp may be in memory.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".wheels-") as scratch:
        fetched = Path(scratch) / "wheels"
        selection = fetch_wheels(wheels, python, arch, fetched, cancel)
        _check_fetched(tuple(fetched.iterdir()))
        no_index = ("--no-index", "--find-links", str(fetched))
        _run_checked_pip("install", "--no-compile", "--target", str(folder), *no_index, *selection, cancel=cancel)
    _replace_interpreter((folder / "bin").glob("*"), python)


def fetch_wheels(
    wheels: tuple[LockedWheel, ...], python: str, arch: str, folder: Path, cancel: Event | None = None
) -> tuple[str, ...]:
    """Create ``folder`` and fetch exactly these wheels into it. Return the options of pip that select them.

    :param cancel: stops pip when it is set.
    :raises ToolchainError: pip failed, or a wheel is not in the vendored folder while wheelsmith is offline.
    """
    folder.mkdir()
    lock = folder.with_suffix(".txt")
    lock.write_text("".join(map(format_requirement, wheels)), encoding="utf-8")
    target = _target_options(python, arch)
    options = (*("--quiet", "--no-deps", "--require-hashes"), *target, "--requirement", str(lock))
    from wheelsmith.toolchain.downloads import find_vendored_wheel

    vendored = [find_vendored_wheel(wheel) for wheel in wheels]
    for path in filter(None, vendored):
        shutil.copyfile(path, folder / path.name)
    if None not in vendored:
        return options
    if is_offline():
        missing = wheels[vendored.index(None)]
        raise ToolchainError(
            f"the build environment cannot be made: {missing.name} {missing.version} (sha256 {missing.sha256[:12]}…) "
            "is not in the vendored folder, and wheelsmith is offline",
            remedy=VENDOR_REMEDY,
        )
    _run_checked_pip("download", "--dest", str(folder), *options, cancel=cancel)
    return options


def format_requirement(wheel: LockedWheel) -> str:
    """Return the line of a requirements file that matches only this wheel.

    :raises ToolchainError: its version is invalid.
    """
    # == would also match the release with a local version, such as 2.13.0+cpu, which sorts higher.
    try:
        return f"{wheel.name}==={Version(wheel.version)} --hash=sha256:{wheel.sha256}\n"
    except InvalidVersion as error:
        raise ToolchainError(f"the build environment cannot be made: {wheel.name}: {error}") from None


def _replace_interpreter(scripts: Iterable[Path], python: str) -> None:
    """Make scripts use the Python on PATH. pip writes the path of its own Python, which no sandbox has."""
    for script in scripts:
        if not script.is_file():
            continue
        with script.open("rb") as file:
            shebang = _SHEBANG.match(file.read(_MAX_SHEBANG))
        if shebang:
            content = script.read_bytes()[shebang.end() :]
            script.write_bytes(f"#!/usr/bin/env python{python}\n".encode() + content)


def _run_checked_pip(*argv: str, cancel: Event | None) -> None:
    completed = run_pip(*argv, seconds=_TIMEOUT, cancel=cancel)
    if completed.returncode:
        raise ToolchainError(f"the build environment cannot be made: {_pip_errors(completed.stderr)[0]}")


def _pip_errors(stderr: str) -> list[str]:
    """Return the error lines of pip's stderr, or ``pip failed`` if there are none."""
    lines = (line.strip() for line in stderr.splitlines())
    return [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR")] or ["pip failed"]


def _check_fetched(wheels: tuple[Path, ...]) -> None:
    _check_sizes(wheels)
    for wheel in wheels:
        check_programs(wheel)


def _check_sizes(wheels: Iterable[Path]) -> None:
    """Refuse wheels that would fill the disk.

    The sizes are from the directories of the archives. They are reliable, because pip writes no more bytes than that.

    :raises ToolchainError: naming the wheel that grows most.
    """
    sizes = {wheel: (wheel.stat().st_size, _unpacked_size(wheel)) for wheel in wheels}
    packed, unpacked = (sum(size) for size in zip(*sizes.values(), strict=True)) if sizes else (0, 0)
    if unpacked > _EXTRA_SIZE + _MAX_GROWTH * packed:
        worst = max(sizes, key=lambda wheel: sizes[wheel][1] - _MAX_GROWTH * sizes[wheel][0])
        small, large = (show_size(size) for size in sizes[worst])
        raise ToolchainError(
            f"the build environment cannot be made: {worst.name} ({small}) would unpack to {large}",
            remedy="check the requirements of the project's build system, and pin another version",
        )


def _unpacked_size(wheel: Path) -> int:
    try:
        with zipfile.ZipFile(wheel) as archive:
            members = archive.infolist()
            names = sorted(member.filename for member in members)
            files = sum(max(member.file_size, _MIN_ENTRY_SIZE) for member in members)
            return files + _MIN_ENTRY_SIZE * _count_folders(names)
    except (zipfile.BadZipFile, EOFError, RuntimeError, ValueError) as error:
        raise ToolchainError(f"the build environment cannot be made: {wheel.name} is not readable: {error}") from error


def _count_folders(names: list[str]) -> int:
    """Return the number of folders that these files are in.

    :param names: sorted, so that the files of a folder are neighbours.
    """
    count = 0
    for before, name in itertools.pairwise(["", *names]):
        same = len(os.path.commonprefix((before, name)))  # noqa: RUF071  # letters; the next line rounds to folders
        known = name.rfind("/", 0, same) + 1
        count += name.count("/", known)
    return count


def _target_options(python: str, arch: str) -> tuple[str, ...]:
    """Return pip's options for the target's Python and platform, and for wheels only."""
    platforms = (f"manylinux_2_{minor}_{arch}" for minor in range(_NEWEST_GLIBC, _OLDEST_GLIBC - 1, -1))
    return (
        *("--only-binary", ":all:", "--implementation", "cp", "--python-version", python),
        *(word for platform in (*platforms, f"manylinux2014_{arch}") for word in ("--platform", platform)),
    )


def _locked_wheel(item: dict[str, dict[str, str]]) -> LockedWheel:
    info: dict[str, dict[str, dict[str, str]]] = item["download_info"]  # type: ignore[assignment]  # pip's report nests
    return LockedWheel(
        name=canonicalize_name(item["metadata"]["name"]),
        version=str(Version(item["metadata"]["version"])),
        sha256=info["archive_info"]["hashes"]["sha256"],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundWheel:
    """A wheel on an index.

    :param url: without credentials.
    :param is_yanked: True if the project has yanked it.
    """

    wheel: LockedWheel
    url: str
    is_yanked: bool


def find_wheels(wheels: tuple[LockedWheel, ...], python: str, arch: str) -> tuple[FoundWheel, ...]:
    """Look up exactly these wheels on the user's indexes with pip.

    :param python: ``major.minor``.
    :raises NoEnvironmentError: one of them is not available.
    :raises ToolchainError: pip's report is not readable.
    """
    with tempfile.TemporaryDirectory() as folder:
        lock = Path(folder, "requirements.txt")
        lock.write_text("".join(map(format_requirement, wheels)), encoding="utf-8")
        options = ("--no-deps", "--require-hashes", "--requirement", str(lock))
        completed = run_pip_report(*options, python=python, arch=arch, seconds=_LOOKUP_TIMEOUT)
    if completed.returncode:
        raise NoEnvironmentError(_failure_reason(completed.stderr))
    try:
        items = {canonicalize_name(item["metadata"]["name"]): item for item in json.loads(completed.stdout)["install"]}
        return tuple(_found_wheel(wheel, items[canonicalize_name(wheel.name)]) for wheel in wheels)
    except (ValueError, KeyError, TypeError):
        raise report_error() from None


def _found_wheel(wheel: LockedWheel, item: dict[str, dict[str, str]]) -> FoundWheel:
    url = redact(item["download_info"]["url"])
    return FoundWheel(wheel=wheel, url=url, is_yanked=bool(item.get("is_yanked")))


def _failure_reason(stderr: str) -> str:
    """Return the reason in pip's stderr. For a hash mismatch, name the file."""
    errors = _pip_errors(stderr)
    changed = [line.partition(" from ")[0].strip() for line in stderr.splitlines() if "==" in line and " from " in line]
    if any("DO NOT MATCH THE HASHES" in line for line in errors) and changed:
        return f"{changed[0]} was replaced on the index: its sha256 differs"
    return redact(errors[0])[:_MAX_REASON]


def make_cpu_environment(whole: Path, folder: Path) -> None:
    """Fill ``folder`` with the environment ``whole``, but make its torch a CPU build. Unchanged files are hard links.

    :raises ToolchainError: wheelsmith cannot convert this release of torch.
    """

    def copy(source: str, target: str) -> None:
        name = os.path.relpath(source, whole)
        if change := CPU_EDITS.get(name):
            Path(target).write_text(change(Path(source).read_text(encoding="utf-8")), encoding="utf-8")
        elif name not in CUDA_HEADERS:
            _link_or_copy(source, target)

    shutil.copytree(whole, folder, symlinks=True, copy_function=copy, dirs_exist_ok=True)
    version = folder / "torch" / "version.py"
    if not (version.is_file() and _WITHOUT_CUDA.search(version.read_text(encoding="utf-8"))):
        raise ToolchainError(
            "pip finds a CUDA build of torch that wheelsmith cannot convert to a CPU build",
            remedy="add an index with CPU builds of torch to pip's configuration, such as https://download.pytorch.org/whl/cpu",
        )


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:  # not every file system has hard links
        shutil.copy2(source, target, follow_symlinks=False)
