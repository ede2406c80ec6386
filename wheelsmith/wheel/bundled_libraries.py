"""Where a wheel's libraries lie once installed, and which of them the loader finds for another."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cached_property

from wheelsmith.wheel.elf import Extension

_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})(?P<rest>/.*)?")
_SITE = "site-packages"
_PREFIX = "prefix"
_LOADER = re.compile(r"ld-linux-(x86-64|aarch64)\.so\.\d|(ld-|libc\.)musl-(x86_64|aarch64)\.so\.1")
# What Python itself is linked with on every Linux, and what glibc's own libraries need.
_EVERYWHERE = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "librt.so.1"}
_MOST_BEGINNINGS = 200  # files that are followed
_MOST_INHERITED = 1000  # folders; the loader has no bound
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
        self._found: dict[tuple[str, str], str | None] = {}
        self._sonames: dict[str, dict[str, str]] = {}
        for path, extension in sorted(extensions.items()):
            if extension.kind == "library":
                self._names.setdefault(extension.soname or posixpath.basename(path), path)
                self._names.setdefault(posixpath.basename(path), path)

    def found(self, path: str, needed: str) -> str | None:
        """Return the path of the library that the loader finds for one file's need; None where it finds none here."""
        if every_process_has(needed):
            return None
        if (path, needed) not in self._found:
            self._found[path, needed] = self._searched(path, needed)
        return self._found[path, needed]

    def _searched(self, path: str, needed: str) -> str | None:
        """Look in a file's own folders, and then in those that it inherits.

        A file without DT_RUNPATH has the DT_RPATH of what loaded it, too, and that of what loaded that (`man 8 ld.so`).
        Whoever of those that need it comes first loads it: each of them has to lead there.
        """
        if place := self._loaded_as(path, needed):
            return place
        if place := self._in_folders(self._search_folders(path), needed):
            return place
        if self._extensions[path].runpath or not self._with_rpath:
            return None
        places = [self._in_folders(folders, needed) for folders in self._inherited.get(path, ())]
        return places[0] if places and all(places) else None

    def _loaded_as(self, path: str, needed: str) -> str | None:
        """Return the library that a file needs before another one whose name is its DT_SONAME: that is not opened."""
        if path not in self._sonames:
            places: dict[str, str] = {}
            for library in self._extensions[path].needed:
                place = self._in_folders(self._search_folders(path), library)
                if place and (soname := self._extensions[place].soname) and soname != library:
                    places.setdefault(soname, place)
                # What was needed before was opened under its own name.
                places.setdefault(library, "")
            self._sonames[path] = places
        return self._sonames[path].get(needed) or None

    def _in_folders(self, folders: Iterable[str], needed: str) -> str | None:
        places = (self._places.get(f"{folder}/{needed}") for folder in folders)
        return next((place for place in places if place), None)

    def _search_folders(self, path: str) -> list[str]:
        if path not in self._folders:
            searches = (folder_of(path, search) for search in self._extensions[path].search_paths)
            self._folders[path] = [folder for folder in searches if folder is not None]
        return self._folders[path]

    @cached_property
    def _with_rpath(self) -> bool:
        """Say whether there is any DT_RPATH that the loader heeds: linkers of today write none."""
        return any(extension.rpath and not extension.runpath for extension in self._extensions.values())

    @cached_property
    def _inherited(self) -> dict[str, list[tuple[str, ...]]]:
        """Path → the folders that it inherits, once for each file that a process may begin with."""
        needed = {library for extension in self._extensions.values() for library in extension.needed}
        first = [
            path
            for path, extension in self._extensions.items()
            if not {posixpath.basename(path), extension.soname} & needed
        ]
        found: dict[str, list[tuple[str, ...]]] = {}
        for path in first[:_MOST_BEGINNINGS]:
            for library, folders in self._loaded_after(path).items():
                found.setdefault(library, []).append(folders)
        return found

    def _loaded_after(self, path: str) -> dict[str, tuple[str, ...]]:
        """Return what is loaded when one file is, each with the folders that it inherits, nearest loader first."""
        loaded: dict[str, tuple[str, ...]] = {path: ()}
        waiting = [path]
        for one in waiting:
            own, extension = tuple(self._search_folders(one)), self._extensions[one]
            handed_on = loaded[one] if extension.runpath else (*own, *loaded[one])[:_MOST_INHERITED]
            for needed in extension.needed:
                place = self._in_folders(own if extension.runpath else handed_on, needed)
                if place and place not in loaded:
                    loaded[place] = handed_on
                    waiting.append(place)
        return loaded

    def anywhere(self, needed: str) -> str | None:
        """Return the path of a library that is found only once something else has loaded it."""
        return None if every_process_has(needed) else self._names.get(needed)

    def provider(self, path: str, needed: str) -> str | None:
        """Return the path of the library that a process has for one file's need, loaded before or found."""
        return self.found(path, needed) or self.anywhere(needed)
