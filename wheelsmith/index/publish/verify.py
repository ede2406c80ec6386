"""Compare an index with its own states: every file, every page, and what no state asks for."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wheelsmith.base.errors import PackageIndexError, UnreadableError, WheelsmithError
from wheelsmith.frameworks import STABLE, outranked
from wheelsmith.index.entries.entry import EVERYTHING, IndexEntry, ProjectState
from wheelsmith.index.entries.listing import Listing, dump_listing, listing_of, load_listing
from wheelsmith.index.entries.render import variants_files
from wheelsmith.index.entries.side_files import CORE_METADATA
from wheelsmith.index.entries.stored_states import LISTING, STATE, project_in, sift_states, state_key
from wheelsmith.index.publish.page_writer import TEMPORARY, project_pages, root_pages
from wheelsmith.index.publish.release import UploadReader
from wheelsmith.index.storage.protocol import Storage

_ROOT = re.compile(rf"{EVERYTHING}|projects|cpu|cu\d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexProblem:
    """One thing that is not as it should be.

    :param message: without a full stop.
    :param remedy: the command that fixes it.
    :param entry: the wheel, if it is about one.
    """

    key: str
    message: str
    remedy: str
    entry: IndexEntry | None = None

    def __str__(self) -> str:
        """Return the message."""
        return self.message


def verify(storage: Storage) -> tuple[IndexProblem, ...]:
    """Return what is wrong with the index; nothing is changed. Reads every wheel.

    :raises PackageIndexError: the storage cannot be read, or nothing lies there at all.
    """
    check_exists(storage)
    links = _Links(storage)
    states, broken = sift_states(storage)
    wrong = [_link(storage, key) for key in links.keys]
    wrong += [_broken(name, error) for name, error in sorted(broken.items()) if not links.lead_to(state_key(name))]
    with UploadReader() as reader:
        for entry in (entry for state in states.values() for entry in state.entries):
            wrong += _wheel_problems(storage, entry, links, reader)
    expected = expected_files(states, _listed(storage, broken, links))
    for key, data in sorted(expected.items()):
        if not links.lead_to(key):
            wrong += _page_problems(storage, key, data)
    return (*wrong, *_unasked(storage, expected, broken))


def check_exists(storage: Storage) -> None:
    """Refuse a place where nothing lies, such as a wrong address.

    :raises PackageIndexError: nothing lies there.
    """
    if next(storage.listing(""), None) is None and next(storage.non_regular(), None) is None:
        raise PackageIndexError(
            f"there is no index: nothing lies in {storage.name}",
            remedy="give the address of one, or make it: wheelsmith build-matrix, wheelsmith publish",
        )


def advise(storage: Storage) -> tuple[IndexProblem, ...]:
    """Return what is as the states say, and could be better."""
    advice = []
    for name, state in sift_states(storage)[0].items():
        standing = [entry for entry in state.entries if entry.yanked is None and entry.roots]
        for old, by in outranked(entry.version for entry in standing).items():
            message = f"{name} {old}, for more than one torch, sorts below {by}: who names no torch gets an older one"
            remedy = (
                f"build {name} {old.public} again with this wheelsmith and publish it: its wheel is called "
                f"{old}.{STABLE} now, and sorts above; what is there stays"
            )
            advice.append(IndexProblem(key=state_key(name), message=message, remedy=remedy))
    return tuple(advice)


def expected_files(states: Mapping[str, ProjectState], listed: Mapping[str, Listing] | None = None) -> dict[str, bytes]:
    """Return everything that is made from states: key → content.

    :param listed: the place in the lists of projects whose state is broken.
    """
    listing = {**(listed or {}), **{name: listing_of(state) for name, state in states.items()}}
    expected = root_pages(listing)
    if listing:
        expected[LISTING] = dump_listing(listing)
    for state in states.values():
        expected |= project_pages(state) | {file.path: file.data for file in variants_files(state)}
    return expected


def unasked_pages(storage: Storage) -> list[str]:
    """Return the files in the folders of pages that no state asks for.

    The pages of a project whose state is broken stay.
    """
    # The states after the files: what is published meanwhile has changed its state first.
    lying = [item.key for item in storage.listing("")]
    states, broken = sift_states(storage)
    expected = expected_files(states, _listed(storage, broken, _Links(storage)))
    return sorted(key for key in lying if _is_unasked(key, expected, broken))


def is_page(key: str) -> bool:
    """Return True if a file lies in a folder of pages. Hidden ones are being written."""
    root, _, rest = key.partition("/")
    return bool(rest) and bool(_ROOT.fullmatch(root)) and not TEMPORARY.fullmatch(key.rpartition("/")[2])


class _Links:
    """What is neither a file nor a folder."""

    def __init__(self, storage: Storage) -> None:
        self.keys = sorted(storage.non_regular())

    def lead_to(self, key: str) -> bool:
        """Return True if a file is a link, or lies behind one."""
        return any(key == link or key.startswith(f"{link}/") for link in self.keys)


def _listed(storage: Storage, broken: Mapping[str, object], links: _Links) -> dict[str, Listing]:
    """Return the place in the lists of projects whose state is broken."""
    stored = None if links.lead_to(LISTING) else storage.read(LISTING)
    try:
        lists = load_listing(stored)
    except PackageIndexError:
        return {}
    return {name: lists[name] for name in broken if name in lists}


def _is_unasked(key: str, expected: Mapping[str, bytes], broken: Mapping[str, object]) -> bool:
    return is_page(key) and key not in expected and key.split("/")[1] not in broken


def _unasked(storage: Storage, expected: Mapping[str, bytes], broken: Mapping[str, object]) -> Iterator[IndexProblem]:
    for item in sorted(storage.listing(""), key=lambda item: item.key):
        name = item.key.removeprefix(STATE)
        if _is_unasked(item.key, expected, broken):
            message = f"{item.key} is there, and no state asks for it"
            yield IndexProblem(key=item.key, message=message, remedy=_repair(storage))
        elif item.key.startswith(STATE) and not name.startswith((".", "runs/")) and project_in(item.key) is None:
            remedy = "move it out of the index, whose states lie in this folder"
            yield IndexProblem(key=item.key, message=f"{item.key} is no project's state", remedy=remedy)


def _page_problems(storage: Storage, key: str, data: bytes) -> Iterator[IndexProblem]:
    stored = storage.read(key)
    if stored is None or stored.data != data:
        message = f"{key} is missing" if stored is None else f"{key} is not what the state says"
        yield IndexProblem(key=key, message=message, remedy=_repair(storage))


def _broken(project: str, error: UnreadableError) -> IndexProblem:
    remedy = error.remedy or "restore it from a backup"
    return IndexProblem(key=state_key(project), message=str(error), remedy=remedy)


def _link(storage: Storage, key: str) -> IndexProblem:
    """Return the problem of a link: a page is simply written again; a published file must be put where the link is."""
    path = shlex.quote(f"{storage.name}/{key}")
    by_hand = f"put what it leads to in its place: cp -rL {path} {path}.copy && rm {path} && mv {path}.copy {path}"
    published = key.partition("/")[0] in {"files", STATE.rstrip("/")}
    return IndexProblem(
        key=key,
        message=f"{key} is a link or a pipe, where only files are served",
        remedy=by_hand if published else _repair(storage),
    )


def _wheel_problems(storage: Storage, entry: IndexEntry, links: _Links, reader: UploadReader) -> Iterator[IndexProblem]:
    def problem(message: str, remedy: str) -> IndexProblem:
        return IndexProblem(key=entry.path, message=message, remedy=remedy, entry=entry)

    if links.lead_to(entry.path):
        return
    repair, remove = _repair(storage), _remove(storage, entry)
    wheel = storage.read(entry.path)
    if wheel is None or hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        yield problem(
            f"{entry.filename} is {'listed but not there' if wheel is None else 'not the file that was published'}",
            f"{repair} --from FOLDER, which has the wheel whose sha256 is {entry.sha256}; "
            f"where nobody has it any more: {remove}",
        )
        return
    try:
        upload = reader.upload_of_bytes(entry.filename, wheel.data)
    except WheelsmithError as error:
        yield problem(error.message, f"publish another version, and: {remove}")
        return
    if entry.about != upload.entry.about:
        yield problem(f"the state tells other words of {entry.filename} than its METADATA", repair)
    for side in entry.with_files(upload.side_files).announced:
        if side not in entry.announced:
            yield problem(f"{side.filename} has another hash than its page says", repair)
            continue
        stored = None if links.lead_to(side.path) else storage.read(side.path)
        if links.lead_to(side.path) or (stored and side.matches(stored.data)):
            continue
        carried = (
            f"{repair} --from FOLDER, which has the {side.filename} whose sha256 is {side.sha256}; where nobody has it "
            f"any more: {remove}, and add the wheel again"
        )
        yield problem(
            f"{side.filename} is {'not the file that was published' if stored else 'listed but not there'}",
            repair if side.kind.suffix == CORE_METADATA else carried,
        )


def _remove(storage: Storage, entry: IndexEntry) -> str:
    return f"wheelsmith index remove {shlex.quote(storage.name)} {entry.project} {entry.filename}"


def _repair(storage: Storage) -> str:
    return f"wheelsmith index repair {shlex.quote(storage.name)}"
