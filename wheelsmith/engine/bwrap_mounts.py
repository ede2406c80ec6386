"""What bubblewrap is told to show of this machine: compilers and Pythons, and nothing that a plan does not name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from wheelsmith.base.files import read_facts
from wheelsmith.base.json_dataclass import Record

_USR = Path("/usr")
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule(Record):
    """A file or folder, as a pattern, and why it is shown or hidden."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView(Record):
    """What is shown, and what of that is hidden again.

    :param development: what is hidden besides where compilers are brought along.
    :param python: below where a Python is installed outside of ``/usr``; ``{version}`` stands for ``3.11``.
    :param python_hidden: likewise.
    """

    source: str
    date: str
    shown: tuple[PathRule, ...]
    hidden: tuple[PathRule, ...]
    development: tuple[PathRule, ...]
    python: tuple[PathRule, ...]
    python_hidden: tuple[PathRule, ...]


@cache
def host_view() -> HostView:
    """Return what sandboxes without image see of this machine."""
    return HostView.from_json(read_facts(__package__, "host_view.json"))


@dataclass(frozen=True, slots=True)
class InstalledPython:
    """Where a Python of this machine is: ``prefix``/bin/python``version``, without links in ``prefix``."""

    prefix: str
    version: str


@cache
def host_mounts(pythons: tuple[InstalledPython, ...], more_hidden: tuple[PathRule, ...] = ()) -> tuple[str, ...]:
    """Return bubblewrap's options for what is seen of this machine; it is looked at once a process.

    :param more_hidden: what is hidden besides, but for a Python's own.
    """
    known = host_view()
    words = [word for sight in known.shown for word in ("--ro-bind-try", sight.path, sight.path)]
    for name in _MERGED:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    words += ["--proc", "/proc"]
    hidden = _targets((*known.hidden, *more_hidden), Path("/"), [*(sight.path for sight in known.shown), "/proc"])
    words += [word for path in hidden for word in _hide(path)]
    for python in pythons:
        # After what hides /usr/local, for a Python may be there.
        words += _show(python, hidden)
        found = _targets(known.python_hidden, Path(python.prefix), [python.prefix])
        own = [path for path in found if path not in hidden]
        hidden += own
        words += [word for path in own for word in _hide(path)]
    # Where wheelsmith is root, the build's user owns /proc/sys outside too, and needs no capability to write there:
    # kernel.core_pattern names a program that the host runs as root.
    folders = [path for path in hidden if Path(path).is_dir()]
    return (*words, *(word for path in [*folders, "/proc"] for word in ("--remount-ro", path)))


def _show(python: InstalledPython, hidden: list[str]) -> list[str]:
    prefix = Path(python.prefix)
    patterns = [sight.path.format(version=python.version) for sight in host_view().python]
    if (prefix / "conda-meta").is_dir():
        # The libraries of conda's Python are files among those of every other package.
        patterns.append("lib")
    found = [path for pattern in patterns for path in sorted(prefix.glob(pattern))]
    if prefix.is_relative_to(_USR) and not _is_below(prefix, hidden):
        return _show_again(path for path in found if _is_below(path, hidden))
    words = _show_again(found)
    for name in ("python3", "python"):
        words += ["--symlink", f"python{python.version}", f"{python.prefix}/bin/{name}"]
    return words


def _show_again(paths: Iterable[Path]) -> list[str]:
    return [word for path in paths for word in ("--ro-bind", str(path), str(path))]


def _is_below(path: Path, folders: list[str]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def _targets(sights: Iterable[PathRule], folder: Path, shown: list[str]) -> list[str]:
    """Return what there is of it in shown folders, by the path that every link to it ends at."""
    patterns = (sight.path.removeprefix("/") for sight in sights)
    found = (path.resolve() for pattern in patterns for path in sorted(folder.glob(pattern)))
    seen = (path for path in found if path.exists() and any(path.is_relative_to(each) for each in shown))
    return list(dict.fromkeys(map(str, seen)))


def _hide(path: str) -> tuple[str, ...]:
    if Path(path).is_dir():
        return ("--tmpfs", path)
    # Without devices on the mount nobody can open it, and for Python it is no file.
    return ("--ro-bind", "/dev/null", path)
