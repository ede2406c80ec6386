"""Where a process stands in the kernel's control groups, of either version.

The kernel says what is mounted where in ``/proc/self/mountinfo`` and where the process is in ``/proc/self/cgroup``
(cgroups(7)). In a container the mount begins at the container's own group, which need not be named there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

_PROC = Path("/proc/self")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPath:
    """The groups that a process is in, as far as they can be seen.

    :param version: 1 or 2.
    :param folders: the process's own group first, then whatever holds that one, up to the mount.
    """

    version: int
    folders: tuple[Path, ...]


def group_path(controller: str, proc: Path = _PROC, *, of: Path | None = None) -> GroupPath | None:
    """Return the groups that limit a resource for a process; None where none is mounted.

    :param controller: such as ``memory`` or ``cpu``.
    :param proc: our own folder in /proc: what is mounted where is as we see it.
    :param of: the process's folder in /proc, if it is another.
    """
    try:
        mounts = _mounts((proc / "mountinfo").read_text(encoding="utf-8", errors="surrogateescape"))
        own = _own(((of or proc) / "cgroup").read_text(encoding="utf-8", errors="surrogateescape"))
    except OSError:
        return None
    for wanted, version in ((controller, 1), ("", 2)):
        if wanted in mounts and wanted in own:
            root, point = mounts[wanted]
            return GroupPath(version=version, folders=_upwards(point, _below(root, own[wanted])))
    return None


def _mounts(text: str) -> dict[str, tuple[str, Path]]:
    """Return controller → the group that its mount begins at, and where that is; the second version is ``""``."""
    found: dict[str, tuple[str, Path]] = {}
    for line in text.splitlines():
        fields, _, rest = line.partition(" - ")
        words, kind = fields.split(), rest.split()
        if len(words) < 5 or len(kind) < 3 or kind[0] not in {"cgroup", "cgroup2"}:  # noqa: PLR2004  # as the manual counts
            continue
        place = (_unescaped(words[3]), Path(_unescaped(words[4])))
        for name in kind[2].split(",") if kind[0] == "cgroup" else [""]:
            found.setdefault(name, place)
    return found


def _own(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        found.update(dict.fromkeys(controllers.split(","), path))
    return found


def _below(root: str, path: str) -> str:
    """Return a group's path beneath a mount's; a group outside of it shows as the mount itself."""
    if root == "/":
        return path
    return path.removeprefix(root) if path == root or path.startswith(f"{root}/") else "/"


def _upwards(point: Path, path: str) -> tuple[Path, ...]:
    parts = [part for part in path.split("/") if part and part != ".."]
    folders = [point.joinpath(*parts[:count]) for count in range(len(parts), -1, -1)]
    return tuple(folder for folder in folders if folder.is_dir())


def _unescaped(word: str) -> str:
    """Undo mountinfo's octal escapes of blanks and backslashes."""
    for code, character in (("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")):
        word = word.replace(code, character)
    return word
