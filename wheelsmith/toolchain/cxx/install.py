"""Unpack Debian's packages of compilers and a C library into one relocatable folder.

GCC finds its own programs, headers and libraries relative to itself. It finds those of the C library below
``--sysroot``, which the scripts in ``bin`` pass. https://gcc.gnu.org/onlinedocs/gcc/Directory-Options.html
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from wheelsmith.base.errors import ToolchainError
from wheelsmith.platforms import CxxToolchain, HostCompilers
from wheelsmith.toolchain.cxx.libraries import NONSHARED, limit_versions, write_newer_archive
from wheelsmith.toolchain.cxx.wrappers import RUNTIME, wrap_program, write_compiler_wrapper, write_wrapper
from wheelsmith.toolchain.debian_package import package_members, write_member

# The programs and libraries that decide the bytes of an object.
_PROGRAM_GLOBS = (
    "bin/*g++",
    "bin/*gcc",
    "usr/bin/*",
    "usr/lib/gcc*/*/*/cc1*",
    "usr/lib/gcc*/*/*/collect2*",
    "runtime/lib/*/l*",
)
# Files that compiling and linking do not need.
_UNUSED = re.compile(
    r"(etc|sbin|usr/sbin|usr/share|var|usr/lib/(compat-ld|gold-ld)|usr/lib/[^/]+/(gconv|audit|gprofng|bfd-plugins))/.*"
    r"|usr/bin/(?!.*-((gcc|g\+\+|cpp)-\d+|addr2line|ar|as|c\+\+filt|ld\.bfd|nm|objcopy|objdump|ranlib|readelf|size|strip)$).*"
)
_COMPILERS = {"gcc": "gcc", "cc": "gcc", "g++": "g++", "c++": "g++", "cpp": "cpp"}
_RENAMED_BINUTILS = {"ld": "ld.bfd"}  # name → program, where they differ
_BINUTILS = ("addr2line", "ar", "as", "c++filt", "ld", "nm", "objcopy", "objdump", "ranlib", "readelf", "size", "strip")
# Macros in libstdc++'s headers for functions that an older C library lacks.
_NEWER_MACROS = re.compile(
    rb"^#define (_GLIBCXX_USE_(?:PTHREAD_(?:COND_CLOCKWAIT|MUTEX_CLOCKLOCK|RWLOCK_CLOCKLOCK)|UCHAR_C8RTOMB_MBRTOC8_\w+)"
    rb"|_GLIBCXX_HAVE_ARC4RANDOM) 1$",
    re.MULTILINE,
)
# The libraries of the compilers' packages that extensions are linked with.
_RUNTIME_LIBRARIES = ("libstdc++.so", "libgcc_s.so", "libgomp.so", "libatomic.so")


def find_programs(folder: Path) -> tuple[str, ...]:
    """Return the programs and libraries that decide the bytes of an object, as paths below the compilers' folder."""
    found = (path for place in _PROGRAM_GLOBS for path in folder.glob(place) if not path.is_symlink())
    return tuple(sorted(str(path.relative_to(folder)) for path in found))


def install_cxx(toolchain: CxxToolchain, packages: Mapping[str, Path], folder: Path) -> None:
    """Write ``bin`` with compilers, and the files that they need.

    :param packages: file name → path of each verified package of the toolchain.
    :raises ToolchainError: a package cannot be unpacked, or one of its programs failed.
    """
    for pin in toolchain.compilers.packages:
        # Keep the compilers' own libraries apart from the older C library that extensions are compiled with.
        _unpack(packages[pin.filename], folder, {"lib": "usr/lib"})
    for pin in toolchain.policy.packages[toolchain.compilers.arch]:
        _unpack(packages[pin.filename], folder, {})
    _unpack(packages[toolchain.compilers.runtime.filename], folder / RUNTIME, {})
    _fix_links(folder)
    _wrap_programs(folder)
    _write_scripts(folder, toolchain.compilers)
    _limit_libraries(folder, toolchain)
    _limit_headers(folder)


