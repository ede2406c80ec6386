"""A lock as files: wheelsmith.lock, which people can compare, and a pylock.toml for each environment (PEP 751)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageWheel, Pylock, PylockValidationError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.beneath import open_file
from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.files import atomic_write
from wheelsmith.plan.lock.lock import IndexedWheel, Lock, LockedEnvironment, LockedSource, Pin, Question

LOCK_FILE = "wheelsmith.lock"
_SHARDS = "wheelsmith.shards.json"
_FOLDER = ".d"  # of its environments
_VENDORED = ".vendor"
_MATRIX = "matrix.yaml"
_HEAD = "# Written by wheelsmith lock; keep it under version control, and do not edit it.\n"
_FORMAT = 1
_PYLOCK = Version("1.0")
_LONGEST = 1 << 20  # bytes
_MOST = 500  # environments
_MOST_DOTS = 200
_DIGEST = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_LONGEST_REASON = 300  # characters


def lock_path(matrix: Path) -> Path:
    """Return where the lock of a matrix file is: beside it."""
    name = LOCK_FILE if matrix.name == _MATRIX else f"{matrix.name}.{LOCK_FILE}"
    return matrix.with_name(name)


def vendor_path(matrix: Path) -> Path:
    """Return the folder that has what a matrix's lock names, where nobody says another."""
    return lock_path(matrix).with_suffix(_VENDORED)


def shards_path(matrix: Path) -> Path:
    """Return the file that the jobs which build a matrix share, where nobody says another."""
    name = _SHARDS if matrix.name == _MATRIX else f"{matrix.name}.{_SHARDS}"
    return matrix.with_name(name)


def is_of_a_lock(path: str) -> bool:
    """Say whether a file or folder, by its path, is a lock's, vendored, shared by jobs, or left of that: no source."""
    return any(map(_is_own_name, path.split("/")))


def _is_own_name(name: str) -> bool:
    lock, vendored = LOCK_FILE, f"wheelsmith{_VENDORED}"
    own = (lock, f"{lock}{_FOLDER}", vendored, _SHARDS)
    # What is not finished begins with a dot, and goes on after the name.
    return name.endswith(tuple(f".{each}" for each in own)) or name in own or f"{vendored}." in name


def read_lock(path: Path) -> Lock | None:
    """Return a lock; None where there is none.

    :raises MatrixError: it cannot be read.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        if data["version"] != _FORMAT or isinstance(data["version"], bool):
            raise _unreadable(path, f"this wheelsmith reads version {_FORMAT} of such files, and it has another")
        source, environments = data.get("source"), _named_once(data.get("environments", ()))
        return Lock(
            source=_source(source) if source else None,
            cells=tuple(map(str, data.get("cells", ()))),
            pins=tuple(Pin(name=str(name), digest=str(digest)) for name, digest in data.get("pins", {}).items()),
            environments=tuple(_environment(path, item) for item in environments),
        )
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError, PylockValidationError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from None


def _named_once(environments: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    if len({item["name"] for item in environments}) != len(environments) or len(environments) > _MOST:
        raise ValueError("an environment is there twice, or there are too many")
    return environments


def _source(data: Mapping[str, Any]) -> LockedSource:
    source = LockedSource.from_json({"revision": None, **data})
    if not (_DIGEST.fullmatch(source.commit) and _DIGEST.fullmatch(source.tree)):
        raise ValueError("the source has a commit or a tree that is none")
    return source


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock, and take away environments that it does not name any more.

    :raises MatrixError: where these belong is a link, which may have come with a stranger's repository.
    """
    import tomli_w

    folder = _folder(path)
    if folder.is_symlink():
        raise MatrixError("it is a link: what is locked would lie elsewhere", where=Place(file=folder.name))
    for environment in lock.environments:
        folder.mkdir(exist_ok=True)
        text = _HEAD + tomli_w.dumps(_pylock(environment).to_dict())
        atomic_write(folder / _filename(environment.name), text.encode())
    data: dict[str, Any] = {"version": _FORMAT}
    if lock.source:
        data["source"] = {name: value for name, value in lock.source.to_json().items() if value is not None}
    data["cells"] = list(lock.cells)
    data["pins"] = {pin.name: pin.digest for pin in lock.pins}
    data["environments"] = [{"name": each.name, **each.question.to_json()} for each in lock.environments]
    atomic_write(path, (_HEAD + tomli_w.dumps(data)).encode())
    named = {_filename(environment.name) for environment in lock.environments}
    for old in folder.glob("pylock.*.toml"):
        if old.name not in named:
            old.unlink(missing_ok=True)


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}{_FOLDER}")


def _filename(environment: str) -> str:
    return f"pylock.{environment}.toml"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with open_file(path) as file:
            text = file.read(_LONGEST + 1)
        _check_size(text)
        return tomllib.loads(text.decode())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from None


def _check_size(text: bytes) -> None:
    if len(text) > _LONGEST:
        raise ValueError(f"it is larger than {_LONGEST >> 20} MiB")
    # What a key of a thousand parts costs grows with their square.
    if any(line.count(b".") > _MOST_DOTS for line in text.splitlines()):
        raise ValueError("a line has more dots than any that is written here")


def _unreadable(path: Path, why: str) -> MatrixError:
    remedy = "take it from version control, or: wheelsmith lock --upgrade"
    return MatrixError(f"it cannot be read: {why[:_LONGEST_REASON]}", where=Place(file=path.name), remedy=remedy)


def _environment(path: Path, item: Mapping[str, Any]) -> LockedEnvironment:
    name = str(item["name"])
    if not name.replace("-", "").replace("_", "").isalnum():
        raise ValueError(f"{name[:80]!r} is no cell")
    data = _read(_folder(path) / _filename(name))
    if data is None:
        raise ValueError(f"{_folder(path).name}/{_filename(name)} is not there")
    question = Question.from_json({key: value for key, value in item.items() if key != "name"})
    wheels = tuple(map(_wheel, Pylock.from_dict(data).packages))
    names = [wheel.name for wheel in wheels]
    wanted = {canonicalize_name(Requirement(text).name) for text in question.requirements}
    if len(set(names)) != len(names) or not wanted <= set(names):
        raise ValueError(f"{_filename(name)} lacks a package, or has one twice")
    return LockedEnvironment(name=name, question=question, wheels=wheels)


def _pylock(environment: LockedEnvironment) -> Pylock:
    return Pylock(
        lock_version=_PYLOCK,
        requires_python=SpecifierSet(f"=={environment.question.python}.*"),
        created_by="wheelsmith",
        packages=[
            Package(
                name=canonicalize_name(wheel.name),
                version=Version(wheel.version),
                wheels=[PackageWheel(name=_name_in(wheel.url), url=wheel.url, hashes={"sha256": wheel.sha256})],
            )
            for wheel in environment.wheels
        ],
    )


def _name_in(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])


def _wheel(package: Package) -> IndexedWheel:
    (wheel,) = package.wheels or ()
    sha256 = wheel.hashes["sha256"]
    # It becomes part of what pip is told.
    if not wheel.url or not package.version or not _SHA256.fullmatch(sha256):
        raise ValueError(f"{package.name} has no version, no address or no sha256")
    return IndexedWheel(name=package.name, version=str(package.version), sha256=sha256, url=wheel.url)
