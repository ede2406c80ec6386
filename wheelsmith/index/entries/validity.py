"""Refuse a state whose fields are not what they should be: names in it become paths, and its words become pages.

A state may have been written by anybody who can write to the folder that it came from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from urllib.parse import urlsplit

from packaging.requirements import Requirement
from packaging.version import Version

from wheelsmith.base.redact import redact
from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.about import About, check_about
from wheelsmith.index.entries.entry import (
    CellWithoutWheel,
    IndexEntry,
    PlannedVersion,
    ProjectState,
    Removed,
    WheelTest,
)
from wheelsmith.index.entries.side_files.known import side_files
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA
from wheelsmith.model import Cell, read_wheel_name
from wheelsmith.platforms import parse_capability, platforms
from wheelsmith.wheel.variant_format import dump_variants, variant_mistakes

_HASH = re.compile(r"[0-9a-f]{64}")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.!+-]{0,250}\.whl")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?Z", re.ASCII)
_RELEASE = re.compile(r"\d{1,4}\.\d{1,4}", re.ASCII)
_CUDA = re.compile(r"\d{1,3}\.\d{1,2}", re.ASCII)
_WORD = re.compile(r"[a-z0-9][a-z0-9_]{0,30}")
_CELL = re.compile(r"[a-z0-9][a-z0-9_.-]{0,120}")
_ADDRESS = re.compile(r"https?://[A-Za-z0-9.:\[\]-]{1,260}(/[A-Za-z0-9._~%+-]+)*/?", re.ASCII)
_LARGEST = 1 << 50  # bytes
_MOST_TESTS = 1000  # of a wheel
_MOST_CELLS = 10_000  # of a version
_LONGEST = 1 << 20  # characters of why a cell has no wheel, and of its log


def check_state(state: ProjectState, project: str) -> None:
    """Refuse a state that is not that project's, or that has a field which nothing of ours wrote.

    :param project: the normalized name under which the state lies.
    :raises ValueError: it says which field is wrong.
    """
    if state.project != project:
        raise ValueError(f"it is the state of {_quoted(state.project)}, not of {project}")
    if state.address is not None and check_address(state.address) != state.address:
        raise ValueError(f"{_quoted(state.address)} has no slash at its end")
    names: set[str] = set()
    for entry in state.entries:
        check_entry(entry, project)
        if entry.filename in names:
            raise ValueError(f"{entry.filename} is listed twice")
        names.add(entry.filename)
    for answer in state.answers:
        _check_answer(answer)
    for removed in state.removed:
        _check_removed(removed, project)
        if removed.filename in names:
            raise ValueError(f"{removed.filename} is listed twice")
        names.add(removed.filename)
    versions = [Version(planned.version) for planned in state.planned]
    if len(set(versions)) < len(versions):
        raise ValueError("a version is planned twice")
    for planned in state.planned:
        _check_planned(planned)


def check_address(text: str) -> str:
    """Return the address of an index with a slash at its end.

    :raises ValueError: it is none that a page may name: https, or this machine's own.
    """
    if not _is_address(text):
        shown = _quoted(redact(text))
        raise ValueError(f"{shown} is not the address of an index: https://, a host, and perhaps a folder")
    return f"{text.rstrip('/')}/"


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    own = parts.scheme == "http" and parts.hostname in {"127.0.0.1", "localhost", "::1"}
    return bool(_ADDRESS.fullmatch(text) and (parts.scheme == "https" or own) and parts.hostname and not parts.username)


def check_entry(entry: IndexEntry, project: str) -> None:
    """Refuse a wheel whose fields could not stand in a path, on a page or in a command.

    :raises ValueError: it says which field is wrong.
    """
    _check_file(entry.filename, project, (entry.sha256, entry.metadata_sha256, *entry.side_files.values()))
    # The hash of METADATA has a field of its own.
    if unknown := sorted(entry.side_files.keys() - (side_files().keys() - {CORE_METADATA})):
        raise ValueError(f"this wheelsmith knows no {_quoted(unknown[0])} beside a wheel ({entry.filename})")
    if isinstance(entry.size, bool) or not 0 <= entry.size < _LARGEST:
        raise ValueError(f"{entry.filename} cannot have a size of {str(entry.size)[:40]}")
    if entry.upload_time and not _TIME.fullmatch(entry.upload_time):
        raise ValueError(f"{_quoted(entry.upload_time)} is not a time in UTC ({entry.filename})")
    _check_cells(entry.cells)
    check_tests(entry.filename, entry.tests)
    _check_words(entry, read_wheel_name(entry.filename).label)


def check_tests(filename: str, tests: Sequence[WheelTest]) -> None:
    """Refuse tests of a wheel that are too many, or whose words could not stand on a page.

    :raises ValueError: it says which.
    """
    if len(tests) > _MOST_TESTS:
        raise ValueError(f"{filename} has more than {_MOST_TESTS} tests")
    for test in tests:
        check_test(test)


def check_test(test: WheelTest) -> None:
    """Refuse a test whose words could not stand on a page.

    :raises ValueError: it says which.
    """
    links = (("details", test.details),) if test.details is not None else ()
    check_about(About(summary=test.where, links=links))
    if not test.where:
        raise ValueError("a test says where it ran")
    if test.cell is not None:
        _check_cell_id(test.cell)


def _check_planned(planned: PlannedVersion) -> None:
    if str(Version(planned.version)) != planned.version or Version(planned.version).local:
        raise ValueError(f"{_quoted(planned.version)} is no version of a kernel")
    for names in (planned.cells, planned.excluded, planned.tried):
        if len(names) > _MOST_CELLS:
            raise ValueError(f"version {planned.version} has more than {_MOST_CELLS} cells")
        for name in names:
            _check_cell_id(name)


def _check_cell_id(name: str) -> None:
    if not _CELL.fullmatch(name):
        raise ValueError(f"{_quoted(name)} is not the id of a cell")


def _check_removed(removed: Removed, project: str) -> None:
    _check_file(removed.filename, project, (removed.sha256,))


def _check_file(filename: str, project: str, hashes: Iterable[str]) -> None:
    if not _FILE.fullmatch(filename):
        raise ValueError(f"{_quoted(filename)} is not the plain file name of a wheel")
    name = read_wheel_name(filename)
    if name.project != project:
        raise ValueError(f"{filename} is a wheel of {name.project}, not of {project}")
    for text in hashes:
        if not _HASH.fullmatch(text):
            raise ValueError(f"{_quoted(text)} is not the sha256 of anything ({filename})")


def check_root(name: str) -> str:
    """Return the name of a root.

    :raises ValueError: it could not stand in a path.
    """
    if not _WORD.fullmatch(name):
        raise ValueError(f"{_quoted(name)} is not the name of a root")
    return name


def check_release(text: str) -> str:
    """Return a release such as ``2.11``.

    :raises ValueError: it is none.
    """
    if not _RELEASE.fullmatch(text):
        raise ValueError(f"{_quoted(text)} is not a release such as 2.11")
    return text


def _check_words(entry: IndexEntry, label: str | None) -> None:
    """Refuse what choosing programs could not read."""
    for text in entry.requires:
        Requirement(text)
    for text in entry.gpu_archs:
        parse_capability(text)
    if (entry.variant.label if entry.variant else None) != label:
        raise ValueError(f"{entry.filename} is listed with the variant {entry.variant and entry.variant.label!r}")
    if entry.variant and (wrong := variant_mistakes(json.loads(dump_variants([entry.variant])))):
        raise ValueError(f"{entry.filename}: {wrong[0]}")
    if entry.about is not None:
        check_about(entry.about)
    if entry.variant_of is not None and not _FILE.fullmatch(entry.variant_of):
        raise ValueError(f"{_quoted(entry.variant_of)} is not the plain file name of a wheel")
    if entry.variant_of is not None and label is None:
        raise ValueError(f"{entry.filename} is no variant wheel, and cannot be one of {_quoted(entry.variant_of)}")


def _check_answer(answer: CellWithoutWheel) -> None:
    if len(answer.reason) + sum(map(len, answer.tail)) > _LONGEST:
        raise ValueError(f"what is said of {_quoted(answer.cell.id)} has more than {_LONGEST} characters")
    _check_cells([answer.cell])
    Version(answer.version)


def _check_cells(cells: Iterable[Cell]) -> None:
    for cell in cells:
        check_release(cell.release)
        for name, known in ((cell.framework, frameworks()), (cell.platform, platforms())):
            if name not in known:
                raise ValueError(f"{_quoted(name)} is no framework, or no compute platform, that is known")
        if cell.python is not None:
            check_release(cell.python)
        if cell.toolkit is not None and not _CUDA.fullmatch(cell.toolkit):
            raise ValueError(f"{_quoted(cell.toolkit)} is not a CUDA such as 13.0")
        for word in (cell.arch, cell.os):
            if not _WORD.fullmatch(word):
                raise ValueError(f"{_quoted(word)} is no architecture or system")


def _quoted(text: str) -> str:
    return repr(text[:100])
