"""Read, write and compare ``wheelsmith.lock``, with a ``pylock.toml`` (PEP 751) for each build environment."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.pylock import Package, PackageWheel, Pylock, PylockValidationError
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import MatrixError, Place
from wheelsmith.base.files import atomic_write, read_bounded
from wheelsmith.base.json_dataclass import Record, in_one_line
from wheelsmith.base.sanitize import visible
from wheelsmith.frameworks import NIGHTLY, read_prerelease
from wheelsmith.model import BuildPlan, LockedWheel
from wheelsmith.plan.recipe.toml_reader import LONGEST, load_toml

LOCK_FILE = "wheelsmith.lock"
_SHARDS = "wheelsmith.shards.json"
_FOLDER_SUFFIX = ".d"  # contains the environments
_VENDOR_SUFFIX = ".vendor"
_MATRIX = "matrix.yaml"
_HEAD = "# Written by wheelsmith lock; keep it under version control, and do not edit it.\n"
_FORMAT = 1
_PYLOCK = Version("1.0")
DIGEST = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")  # a commit, tree or archive
_SHA256 = re.compile(r"[0-9a-f]{64}")
_CELL_ID = re.compile(r"([\w-][\w.-]*/)?[\w-]+")  # with the name of a kernel
_SHOWN = 12  # characters of a digest in messages


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedSource(Record):
    """The exact source of a kernel.

    :param kernel: as in the matrix: ``hub:org/name``, ``git:https://…``, ``sdist:name==version``, ``path:…``.
    :param revision: the revision in the matrix, or None.
    :param commit: the commit of that revision, or the sha256 of an archive.
    :param tree: the digest of its files.
    """

    kernel: str
    revision: str | None = None
    commit: str
    tree: str

    def __post_init__(self) -> None:
        if not (DIGEST.fullmatch(self.commit) and DIGEST.fullmatch(self.tree)):
            raise ValueError("the commit or the tree of the source is not a digest")

    @property
    def shown(self) -> str:
        """The name with the revision, for messages."""
        return f"{self.kernel} {self.revision}" if self.revision else self.kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Pin(Record):
    """An input that is pinned by wheelsmith, an engine or the machine.

    :param name: a unique display name: ``torch 2.11.0 for x86_64``.
    :param digest: a digest over all its files.
    """

    name: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedWheel(Record):
    """A wheel of an environment, with its address.

    :param url: the address on the index, without credentials.
    """

    name: str
    version: str
    sha256: str
    url: str

    @property
    def wheel(self) -> LockedWheel:
        """The same wheel in the form that plans contain."""
        return LockedWheel(name=self.name, version=self.version, sha256=self.sha256)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentRequest(Record):
    """The arguments for resolving an environment.

    :param rather: alternatives to the first requirement, preferred if an index has them.
    """

    requirements: tuple[str, ...]
    rather: tuple[str, ...]
    python: str
    arch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedEnvironment(Record):
    """A project's build environment.

    :param name: the ID of the first cell that uses it.
    """

    name: str
    request: EnvironmentRequest
    wheels: tuple[IndexedWheel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock(Record):
    """The exact inputs of a matrix.

    :param source: None for a folder, which is under the user's own version control.
    :param cells: IDs of all cells when it was written.
    :param sources: for several kernels, name of a kernel → its source.
    :param nightly: the version of torch that ``nightly`` stands for; None if the matrix does not name it.
    :param upstream: ID of a cell that upstream compiled → the digest of its files.
    """

    source: LockedSource | None
    cells: tuple[str, ...]
    pins: tuple[Pin, ...]
    environments: tuple[LockedEnvironment, ...]
    sources: dict[str, LockedSource] = field(default_factory=dict)
    nightly: str | None = None
    upstream: dict[str, str] = field(default_factory=dict)

    def of_kernel(self, name: str) -> Lock:
        """Return the inputs of one of several kernels, whose cells have the names of its own matrix."""
        prefix = f"{name}/"
        cells = tuple(cell.removeprefix(prefix) for cell in self.cells if cell.startswith(prefix))
        upstream = {cell.removeprefix(prefix): tree for cell, tree in self.upstream.items() if cell.startswith(prefix)}
        return replace(self, source=self.sources.get(name), sources={}, cells=cells, upstream=upstream)

    def find(self, request: EnvironmentRequest) -> LockedEnvironment | None:
        """Return the environment for a request, or None."""
        return next((known for known in self.environments if known.request == request), None)


def join_locks(locks: Mapping[str, Lock]) -> Lock:
    """Return the inputs of several kernels, by name. Kernels share the environments that they have in common."""
    environments: dict[EnvironmentRequest, LockedEnvironment] = {}
    for name, lock in locks.items():
        for each in lock.environments:
            environments.setdefault(each.request, replace(each, name=f"{name}/{each.name}"))
    pins = {pin.name: pin for lock in locks.values() for pin in lock.pins}
    return Lock(
        source=None,
        sources={name: lock.source for name, lock in sorted(locks.items()) if lock.source},
        cells=tuple(sorted(f"{name}/{cell}" for name, lock in locks.items() for cell in lock.cells)),
        pins=tuple(pins[name] for name in sorted(pins)),
        environments=tuple(sorted(environments.values(), key=lambda each: each.name)),
        nightly=next((lock.nightly for lock in locks.values() if lock.nightly), None),
        upstream={f"{name}/{cell}": tree for name, lock in locks.items() for cell, tree in lock.upstream.items()},
    )


# --- differences


def pins_of(plans: Iterable[BuildPlan]) -> tuple[Pin, ...]:
    """Return the pins of several plans without duplicates, sorted by name."""
    found = {pin.name: pin for plan in plans for pin in _pins_of(plan)}
    return tuple(found[name] for name in sorted(found))


def _pins_of(plan: BuildPlan) -> Iterator[Pin]:
    place = f"of the image {plan.image.name}" if plan.image else "of this machine"
    if plan.toolset:
        prefix = plan.toolset.prefix
        compilers = f"compilers {prefix.version if prefix else place} for {plan.toolset.arch}"
        yield Pin(name=compilers, digest=plan.toolset.digest)
    for prefix in (plan.toolkit, plan.headers, *plan.libraries):
        if prefix:
            kind = "" if prefix.kind == "library" else f"{prefix.kind} "
            where = "" if prefix.is_pinned else f" {place}"
            yield Pin(name=f"{kind}{prefix.version}{where} for {prefix.arch}", digest=prefix.digest)
    if plan.image:
        yield Pin(name=f"image {plan.image.name}", digest=plan.image.digest)


def differences(lock: Lock, now: Lock) -> tuple[str, ...]:
    """Return a message for each difference from a lock.

    Locked inputs that a run does not use, for example those of unselected cells, are not differences.

    :param now: the inputs of the run.
    """
    new_cells = (f"{cell} is not in it" for cell in now.cells if cell not in lock.cells)
    names = {"", *now.sources}
    found = (
        *(text for name in sorted(names) for text in _source_differences(_source(lock, name), _source(now, name))),
        *([f"torch nightly, now {now.nightly}, is not in it"] if now.nightly not in {None, lock.nightly} else []),
        *new_cells,
        *_upstream_differences(lock, now),
        *_pin_differences(lock, now),
        *_environment_differences(lock, now),
    )
    return tuple(map(visible, found))


def _source(lock: Lock, kernel: str) -> LockedSource | None:
    return lock.sources.get(kernel) if kernel else lock.source


def _source_differences(locked: LockedSource | None, now: LockedSource | None) -> Iterator[str]:
    if locked == now:
        return
    if now is None:
        yield f"it locks {locked.kernel if locked else ''}, but the matrix builds a folder"
    elif locked is None:
        yield f"{now.kernel} is not in it"
    elif (locked.kernel, locked.revision) != (now.kernel, now.revision):
        yield f"it locks {locked.shown}, but the matrix builds {now.shown}"
    elif locked.commit != now.commit:
        yield f"{now.shown} has moved from {locked.commit[:_SHOWN]} to {now.commit[:_SHOWN]}"
    else:
        yield f"the files of {now.shown} at {now.commit[:_SHOWN]} have changed"


def _upstream_differences(lock: Lock, now: Lock) -> Iterator[str]:
    for cell in now.cells:
        old, new = lock.upstream.get(cell), now.upstream.get(cell)
        if cell in lock.cells and old != new:
            was, is_now = (f"upstream's build {tree[:_SHOWN]}" if tree else "compiled" for tree in (old, new))
            yield f"{cell} is now {is_now}, was {was}"


def _pin_differences(lock: Lock, now: Lock) -> Iterator[str]:
    known = {pin.name: pin.digest for pin in lock.pins}
    for pin in now.pins:
        if pin.name not in known:
            yield f"{pin.name} is not in it"
        elif pin.digest != known[pin.name]:
            old, new = (digest.removeprefix("sha256:")[:_SHOWN] for digest in (known[pin.name], pin.digest))
            yield f"{pin.name} is now {new}, was {old}"


def _environment_differences(lock: Lock, now: Lock) -> Iterator[str]:
    for environment in now.environments:
        known = lock.find(environment.request)
        if known is None:
            yield f"the environment of {environment.name} is not in it"
            continue
        before = {each.name: each for each in known.wheels}
        for wheel in environment.wheels:
            old = before.get(wheel.name)
            if old is None or (old.version, old.sha256) != (wheel.version, wheel.sha256):
                was = f"was {old.version}" if old else "was not in it"
                yield f"{wheel.name} of {environment.name} is now {wheel.version}, {was}"


# --- the files next to a matrix


def lock_path(matrix: Path) -> Path:
    """Return the path of a matrix's lock, in the same folder."""
    return _sibling(matrix, LOCK_FILE)