def _unpack(package: Path, folder: Path, renamed: dict[str, str]) -> None:
    def place(name: str) -> Path:
        first, *rest = _check_relative(package, name).parts or (".",)
        return folder.joinpath(renamed.get(first, first), *rest)

    for member, content in package_members(package):
        if member.isdir() or _UNUSED.fullmatch(PurePosixPath(member.name).as_posix()):
            continue
        path = place(member.name)
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.issym():
            path.symlink_to(member.linkname)
        elif member.islnk():
            path.hardlink_to(place(member.linkname))
        else:
            write_member(member, content, path)


def _check_relative(package: Path, name: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ToolchainError(f"{package.name} would write outside its folder: {name!r}")
    return path


def _fix_links(folder: Path) -> None:
    """Make absolute links relative, so that they stay inside of the folder. Remove dangling links."""
    links = [path for path in folder.rglob("*") if path.is_symlink()]
    for path in links:
        target = path.readlink()
        if target.is_absolute():
            path.unlink()
            path.symlink_to(os.path.relpath(folder / target.relative_to("/"), path.parent))
    for path in [path for path in links if not path.exists()]:
        path.unlink()


def _wrap_programs(folder: Path) -> None:
    for program in (*folder.glob("usr/bin/*"), *folder.glob("usr/lib/gcc*/*/*/*")):
        if program.is_file() and not program.is_symlink() and _is_program(program):
            wrap_program(program, folder)


def _is_program(path: Path) -> bool:
    with path.open("rb") as file:
        return bool(path.stat().st_mode & 0o111) and file.read(4) == b"\x7fELF" and ".so" not in path.name


def _write_scripts(folder: Path, compilers: HostCompilers) -> None:
    triplet = compilers.triplet
    # GCC looks for binutils in this folder before PATH.
    search_folder = folder / "usr" / triplet / "bin"
    programs, real = folder / "bin", folder / "usr" / "bin"
    for created in (programs, search_folder):
        created.mkdir(parents=True, exist_ok=True)
    for name, program in _COMPILERS.items():
        program_path = real / f"{triplet}-{program}-{compilers.major}"
        write_compiler_wrapper(programs / f"{triplet}-{name}", program_path, folder, compilers)
    for name in _BINUTILS:
        program_path = real / f"{triplet}-{_RENAMED_BINUTILS.get(name, name)}"
        for path in (programs / f"{triplet}-{name}", search_folder / name):
            path.unlink(missing_ok=True)
            write_wrapper(path, program_path, folder)
    if compilers.machine == compilers.arch:
        for name in (*_COMPILERS, *_BINUTILS):
            (programs / name).symlink_to(f"{triplet}-{name}")


def _limit_libraries(folder: Path, toolchain: CxxToolchain) -> None:
    """Hide newer symbol versions from the linker, and let it link newer parts of libstdc++ statically."""
    compilers, newest = toolchain.compilers, toolchain.policy.newest
    gcc_folder = next(folder.glob(f"usr/lib/gcc*/{compilers.triplet}/{compilers.major}"))
    library = gcc_folder / "libstdc++.so"
    shared = library.resolve()
    runtime_libraries = (path for path in shared.parent.glob("lib*.so*") if path.name.startswith(_RUNTIME_LIBRARIES))
    symbols = {}
    for path in sorted((*(folder / "lib" / compilers.triplet).glob("*.so*"), *runtime_libraries)):
        if not path.is_symlink():
            symbols[path] = limit_versions(path, newest)
    programs = folder / "bin" / f"{compilers.triplet}-"
    source, target = gcc_folder / "libstdc++_pic.a", gcc_folder / f"lib{NONSHARED}.a"
    write_newer_archive(source, target, *symbols[shared], str(programs))
    library.unlink()
    library.write_text(f"INPUT ( -l:{shared.name.partition('.so')[0]}.so.6 -l{NONSHARED} )\n")


def _limit_headers(folder: Path) -> None:
    for header in folder.glob("usr/**/c++config.h"):
        text = header.read_bytes()
        header.unlink()
        header.write_bytes(_NEWER_MACROS.sub(rb"/* #undef \1 */", text))
