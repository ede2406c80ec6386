"""Sign the wheels that a run left, and verify wheels wherever they are."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.ci import CiRun
from wheelsmith.base.errors import (
    AttestationError,
    PackageIndexError,
    SigningKeyError,
    WheelError,
    WheelsmithError,
    system_error,
)
from wheelsmith.base.files import atomic_write, read_bounded, sha256_file
from wheelsmith.base.json_dataclass import Record, in_one_line
from wheelsmith.base.redact import redact
from wheelsmith.index.entries.entry import IndexEntry, Provenance
from wheelsmith.index.publish.input_folders import has_index, release_from
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Listener, Status
from wheelsmith.model.run_record import RESULTS, RunRecord
from wheelsmith.run.published_wheels import published_wheels
from wheelsmith.wheel.attestation.bundle import LONGEST, SUFFIX, read_bundle
from wheelsmith.wheel.attestation.keys import SignedBundle, Signer
from wheelsmith.wheel.attestation.pep740 import SUFFIX as PROVENANCE
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.statement import Made, says_the_same, write_statement
from wheelsmith.wheel.attestation.verification import Verified, verify_wheel
from wheelsmith.wheel.reader import WheelReader

_AGAIN = "build it again: wheelsmith build-matrix; or sign what wheelsmith built apart from other wheels"
_ADDRESSES = ("https://", "http://")
# What pip installs from, and builds from: https://github.com/pypa/pip/blob/main/src/pip/_internal/utils/filetypes.py
_TARS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tlz", ".tar.lz", ".tar.lzma")
_INSTALLED = (".whl", ".zip", *_TARS)
_UNSIGNED = "nothing signed lies beside it"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedWheel(Record):
    """A wheel that has a signature now.

    :param provenance: whether an index can offer it as PEP 740 has it.
    :param new: whether it was made now; a statement that says the same and is by the same signer stays.
    """

    wheel: str
    sha256: str
    new: bool
    provenance: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Signing:
    """What is to be signed, and what is said of all of it.

    :param folder: a run's output folder, or a join's.
    :param by: who built.
    """

    folder: Path
    signer: Signer
    by: CiRun


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signable:
    entry: IndexEntry
    path: Path
    statement: bytes
    before: bytes | None


def sign(signing: Signing) -> tuple[SignedWheel, ...]:
    """Sign every wheel of the folder's index; all of them can be signed, or none is.

    :raises AttestationError: a wheel is not what the run left, or was not made by wheelsmith.
    :raises PackageIndexError: there is no index, or it cannot be written.
    """
    index = Index(Folder(signing.folder / "index"))
    states = index.states()
    if not any(state.entries for state in states.values()):
        raise PackageIndexError(
            f"there is no index with wheels in {signing.folder}", remedy="name a folder that build-matrix or join wrote"
        )
    beside = _wheels_of(signing.folder)
    run = _run_record(signing.folder)
    with WheelReader() as reader:
        todo = {
            name: [_signable(signing, entry, run, reader) for entry in state.entries] for name, state in states.items()
        }
    # All signatures before any is kept: a service may refuse the next one.
    made = {name: [(each, *_signed(each, signing.signer)) for each in wheels] for name, wheels in todo.items()}
    for project, wheels in made.items():
        index.attach(project, {each.entry.sha256: _files(signed) for each, signed, _ in wheels})
    told = []
    for each, signed, new in (found for wheels in made.values() for found in wheels):
        if (beside / each.entry.filename).is_file():
            _write_beside(beside / each.entry.filename, _files(signed))
        told.append(
            SignedWheel(
                wheel=each.entry.filename,
                sha256=each.entry.sha256,
                new=new,
                provenance=signed.provenance is not None,
            )
        )
    return tuple(told)


def _files(signed: SignedBundle) -> dict[str, bytes | None]:
    """Return what is to lie beside a wheel: suffix → content, None for what may not stay of an earlier signature."""
    return {SUFFIX: signed.bundle, PROVENANCE: signed.provenance}


def _write_beside(wheel: Path, files: Mapping[str, bytes | None]) -> None:
    for suffix, data in files.items():
        path = wheel.with_name(f"{wheel.name}{suffix}")
        if data is not None:
            atomic_write(path, data)
        else:
            path.unlink(missing_ok=True)


def _wheels_of(folder: Path) -> Path:
    """Return where a run left its wheels under their names alone.

    :raises PackageIndexError: a link stands there, which may lead anywhere.
    """
    wheels = folder / "wheels"
    if wheels.is_symlink():
        raise PackageIndexError(
            f"{wheels} is a link", remedy=f"put a folder in its place: rm {shlex.quote(str(wheels))}"
        )
    return wheels


def _signed(wheel: _Signable, signer: Signer) -> tuple[SignedBundle, bool]:
    """Return what is signed of a wheel, and whether it was signed now: times are no reason to sign again."""
    before = wheel.before
    if before and says_the_same(read_bundle(before).statement, wheel.statement) and (kept := _kept(before, signer)):
        return kept, False
    return signer.sign(wheel.statement), True


def _kept(before: bytes, signer: Signer) -> SignedBundle | None:
    try:
        return signer.kept(before)
    except AttestationError:
        return None


def _signable(signing: Signing, entry: IndexEntry, run: RunRecord, reader: WheelReader) -> _Signable:
    folder = signing.folder / "index"
    path = folder / entry.path
    known = entry.provenance
    if known is None or not _is_of_run(entry, known, run):
        raise AttestationError(f"nobody says how {entry.filename} was made", remedy=_AGAIN)
    try:
        if sha256_file(path) != entry.sha256:
            raise AttestationError(f"{entry.filename} is not the file that was built", remedy=_AGAIN)
        recorded = reader.recorded_plan(path)
    except OSError as error:
        raise AttestationError(f"{entry.filename} cannot be read: {error.strerror}", remedy=_AGAIN) from None
    except WheelError as error:
        raise AttestationError(f"{entry.filename} cannot be read: {error.message}", remedy=_AGAIN) from None
    if recorded is None or recorded.digest != known.plan_digest or recorded.tree != known.source.tree:
        raise AttestationError(f"{entry.filename} does not record the plan that it was built from", remedy=_AGAIN)
    statuses = {result.status for result in run.results if result.plan_digest == known.plan_digest}
    built = Status.BUILT in statuses
    made = Made(
        cells=tuple(sorted(cell.id for cell in entry.cells)),
        source=known.source,
        wheelsmith=known.wheelsmith,
        builder=signing.by.builder,
        invocation=signing.by.invocation,
        checkout=signing.by.checkout,
        image=known.image,
        matrix_sha256=run.matrix_sha256,
        started_on=run.started_on if built else None,
        finished_on=run.finished_on if built else None,
    )
    statement = write_statement(entry.filename, entry.sha256, recorded, made)
    return _Signable(entry=entry, path=path, statement=statement, before=_bundle_of(folder, entry))


def _is_of_run(entry: IndexEntry, known: Provenance, run: RunRecord) -> bool:
    """Return True if a run's record has the wheel, or the plain wheel that a variant wheel was made from."""
    for cell in run.planned:
        result, planned = cell.result, cell.planned
        if not (result and result.wheel and planned) or result.plan_digest != known.plan_digest:
            continue
        wheel = result.wheel
        same = wheel.sha256 == entry.sha256 if entry.variant is None else wheel.filename == entry.variant_of
        if same and planned.source == known.source:
            return True
    return False


