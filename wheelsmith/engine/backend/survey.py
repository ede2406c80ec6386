"""List the compilers, Pythons and GPU toolkits of a machine or an image, with digests of their files.

This program also runs inside containers, so it uses only the standard library and must run on old Pythons.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

ARCHES = ("x86_64", "aarch64")
_PROGRAMS = ("cc1plus", "cc1", "collect2", "as", "ld")
_LIBRARIES = ("libstdc++.so.6", "libc.so.6", "libm.so.6", "libgcc.a", "crtbeginS.o", "crti.o")
_CUDA_PROGRAMS = ("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary", "nvvm/bin/cicc")
# ROCm's compilers and their libraries, which decide the bytes of an object file, and folders of files that they read.
_ROCM_PROGRAMS = ("lib/llvm/bin/clang++", "lib/llvm/bin/lld", "lib/llvm/bin/clang-offload-bundler")
_ROCM_LIBRARIES = "lib/llvm/lib/lib*.so*"
_ROCM_FOLDERS = ("include", "amdgcn", "lib/llvm/lib/clang")
_HIP_VERSION = re.compile(r"#define HIP_VERSION_(MAJOR|MINOR|PATCH) (\d+)")
_NVCC_VERSION = re.compile(r"release (\d+\.\d+), V(\S+)")
# The folder of Pythons in pypa's manylinux images.
_MANYLINUX_PYTHONS = Path("/opt/python")
_PYTHON = re.compile(r"python(3\.\d+t?)")
# Releases of CPython only: debug and pre-release builds have another ABI. Free-threaded ones are other versions.
_PYENV_VERSION = re.compile(r"(3\.\d+)\.(\d+)t?")
_UV_VERSION = re.compile(rf"cpython-(3\.\d+)\.(\d+)(?:\+freethreaded)?-linux-{platform.machine()}-gnu")


def survey() -> dict[str, Any]:
    """Return the survey as JSON data."""
    toolkits = {"cuda": _cuda(), "rocm": rocm()}
    return {
        **machine_and_pythons(),
        "toolsets": [found for arch in ARCHES if (found := toolset(arch, _path()))],
        "toolkits": {name: toolkit for name, toolkit in toolkits.items() if toolkit},
    }


def machine_and_pythons() -> dict[str, Any]:
    """Return the survey without compilers and toolkits, which take a while to hash."""
    return {
        "machine": platform.machine(),
        "python": f"{sys.version_info[0]}.{sys.version_info[1]}",
        "pythons": _pythons(),
    }


def toolset(arch: str, programs: str) -> dict[str, str] | None:
    """Return the g++ that compiles for ``arch``, or None.

    Plans contain its digest. Compilers with the same digest write the same object files, in every folder and on every
    engine. The digest covers libraries instead of headers, because both come from the same packages.

    :param programs: PATH to search for compilers.
    """
    cxx = "g++" if arch == platform.machine() else f"{arch}-linux-gnu-g++"
    program = shutil.which(cxx, path=programs)
    if program is None:
        return None
    digest = hashlib.sha256(_sha256(Path(program).resolve()).encode())
    for name in _PROGRAMS:
        digest.update(_identity(name, _run(program, f"-print-prog-name={name}", programs), programs))
    for name in _LIBRARIES:
        digest.update(_identity(name, _run(program, f"-print-file-name={name}", programs), programs))
    version = _run(program, "--version", programs).splitlines()[0]
    return {"arch": arch, "cxx": cxx, "version": version, "digest": digest.hexdigest()}


def _pythons() -> dict[str, str]:
    """Return the Pythons that can build extensions: version → program. The version is from the name; none is run.

    A Python with C headers wins over those without. Then the order is PATH, and the newest patch releases of pyenv and
    uv.
    """
    own = Path(os.path.realpath(sys.executable))
    found: dict[str, list[Path]] = {f"{sys.version_info[0]}.{sys.version_info[1]}": [own]}
    for folder in (*_path_folders(), *_managed_folders()):
        for name in _names(folder):
            match, program = _PYTHON.fullmatch(name), folder / name
            if (
                match and _is_binary(program) and not _is_second_name(program)
            ):  # no shim of pyenv, which may start nothing
                found.setdefault(match[1], []).append(Path(os.path.realpath(program)))
    first = {version: next(filter(_has_headers, programs), programs[0]) for version, programs in found.items()}
    return {version: str(first[version]) for version in sorted(first, key=_order)}


def _order(version: str) -> tuple[int, str]:
    """Return a sort key: 3.14 comes before 3.14t."""
    return int(version.rstrip("t").split(".")[1]), version


def _path_folders() -> list[Path]:
    folders = [Path(folder) for folder in _path().split(os.pathsep) if folder]
    return [*folders, *sorted(_MANYLINUX_PYTHONS.glob("cp*/bin"))]


def _managed_folders() -> list[Path]:
    """Return the ``bin`` folders of the releases that pyenv and uv installed, the newest patch releases first."""
    home = os.path.expanduser("~")  # noqa: PTH111  # Path.expanduser raises if there is no home
    data = os.environ.get("XDG_DATA_HOME") or f"{home}/.local/share"
    roots = (
        (os.environ.get("PYENV_ROOT") or f"{home}/.pyenv", "versions", _PYENV_VERSION),
        (os.environ.get("UV_PYTHON_INSTALL_DIR") or f"{data}/uv/python", "", _UV_VERSION),
    )
    found = []
    for root, below, shape in roots:
        matches = (shape.fullmatch(name) for name in _names(Path(root, below)))
        releases = sorted((int(match[2]), match[0]) for match in matches if match)
        found += [Path(root, below, name, "bin") for _, name in reversed(releases)]
    return found


def _is_second_name(program: Path) -> bool:
    """Return True for the name ``python3.14`` of a Python whose full name is ``python3.14t``."""
    prefix, name = Path(os.path.realpath(program)).parents[1], program.name
    if name.endswith("t"):
        return False
    folders = {each for each in _names(prefix / "lib") if each.startswith(name)}
    return bool(re.search(r"\+freethreaded|\dt$", prefix.name)) or folders == {f"{name}t"}


def _has_headers(program: Path) -> bool:
    header = f"include/{program.name}/Python.h"
    return os.path.isfile(program.parents[1] / header)  # noqa: PTH113  # as above


def _names(folder: Path) -> list[str]:
    """Return the names in a folder, or none if it cannot be read: a user's PATH may contain folders of root."""
    try:
        return sorted(path.name for path in folder.iterdir())
    except OSError:
        return []


