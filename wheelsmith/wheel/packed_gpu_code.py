"""GPU code that is packed within the files of a wheel: found while the wheel is read, and unpacked."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from wheelsmith.base.zip_archive import Archive
from wheelsmith.wheel.archive.compressions import UnseenError
from wheelsmith.wheel.archive.packed import ANY_PACKING, ZIP, Kinds, PackedAllowance, Unpacker, Watcher
from wheelsmith.wheel.gpu import GpuCodeMarks


class PackedGpuCode:
    """What is packed within the files of one wheel, and holds GPU code.

    :param size: of the wheel, in bytes.
    """

    def __init__(self, size: int) -> None:
        self.unscannable: dict[str, str] = {}
        self._size = size
        self._allowance = PackedAllowance(size)
        self._marks: dict[str, list[GpuCodeMarks]] = {}
        self._kinds: dict[str, Kinds] = {}

    @property
    def files(self) -> tuple[str, ...]:
        """The files within which there is any; files within which not all can be seen are in ``unscannable``."""
        return tuple(name for name, marks in self._marks.items() if any(mark.found for mark in marks))

    def look_into(self, name: str) -> Watcher:
        """Return who is to see a file that is read."""
        return self._looker(name, ANY_PACKING)

    def look_behind(self, name: str) -> Watcher:
        """Return who is to see an ELF file: what nvcc packs within it piece by piece is read elsewhere."""
        return self._looker(name, ZIP)

    def _looker(self, name: str, kinds: Kinds) -> Watcher:
        self._kinds[name] = kinds
        marks = self._marks.setdefault(name, [])

        def watch(_: str) -> Watcher:
            marks.append(GpuCodeMarks())
            return marks[-1]

        return self._bounded(name, watch, self._allowance)

    def unpack(self, archive: Archive, name: str, targets: Iterator[Path]) -> dict[str, Path]:
        """Write what holds GPU code within one of ``files``; return each with its name below the file's.

        :param targets: where to write, one for each.
        :raises OSError: there is no room.
        """
        paths: dict[str, Path] = {}
        marks = iter(self._marks[name])

        def watch(inner: str) -> Watcher:
            mark = next(marks, None)
            if mark is None or not mark.found:
                return GpuCodeMarks()
            # Two may have one name: then the later one is told apart.
            told = inner if inner not in paths else f"{inner} ({len(paths) + 1})"
            paths[told] = next(targets)
            paths[told].touch()
            return _Writer(paths[told])

        seen = self._bounded(name, watch, PackedAllowance(self._size))
        for piece in archive.chunks(name):
            seen.update(piece)
        return paths

    def _bounded(self, name: str, watch: Callable[[str], Watcher], allowance: PackedAllowance) -> Watcher:
        return _BoundedReader(Unpacker(name, watch, allowance, self._kinds[name]), name, self.unscannable)


class _BoundedReader:
    """Look into a file until something within it cannot be looked into; say so of the file."""

    def __init__(self, unpacker: Unpacker, name: str, unscannable: dict[str, str]) -> None:
        self._unpacker: Unpacker | None = unpacker
        self._name = name
        self._unseen = unscannable

    def update(self, piece: bytes) -> None:
        if self._unpacker is None:
            return
        try:
            self._unpacker.update(piece)
        except UnseenError as error:
            self._unseen[self._name] = error.message
            self._unpacker = None


class _Writer:
    def __init__(self, path: Path) -> None:
        self._path = path

    def update(self, piece: bytes) -> None:
        with self._path.open("ab") as file:
            file.write(piece)