def vendor_path(matrix: Path) -> Path:
    """Return the default folder for the vendored inputs of a lock."""
    return lock_path(matrix).with_suffix(_VENDOR_SUFFIX)


def shards_path(matrix: Path) -> Path:
    """Return the default path of a sharded plan."""
    return _sibling(matrix, _SHARDS)


def _sibling(matrix: Path, name: str) -> Path:
    return matrix.with_name(name if matrix.name == _MATRIX else f"{matrix.name}.{name}")


def read_lock(path: Path) -> Lock | None:
    """Read a lock, or return None if there is none.

    :raises MatrixError: it cannot be read.
    """
    data = _read_toml(path)
    if data is None:
        return None
    try:
        if data["version"] != _FORMAT:
            raise _unreadable(path, f"its format version is not {_FORMAT}, the one that this wheelsmith supports")
        environments = data.get("environments", [])
        if len({item["name"] for item in environments}) != len(environments):
            raise _unreadable(path, "it contains an environment twice")
        return Lock(
            source=LockedSource.from_json(data["source"]) if "source" in data else None,
            sources={str(name): LockedSource.from_json(item) for name, item in data.get("sources", {}).items()},
            cells=tuple(map(str, data.get("cells", ()))),
            pins=tuple(Pin(name=str(name), digest=str(digest)) for name, digest in data.get("pins", {}).items()),
            environments=tuple(_read_environment(path, item) for item in environments),
            nightly=_read_nightly(data),
            upstream={str(cell): str(tree) for cell, tree in data.get("upstream", {}).items()},
        )
    except (KeyError, ValueError, TypeError, AttributeError, PylockValidationError) as error:
        raise _unreadable(path, in_one_line(error)) from None


