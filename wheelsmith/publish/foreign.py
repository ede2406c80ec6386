"""Wheels that wheelsmith need not have made."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.metadata import parse_email
from packaging.utils import canonicalize_name

from wheelsmith.errors import Place, WheelError
from wheelsmith.index import Offer
from wheelsmith.model import Cell
from wheelsmith.publish.release import offer_of
from wheelsmith.tags import cuda_of, read_wheel_name, same_version
from wheelsmith.wheel import torch_mistake, wheel_file

_LOCAL = re.compile(r"(?P<compute>cpu|cu\d{2,3}\d)(\.torch(?P<torch>\d+\.\d+))?")
_ARCHS = ("x86_64", "aarch64")


def foreign_wheel(path: Path) -> Offer:
    """Return a wheel that wheelsmith need not have made; which cells it serves is read from its local version.

    :raises WheelError: it cannot be read as a wheel, or is not what its file name says.
    """
    offer = offer_of(path, wheel_file(path), _cells_of(path.name), None)
    check_names(offer)
    if offer.entry.requires_torch is not None and (why := torch_mistake(offer.wheel)):
        raise WheelError(
            why,
            where=Place(file=offer.entry.filename),
            remedy="build it with the Requires-Dist that its version says",
        )
    return offer


def check_names(offer: Offer) -> None:
    """Refuse what installers would disagree on.

    :raises WheelError: METADATA has another name or version than the file's name.
    """
    filename, (said, _) = offer.entry.filename, parse_email(offer.metadata)
    name = read_wheel_name(filename)
    # pip finds no wheel where METADATA has another version; uv installs it.
    if canonicalize_name(said.get("name", "")) != name.project or not same_version(said.get("version"), name.version):
        raise WheelError(
            f"METADATA says {said.get('name')} {said.get('version')}",
            where=Place(file=filename),
            remedy="build it with that version: to rename the file is not enough",
        )


def _cells_of(filename: str) -> tuple[Cell, ...]:
    """Read ``+cu130.torch2.11`` as the cells that it names; other local versions name none."""
    name = read_wheel_name(filename)
    match = _LOCAL.fullmatch(name.version.local or "")
    if not match or not match["torch"]:
        return ()
    cuda = cuda_of(match["compute"])
    platforms = {tag.platform for tag in name.tags}
    archs = [arch for arch in _ARCHS if "any" in platforms or any(p.endswith(f"_{arch}") for p in platforms)]
    return tuple(Cell(torch=match["torch"], cuda=cuda, arch=arch) for arch in archs)
