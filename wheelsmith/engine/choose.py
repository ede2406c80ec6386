"""Which engine runs a build here, and why."""

from __future__ import annotations

from wheelsmith.engine.bwrap import Bubblewrap
from wheelsmith.engine.local import Local
from wheelsmith.engine.protocol import Engine, Readiness
from wheelsmith.errors import EngineError


def engines() -> dict[str, Engine]:
    """Give every engine by name, the ones to prefer first."""
    found: tuple[Engine, ...] = (Bubblewrap(), Local())
    return {engine.name: engine for engine in found}


def choose(name: str, *, trusted: bool) -> Engine:
    """Give the engine called ``name``; ``auto`` takes the first that works.

    :param trusted: whether the kernel is the user's own folder. Somebody else's code never runs unconfined
        unless the user asks for ``local`` by name.
    :raises EngineError: it is not ready here, with what mends it.
    """
    known = engines()
    if name != "auto":
        return _ready(known[name])
    refusals = []
    for engine in known.values():
        if engine.name == Local.name and not trusted:
            continue
        probe = engine.probe()
        if probe.readiness is Readiness.READY:
            return engine
        refusals.append(probe)
    first = refusals[0]
    raise EngineError(
        f"no engine can confine the build: {first.engine} is {first.readiness.value} ({first.detail})",
        remedy=f"{first.remedy}; or, at your own risk, run the kernel's code unconfined with --engine local",
    )


def _ready(engine: Engine) -> Engine:
    probe = engine.probe()
    if probe.readiness is not Readiness.READY:
        raise EngineError(f"engine {engine.name} is {probe.readiness.value}: {probe.detail}", remedy=probe.remedy)
    return engine
