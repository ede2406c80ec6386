"""Compare an index with its own state: every file, every side-car, every page."""

from __future__ import annotations

import hashlib
import io

from wheelsmith.errors import PackageIndexError
from wheelsmith.index.entry import IndexEntry
from wheelsmith.index.listing import dump_listing, listing_of
from wheelsmith.index.metadata import read_metadata
from wheelsmith.index.pages import project_pages, root_pages
from wheelsmith.index.storage import Storage
from wheelsmith.index.variants import variants_files
from wheelsmith.index.writer import LISTING, Index


def verify(storage: Storage) -> tuple[str, ...]:
    """Give what is wrong with the index, in words; nothing is changed.

    :raises PackageIndexError: a project's state cannot be read.
    """
    states = Index(storage).states()
    wrong = []
    for state in states.values():
        wrong += [trouble for entry in state.entries if (trouble := _file_trouble(storage, entry))]
    listing = {name: listing_of(state) for name, state in states.items()}
    expected = root_pages(listing)
    if states:
        expected[LISTING] = dump_listing(listing)
    for state in states.values():
        expected |= project_pages(state) | {file.path: file.data for file in variants_files(state)}
    for key, data in sorted(expected.items()):
        stored = storage.read(key)
        if stored is None or stored.data != data:
            wrong.append(f"{key} is not what the state says")
    return tuple(wrong)


def _file_trouble(storage: Storage, entry: IndexEntry) -> str | None:
    wheel, side_car = storage.read(entry.path), storage.read(f"{entry.path}.metadata")
    if wheel is None:
        return f"{entry.filename} is listed but not there"
    if hashlib.sha256(wheel.data).hexdigest() != entry.sha256:
        return f"{entry.filename} is not the file that was published"
    try:
        metadata = read_metadata(io.BytesIO(wheel.data), entry.filename)
    except PackageIndexError as error:
        return str(error)
    if side_car is None or side_car.data != metadata:
        return f"{entry.filename}.metadata is not the wheel's METADATA"
    if hashlib.sha256(metadata).hexdigest() != entry.metadata_sha256:
        return f"{entry.filename}.metadata has another hash than its page says"
    return None
