"""Sign the wheels of a run, and verify wheels in folders and on indexes."""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
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
from wheelsmith.base.redact import file_name
from wheelsmith.base.units import counted
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, Provenance
from wheelsmith.index.publish.input_folders import has_index, read_releases
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Listener, Status
from wheelsmith.model.run_record import RESULTS, RunRecord
from wheelsmith.run.published_wheels import published_wheels
from wheelsmith.wheel.attestation.bundle import LONGEST, SUFFIX, read_bundle
from wheelsmith.wheel.attestation.keys import SignedBundle, Signer
from wheelsmith.wheel.attestation.pep740 import SUFFIX as PROVENANCE
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.statement import BuildProvenance, is_same_build, write_statement
from wheelsmith.wheel.attestation.verification import Verified, verify_wheel
from wheelsmith.wheel.reader import WheelReader
from wheelsmith.wheel.recorded_plan import RecordedPlan

_BUILD_AGAIN = "build it again with wheelsmith build-matrix, or sign wheels from wheelsmith apart from other wheels"
_ADDRESSES = ("https://", "http://")
# Files that pip installs or builds: https://github.com/pypa/pip/blob/main/src/pip/_internal/utils/filetypes.py
_TARS = (".tar.gz", ".tgz", ".tar", ".tar.bz2", ".tbz", ".tar.xz", ".txz", ".tlz", ".tar.lz", ".tar.lzma")
_INSTALLABLE = (".whl", ".zip", *_TARS)
_UNSIGNED = "the wheel has no signature"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedWheel(Record):
    """A signed wheel.

    :param new: True if the signature is new; an equal statement by the same signer is kept.
    :param replaces: True if it replaces a signature by another signer.
    :param provenance: True if an index can offer the signature in the form of PEP 740.
    """

    wheel: str
    sha256: str
    new: bool
    replaces: bool
    provenance: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftWheel(Record):
    """A wheel of an earlier run, which signing does not change.

    :param signed: True if it has a signature.
    """

    wheel: str
    sha256: str
    signed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningResult(Record):
    """The wheels of a folder after signing.

    :param left: the wheels of earlier runs.
    """

    signed: tuple[SignedWheel, ...]
    left: tuple[LeftWheel, ...]

    @property
    def summary(self) -> str:
        """Return the counts as one line."""
        new, left = sum(each.new for each in self.signed), len(self.left)
        unsigned = sum(not each.signed for each in self.left)
        text = f"{counted(new, 'wheel')} signed, {len(self.signed) - new} already signed"
        if replaced := sum(each.replaces for each in self.signed):
            text += f"; {counted(replaced, 'signature')} by another signer replaced"
        if left:
            text += f"; {left} of earlier runs {'was left as it is' if left == 1 else 'were left as they are'}"
        return f"{text} ({unsigned} without a signature)" if unsigned else text


def sign(folder: Path, signer: Signer, by: CiRun) -> SigningResult:
    """Sign all wheels of a run in the index of a folder, or none of them.

    Wheels of earlier runs and of an older source stay unchanged.

    :param folder: the output folder of a run or a join.
    :param by: the CI run that built the wheels.
    :raises AttestationError: a wheel is not the one that the run built, or was not built by wheelsmith.
    :raises PackageIndexError: there is no index, or it cannot be written.
    """
    index = Index(Folder(folder / "index"))
    states = index.states()
    if not any(state.entries for state in states.values()):
        raise PackageIndexError(
            f"there is no index with wheels in {folder}", remedy="use a folder that build-matrix or join wrote"
        )
    wheels = folder / "wheels"
    if wheels.is_symlink():  # it may point anywhere
        raise PackageIndexError(f"{wheels} is a link", remedy=f"replace it by a folder: rm {shlex.quote(str(wheels))}")
    statements, left = _make_statements(folder, states, by)
    # Make all signatures before storing any, because a signing service may reject the next one.
    made = {
        name: [
            (entry, *_sign_if_needed(statement, _earlier_bundle(folder / "index", entry), signer))
            for entry, statement in each
        ]
        for name, each in statements.items()
    }
    for project, found in made.items():
        index.attach(project, {entry.sha256: _signature_files(signed) for entry, signed, *_ in found})
    signed_wheels = []
    for entry, signed, new, replaces in (each for found in made.values() for each in found):
        if (wheels / entry.filename).is_file():
            _write_beside(wheels / entry.filename, _signature_files(signed))
        provenance = signed.provenance is not None
        signed_wheels.append(
            SignedWheel(wheel=entry.filename, sha256=entry.sha256, new=new, replaces=replaces, provenance=provenance)
        )
    return SigningResult(signed=tuple(signed_wheels), left=tuple(left))