def _is_binary(program: Path) -> bool:
    try:
        with program.open("rb") as file:
            return file.read(4) == b"\x7fELF"
    except OSError:
        return False


def _cuda() -> dict[str, str] | None:
    """Return the CUDA toolkit in CUDA_HOME, or in the folder of NVIDIA's packages."""
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    nvcc = home / "bin" / "nvcc"
    if not os.path.isfile(nvcc):  # noqa: PTH113  # Path.is_file raises if a folder cannot be read
        return None
    match = _NVCC_VERSION.search(_run(str(nvcc), "--version", _path()))
    if match is None:
        return None
    read = [*_CUDA_PROGRAMS, *_files_below(home, "include")]
    return {"home": str(home), "version": match[1], "release": match[2], "digest": _digest_of(home, read)}


def rocm() -> dict[str, str] | None:
    """Return the ROCm in ROCM_PATH, or in the folder of AMD's packages."""
    home = Path(os.path.realpath(os.environ.get("ROCM_PATH", "/opt/rocm")))
    header = home / "include" / "hip" / "hip_version.h"
    if not (os.path.isfile(header) and os.path.isfile(home / _ROCM_PROGRAMS[0])):  # noqa: PTH113  # as above
        return None
    version = dict(_HIP_VERSION.findall(header.read_text(encoding="utf-8")))
    if not {"MAJOR", "MINOR", "PATCH"}.issubset(version):
        return None
    release = f"{version['MAJOR']}.{version['MINOR']}"
    libraries = sorted(path.relative_to(home).as_posix() for path in home.glob(_ROCM_LIBRARIES))
    read = [*_ROCM_PROGRAMS, *libraries, *(name for folder in _ROCM_FOLDERS for name in _files_below(home, folder))]
    return {
        "home": str(home),
        "version": release,
        "release": f"{release}.{version['PATCH']}",
        "digest": _digest_of(home, read),
    }


def _files_below(home: Path, folder: str) -> list[str]:
    return [path.relative_to(home).as_posix() for path in sorted((home / folder).rglob("*")) if path.is_file()]


def _digest_of(home: Path, names: list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        digest.update(_identity(name, str(home / name), _path()))
    return digest.hexdigest()


def _identity(name: str, found: str, programs: str) -> bytes:
    # g++ prints a bare name if the program is on PATH or the file does not exist.
    path = Path(found if "/" in found else shutil.which(found, path=programs) or found)
    content = _sha256(path.resolve()) if os.path.isfile(path) else "absent"  # noqa: PTH113  # as above
    return f"{name}={content};".encode()


def _path() -> str:
    return os.environ.get("PATH", os.defpath)


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def _run(program: str, option: str, programs: str) -> str:
    answer = subprocess.run(
        [program, option],
        capture_output=True,
        text=True,
        check=False,
        env={"LC_ALL": "C", "PATH": programs},
    )
    return answer.stdout.strip()


if __name__ == "__main__":
    sys.stdout.write(json.dumps(survey()))
