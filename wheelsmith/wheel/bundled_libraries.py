"""Find the libraries in a wheel as the dynamic loader finds them after installation."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from itertools import takewhile

from wheelsmith.wheel.elf import Extension
from wheelsmith.wheel.install_layout import install_path

_ORIGIN = re.compile(r"\$(?:ORIGIN|\{ORIGIN\})(?P<rest>/[^$]*)?")
_LOADER = re.compile(r"ld-linux-(x86-64|aarch64)\.so\.\d|(ld-|libc\.)musl-(x86_64|aarch64)\.so\.1")
# The libraries that Python needs on every Linux, and those that glibc's own libraries need.
_ALWAYS_LOADED = {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "libutil.so.1", "librt.so.1"}


def installed_folder(path: str, search: str) -> str | None:
    """Return the installed folder of an RPATH or RUNPATH entry, or None if it is outside the environment.

    :param path: path in the wheel of the file with the entry.
    """
    found = _ORIGIN.fullmatch(search)
    if not found:
        return None
    place = install_path(path).full_path
    root = place.partition("/")[0]
    folder = posixpath.normpath(posixpath.dirname(place) + (found["rest"] or ""))
    return folder if folder == root or folder.startswith(f"{root}/") else None


def is_always_loaded(library: str) -> bool:
    """Return True if every Python process has loaded a library of this name. The loader opens no second one."""
    return library in _ALWAYS_LOADED or bool(_LOADER.fullmatch(library))


class BundledLibraries:
    """The libraries of one wheel.

    :param extensions: path in the wheel → ELF file.
    """

    def __init__(self, extensions: Mapping[str, Extension]) -> None:
        self._extensions = extensions
        self._places = {install_path(path).full_path: path for path in extensions}
        self._names: dict[str, str] = {}
        for path, extension in sorted(extensions.items()):
            if extension.kind == "library":
                self._names.setdefault(extension.soname or posixpath.basename(path), path)
                self._names.setdefault(posixpath.basename(path), path)

    def find(self, path: str, needed: str) -> str | None:
        """Return the path of the library that the loader finds for a file, or None.

        :param path: path in the wheel of the file.
        :param needed: entry of its DT_NEEDED.
        """
        if is_always_loaded(needed):
            return None
        for earlier in takewhile(needed.__ne__, self._extensions[path].needed):
            place = self._find_in_search_path(path, earlier)
            # The loader reuses a loaded library with this DT_SONAME.
            if place and self._extensions[place].soname == needed:
                return place
        return self._find_in_search_path(path, needed)

    def find_anywhere(self, needed: str) -> str | None:
        """Return the path of any library of this name. The loader finds it only if it is already loaded."""
        return None if is_always_loaded(needed) else self._names.get(needed)

    def find_provider(self, path: str, needed: str) -> str | None:
        """Return the path of the library that serves a file: found by the loader, or already loaded."""
        return self.find(path, needed) or self.find_anywhere(needed)

    def _find_in_search_path(self, path: str, needed: str) -> str | None:
        folders = self._folders[path]
        if not self._extensions[path].runpath:
            folders = [*folders, *self._inherited_folders.get(path, ())]
        return self._find_in_folders(folders, needed)

    @cached_property
    def _folders(self) -> dict[str, list[str]]:
        """Path → the folders of the file's own RUNPATH or RPATH."""
        return {
            path: [
                folder for search in extension.search_paths if (folder := installed_folder(path, search)) is not None
            ]
            for path, extension in self._extensions.items()
        }

    @cached_property
    def _inherited_folders(self) -> dict[str, list[str]]:
        """Path → the DT_RPATH folders of the files that load it, directly or indirectly (``man 8 ld.so``)."""
        found: dict[str, list[str]] = {}
        for first, extension in self._extensions.items():
            if not extension.rpath or extension.runpath:
                continue
            loaded = [first]
            for path in loaded:
                own = self._extensions[path]
                folders = self._folders[path] if own.runpath else [*self._folders[path], *self._folders[first]]
                for place in filter(None, (self._find_in_folders(folders, needed) for needed in own.needed)):
                    if place not in loaded:
                        loaded.append(place)
                        found.setdefault(place, []).extend(self._folders[first])
        return found

    def _find_in_folders(self, folders: Iterable[str], needed: str) -> str | None:
        places = (self._places.get(f"{folder}/{needed}") for folder in folders)
        return next((place for place in places if place), None)
