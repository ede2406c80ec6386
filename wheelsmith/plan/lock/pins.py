"""What plans are made from, by names that people know."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wheelsmith.model import BuildPlan
from wheelsmith.plan.lock.lock import Pin


def pins_of(plans: Iterable[BuildPlan]) -> tuple[Pin, ...]:
    """Return the pins of some plans, each once, by name: a name has one digest, whichever plans there are."""
    found = {pin.name: pin for plan in plans for pin in _pins(plan)}
    return tuple(found[name] for name in sorted(found))


def _pins(plan: BuildPlan) -> Iterator[Pin]:
    place = f"of the image {plan.image.name}" if plan.image else "of this machine"
    if plan.toolset:
        prefix = plan.toolset.prefix
        yield Pin(
            name=f"compilers {prefix.version if prefix else place} for {plan.toolset.arch}", digest=plan.toolset.digest
        )
    for prefix in (plan.toolkit, plan.headers, *plan.libraries):
        if prefix:
            kind = "" if prefix.kind == "library" else f"{prefix.kind} "
            where = f" {place}" if prefix.in_image else ""
            yield Pin(name=f"{kind}{prefix.version}{where} for {prefix.arch}", digest=prefix.digest)
    if plan.image:
        yield Pin(name=f"image {plan.image.name}", digest=plan.image.digest)
