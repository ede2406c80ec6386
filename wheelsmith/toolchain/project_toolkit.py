"""The CUDA toolkit of a project: its compilers, and the libraries that the torch beside it will bring to the wheel.

torch requires exact releases of NVIDIA's packages, which hold the headers of the libraries, and the libraries under the
names that a loader asks for. So what a project is linked with is what its wheel runs with. What a machine's driver has
is there by name alone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from installer.records import InvalidRecordEntry, parse_record_file

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import LockedWheel
from wheelsmith.platforms import DRIVER_LIBRARIES
from wheelsmith.toolchain.build_tools import stand_in
from wheelsmith.toolchain.link_stub import link_stub

# Part of a complete toolkit's name: raised when the way it is laid out changes.
LAYOUT = 2
# In the folder that holds it, below this name; and beside it the environment, as inside a sandbox.
HOME = Path(sandbox_paths.CUDA).name
_ENVIRONMENT = Path(sandbox_paths.ENVIRONMENT).name
# CPU architecture → where an installed toolkit has its headers and libraries; Meson looks nowhere else.
_TARGETS = {"x86_64": "x86_64-linux", "aarch64": "sbsa-linux"}
_VERSIONED = re.compile(r"(?P<name>lib[\w.+-]+?\.so)\.[\d.]+")
_LIBRARY = re.compile(r"lib[\w.+-]+\.(?:a|so(?:\.[\d.]+)?)")


def lay_out_toolkit(
    folder: Path, toolkit: Path, headers: Iterable[Path], environment: Path, own: Iterable[LockedWheel], arch: str
) -> None:
    """Write a complete toolkit.

    :param toolkit: with the compilers; it is copied, because nvcc finds all else from where it lies itself.
    :param headers: folders with further headers below ``include``.
    :param environment: of the project, with NVIDIA's packages; it must stay where it is.
    :param own: those of its packages that the toolkit has of its own release.
    :raises ToolchainError: the environment is not as pip makes one.
    """
    home = folder / HOME
    _copy(toolkit, home)
    nvcc = home / "bin" / "nvcc"
    nvcc.rename(nvcc.with_name("nvcc.bin"))
    shutil.copy(stand_in(), nvcc)
    nvcc.chmod(0o755)
    for more in headers:
        _copy(more / "include", home / "include")
    (folder / _ENVIRONMENT).symlink_to(Path(os.path.relpath(environment, folder)))
    _add_packages(home, environment, _files_of(environment, own))
    target = home / "targets" / _TARGETS[arch]
    target.mkdir(parents=True)
    for name in ("include", "lib"):
        (target / name).symlink_to(f"../../{name}")
    stubs = home / "lib" / "stubs"
    stubs.mkdir(exist_ok=True)
    for soname, (header, pattern) in DRIVER_LIBRARIES.items():
        declared = home / "include" / header
        if declared.is_file():
            names = re.findall(pattern, declared.read_text(encoding="utf-8", errors="replace"))
            (stubs / f"{soname.partition('.so')[0]}.so").write_bytes(link_stub(soname, names, arch))


def _copy(source: Path, target: Path) -> None:
    """Copy a tree that is read-only to where more will be written."""
    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True)
    for folder, _, _ in os.walk(target):
        Path(folder).chmod(0o755)


def _add_packages(home: Path, environment: Path, known: frozenset[Path]) -> None:
    """Add the headers of NVIDIA's packages, and names for their libraries: these stay in the environment."""
    # CUDA's own folder first: of what several have, that is taken.
    roots = sorted((environment / "nvidia").glob("*/"), key=lambda path: (not path.name.startswith("cu1"), path.name))
    added = set[Path]()
    for root in roots:
        for path in _files_below(root / "include"):
            place = home / path.relative_to(root)
            if path not in known and place not in added:
                added.add(place)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.unlink(missing_ok=True)
                shutil.copyfile(path, place)
        for path in sorted((root / "lib").glob("lib*")):
            place = home / "lib" / path.name
            if _LIBRARY.fullmatch(path.name) and path not in known and place not in added:
                added.add(place)
                _name_library(place, f"../../{_ENVIRONMENT}/{path.relative_to(environment).as_posix()}")


def _name_library(place: Path, target: str) -> None:
    place.unlink(missing_ok=True)
    place.symlink_to(target)
    versioned = _VERSIONED.fullmatch(place.name)
    if versioned and not (unversioned := place.with_name(versioned["name"])).is_symlink():
        unversioned.symlink_to(place.name)


def _files_of(environment: Path, wheels: Iterable[LockedWheel]) -> frozenset[Path]:
    """Return the files of some packages of an environment."""
    found = set[Path]()
    for wheel in wheels:
        record = environment / f"{wheel.name.replace('-', '_')}-{wheel.version}.dist-info" / "RECORD"
        try:
            lines = record.read_text(encoding="utf-8").splitlines()
            found.update(environment / path for path, _, _ in parse_record_file(lines))
        except (OSError, UnicodeError, InvalidRecordEntry) as error:
            raise ToolchainError(f"nothing says which files are {wheel.name}'s: {error}") from None
    return frozenset(found)


def _files_below(folder: Path) -> Iterator[Path]:
    for root, _, names in os.walk(folder):
        yield from (path for name in sorted(names) if (path := Path(root, name)).is_file() and not path.is_symlink())
