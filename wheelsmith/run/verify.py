"""Verify wheels wherever they are: files, folders, indexes in folders and on the network."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.errors import AttestationError, PackageIndexError, SigningKeyError, WheelsmithError, system_error
from wheelsmith.base.files import read_bounded, sha256_file
from wheelsmith.base.json_dataclass import Record
from wheelsmith.base.redact import redact
from wheelsmith.index.publish import has_index, release_from
from wheelsmith.model import Listener
from wheelsmith.run.rebuild.published import published_wheels
from wheelsmith.wheel.attestation.bundle import LONGEST, SUFFIX
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.verification import Verified, verify_wheel
from wheelsmith.wheel.reader import WheelReader

_ADDRESSES = ("https://", "http://")
# What pip installs from, and builds from: https://github.com/pypa/pip/blob/main/src/pip/_internal/utils/filetypes.py
_TARS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tlz", ".tar.lz", ".tar.lzma")
_INSTALLED = (".whl", ".zip", *_TARS)
_NONE = "nothing signed lies beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement(Record):
    """What became of one wheel: just one of both.

    :param refused: all that is wrong.
    """

    wheel: str
    verified: Verified | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _WithBundle:
    """A wheel, and what was signed of it; where that cannot be read, why."""

    wheel: Path
    bundle: bytes | None
    trouble: str = _NONE


def verify(
    places: Sequence[str], policy: SignaturePolicy, listen: Listener, bundle: Path | None = None
) -> Iterator[Judgement]:
    """Yield what holds of each wheel.

    :param places: wheels, folders with wheels or an index in them, and addresses of indexes.
    :param bundle: what was signed of the one wheel that is named; None takes what lies beside each.
    :raises WheelsmithError: there is no wheel, or an index is not whole.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch, WheelReader() as reader:
        for number, place in enumerate(places):
            for found in _at(place, Path(scratch) / str(number), bundle, listen):
                yield _judged(found, policy, reader)


def _at(place: str, folder: Path, bundle: Path | None, listen: Listener) -> Iterator[_WithBundle]:
    if place.startswith(_ADDRESSES):
        for each in published_wheels(place, folder, listen):
            yield _with_file(each.path, each.bundle)
        return
    path = Path(place)
    if not path.is_dir():
        yield _with_file(path, bundle or _beside(path))
        return
    found, listed = False, set()
    if has_index(path):
        for offer in release_from([path]).offers:
            found = True
            listed.add((offer.entry.filename, offer.entry.sha256))
            yield _WithBundle(wheel=offer.wheel, bundle=offer.side_files.get(SUFFIX))
    for wheel in _lying(path):
        found = True
        if wheel.is_symlink() or not wheel.is_file():
            yield _WithBundle(wheel=wheel, bundle=None, trouble="it is a link, or no file")
        elif (wheel.name, sha256_file(wheel)) not in listed:
            yield _with_file(wheel, _beside(wheel))
    if not found:
        raise PackageIndexError(f"there is no wheel in {path}")


def _lying(folder: Path) -> list[Path]:
    """Return what installers could take for a wheel, or build one from, at any depth; not the files of an index."""
    own = [root / "files" for root in (folder, folder / "index") if has_index(root)]
    found = (path for path in folder.rglob("*") if path.name.lower().endswith(_INSTALLED))
    return sorted(path for path in found if not any(path.is_relative_to(each) for each in own))


def _beside(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}{SUFFIX}")


def _with_file(wheel: Path, bundle: Path | None) -> _WithBundle:
    if bundle is None:
        return _WithBundle(wheel=wheel, bundle=None)
    try:
        return _WithBundle(wheel=wheel, bundle=read_bounded(bundle, LONGEST))
    except FileNotFoundError:
        return _WithBundle(wheel=wheel, bundle=None, trouble=f"there is no {bundle.name}: {_NONE}")
    except OSError as error:
        return _WithBundle(wheel=wheel, bundle=None, trouble=f"{bundle.name} cannot be read: {error.strerror or error}")
    except ValueError as error:
        return _WithBundle(wheel=wheel, bundle=None, trouble=f"{bundle.name}: {error}")


def _judged(found: _WithBundle, policy: SignaturePolicy, reader: WheelReader) -> Judgement:
    name = redact(found.wheel.name)  # of what was meant to be an address, too
    try:
        if found.bundle is None:
            raise AttestationError(found.trouble)
        return Judgement(wheel=name, verified=verify_wheel(found.wheel, found.bundle, policy, reader))
    except SigningKeyError:
        # What is trusted cannot be read: that is no wheel's fault.
        raise
    except WheelsmithError as error:
        return Judgement(wheel=name, refused=error.message)
    except OSError as error:
        return Judgement(wheel=name, refused=system_error(error).message)
