"""What of a lock does not hold any more."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.sanitize import visible
from wheelsmith.plan.lock.lock import Lock, LockedSource

_LONGEST = 400  # characters
_SHOWN = 12  # characters of a digest


def differences(lock: Lock, now: Lock) -> tuple[str, ...]:
    """Say what is not as it was locked, each by its name.

    What is locked and not needed now, as for cells that were not selected, is none.

    :param now: what a run finds, or would use.
    """
    found = (*_source(lock.source, now.source), *_cells(lock, now), *_pins(lock, now), *_environments(lock, now))
    return tuple(visible(text[:_LONGEST]) for text in found)


def _cells(lock: Lock, now: Lock) -> Iterator[str]:
    known = set(lock.cells)
    for cell in now.cells:
        if cell not in known:
            yield f"{cell} is not in it"


def _source(locked: LockedSource | None, now: LockedSource | None) -> Iterator[str]:
    if locked == now:
        return
    if now is None:
        yield f"it is of {locked.kernel if locked else ''}, and the matrix of a folder"
    elif locked is None:
        yield f"{now.kernel} is not in it"
    elif (locked.kernel, locked.revision) != (now.kernel, now.revision):
        yield f"it is of {_named(locked)}, and the matrix of {_named(now)}"
    elif locked.commit != now.commit:
        yield f"{_named(now)} is {now.commit[:_SHOWN]} now, and was {locked.commit[:_SHOWN]}"
    else:
        yield f"the files of {_named(now)} at {now.commit[:_SHOWN]} are others than they were"


def _named(source: LockedSource) -> str:
    return f"{source.kernel} {source.revision}" if source.revision else source.kernel


def _pins(lock: Lock, now: Lock) -> Iterator[str]:
    known = {pin.name: pin.digest for pin in lock.pins}
    for pin in now.pins:
        if pin.name not in known:
            yield f"{pin.name} is not in it"
        elif pin.digest != known[pin.name]:
            yield f"{pin.name} is {_short(pin.digest)} now, and was {_short(known[pin.name])}"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN]


def _environments(lock: Lock, now: Lock) -> Iterator[str]:
    for environment in now.environments:
        known = lock.answer(environment.question)
        if known is None:
            yield f"the environment of {environment.name} is not in it"
            continue
        before = {each.name: each for each in known.wheels}
        for wheel in environment.wheels:
            old = before.get(wheel.name)
            if old is None or (old.version, old.sha256) != (wheel.version, wheel.sha256):
                was = f"was {old.version}" if old else "was not there"
                yield f"{wheel.name} of {environment.name} is {wheel.version}, and {was}"
