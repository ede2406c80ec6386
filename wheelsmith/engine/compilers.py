"""The host compilers, named by what decides the bytes of an object file."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from wheelsmith.files import sha256_file
from wheelsmith.model import Toolset

_PROGRAMS = ("cc1plus", "collect2", "as", "ld")
_LIBRARIES = ("libstdc++.so.6", "libc.so.6", "libm.so.6", "libgcc.a", "crtbeginS.o", "crti.o")


def host_toolset(arch: str) -> Toolset | None:
    """Describe the g++ that makes code for ``arch``, or give None when there is none.

    A plan names its compilers by this digest: the same digest gives the same objects, in any folder and on any
    engine, and another g++ is another plan.
    """
    cxx = "g++" if arch == platform.machine() else f"{arch}-linux-gnu-g++"
    program = shutil.which(cxx)
    if program is None:
        return None
    digest = hashlib.sha256(sha256_file(Path(program).resolve()).encode())
    for name in _PROGRAMS:
        digest.update(_identity(name, _ask(program, f"-print-prog-name={name}")))
    for name in _LIBRARIES:
        digest.update(_identity(name, _ask(program, f"-print-file-name={name}")))
    version = _ask(program, "--version").splitlines()[0]
    return Toolset(arch=arch, cxx=cxx, version=version, digest=digest.hexdigest())


def _identity(name: str, found: str) -> bytes:
    # g++ answers with a bare name when it leaves the search to PATH, or has no such file.
    path = Path(found if "/" in found else shutil.which(found) or found)
    content = sha256_file(path.resolve()) if path.is_file() else "absent"
    return f"{name}={content};".encode()


def _ask(program: str, option: str) -> str:
    answer = subprocess.run([program, option], capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    return answer.stdout.strip()
