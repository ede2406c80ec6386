"""A lock as files: wheelsmith.lock, which people can compare, and a pylock.toml for each environment (PEP 751)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageWheel, Pylock, PylockValidationError
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.files import atomic_write
from wheelsmith.plan.lock.lock import IndexedWheel, Lock, LockedEnvironment, LockedSource, Pin, Question

LOCK_FILE = "wheelsmith.lock"
_FOLDER = ".d"  # of its environments
_MATRIX = "matrix.yaml"
_HEAD = "# Written by wheelsmith lock; keep it under version control, and do not edit it.\n"
_FORMAT = 1
_PYLOCK = Version("1.0")
_LONGEST = 16 << 20  # bytes
_LONGEST_REASON = 300  # characters


def lock_path(matrix: Path) -> Path:
    """Return where the lock of a matrix file is: beside it."""
    name = LOCK_FILE if matrix.name == _MATRIX else f"{matrix.stem}.{LOCK_FILE}"
    return matrix.with_name(name)


def is_of_a_lock(path: str) -> bool:
    """Say whether a file or folder, by its path below a matrix's folder, is a lock's own: none is source."""
    first = path.partition("/")[0].removesuffix(_FOLDER)
    return first == LOCK_FILE or first.endswith(f".{LOCK_FILE}")


def read_lock(path: Path) -> Lock | None:
    """Return a lock; None where there is none.

    :raises MatrixError: it cannot be read.
    """
    data = _read(path)
    if data is None:
        return None
    try:
        if data["version"] != _FORMAT:
            raise _unreadable(path, f"it has format {data['version']}, and this wheelsmith reads {_FORMAT}")
        source = data.get("source")
        return Lock(
            source=LockedSource.from_json({"revision": None, **source}) if source else None,
            pins=tuple(Pin(name=str(name), digest=str(digest)) for name, digest in data.get("pins", {}).items()),
            environments=tuple(_environment(path, item) for item in data.get("environments", ())),
        )
    except (KeyError, ValueError, TypeError, AttributeError, PylockValidationError) as error:
        raise _unreadable(path, f"{type(error).__name__}: {error}") from None


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
    data["pins"] = {pin.name: pin.digest for pin in lock.pins}
    data["environments"] = [{"name": each.name, **each.question.to_json()} for each in lock.environments]
    atomic_write(path, (_HEAD + tomli_w.dumps(data)).encode())
    named = {_filename(environment.name) for environment in lock.environments}
    for old in folder.glob("pylock.*.toml"):
        if old.name not in named:
            old.unlink()


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}{_FOLDER}")


def _filename(environment: str) -> str:
    return f"pylock.{environment}.toml"


def _read(path: Path) -> dict[str, Any] | None:
    try:
        with path.open("rb") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise _unreadable(path, f"it is larger than {_LONGEST >> 20} MiB")
        return tomllib.loads(text.decode())
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from None


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
    return LockedEnvironment(name=name, question=question, wheels=tuple(map(_wheel, Pylock.from_dict(data).packages)))


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
    return IndexedWheel(
        name=package.name, version=str(package.version), sha256=wheel.hashes["sha256"], url=wheel.url or ""
    )
