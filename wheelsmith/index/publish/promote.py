"""Promote a version from one index to another: all of its wheels or none. Nothing is built or renamed."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial

from packaging.version import Version

from wheelsmith.base.errors import AddressError, PackageIndexError, PromotionError
from wheelsmith.base.units import is_prerelease, show_moment
from wheelsmith.frameworks import read_local_version
from wheelsmith.index.entries.entry import IndexEntry, ProjectState, WheelOutcome, worst_tests
from wheelsmith.index.entries.state import completeness, is_known, select_version, set_address
from wheelsmith.index.entries.stored_states import load_existing_project, load_project
from wheelsmith.index.publish.input_folders import read_listed_wheel
from wheelsmith.index.publish.kernels_layout import add_release, hub_builds
from wheelsmith.index.publish.publishing import Published, check_signatures
from wheelsmith.index.publish.release import IndexRelease, UploadReader, WheelUpload
from wheelsmith.index.storage.protocol import Storage

_MAX_NAMES = 3  # maximum number of names in a message
_CHANNEL = re.compile(r"[a-z][a-z0-9-]{0,60}", re.ASCII)
# Names of folders that an index contains or may contain in future.
_RESERVED = re.compile(r"files|projects|simple|build|cpu|xpu|cu\d+|rocm[\d.]*", re.ASCII)
_MAX_SHOWN = 100  # characters shown in a message
_MAX_WHEELS = 2  # wheels in memory at the same time


# The channels that take wheels for pre-releases of torch. All others are stable.
_UNSTABLE = ("nightly", "test")
NOT_STABLE_REMEDY = f"only channels {' and '.join(_UNSTABLE)} take it; build the version without it for other channels"


class RequiredOutcome(StrEnum):
    """The test results that every wheel must have."""

    PASSED = "passed"
    TESTED = "tested"
    NOT_FAILED = "not-failed"
    NOTHING = "nothing"

    def admits(self, outcome: WheelOutcome) -> bool:
        """Return True if a wheel with this result may be promoted."""
        refused = {
            RequiredOutcome.PASSED: {WheelOutcome.FAILED, WheelOutcome.FLAKY, WheelOutcome.UNTESTED},
            RequiredOutcome.TESTED: {WheelOutcome.FAILED, WheelOutcome.UNTESTED},
            RequiredOutcome.NOT_FAILED: {WheelOutcome.FAILED},
            RequiredOutcome.NOTHING: set[WheelOutcome](),
        }
        return outcome not in refused[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Promotion:
    """The version to promote, and the conditions.

    :param project: normalized name of the project.
    :param version: the version, without a local part.
    :param tests: the test results that every wheel must have.
    :param channel: name of the target channel.
    :param address: address to set in the target; None keeps the target's own.
    :param incomplete: True promotes the version even if planned cells have no wheel or the plan is not known.
    """

    project: str
    version: str
    tests: RequiredOutcome = RequiredOutcome.NOT_FAILED
    channel: str | None = None
    address: str | None = None
    incomplete: bool = False

    def __str__(self) -> str:
        """Return the project and the version."""
        return f"{self.project} {self.version}"


def promote(source: Storage, target: Storage, promotion: Promotion, target_address: str) -> Published:
    """Add all wheels of a version to another index with one change of its state.

    :param target_address: address of the target. A kernel repo on the Hub also gets builds for the ``kernels`` library.
    :raises PackageIndexError: the version does not fulfil the conditions, or changed during the promotion. The target
        is unchanged.
    """
    state = _promoted_state(source, promotion)
    listed = {entry.filename: entry for entry in load_project(target, promotion.project)[0].entries}
    published = [entry for entry in state.entries if _is_published(target, listed.get(entry.filename), entry)]
    published_keys = {entry.key for entry in published}
    wheels = [entry for entry in state.entries if entry.key not in published_keys]

    def transition(before: ProjectState) -> ProjectState:
        if _promoted_state(source, promotion) != state:
            raise _changed_error(promotion, source)
        # Another writer may have removed a wheel since the target was read.
        if not published_keys <= {entry.key for entry in before.entries}:
            raise _changed_error(promotion, target)
        _check_not_yanked(before, promotion, target)
        addressed = set_address(before, promotion.address) if promotion.address else before
        tested = _merge_recorded_tests(addressed, state)
        _check_results(tested, published_keys | {entry.key for entry in wheels}, promotion, target)
        return tested

    with UploadReader() as reader, ThreadPoolExecutor(_MAX_WHEELS) as pool:
        release = IndexRelease(
            uploads=tuple(pool.map(partial(_fetch, source, reader), wheels)),
            answers={promotion.project: state.answers},
            planned={promotion.project: state.planned},
        )
        check_signatures(release.uploads)
        with hub_builds(release.uploads, target_address) as hub:
            new = add_release(
                target,
                release,
                hub.builds,
                upload_time=show_moment(time.time()),
                revise={promotion.project: transition},
            )
    return Published(new=new, known=tuple(published))


def promote_all(source: Storage, target: Storage, promotions: Sequence[Promotion], target_address: str) -> Published:
    """Promote versions of several projects, if all of them fulfil the conditions.

    :raises PackageIndexError: see ``promote``.
    """
    for promotion in promotions:
        _promoted_state(source, promotion)
    done = [promote(source, target, promotion, target_address) for promotion in promotions]
    return Published(
        new=tuple(entry for each in done for entry in each.new),
        known=tuple(entry for each in done for entry in each.known),
    )


def channel_address(index: str, channel: str) -> str:
    """Return the address of a channel: a separate index in a subfolder of the index.

    :raises PackageIndexError: the name is not allowed for a channel.
    """
    if not _CHANNEL.fullmatch(channel) or _RESERVED.fullmatch(channel):
        raise AddressError(
            f"{channel!r} is not a valid channel name",
            remedy="use lower-case letters, digits and hyphens, and no folder name of an index, for example nightly",
        )
    return f"{index.rstrip('/')}/{channel}"


def why_not_stable(entries: Iterable[IndexEntry], channel: str | None) -> str | None:
    """Return why a stable channel does not take some wheels, or None if it does or is not stable.

    :param channel: None for an index without channels, which is not stable.
    """
    if channel is None or channel in _UNSTABLE:
        return None
    locals_ = ((entry.filename, read_local_version(entry.version.local)) for entry in entries)
    found = [filename for filename, local in locals_ if local.release and is_prerelease(local.release)]
    return f"for a pre-release of torch: {_shorten(found)}" if found else None


def public_version(text: str) -> str:
    """Return a version in normalized form.

    :raises PackageIndexError: the version is invalid or has a local part.
    """
    try:
        version = Version(text)
    except ValueError:  # InvalidVersion, or a number of thousands of digits
        raise PackageIndexError(f"{text[:_MAX_SHOWN]!r} is not a version") from None
    if version.local:
        raise PackageIndexError(
            f"{text} has a local part, and only complete versions are promoted", remedy=f"use {version.public}"
        )
    return str(version)


def _promoted_state(source: Storage, promotion: Promotion) -> ProjectState:
    """Return the state of a project, reduced to the promoted version.

    :raises PackageIndexError: the version does not exist or does not fulfil the conditions.
    """
    state = load_existing_project(source, promotion.project)
    version = promotion.version
    entries = select_version(state.entries, version)
    if not entries:
        there = sorted({entry.public for entry in state.entries}, reverse=True)
        raise PackageIndexError(
            f"{source.name} has no wheel of {promotion}",
            remedy=f"choose an available version: {', '.join(map(str, there[:_MAX_NAMES])) or 'there is none'}",
        )
    if wrong := list(_refusals(state, entries, promotion)):
        raise PromotionError(f"{promotion} was not promoted: {'; '.join(wrong)}")
    return replace(
        state,
        entries=entries,
        answers=tuple(answer for answer in state.answers if Version(answer.version) == Version(version)),
        planned=tuple(item for item in state.planned if Version(item.version) == Version(version)),
        removed=(),
    )


def _refusals(state: ProjectState, entries: Sequence[IndexEntry], promotion: Promotion) -> Iterator[str]:
    if not state.status.takes_wheels:
        yield f"the project is {state.status}"
    if why := why_not_stable(entries, promotion.channel):
        yield f"{why} ({NOT_STABLE_REMEDY})"
    if yanked := [entry.filename for entry in entries if entry.yanked is not None]:
        yield f"yanked: {_shorten(yanked)}"
    if older := [entry.filename for entry in entries if entry.older]:
        yield f"of an older source: {_shorten(older)}"
    for outcome in WheelOutcome:
        found = [entry.filename for entry in entries if entry.outcome is outcome]
        if found and not promotion.tests.admits(outcome):
            yield f"{outcome}: {_shorten(found)}"
    if promotion.incomplete:
        return
    complete = completeness(state, promotion.version)
    if complete is None or not complete.planned:
        yield "its planned combinations are not known (--incomplete promotes it anyway)"
    elif complete.missing:
        yield f"without a wheel: {_shorten(complete.missing)} (--incomplete promotes it anyway)"


def _check_not_yanked(state: ProjectState, promotion: Promotion, target: Storage) -> None:
    """Check that the target has not yanked wheels of the version. Otherwise installers would find only a part of it.

    :raises PromotionError: a wheel is yanked.
    """
    there = select_version(state.entries, promotion.version)
    if yanked := [entry.filename for entry in there if entry.yanked is not None]:
        raise PromotionError(
            f"{promotion} is yanked in {target.name}: {_shorten(yanked)}",
            remedy=f"wheelsmith index unyank {target.name} {promotion}",
        )


def _check_results(tested: ProjectState, promoted: set[tuple[str, str]], promotion: Promotion, target: Storage) -> None:
    """Check that the test results recorded in the target admit the promotion, too.

    :raises PromotionError: they do not.
    """
    there = (entry for entry in tested.entries if entry.key in promoted)
    if refused := [entry.filename for entry in there if not promotion.tests.admits(entry.outcome)]:
        raise PromotionError(
            f"{promotion} was not promoted: {target.name} has other test results of {_shorten(refused)}",
            remedy=f"record newer test results there: wheelsmith index test {target.name}",
        )


def _changed_error(promotion: Promotion, storage: Storage) -> PackageIndexError:
    return PackageIndexError(f"{promotion} changed in {storage.name} during the promotion", remedy="promote it again")


def _fetch(source: Storage, reader: UploadReader, entry: IndexEntry) -> WheelUpload:
    """Read a wheel from an index for adding it to another one. The index may be untrusted."""
    remedy = f"find all problems and their fixes: wheelsmith index verify {source.name}"
    listed = source.stat(entry.path)
    if listed and listed.size != entry.size:
        raise PackageIndexError(f"{entry.filename} in {source.name} is not the file that was published", remedy=remedy)
    found = source.read(entry.path) if listed else None
    if found is None:
        raise PackageIndexError(f"{entry.filename} is listed in {source.name}, but missing", remedy=remedy)
    path = reader.folder / entry.sha256 / entry.filename
    path.parent.mkdir(exist_ok=True)  # an index may list the same bytes under several names
    path.write_bytes(found.data)
    return read_listed_wheel(source, path, entry, reader, remedy)


def _is_published(target: Storage, listed: IndexEntry | None, entry: IndexEntry) -> bool:
    """Return True if the target lists this entry and its files exist (the wheel is not hashed).

    Test results are not compared here.
    """
    if listed is None or listed.sha256 != entry.sha256 or not is_known(listed, entry):
        return False
    wheel = target.stat(entry.path)
    if wheel is None or wheel.size != entry.size or wheel.sha256 not in {None, entry.sha256}:
        return False
    stored = ((side, target.read(side.path)) for side in listed.announced)
    return all(found and side.matches(found.data) for side, found in stored)


def _merge_recorded_tests(before: ProjectState, state: ProjectState) -> ProjectState:
    """Return the target's state with the test results of the source merged in. The worse result counts."""
    tests = {entry.key: entry.tests for entry in state.entries}

    def tested(entry: IndexEntry) -> IndexEntry:
        if entry.key not in tests:
            return entry
        both = (*tests[entry.key], *entry.tests)
        return replace(entry, tests=worst_tests(both, key=lambda test: test.machine_and_cell))

    return replace(before, entries=tuple(map(tested, before.entries)))


def _shorten(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
    return f"{', '.join(names[:_MAX_NAMES])}{more}"
