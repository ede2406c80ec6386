"""Which engine runs a build here, and why."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from wheelsmith.base.errors import EngineError
from wheelsmith.engine.bwrap import Bubblewrap
from wheelsmith.engine.local import Local
from wheelsmith.engine.protocol import Engine, Probe, Readiness
from wheelsmith.model.build_host import AUTO, ENGINES, KnownEngine


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """The engine that runs a build, and why not one that is installed and comes before it."""

    engine: Engine
    passed_over: tuple[EngineError, ...] = ()


def engines(cache: Path) -> dict[str, Engine]:
    """Return every engine by name, the ones to prefer first.

    :param cache: where engines keep what they know of images.
    """
    return {name: _make(known, cache) for name, known in ENGINES.items()}


def _make(known: KnownEngine, cache: Path) -> Engine:
    module, name = known.place
    made = getattr(import_module(module), name)
    engine: Engine = made(cache) if known.images else made()
    return engine


def choose(name: str, *, images: frozenset[str | None], trusted: bool, cache: Path) -> ChosenEngine:
    """Return the engine called ``name``; ``auto`` takes the first that works and has the image.

    :param images: the images that cells ask for; None is the default one.
    :param trusted: whether the kernel is the user's own folder. Somebody else's code never runs unconfined
        unless the user asks for ``local`` by name.
    :raises EngineError: it is not ready here, with what fixes it.
    """
    known = engines(cache)
    if name != AUTO:
        if refusal := _refusal(known[name], known[name].probe(), images):
            raise refusal
        return ChosenEngine(engine=known[name])
    refusals: list[EngineError] = []
    passed_over: list[EngineError] = []
    for engine in known.values():
        if engine.name == Local.name and not trusted:
            continue
        probe = engine.probe()
        refusal = _refusal(engine, probe, images)
        if refusal is None:
            return ChosenEngine(engine=engine, passed_over=tuple(passed_over))
        refusals.append(refusal)
        if probe.readiness is not Readiness.MISSING:
            passed_over.append(refusal)
    last = refusals[-1]
    raise EngineError(
        "no engine can confine the build: " + "; ".join(refusal.message for refusal in refusals),
        remedy=f"{last.remedy}; or, at your own risk, run the kernel's code unconfined with --engine local",
    )


def engine_for_own_programs(engine: Engine) -> Engine:
    """Return where wheelsmith's own programs read what a build left: an image need not have this Python.

    :param engine: the one that builds.
    """
    if not engine.has_images:
        return engine
    own = Bubblewrap()
    return own if own.probe().readiness is Readiness.READY else Local()


def _refusal(engine: Engine, probe: Probe, images: frozenset[str | None]) -> EngineError | None:
    """Return why the engine cannot be taken, or None when it can."""
    if probe.readiness is not Readiness.READY:
        return EngineError(f"engine {engine.name} is {probe.readiness.value}: {probe.detail}", remedy=probe.remedy)
    try:
        for image in sorted(images, key=str) if engine.has_images else ():
            engine.build_host(image)
    except EngineError as refusal:
        return refusal
    return None
