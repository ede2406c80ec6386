"""Which programs pip makes of a wheel that it installs: an older pip writes them wherever their names lead."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from importlib.metadata import Distribution
from pathlib import Path

from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.sanitize import visible

_GROUPS = ("console_scripts", "gui_scripts")
_FILE = ".dist-info/entry_points.txt"
_LONGEST = 1 << 20  # bytes


class _EntryPoints(Distribution):
    """The entry points of a wheel, read as pip reads them."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read_text(self, filename: str) -> str | None:
        return self._text if filename == "entry_points.txt" else None

    def locate_file(self, path: object) -> Path:
        raise FileNotFoundError(path)


def check_programs(wheel: Path) -> None:
    """Refuse a wheel with a program whose name leads out of the folder of programs.

    :raises ToolchainError: it has one, or nobody can read which it has.
    """
    with zipfile.ZipFile(wheel) as archive:
        for member in archive.infolist():
            if not member.filename.endswith(_FILE) or member.filename.count("/") > 1:
                continue
            try:
                with archive.open(member) as content:
                    text = content.read(_LONGEST + 1)
            except (zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError):
                raise _refused(wheel, "cannot be read") from None
            _check(wheel, text)


def _check(wheel: Path, content: bytes) -> None:
    if len(content) > _LONGEST:
        raise _refused(wheel, "is larger than any")
    try:
        points = [point for point in _EntryPoints(content.decode()).entry_points if point.group in _GROUPS]
    except (ValueError, TypeError):  # of text that is no UTF-8, and of a line that names nothing
        raise _refused(wheel, "cannot be read") from None
    if named := [point.name for point in points if "/" in point.name]:
        raise _refused(wheel, f"names a program by a path: {visible(named[0][:80])}")


def _refused(wheel: Path, why: str) -> ToolchainError:
    return ToolchainError(f"the build environment cannot be made: entry_points.txt of {wheel.name} {why}")
