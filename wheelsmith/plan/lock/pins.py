"""What plans are made from, by names that people know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.model import BuildPlan
from wheelsmith.plan.lock.lock import Pin


def pins_of(plans: Iterable[BuildPlan]) -> tuple[Pin, ...]:
    """Return the pins of some plans, each once, by name."""
    found = {pin.name: pin for plan in plans for pin in _pins(plan)}
    return tuple(found[name] for name in sorted(found))


def _pins(plan: BuildPlan) -> Iterator[Pin]:
    if plan.toolset:
        where = "of wheelsmith" if plan.toolset.prefix else "of the image" if plan.image else "of this machine"
        yield Pin(name=f"compilers {where} for {plan.toolset.arch}", digest=plan.toolset.digest)
    for prefix in (plan.toolkit, plan.headers, *plan.libraries):
        if prefix:
            kind = "" if prefix.kind == "library" else f"{prefix.kind} "
            yield Pin(name=f"{kind}{prefix.version} for {prefix.arch}", digest=prefix.digest)
    if plan.image:
        yield Pin(name=f"image {plan.image.name}", digest=plan.image.digest)
