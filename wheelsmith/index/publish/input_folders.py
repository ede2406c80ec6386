"""Read releases from folders: indexes of runs, and loose wheels. Both may be untrusted."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from wheelsmith.base.beneath import NotRegularError, open_file
from wheelsmith.base.errors import PackageIndexError, Place, WheelError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.units import show_binary_size
from wheelsmith.frameworks import (
    Framework,
    LocalVersion,
    cuda_major,
    cuda_release,
    framework,
    frameworks,
    read_local_version,
    torch_releases,
)
from wheelsmith.index.entries.entry import CellWithoutWheel, IndexEntry, PlannedVersion, ProjectState
from wheelsmith.index.entries.metadata import unreadable_requirement
from wheelsmith.index.entries.side_files import CORE_METADATA, MAX_SIZE, side_files
from wheelsmith.index.entries.stored_states import RUNS, load_states, project_of_key
from wheelsmith.index.publish.release import IndexRelease, UploadReader, WheelUpload, parse_upload, read_upload
from wheelsmith.index.resolve.target import accepts, combined_specifier
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.model import ARCHES, CUDA, TORCH, Cell, WheelName, read_wheel_name
from wheelsmith.model.run_record import RunRecord
from wheelsmith.platforms import cuda_toolkits, platform_of

_CPYTHON = re.compile(r"cp3(?P<minor>\d+)-cp3(?P=minor)(?P<threads>t?)")
_SHOWN = 80  # characters of a requirement


def external_wheels(paths: Iterable[Path]) -> tuple[WheelUpload, ...]:
    """Read wheels of any origin, with the side files in the same folders.

    :raises PackageIndexError: a side file cannot be read or is too large.
    :raises WheelError: a wheel cannot be read or contradicts itself.
    """
    with UploadReader() as reader:
        return tuple(reader.external(path).with_files(_read_side_files(path)) for path in paths)


def read_external(request: Mapping[str, Any]) -> dict[str, Any]:
    """Read a wheel of any origin. This runs in the worker.

    :raises WheelError: the requirements are invalid or contradict the version.
    """
    from wheelsmith.wheel.check import framework_mistake

    path = Path(request["path"])
    read = read_upload(request)
    upload = parse_upload(path, read)
    if text := unreadable_requirement(upload.side_files[CORE_METADATA]):
        raise WheelError(
            f"Requires-Dist {text[:_SHOWN]!r} cannot be read",
            where=Place(file=path.name),
            remedy="build it with requirements in the format of PEP 508",
        )
    requires = _required_frameworks(upload.entry)
    if requires and (why := framework_mistake(path)):
        remedy = "build it with a Requires-Dist that matches its version"
        raise WheelError(why, where=Place(file=path.name), remedy=remedy)
    return {**read, "entry": replace(upload.entry, cells=_cells_of(path.name, requires)).to_json()}


def _read_side_files(wheel: Path) -> dict[str, bytes]:
    """Return the side files in the folder of a wheel: suffix → content."""
    found = {}
    for suffix in side_files().keys() - {CORE_METADATA}:
        path = wheel.with_name(f"{wheel.name}{suffix}")
        try:
            with open_file(path) as file:
                found[suffix] = file.read(MAX_SIZE + 1)
        except (FileNotFoundError, NotRegularError):
            continue
        except OSError as error:
            raise PackageIndexError(f"{path} cannot be read: {error.strerror}") from None
        if len(found[suffix]) > MAX_SIZE:
            raise PackageIndexError(
                f"{path} is larger than {show_binary_size(MAX_SIZE)}", remedy="move it to another folder"
            )
    return found


def _required_frameworks(entry: IndexEntry) -> dict[str, str]:
    """Return the frameworks that METADATA requires: name → accepted versions."""
    others = {name: each.project for name, each in frameworks().items() if name != TORCH}
    required = {
        TORCH: entry.requires_torch,
        **{name: combined_specifier(entry.requires, own) for name, own in others.items()},
    }
    return {name: versions for name, versions in required.items() if versions is not None}


def _cells_of(filename: str, requires: Mapping[str, str]) -> tuple[Cell, ...]:
    """Return the cells that a wheel serves, according to its file name and METADATA.

    The local version names the compute platform and sometimes a release of a framework, in the spelling of any known
    project. Without a release, the wheel serves all releases that METADATA accepts and that exist for the platform.
    The framework is torch, unless METADATA requires only another one. A build of torch that METADATA pins names the
    platform too. Without one, a pure wheel serves all platforms, and the result is empty for a compiled wheel.
    """
    name = read_wheel_name(filename)
    local = read_local_version(name.version.local)
    pins = (each.version.partition("+")[2] for each in SpecifierSet(requires.get(TORCH, "")) if each.operator != "!=")
    if local.compute is None and not local.wrong and (build := next(filter(None, pins), None)):
        local = replace(local, compute=read_local_version(build).compute)
    if name.label is not None or local.wrong or (local.compute is None and not _is_pure(name)):
        return ()
    required = TORCH if TORCH in requires else next(iter(requires), TORCH)
    of_framework = framework(local.framework if local.framework_part else required)
    accepted = (r for r in of_framework.releases() if accepts(requires.get(of_framework.name), r))
    return tuple(
        Cell(
            framework=of_framework.name,
            release=release,
            platform=platform,
            toolkit=toolkit,
            arch=arch,
            python=_only_python(name),
            cxx11_abi=of_framework.cxx11_abi(release, arch, toolkit),
        )
        for release in ((local.release,) if local.release else accepted)
        for platform, toolkit in _toolkits(local, of_framework, release)
        for arch in _archs(name)
    )


def _toolkits(local: LocalVersion, of_framework: Framework, release: str) -> Iterator[tuple[str, str | None]]:
    """Yield the platforms and toolkits that a wheel serves for a framework release."""
    found = platform_of(local.compute or "")
    if found is None or found[0].name == CUDA:
        yield from ((CUDA, cuda) for cuda in _cudas(local, of_framework, release))
        return
    platform, toolkit = found[0].name, found[1]
    cells = (
        Cell(framework=of_framework.name, release=release, platform=platform, toolkit=toolkit, arch=arch)
        for arch in ARCHES
    )
    if local.release or any(of_framework.why_impossible(cell, any_minor=False) is None for cell in cells):
        yield platform, toolkit


def _cudas(local: LocalVersion, of_framework: Framework, release: str) -> tuple[str | None, ...]:
    """Return the CUDA releases that a wheel serves for a framework release. None stands for the CPU."""
    if local.compute == "cpu":
        return (None,)
    named = cuda_release(local.compute) if local.compute else None
    if named and (local.release or not of_framework.builds_per_compute):
        return (named,)
    known = torch_releases().get(release) if of_framework.builds_per_compute else None
    built = known.cuda if known else () if of_framework.builds_per_compute else tuple(cuda_toolkits())
    if named:
        return (named,) if named in built else ()
    if local.compute:
        return tuple(cuda for cuda in built if cuda.startswith(f"{cuda_major(local.compute)}."))
    return (None, *built)


def _archs(name: WheelName) -> tuple[str, ...]:
    platforms = {tag.platform for tag in name.tags}
    return tuple(
        a for a in ARCHES if "any" in platforms or any(_is_linux(p) and p.endswith(f"_{a}") for p in platforms)
    )


def _is_linux(platform: str) -> bool:
    return platform.startswith(("linux", "manylinux"))


def _is_pure(name: WheelName) -> bool:
    return all(tag.platform == "any" and tag.abi == "none" for tag in name.tags)


def _only_python(name: WheelName) -> str | None:
    """Return the Python of a wheel that is for one Python only, e.g. ``3.12`` or ``3.14t``; None otherwise."""
    pythons = {(tag.interpreter, tag.abi) for tag in name.tags}
    if len(pythons) != 1 or not (match := _CPYTHON.fullmatch("-".join(next(iter(pythons))))):
        return None
    return f"3.{match['minor']}{match['threads']}"


_PUBLISH_SEPARATELY = (
    "write each run's output to its own folder, and publish them together: --from A --from B; or, after a killed run, "
    "build again"
)
_MAX_NAMES = 5


def read_releases(folders: Sequence[Path]) -> IndexRelease:
    """Read a release from several folders: indexes of runs, or wheels of any origin.

    :raises PackageIndexError: a folder contains no wheel, or an incomplete index.
    :raises WheelError: a loose wheel cannot be read.
    """
    releases = [read_release(folder) for folder in folders]
    answers: dict[str, list[CellWithoutWheel]] = {}
    planned: dict[str, list[PlannedVersion]] = {}
    for release in releases:
        for project, given in release.answers.items():
            answers.setdefault(project, []).extend(given)
        for project, versions in release.planned.items():
            planned.setdefault(project, []).extend(versions)
    uploads = tuple(upload for release in releases for upload in release.uploads)
    left_out = tuple(upload for release in releases for upload in release.left_out)
    return IndexRelease(uploads=uploads, answers=answers, planned=planned, left_out=left_out)


def loose_wheels(folder: Path) -> tuple[Path, ...]:
    """Return the wheels in a folder, at any depth. The result is empty if the folder is or contains an index."""
    if _indexes(folder):
        return ()
    return tuple(path for path in _find_below(folder, "*.whl") if path.is_file())


def wheels_of_folder(folder: Path) -> tuple[Path, ...]:
    """Return the wheels of an index or of the output of a run, or else the loose wheels at any depth.

    :raises PackageIndexError: there is no wheel, or the index is incomplete.
    """
    # A loose wheel counts even if it is unreadable.
    loose = loose_wheels(folder)
    release = IndexRelease() if loose else read_release(folder)
    return (*loose, *(upload.wheel for upload in (*release.uploads, *release.left_out)))


def has_index(folder: Path) -> bool:
    """Return True if a folder is an index, or the output of a run with an index."""
    return _is_index(folder) or _is_index(folder / "index")


def read_release(folder: Path) -> IndexRelease:
    """Read a release from a folder: an index, the output of a run with an index, or wheels.

    :raises PackageIndexError: the folder contains no wheel, or an incomplete index.
    :raises WheelError: a loose wheel cannot be read.
    """
    index = folder if _is_index(folder) else folder / "index"
    if _is_index(index):
        return _release_of_index(index, folder)
    if below := _indexes(folder):
        named = " ".join(f"--from {shlex.quote(str(path))}" for path in below[:_MAX_NAMES])
        raise PackageIndexError(f"{folder} is not an index, but contains {len(below)}", remedy=f"name them: {named}")
    wheels = loose_wheels(folder)
    if not wheels:
        raise PackageIndexError(f"{folder} contains no index and no wheel", remedy="build one: wheelsmith build-matrix")
    return IndexRelease(uploads=external_wheels(wheels))


def _release_of_index(index: Path, folder: Path) -> IndexRelease:
    """Read all wheels of an index, and compare them with its states.

    :param folder: a folder that must not contain wheels which the index does not list.
    """
    storage = Folder(index)
    states = load_states(storage)
    runs = list((index / RUNS).glob("*.json"))
    if len(runs) > 1:
        raise PackageIndexError(
            f"{index} is a mixture of the indexes of {len(runs)} runs, and contains the state of only one of them",
            remedy=_PUBLISH_SEPARATELY,
        )
    _check_all_listed(states.values(), index, folder)
    entries = [entry for state in states.values() for entry in state.entries]
    with UploadReader() as reader:
        uploads = [(entry.older, _read_listed(storage, index, entry, reader)) for entry in entries]
    return IndexRelease(
        uploads=tuple(upload for older, upload in uploads if not older),
        answers={name: state.answers for name, state in states.items() if state.answers},
        planned={name: state.planned for name, state in states.items() if state.planned},
        left_out=tuple(upload for older, upload in uploads if older),
    )


def _read_listed(storage: Folder, folder: Path, entry: IndexEntry, reader: UploadReader) -> WheelUpload:
    """Read a wheel that an index lists.

    :raises PackageIndexError: a file is missing, or differs from the state.
    """
    remedy = f"find all problems and their fixes: wheelsmith index verify {folder}"
    # The storage does not follow links, which could lead to any file.
    for key in entry.paths:
        if storage.stat(key) is None:
            raise PackageIndexError(f"{key} is listed in {folder}, but missing", remedy=remedy)
    return read_listed_wheel(storage, folder / entry.path, entry, reader, remedy)


def read_listed_wheel(
    storage: Storage, path: Path, entry: IndexEntry, reader: UploadReader, remedy: str
) -> WheelUpload:
    """Read a wheel of an index for adding it to another one. Most fields are read from the wheel, not from the entry.

    :param path: path of the wheel or of a copy.
    :param remedy: remedy in the error message.
    :raises PackageIndexError: the wheel or a side file differs from its entry.
    """
    folder = storage.name
    try:
        upload = reader.upload(path)
    except WheelError as error:
        raise PackageIndexError(f"{entry.filename} in {folder} cannot be published: {error}", remedy=remedy) from None
    if upload.entry.sha256 != entry.sha256:
        raise PackageIndexError(
            f"{entry.filename} in {folder} is not the file that was built: its sha256 is {upload.entry.sha256}, "
            f"but its state has {entry.sha256}",
            remedy=remedy,
        )
    side_files = {}
    for side in replace(entry, metadata_sha256=upload.entry.metadata_sha256).announced:
        stored = storage.read(side.path)
        if stored is None or len(stored.data) > MAX_SIZE or not side.matches(stored.data):
            raise PackageIndexError(f"{side.filename} in {folder} is not the file that was published", remedy=remedy)
        side_files[side.kind.suffix] = stored.data
    new_entry = replace(
        upload.entry,
        cells=entry.cells,
        gpu_archs=entry.gpu_archs,
        cpu_features=entry.cpu_features,
        provenance=entry.provenance,
        variant_of=entry.variant_of,
        yanked=entry.yanked,
        tests=entry.tests,
    )
    return replace(upload, entry=new_entry).with_files(side_files)


def _check_all_listed(states: Collection[ProjectState], index: Path, folder: Path) -> None:
    # The file of a removed wheel stays until gc removes it.
    known = {entry.path: entry.sha256 for state in states for entry in state.entries}
    known |= {removed.path: removed.sha256 for state in states for removed in state.removed}
    listed, hashes = {index / path for path in known}, set(known.values())
    unlisted = [
        path
        for path in _find_below(folder, "*.whl")
        # Outside the index's files, copies of listed wheels are allowed.
        if path not in listed
        and (path.is_relative_to(index / "files") or not path.is_file() or sha256_file(path) not in hashes)
    ]
    if unlisted:
        raise PackageIndexError(
            f"{index} does not list {len(unlisted)} of the wheels in {folder}, such as {unlisted[0].name}",
            remedy=_PUBLISH_SEPARATELY,
        )
    with suppress(OSError, ValueError):  # there is no readable record of a run
        built = [each.wheel for each in RunRecord.read(index.parent).results if each.wheel]
        if index.name == "index" and (lost := [each.filename for each in built if each.sha256 not in hashes]):
            message = f"{index} is older than the last run: it lacks {lost[0]}"
            raise PackageIndexError(message, remedy="build again: wheelsmith build-matrix")


def _indexes(folder: Path) -> list[Path]:
    """Return the indexes in a folder at any depth, including the folder itself."""
    return sorted(path.parent for path in _find_below(folder, "_state") if _is_index(path.parent))


def _is_index(folder: Path) -> bool:
    return any(project_of_key(f"_state/{path.name}") for path in (folder / "_state").glob("*.json"))


def _find_below(folder: Path, pattern: str) -> list[Path]:
    """Return the matching paths in a folder at any depth, without links."""
    return sorted(path for path in folder.rglob(pattern) if not path.is_symlink())