def _make_statements(
    folder: Path, states: Mapping[str, ProjectState], by: CiRun
) -> tuple[dict[str, list[tuple[IndexEntry, bytes]]], list[LeftWheel]]:
    """Return the wheels of a run with their statements, by project, and the wheels of earlier runs."""
    index, run = folder / "index", _run_record(folder)
    left: list[LeftWheel] = []
    statements: dict[str, list[tuple[IndexEntry, bytes]]] = {name: [] for name in states}
    with WheelReader() as reader:
        for name, entry in ((name, entry) for name, state in states.items() for entry in state.current):
            if entry.provenance and _is_of_earlier_run(entry, run):
                _read_recorded_plan(index, entry, entry.provenance, reader)
                left.append(LeftWheel(wheel=entry.filename, sha256=entry.sha256, signed=entry.bundle is not None))
            else:
                statements[name].append((entry, _make_statement(index, entry, run, by, reader)))
    return statements, left


def _signature_files(signed: SignedBundle) -> dict[str, bytes | None]:
    """Return the signature files of a wheel: suffix → content, or None to remove an earlier file."""
    return {SUFFIX: signed.bundle, PROVENANCE: signed.provenance}


def _write_beside(wheel: Path, files: Mapping[str, bytes | None]) -> None:
    for suffix, data in files.items():
        path = wheel.with_name(f"{wheel.name}{suffix}")
        if data is not None:
            atomic_write(path, data)
        else:
            path.unlink(missing_ok=True)


def _sign_if_needed(statement: bytes, before: bytes | None, signer: Signer) -> tuple[SignedBundle, bool, bool]:
    """Return the signature of a statement, whether it is new, and whether it replaces one by another signer.

    Different times alone do not need a new one.
    """
    replaces = False
    if before:
        with suppress(AttestationError):  # an unreadable bundle is replaced
            kept = signer.reuse(before)
            replaces = kept is None
            if kept and is_same_build(read_bundle(before).statement, statement):
                return kept, False, False
    return signer.sign(statement), True, replaces


def _make_statement(index: Path, entry: IndexEntry, run: RunRecord, by: CiRun, reader: WheelReader) -> bytes:
    """Return the statement to sign for a wheel."""
    known = entry.provenance
    if known is None or not _is_of_run(entry, known, run):
        raise AttestationError(f"{entry.filename} has no record of its build", remedy=_BUILD_AGAIN)
    recorded = _read_recorded_plan(index, entry, known, reader)
    built = any(each.status is Status.BUILT for each in run.results if each.plan_digest == known.plan_digest)
    made = BuildProvenance(
        cells=tuple(sorted(cell.id for cell in entry.cells)),
        source=known.source,
        wheelsmith=known.wheelsmith,
        builder=by.builder,
        invocation=by.invocation,
        checkout=by.checkout,
        image=known.image,
        matrix_sha256=run.matrix_sha256,
        started_on=run.started_on if built else None,
        finished_on=run.finished_on if built else None,
    )
    return write_statement(entry.filename, entry.sha256, recorded, made)


def _read_recorded_plan(index: Path, entry: IndexEntry, known: Provenance, reader: WheelReader) -> RecordedPlan:
    """Return the plan that a wheel records.

    :raises AttestationError: the wheel or its plan is not the one in the index.
    """
    path = index / entry.path
    try:
        if sha256_file(path) != entry.sha256:
            raise AttestationError(f"{entry.filename} is not the file that was built", remedy=_BUILD_AGAIN)
        recorded = reader.recorded_plan(path)
    except (OSError, WheelError) as error:
        reason = error.message if isinstance(error, WheelError) else error.strerror
        raise AttestationError(f"{entry.filename} cannot be read: {reason}", remedy=_BUILD_AGAIN) from None
    if recorded is None or recorded.digest != known.plan_digest or recorded.tree != known.source.tree:
        raise AttestationError(f"{entry.filename} does not record the plan that it was built from", remedy=_BUILD_AGAIN)
    return recorded