def _read_nightly(data: Mapping[str, Any]) -> str | None:
    if NIGHTLY not in data:
        return None
    version = read_prerelease(str(data[NIGHTLY]))
    if version is None:
        raise ValueError(f"{NIGHTLY} is not a pre-release")
    return version


def _read_environment(path: Path, item: Mapping[str, Any]) -> LockedEnvironment:
    name = str(item["name"])
    if not _CELL_ID.fullmatch(name):
        raise ValueError(f"{name!r} is not a cell ID")
    file = _folder(path) / _filename(name)
    data = _read_toml(file)
    if data is None:
        raise ValueError(f"{file.parent.name}/{file.name} is missing")
    request = EnvironmentRequest.from_json({key: value for key, value in item.items() if key != "name"})
    wheels = tuple(map(_read_wheel, Pylock.from_dict(data).packages))
    names = {wheel.name for wheel in wheels}
    wanted = {canonicalize_name(Requirement(text).name) for text in request.requirements}
    if len(names) != len(wheels) or not wanted <= names:
        raise ValueError(f"{file.name} lacks a package or contains one twice")
    return LockedEnvironment(name=name, request=request, wheels=wheels)


def _read_wheel(package: Package) -> IndexedWheel:
    (wheel,) = package.wheels or ()
    sha256 = wheel.hashes["sha256"]
    # The address becomes part of a requirement for pip.
    if not wheel.url or not package.version or not _SHA256.fullmatch(sha256):
        raise ValueError(f"{package.name} has no version, URL or sha256")
    return IndexedWheel(name=package.name, version=str(package.version), sha256=sha256, url=wheel.url)


