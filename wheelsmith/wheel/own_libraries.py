"""Where a wheel's libraries lie once installed, and which of them the loader finds for another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping

from wheelsmith.wheel.elf import Extension

_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})(?P<rest>/.*)?")
_SITE = "site-packages"
_PREFIX = "prefix"
_LOADER = re.compile(r"ld-linux-(x86-64|aarch64)\.so\.\d|(ld-|libc\.)musl-(x86_64|aarch64)\.so\.1")
# What Python itself is linked with on every Linux, and what glibc's own libraries need.
_EVERYWHERE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "librt.so.1"}
_DATA = {
    "platlib": _SITE,
    "purelib": _SITE,
    "data": _PREFIX,
    "scripts": f"{_PREFIX}/bin",
    "headers": f"{_PREFIX}/include",
}


def installed(path: str) -> str:
    """Return where a file of the wheel lies after installation, below ``site-packages`` or ``prefix``."""
    first, _, rest = path.partition("/")
    if first.endswith(".data") and rest:
        kind, _, inner = rest.partition("/")
        return f"{_DATA.get(kind, _SITE)}/{inner}"
    return f"{_SITE}/{path}"


def folder_of(path: str, search: str) -> str | None:
    """Return the folder that an entry of RPATH or RUNPATH names; None where it leaves what is installed.

    :param path: of the file that has the entry, in the wheel.
    """
    found = _ORIGIN.fullmatch(search)
    # The loader has words of its own for a machine's folders: $LIB, $PLATFORM.
    if not found or "$" in (found["rest"] or ""):
        return None
    place = installed(path)
    root = place.partition("/")[0]
    folder = posixpath.normpath(posixpath.dirname(place) + (found["rest"] or ""))
    return folder if folder == root or folder.startswith(f"{root}/") else None


def every_process_has(library: str) -> bool:
    """Say whether a process that runs Python has a library of this name: the loader opens no other one for it."""
    return library in _EVERYWHERE or bool(_LOADER.fullmatch(library))


class OwnLibraries:
    """The libraries of one wheel, as the loader would find them.

    :param extensions: every ELF file, by its path in the wheel.
    """

    def __init__(self, extensions: Mapping[str, Extension]) -> None:
        self._extensions = extensions
        self._places = {installed(path): path for path in extensions}
        self._names: dict[str, str] = {}
        self._folders: dict[str, list[str]] = {}
        for path, extension in sorted(extensions.items()):
            if extension.kind == "library":
                self._names.setdefault(extension.soname or posixpath.basename(path), path)
                self._names.setdefault(posixpath.basename(path), path)

    def found(self, path: str, needed: str) -> str | None:
        """Return the path of the library that the loader finds for one file's need; None where it finds none here."""
        if every_process_has(needed):
            return None
        if path not in self._folders:
            searches = (folder_of(path, search) for search in self._extensions[path].search_paths)
            self._folders[path] = [folder for folder in searches if folder is not None]
        places = (self._places.get(f"{folder}/{needed}") for folder in self._folders[path])
        return next((place for place in places if place), None)

    def anywhere(self, needed: str) -> str | None:
        """Return the path of a library that is found only once something else has loaded it."""
        return None if every_process_has(needed) else self._names.get(needed)

    def provider(self, path: str, needed: str) -> str | None:
        """Return the path of the library that a process has for one file's need, loaded before or found."""
        return self.found(path, needed) or self.anywhere(needed)