def _is_of_earlier_run(entry: IndexEntry, run: RunRecord) -> bool:
    """Return True if a run's record has no wheel of this name, nor the plain wheel that it was made from."""
    names = {cell.result.wheel.filename for cell in run.planned if cell.result and cell.result.wheel}
    return (entry.variant_of or entry.filename) not in names


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


def _earlier_bundle(index: Path, entry: IndexEntry) -> bytes | None:
    """Return the earlier signature bundle of a wheel; None if there is none or its file is missing."""
    for side in entry.announced:
        if side.kind.suffix == SUFFIX and (stored := Folder(index).read(side.path)):
            return stored.data
    return None


def _run_record(folder: Path) -> RunRecord:
    try:
        return RunRecord.read(folder)
    except (OSError, ValueError) as error:
        raise AttestationError(
            f"the wheels in {folder} have no record of their build: {RESULTS} cannot be read: {in_one_line(error)}",
            remedy=_BUILD_AGAIN,
        ) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement(Record):
    """The verdict on one wheel: verified or refused.

    :param refused: the reasons for refusing it, as one text.
    """

    wheel: str
    verified: Verified | None = None
    refused: str | None = None


def verify(
    places: Sequence[str], policy: SignaturePolicy, listen: Listener, bundle: Path | None = None
) -> Iterator[Judgement]:
    """Yield the verdict on each wheel.

    :param places: wheels, folders with wheels or an index, and addresses of indexes.
    :param bundle: the signature of the only wheel in ``places``; None for the file next to each wheel.
    :raises WheelsmithError: there is no wheel, or an index is incomplete.
    """
    with tempfile.TemporaryDirectory(prefix="wheelsmith-") as scratch, WheelReader() as reader:
        for number, place in enumerate(places):
            path = Path(place)
            if place.startswith(_ADDRESSES):
                fetched = published_wheels(place, Path(scratch) / str(number), listen)
                found: Iterator[tuple[Path, bytes | Path | None]] = ((each.path, each.bundle) for each in fetched)
            elif path.is_dir():
                found = _wheels_with_signatures(path)
            else:
                found = iter([(path, bundle or _bundle_path(path))])
            for wheel, signature in found:
                yield _judge(wheel, signature, policy, reader)


def _wheels_with_signatures(folder: Path) -> Iterator[tuple[Path, bytes | Path | None]]:
    """Yield the wheels of a folder, each with its signature or the path of it.

    :raises PackageIndexError: there is none.
    """
    release = read_releases([folder] if has_index(folder) else [])
    offers = (*release.uploads, *release.left_out)
    yield from ((offer.wheel, offer.side_files.get(SUFFIX)) for offer in offers)
    listed = {(offer.entry.filename, offer.entry.sha256) for offer in offers}
    loose = _loose_files(folder)
    if not (offers or loose):
        raise PackageIndexError(f"there is no wheel in {folder}")
    for wheel in loose:
        if not _is_file(wheel) or (wheel.name, sha256_file(wheel)) not in listed:
            yield wheel, _bundle_path(wheel)


def _loose_files(folder: Path) -> list[Path]:
    """Return the files that installers would install or build, at any depth, except the files of an index."""
    own = [root / "files" for root in (folder, folder / "index") if has_index(root)]
    found = (path for path in folder.rglob("*") if path.name.lower().endswith(_INSTALLABLE))
    return sorted(path for path in found if not any(path.is_relative_to(each) for each in own))


def _bundle_path(wheel: Path) -> Path:
    return wheel.with_name(f"{wheel.name}{SUFFIX}")


def _is_file(wheel: Path) -> bool:
    return wheel.is_file() and not wheel.is_symlink()


def _judge(wheel: Path, bundle: bytes | Path | None, policy: SignaturePolicy, reader: WheelReader) -> Judgement:
    name = file_name(wheel)
    try:
        return Judgement(wheel=name, verified=verify_wheel(wheel, _bundle_data(bundle), policy, reader))
    except SigningKeyError:
        # The cause is an unreadable trusted key, not the wheel.
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
    except (OSError, ValueError) as error:
        raise AttestationError(f"{bundle.name} cannot be read: {in_one_line(error)}") from None
