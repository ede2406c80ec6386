"""Choose the engine for a run."""

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
    """The chosen engine.

    :param passed_over: reasons why installed engines of higher preference cannot be used.
    """

    engine: Engine
    passed_over: tuple[EngineError, ...] = ()


def engines(cache: Path) -> dict[str, Engine]:
    """Return all engines by name, in order of preference.

    :param cache: the cache folder, where container engines store the surveys of images.
    """
    return {name: _make(known, cache) for name, known in ENGINES.items()}


def _make(known: KnownEngine, cache: Path) -> Engine:
    module, name = known.place
    engine_class = getattr(import_module(module), name)
    engine: Engine = engine_class(cache) if known.images else engine_class()
    return engine


def choose(name: str, *, images: frozenset[str | None], trusted: bool, cache: Path) -> ChosenEngine:
    """Return the engine called ``name``. For ``auto``, return the first that works and has all images.

    :param images: names of the images that cells need; None is the default image.
    :param trusted: True if the kernel is a folder of the user. Other code runs without a sandbox only if the user
        names the engine ``local``.
    :raises EngineError: the engine cannot be used on this machine, or no engine can.
    """
    available = engines(cache)
    if name != AUTO:
        if refusal := _refusal(available[name], available[name].probe(), images):
            raise refusal
        return ChosenEngine(engine=available[name])
    refusals: list[EngineError] = []
    passed_over: list[EngineError] = []
    for engine in available.values():
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
        "no engine can run the build in a sandbox: " + "; ".join(refusal.message for refusal in refusals),
        remedy=f"{last.remedy}; or, at your own risk, run the kernel's code without a sandbox: --engine local",
    )


def engine_for_own_programs(engine: Engine) -> Engine:
    """Return the engine for wheelsmith's own programs, which read the output of builds.

    They need the Python that wheelsmith runs in, and an image may not have it.

    :param engine: the engine that builds.
    """
    if not engine.has_images:
        return engine
    own = Bubblewrap()
    return own if own.probe().readiness is Readiness.READY else Local()


def _refusal(engine: Engine, probe: Probe, images: frozenset[str | None]) -> EngineError | None:
    """Return the reason why the engine cannot be used, or None."""
    if probe.readiness is not Readiness.READY:
        return EngineError(f"engine {engine.name} is {probe.readiness.value}: {probe.detail}", remedy=probe.remedy)
    try:
        for image in sorted(images, key=str) if engine.has_images else ():
            engine.build_host(image)
    except EngineError as refusal:
        return refusal
    return None
