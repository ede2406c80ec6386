"""Read from CMakeLists.txt, without running it, the cache variables that leave CUDA out of a build."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

from wheelsmith.base.json_dataclass import Record

# Quoted text, or a comment up to the end of its line.
_COMMENT = re.compile(r'("(?:[^"\\]|\\.)*")|#[^\n]*')
_CALL = re.compile(
    r'\b(set|set_property|option|cmake_dependent_option|add_subdirectory)\s*\(((?:[^()"]|"(?:[^"\\]|\\.)*")*)\)',
    re.IGNORECASE,
)
_ARGUMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^\s"]+)')
_CUDA = re.compile(r"\bcuda\b", re.IGNORECASE)
# GGML_CUDA, USE_CUDA and WITH_GPU, but not GGML_CUDA_GRAPHS or NO_CUDA.
_SWITCH = re.compile(r"(?!(?:.*_)?(?:NO|NOT|WITHOUT|DISABLE|TESTS?|STATIC)_)(?:\w+_)?(CUDA|GPU)", re.IGNORECASE)
_OFF = {"0", "off", "no", "false", "n"}
_WITHOUT_DEVICE = _OFF | {"cpu", "host", "none"}
_LONGEST = 1 << 18  # characters of a file
_MAX_FILES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class CMakeSwitch(Record):
    """A cache variable whose default leaves CUDA out of the build.

    :param default: its value without an argument, such as ``cpu`` or ``OFF``.
    :param value: the value with which the build uses CUDA.
    :param line: the line in the file.
    """

    name: str
    default: str
    value: str
    file: str
    line: int

    @property
    def argument(self) -> str:
        """The argument of cmake that sets it."""
        return f"-D{self.name}={self.value}"


def read_switches(paths: Collection[str], read: Callable[[str], bytes]) -> tuple[CMakeSwitch, ...]:
    """Return the switches in a project's CMakeLists.txt, and in those of the folders that it adds.

    :param read: path → content.
    """
    files, switches = ["CMakeLists.txt"], dict[str, CMakeSwitch]()
    for file in files:
        if file not in paths:
            continue
        calls = tuple(_calls(read(file).decode(errors="replace")[:_LONGEST]))
        for switch in _switches(file, calls):
            switches.setdefault(switch.name, switch)
        folders = (words[0] for command, words, _ in calls if command == "add_subdirectory" and words)
        here = posixpath.dirname(file)
        added = (posixpath.normpath(posixpath.join(here, name, "CMakeLists.txt")) for name in folders)
        files += [path for path in dict.fromkeys(added) if path not in files][: _MAX_FILES - len(files)]
    return tuple(switches.values())


def _calls(text: str) -> Iterator[tuple[str, list[str], int]]:
    """Yield the command, arguments and line of the calls in a file."""
    text = _COMMENT.sub(lambda match: match[1] or "", text)
    for match in _CALL.finditer(text):
        words = [quoted or plain for quoted, plain in _ARGUMENT.findall(match[2])]
        yield match[1].lower(), words, text.count("\n", 0, match.start()) + 1


def _switches(file: str, calls: tuple[tuple[str, list[str], int], ...]) -> Iterator[CMakeSwitch]:
    choices = {}  # variable → its values
    for command, words, _ in calls:
        match command, words:
            case "set_property", ["CACHE", name, "PROPERTY", "STRINGS", *values]:
                choices[name] = " ".join(values)
    for command, words, line in calls:
        match command, words:
            case "set", [name, default, "CACHE", "STRING", about, *_] if default.lower() in _WITHOUT_DEVICE:
                found = _CUDA.search(choices.get(name, about))
                value = found and found[0]
            case "set", [name, default, "CACHE", "BOOL", about, *_] if default.lower() in _OFF:
                value = _turned_on(name, about)
            case (("option" | "cmake_dependent_option"), [name, about, default, *_]) if default.lower() in _OFF:
                value = _turned_on(name, about)
            case "option", [name, about]:
                default, value = "OFF", _turned_on(name, about)
            case _:
                continue
        if value:
            yield CMakeSwitch(name=name, default=default, value=value, file=file, line=line)


def _turned_on(name: str, about: str) -> str | None:
    """Return ``ON`` for a boolean variable that adds CUDA, or None. One for GPUs may be for another vendor's."""
    found = _SWITCH.fullmatch(name)
    return "ON" if found and (found[1].upper() == "CUDA" or _CUDA.search(about)) else None
