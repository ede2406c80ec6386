"""Install wheels into build environments, and convert them for the CPU."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.beneath import apparent_size
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.offline import VENDOR_REMEDY, is_offline
from wheelsmith.base.units import show_size
from wheelsmith.frameworks.torch_without_cuda import CPU_EDITS, CUDA_HEADERS
from wheelsmith.model import LockedWheel
from wheelsmith.toolchain.resolve import FoundWheel, find_wheels
from wheelsmith.toolchain.uv import Uv, uv_reason

# Limit of the unpacked size: factor and extra bytes. Unpacked, torch 2.13 has twice the size of its wheel, compilers
# three times, and headers up to seven times.
_MAX_GROWTH, _EXTRA_SIZE = 8, 256 << 20
_UNKNOWN_SIZE = 1 << 30  # bytes; the size of a wheel if the index does not list it
# Part of the folder's name. Raise it when the layout of environments changes.
LAYOUT = 3
# The first lines of a script that uv writes, for a short and for a long path of the interpreter.
_SHEBANG = re.compile(rb"#!(?:/bin/sh\n'''exec' [^\n]*\n' '''|[^\n]*python[^\n]*)\n")
_MAX_SHEBANG = 1 << 13  # bytes
_WITHOUT_CUDA = re.compile(r"^cuda\b.*= None$", re.MULTILINE)


def locate_wheels(wheels: Iterable[LockedWheel], uv: Uv) -> dict[LockedWheel, FoundWheel]:
    """Find exactly these wheels in the vendored folder, or else on the user's indexes.

    :raises ToolchainError: a wheel is not available.
    """
    # Without a network client, a plan starts sooner.
    from wheelsmith.toolchain.downloads import find_vendored_wheel

    found, missing = {}, []
    for wheel in wheels:
        if path := find_vendored_wheel(wheel):
            found[wheel] = FoundWheel(wheel=wheel, address=path.as_uri(), size=path.stat().st_size)
        else:
            missing.append(wheel)
    if missing and is_offline():
        raise ToolchainError(
            f"the build environment cannot be made: {missing[0].name} {missing[0].version} "
            f"(sha256 {missing[0].sha256[:12]}…) is not in the vendored folder, and wheelsmith is offline",
            remedy=VENDOR_REMEDY,
        )
    return found | {each.wheel: each for each in (find_wheels(missing, uv) if missing else ())}


def install_wheel(found: FoundWheel, uv: Uv, folder: Path) -> None:
    """Unpack a wheel into an empty folder and write its scripts. None of its code is run.

    :raises ToolchainError: uv failed, the sha256 differs, or the unpacked wheel is suspiciously large.
    """
    limit = _EXTRA_SIZE + _MAX_GROWTH * (found.size or _UNKNOWN_SIZE)
    requirement = f"{found.wheel.name} @ {found.address} --hash=sha256:{found.wheel.sha256}"
    # Use the same file system as the folder, so that uv can link the files.
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".uv-") as scratch:

        def check_size() -> None:
            if apparent_size(Path(scratch), limit) > limit:
                raise _too_large(found, limit)

        completed = replace(uv, cache=Path(scratch)).install(requirement, folder, check_size)
        check_size()
    if completed.returncode:
        raise ToolchainError(f"the build environment cannot be made: {uv_reason(completed.stderr)}")


def _too_large(found: FoundWheel, limit: int) -> ToolchainError:
    name = f"{found.wheel.name} {found.wheel.version}"
    packed = f" ({show_size(found.size)})" if found.size else ""
    return ToolchainError(
        f"the build environment cannot be made: {name}{packed} unpacks to more than {show_size(limit)}",
        remedy="check the requirements of the project's build system, and pin another version",
    )


def link_wheels(unpacked: Iterable[Path], folder: Path, python: str) -> None:
    """Fill a folder with the files of unpacked wheels as hard links. Scripts are copied and use the Python on PATH.

    :param unpacked: folders from ``install_wheel``. If several have the same file, the first one's is used.
    """
    for source in unpacked:
        for parent, _, names in os.walk(source):
            place = folder / os.path.relpath(parent, source)
            place.mkdir(parents=True, exist_ok=True)
            for name in names:
                _link_or_copy(os.path.join(parent, name), str(place / name))  # noqa: PTH118  # a path of os.walk
    for script in (folder / "bin").glob("*"):
        if script.is_file():
            _replace_interpreter(script, python)


def _replace_interpreter(script: Path, python: str) -> None:
    """Make a script use the Python on PATH. uv writes the path of wheelsmith's own Python, which no sandbox has."""
    with script.open("rb") as file:
        shebang = _SHEBANG.match(file.read(_MAX_SHEBANG))
    if shebang:
        content = script.read_bytes()[shebang.end() :]
        script.unlink()  # it is a link to the unpacked wheel's file
        script.write_bytes(f"#!/usr/bin/env python{python}\n".encode() + content)
        script.chmod(0o755)


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
            "the indexes have a CUDA build of torch that wheelsmith cannot convert to a CPU build",
            remedy="add an index with CPU builds of torch to pip's configuration, such as https://download.pytorch.org/whl/cpu",
        )


def _link_or_copy(source: str, target: str) -> None:
    """Link a file unless the target exists."""
    with suppress(FileExistsError):
        try:
            os.link(source, target, follow_symlinks=False)
        except FileExistsError:
            raise
        except OSError:  # not every file system has hard links
            shutil.copy2(source, target, follow_symlinks=False)
