"""What is to be built again, and from what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.index.publish import loose_wheels, release_from
from wheelsmith.model import Listener
from wheelsmith.run.prepare import Request
from wheelsmith.run.rebuild.published import published_wheels

_ADDRESSES = ("https://", "http://")


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest:
    """What is to be built again.

    :param places: wheels that anybody made, folders with wheels or an index in them, and addresses of indexes.
    :param run: the matrix, the engine, the cache.
    :param source: where the source is, as ``init`` is told; None takes the matrix, and what it names.
    """

    places: tuple[str, ...]
    run: Request
    source: str | None = None


def wheels_in(places: Sequence[str], folder: Path, listen: Listener) -> tuple[Path, ...]:
    """Return wheels: files as they are, and of folders and indexes all that is there.

    :param folder: an empty one, for what is fetched.
    :raises PackageIndexError: there is none, or the index is not whole.
    """
    found = [path for number, place in enumerate(places) for path in _at(place, folder / str(number), listen)]
    return tuple(dict.fromkeys(found))


def _at(place: str, folder: Path, listen: Listener) -> Iterable[Path]:
    if place.startswith(_ADDRESSES):
        return (each.path for each in published_wheels(place, folder, listen))
    path = Path(place)
    if not path.is_dir():
        return [path]
    # Each has an answer of its own, also one that cannot be read.
    return loose_wheels(path) or [offer.wheel for offer in release_from([path]).offers]
