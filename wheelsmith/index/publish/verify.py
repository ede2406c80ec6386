"""Compare an index with its own states: every file, every side-car, every page; and what nothing asks for."""

from __future__ import annotations

import hashlib
import io
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from wheelsmith.base.errors import PackageIndexError, UnreadableError
from wheelsmith.frameworks import STABLE, outranked
from wheelsmith.index.entries.about import about_of
from wheelsmith.index.entries.entry import IndexEntry, ProjectState
from wheelsmith.index.entries.listing import EVERYTHING, Listing, dump_listing, listing_of, load_listing, roots
from wheelsmith.index.entries.side_files.known import Announced, announced, made_files, with_files
from wheelsmith.index.entries.side_files.metadata import CORE_METADATA
from wheelsmith.index.entries.state import project_of, version_of
from wheelsmith.index.entries.stored_states import LISTING, STATE, project_in, sift_states, state_key
from wheelsmith.index.entries.variants import variants_files
from wheelsmith.index.publish.pages import project_pages, root_pages
from wheelsmith.index.storage.protocol import Storage

# As files.atomic_write names what it has not renamed yet; other hidden files are somebody's own.
TEMPORARY = re.compile(r"\..+\.[a-z0-9_]{8}")
_ROOT = re.compile(rf"{EVERYTHING}|projects|cpu|cu\d+")


class Fault(StrEnum):
    """What may be wrong with a file of an index."""

    PAGE = "page"
    UNASKED = "unasked"
    LINK = "link"
    WHEEL = "wheel"
    SIDE_CAR = "side-car"
    SIDE_CAR_HASH = "side-car-hash"
    STATE = "state"
    ABOUT = "about"
    STRAY_STATE = "stray-state"
    NAME = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """One thing that is not as it should be.

    :param message: what, without a full stop.
    :param remedy: the command that fixes it.
    :param entry: the wheel, where it is one's.
    """

    fault: Fault
    key: str
    message: str
    remedy: str
    entry: IndexEntry | None = None

    def __str__(self) -> str:
        """Return what is wrong."""
        return self.message


def verify(storage: Storage) -> tuple[Trouble, ...]:
    """Return what is wrong with the index; nothing is changed. Reads every wheel.

    :raises PackageIndexError: the storage cannot be read, or nothing lies there at all.
    """
    links = frozenset(storage.non_regular())
    states, broken = sift_states(storage)
    if not states and not broken and not links:
        refuse_nothing(storage)
    wrong = [_link(storage, key) for key in sorted(links)]
    wrong += [_broken(name, error) for name, error in sorted(broken.items()) if not _beneath(state_key(name), links)]
    for state in states.values():
        for entry in state.entries:
            wrong += _file_troubles(storage, entry, links)
    expected = _expected_files(states, _listed(storage, broken, links))
    for key, data in sorted(expected.items()):
        if not _beneath(key, links):
            wrong += _page_troubles(storage, key, data)
    return (*wrong, *_unasked(storage, expected, broken))


def refuse_nothing(storage: Storage) -> None:
    """Refuse a place where nothing lies: a wrong address is no index that wants repair.

    :raises PackageIndexError: it is one.
    """
    if next(storage.listing(""), None) is None:
        raise PackageIndexError(
            f"there is no index: nothing lies in {storage.name}",
            remedy="give the address of one, or make it: wheelsmith build-matrix, wheelsmith publish",
        )


def advise(storage: Storage) -> tuple[Trouble, ...]:
    """Return what is as the states say, and could be better."""
    advice = []
    for name, state in sift_states(storage)[0].items():
        standing = [entry for entry in state.entries if entry.yanked is None and roots(entry)]
        for old, by in outranked(version_of(entry) for entry in standing).items():
            message = f"{name} {old}, for more than one torch, sorts below {by}: who names no torch gets an older one"
            remedy = (
                f"build {name} {old.public} again with this wheelsmith and publish it: its wheel is called "
                f"{old}.{STABLE} now, and sorts above; what is there stays"
            )
            advice.append(Trouble(fault=Fault.NAME, key=state_key(name), message=message, remedy=remedy))
    return tuple(advice)


def _listed(storage: Storage, broken: Iterable[str], links: frozenset[str]) -> dict[str, Listing]:
    """Return what the lists said last of projects whose state is broken."""
    stored = None if _beneath(LISTING, links) else storage.read(LISTING)
    try:
        lists = load_listing(stored)
    except PackageIndexError:
        return {}
    return {name: lists[name] for name in broken if name in lists}


def _expected_files(states: Mapping[str, ProjectState], listed: Mapping[str, Listing]) -> dict[str, bytes]:
    """Return all that is made from states, and nothing else: key → content.

    :param listed: what the lists say of projects that have no state that can be read.
    """
    listing = {**listed, **{name: listing_of(state) for name, state in states.items()}}
    expected = root_pages(listing)
    if listing:
        expected[LISTING] = dump_listing(listing)
    for state in states.values():
        expected |= project_pages(state) | {file.path: file.data for file in variants_files(state)}
    return expected


def unasked_pages(storage: Storage) -> list[str]:
    """Return the files in the folders of pages that no state asks for; hidden ones are being written.

    What a broken state asks for is not known, so the pages of its project stay.
    """
    # The states after the files: what is published meanwhile has changed its state first.
    lying = [item.key for item in storage.listing("")]
    links = frozenset(storage.non_regular())
    states, broken = sift_states(storage)
    expected = _expected_files(states, _listed(storage, broken, links))
    return sorted(key for key in lying if _is_unasked(key, expected, broken))


