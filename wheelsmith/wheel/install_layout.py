"""Map the files of a wheel to their installed paths."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Scheme(StrEnum):
    """An installation folder of an environment (``sysconfig.get_paths``)."""

    LIBRARY = "site-packages"
    PROGRAMS = "bin"
    HEADERS = "include"
    DATA = "environment"


_SCHEMES = {
    "purelib": Scheme.LIBRARY,
    "platlib": Scheme.LIBRARY,
    "scripts": Scheme.PROGRAMS,
    "headers": Scheme.HEADERS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The installed path of one file.

    :param path: relative to the scheme's folder.
    """

    scheme: Scheme
    path: str

    @property
    def display_path(self) -> str:
        """Return the path for messages and declarations. Paths outside site-packages begin with the scheme."""
        return self.path if self.scheme is Scheme.LIBRARY else f"{self.scheme}/{self.path}"

    @property
    def full_path(self) -> str:
        """Return the path below ``site-packages`` or ``prefix``, which contains the other schemes."""
        folders = {Scheme.LIBRARY: "site-packages", Scheme.DATA: "prefix"}
        return f"{folders.get(self.scheme, f'prefix/{self.scheme}')}/{self.path}"


def install_path(name: str) -> Installed:
    """Return the installed path of a file.

    :param name: path of the file in the wheel.
    """
    top, _, rest = name.partition("/")
    scheme, _, path = rest.partition("/")
    if top.endswith(".data") and path:
        return Installed(scheme=_SCHEMES.get(scheme, Scheme.DATA), path=path)
    return Installed(scheme=Scheme.LIBRARY, path=name)