def _read_toml(path: Path) -> dict[str, Any] | None:
    try:
        text = read_bounded(path, LONGEST).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(path, str(error)) from None
    return load_toml(text, path.name, MatrixError)


def _unreadable(path: Path, reason: str) -> MatrixError:
    remedy = "restore it from version control, or run: wheelsmith lock --upgrade"
    return MatrixError(f"it cannot be read: {reason}", where=Place(file=path.name), remedy=remedy)


def write_lock(path: Path, lock: Lock) -> None:
    """Write a lock, and remove the files of environments that it no longer contains.

    :raises MatrixError: the folder of its environments is a symbolic link, which may have come with a repository.
    """
    import tomli_w

    folder = _folder(path)
    if folder.is_symlink():
        raise MatrixError("it is a symbolic link, but must be a folder", where=Place(file=folder.name))
    for environment in lock.environments:
        text = _HEAD + tomli_w.dumps(_pylock(environment).to_dict())
        atomic_write(folder / _filename(environment.name), text.encode())
    data: dict[str, Any] = {"version": _FORMAT}
    if lock.source:
        data["source"] = _to_toml(lock.source)
    if lock.sources:
        data["sources"] = {name: _to_toml(source) for name, source in lock.sources.items()}
    if lock.nightly:
        data[NIGHTLY] = lock.nightly
    data["cells"] = list(lock.cells)
    if lock.upstream:
        data["upstream"] = lock.upstream
    data["pins"] = {pin.name: pin.digest for pin in lock.pins}
    data["environments"] = [{"name": each.name, **each.request.to_json()} for each in lock.environments]
    atomic_write(path, (_HEAD + tomli_w.dumps(data)).encode())
    named = {_filename(environment.name) for environment in lock.environments}
    for old in folder.glob("pylock.*.toml"):
        if old.name not in named:
            old.unlink(missing_ok=True)


def _to_toml(source: LockedSource) -> dict[str, Any]:
    return {name: value for name, value in source.to_json().items() if value is not None}


def _pylock(environment: LockedEnvironment) -> Pylock:
    return Pylock(
        lock_version=_PYLOCK,
        requires_python=SpecifierSet(f"=={environment.request.python.removesuffix('t')}.*"),
        created_by="wheelsmith",
        packages=[
            Package(
                name=canonicalize_name(wheel.name),
                version=Version(wheel.version),
                wheels=[PackageWheel(name=_filename_in_url(wheel.url), url=wheel.url, hashes={"sha256": wheel.sha256})],
            )
            for wheel in environment.wheels
        ],
    )


def _folder(path: Path) -> Path:
    return path.with_name(f"{path.name}{_FOLDER_SUFFIX}")


def _filename(environment: str) -> str:
    return f"pylock.{environment.replace('/', '.')}.toml"


def _filename_in_url(url: str) -> str:
    return unquote(urlsplit(url).path.rpartition("/")[2])