def _is_unasked(key: str, expected: Mapping[str, bytes], broken: Mapping[str, object]) -> bool:
    return _is_page(key) and key not in expected and key.split("/")[1] not in broken


def _is_page(key: str) -> bool:
    root, _, rest = key.partition("/")
    return bool(rest) and bool(_ROOT.fullmatch(root)) and not TEMPORARY.fullmatch(key.rpartition("/")[2])


def _unasked(storage: Storage, expected: Mapping[str, bytes], broken: Mapping[str, object]) -> Iterator[Trouble]:
    for item in sorted(storage.listing(""), key=lambda item: item.key):
        name = item.key.removeprefix(STATE)
        if _is_unasked(item.key, expected, broken):
            message = f"{item.key} is there, and no state asks for it"
            yield Trouble(fault=Fault.UNASKED, key=item.key, message=message, remedy=_repair(storage))
        elif item.key.startswith(STATE) and not name.startswith((".", "runs/")) and project_in(item.key) is None:
            message = f"{item.key} is no project's state"
            remedy = "move it out of the index, whose states lie in this folder"
            yield Trouble(fault=Fault.STRAY_STATE, key=item.key, message=message, remedy=remedy)


def _page_troubles(storage: Storage, key: str, data: bytes) -> Iterator[Trouble]:
    stored = storage.read(key)
    if stored is None or stored.data != data:
        message = f"{key} is missing" if stored is None else f"{key} is not what the state says"
        yield Trouble(fault=Fault.PAGE, key=key, message=message, remedy=_repair(storage))


def _broken(project: str, error: UnreadableError) -> Trouble:
    remedy = error.remedy or "restore it from a backup"
    return Trouble(fault=Fault.STATE, key=state_key(project), message=str(error), remedy=remedy)


def _link(storage: Storage, key: str) -> Trouble:
    """Name a link: a page is simply written again; what is published must be put where the link is."""
    path = shlex.quote(f"{storage.name}/{key}")
    by_hand = f"put what it leads to in its place: cp -rL {path} {path}.copy && rm {path} && mv {path}.copy {path}"
    published = key.partition("/")[0] in {"files", STATE.rstrip("/")}
    return Trouble(
        fault=Fault.LINK,
        key=key,
        message=f"{key} is a link or a pipe, where only files are served",
        remedy=by_hand if published else _repair(storage),
    )


def _file_troubles(storage: Storage, entry: IndexEntry, links: frozenset[str]) -> Iterator[Trouble]:
    if _beneath(entry.path, links):
        return
    wheel = storage.read(entry.path)
    chosen = f"{shlex.quote(storage.name)} {project_of(entry.filename)} {entry.filename}"
    from_copy = (
        f"{_repair(storage)} --from FOLDER, which has the wheel whose sha256 is {entry.sha256}; "
        f"where nobody has it any more: wheelsmith index remove {chosen}"
    )

    def trouble(fault: Fault, message: str, remedy: str) -> Trouble:
        return Trouble(fault=fault, key=entry.path, message=message, remedy=remedy, entry=entry)

    if wheel is None:
        yield trouble(Fault.WHEEL, f"{entry.filename} is listed but not there", from_copy)
        return
    if hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        yield trouble(Fault.WHEEL, f"{entry.filename} is not the file that was published", from_copy)
        return
    try:
        made = made_files(io.BytesIO(wheel.data), entry.filename)
    except PackageIndexError as error:
        yield trouble(Fault.WHEEL, str(error), f"publish another version, and: wheelsmith index remove {chosen}")
        return
    if entry.about != about_of(made[CORE_METADATA]):
        message = f"the state tells other words of {entry.filename} than its METADATA"
        yield trouble(Fault.ABOUT, message, _repair(storage))
    for fault, side, message in _beside(storage, entry, made, links):
        carried = (
            f"{_repair(storage)} --from FOLDER, which has the {side.filename} whose sha256 is {side.sha256}; where "
            f"nobody has it any more: wheelsmith index remove {chosen}, and add the wheel again"
        )
        yield trouble(fault, message, _repair(storage) if side.kind.suffix in made else carried)


def _beside(
    storage: Storage, entry: IndexEntry, made: Mapping[str, bytes], links: frozenset[str]
) -> Iterator[tuple[Fault, Announced, str]]:
    """Yield what is wrong with the files beside a wheel.

    :param made: what the wheel gives: suffix → content.
    """
    said = announced(entry)
    for side in announced(with_files(entry, made)):
        if side not in said:
            yield Fault.SIDE_CAR_HASH, side, f"{side.filename} has another hash than its page says"
        elif _beneath(side.path, links):
            continue
        elif (stored := storage.read(side.path)) is None:
            yield Fault.SIDE_CAR, side, f"{side.filename} is listed but not there"
        elif not side.is_right(stored.data):
            yield Fault.SIDE_CAR, side, f"{side.filename} is not the file that was published"


def _beneath(key: str, links: frozenset[str]) -> bool:
    """Say whether a file is a link, or lies behind one."""
    return any(key == link or key.startswith(f"{link}/") for link in links)


def _repair(storage: Storage) -> str:
    return f"wheelsmith index repair {shlex.quote(storage.name)}"