def _bundle_of(folder: Path, entry: IndexEntry) -> bytes | None:
    """Return what was signed of a wheel before; None where nothing was, or it is lost or broken."""
    for side in entry.announced:
        if side.kind.suffix == SUFFIX and (stored := Folder(folder).read(side.path)):
            try:
                read_bundle(stored.data)
            except AttestationError:
                return None
            return stored.data
    return None


def _run_record(folder: Path) -> RunRecord:
    try:
        return RunRecord.read(folder)
    except (OSError, ValueError) as error:
        raise AttestationError(
            f"nobody says how the wheels in {folder} were made: {RESULTS} cannot be read: {in_one_line(error)}",
            remedy=_AGAIN,
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement(Record):
    """The verdict on one wheel: verified or refused.

    :param refused: all that is wrong.
    """

    wheel: str
    verified: Verified | None = None
    refused: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Candidate:
    """A wheel to verify.

    :param bundle: its signature, or the file with it; None where there is none.
    :param refused: why the wheel is refused unread.
    """

    wheel: Path
    bundle: bytes | Path | None
    refused: str | None = None


def verify(
    places: Sequence[str], policy: SignaturePolicy, listen: Listener, bundle: Path | None = None
) -> Iterator[Judgement]:
    """Yield the verdict on each wheel.

    :param places: wheels, folders with wheels or an index in them, and addresses of indexes.
    :param bundle: the signature of the one wheel that is named; None takes the one beside each wheel.
    :raises WheelsmithError: there is no wheel, or an index is incomplete.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch, WheelReader() as reader:
        for number, place in enumerate(places):
            for found in _candidates(place, Path(scratch) / str(number), bundle, listen):
                yield _judge(found, policy, reader)


def _candidates(place: str, folder: Path, bundle: Path | None, listen: Listener) -> Iterator[_Candidate]:
    if place.startswith(_ADDRESSES):
        for each in published_wheels(place, folder, listen):
            yield _Candidate(wheel=each.path, bundle=each.bundle)
        return
    path = Path(place)
    if not path.is_dir():
        yield _Candidate(wheel=path, bundle=bundle or _beside(path))
        return
    found, listed = False, set()
    if has_index(path):
        for offer in release_from([path]).offers:
            found = True
            listed.add((offer.entry.filename, offer.entry.sha256))
            yield _Candidate(wheel=offer.wheel, bundle=offer.side_files.get(SUFFIX))
    for wheel in _loose_files(path):
        found = True
        if wheel.is_symlink() or not wheel.is_file():
            yield _Candidate(wheel=wheel, bundle=None, refused="it is a link, or no file")
        elif (wheel.name, sha256_file(wheel)) not in listed:
            yield _Candidate(wheel=wheel, bundle=_beside(wheel))
    if not found:
        raise PackageIndexError(f"there is no wheel in {path}")


def _loose_files(folder: Path) -> list[Path]:
    """Return what installers would install, or build, at any depth; not the files of an index."""
    own = [root / "files" for root in (folder, folder / "index") if has_index(root)]
    found = (path for path in folder.rglob("*") if path.name.lower().endswith(_INSTALLED))
    return sorted(path for path in found if not any(path.is_relative_to(each) for each in own))


def _beside(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}{SUFFIX}")


def _judge(found: _Candidate, policy: SignaturePolicy, reader: WheelReader) -> Judgement:
    name = redact(found.wheel.name)  # it may be a mistyped address
    try:
        if found.refused:
            raise AttestationError(found.refused)
        verified = verify_wheel(found.wheel, _bundle_data(found.bundle), policy, reader)
        return Judgement(wheel=name, verified=verified)
    except SigningKeyError:
        # A trusted key cannot be read: no wheel is to blame.
        raise
    except WheelsmithError as error:
        return Judgement(wheel=name, refused=error.message)
    except OSError as error:
        return Judgement(wheel=name, refused=system_error(error).message)


def _bundle_data(bundle: bytes | Path | None) -> bytes:
    if isinstance(bundle, bytes):
        return bundle
    if bundle is None:
        raise AttestationError(_UNSIGNED)
    try:
        return read_bounded(bundle, LONGEST)
    except FileNotFoundError:
        raise AttestationError(f"there is no {bundle.name}: {_UNSIGNED}") from None
    except OSError as error:
        raise AttestationError(f"{bundle.name} cannot be read: {error.strerror or error}") from None
    except ValueError as error:
        raise AttestationError(f"{bundle.name}: {error}") from None
