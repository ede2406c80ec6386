"""What is to be built again, and from what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.index.publish import release_from
from wheelsmith.run.prepare import Request


@dataclass(frozen=True, slots=True, kw_only=True)
class RebuildRequest:
    """What is to be built again.

    :param wheels: that anybody made.
    :param run: the matrix, the engine, the cache.
    :param source: where the source is, as ``init`` is told; None takes the matrix, and what it names.
    """

    wheels: tuple[Path, ...]
    run: Request
    source: str | None = None


def wheels_in(places: Sequence[Path]) -> tuple[Path, ...]:
    """Return wheels: files as they are, and of folders all that lies in them, or in an index there.

    :raises PackageIndexError: a folder has none, or an index that is not whole.
    """
    found = [path for place in places for path in (_inside(place) if place.is_dir() else [place])]
    return tuple(dict.fromkeys(found))


def _inside(folder: Path) -> list[Path]:
    return [offer.wheel for offer in release_from([folder]).offers]
