"""Why a wheel that serves a combination does not suit a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.tags import Tag

from wheelsmith.base.units import listed, numbers
from wheelsmith.index.resolve.tag_match import accepts, glibc_of
from wheelsmith.index.resolve.target import KnownWheel, Target
from wheelsmith.index.resolve.torch_build_match import why_no_torch_build
from wheelsmith.platforms import Devices, platform_of


class Obstacle(NamedTuple):
    """What is in the way: one word for programs, and a sentence that begins with *it*."""

    code: str
    reason: str


def obstacle(known: KnownWheel, target: Target, ranks: dict[Tag, int]) -> Obstacle | None:
    """Return the first thing in the way of a wheel, or None.

    :param ranks: the tags that the machine takes.
    """
    return next(_obstacles(known, target, ranks), None)


def gpu_note(known: KnownWheel, target: Target) -> str | None:
    """Say which of several GPUs a wheel leaves out."""
    archs, devices = known.wheel.gpu_archs, _devices(known, target)
    left_out = [gpu for gpu in target.capabilities if devices and not devices.best_code(archs, gpu)]
    if not archs or not left_out:
        return None
    return f"it has no code for the GPU of capability {listed(left_out)}"


def _obstacles(known: KnownWheel, target: Target, ranks: dict[Tag, int]) -> Iterator[Obstacle]:
    wheel = known.wheel
    if not accepts(wheel.requires_python, target.python):
        yield Obstacle("python", f"it needs Python {wheel.requires_python}, not {target.python}")
    if not ranks.keys() & known.tags:
        yield _wrong_tag(known, target)
    there, wanted = target.torch_version or target.release, known.wants(target.framework)
    if not accepts(wanted, there):
        yield Obstacle(target.framework, f"it asks for {target.framework} {wanted}, not {there}")
    # A torch that is there already has whatever CUDA it has.
    if target.torch_version is None and (why := why_no_torch_build(target, known)):
        yield Obstacle("torch", why)
    yield from _driver(known, target)
    yield from _gpus(known, target)


def _wrong_tag(known: KnownWheel, target: Target) -> Obstacle:
    oldest = min((glibc for name in known.platforms if (glibc := glibc_of(name))), default=None)
    if target.glibc and oldest and numbers(target.glibc) < oldest:
        here = f"this machine has {target.glibc}" if target.glibc != "0.0" else "this machine has none"
        return Obstacle("glibc", f"it needs glibc {oldest[0]}.{oldest[1]} or newer, {here}")
    kind = "Python without the GIL" if target.free_threaded else f"Python {target.python_minor} on {target.arch}"
    return Obstacle("python", f"its tag {'-'.join(known.wheel.filename.removesuffix('.whl').split('-')[-3:])} "
                    f"is not for {kind}")  # fmt: skip


def _driver(known: KnownWheel, target: Target) -> Iterator[Obstacle]:
    if target.driver is None:
        return
    for found in filter(None, (platform_of(known.toolkit or ""), platform_of(target.compute))):
        platform, version = found
        if reason := platform.devices.why_refused(version, target.driver):
            yield Obstacle("driver", reason)


def _gpus(known: KnownWheel, target: Target) -> Iterator[Obstacle]:
    archs, devices = known.wheel.gpu_archs, _devices(known, target)
    if not archs or not target.capabilities or devices is None:
        return
    found = {gpu: devices.best_code(archs, gpu) for gpu in target.capabilities}
    if not any(found.values()):
        yield Obstacle("gpu", f"it has code for {listed(list(archs))}, the GPU is of capability "
                       f"{listed(list(target.capabilities))}")  # fmt: skip
        return
    made = platform_of(known.toolkit or "")
    compiled = [gpu for gpu, code in found.items() if code and devices.is_foreign(code, gpu)]
    if made and target.driver and len(compiled) == len(found):
        reason = devices.why_not_compiled(made[1], target.driver, compiled)
        yield from [Obstacle("driver", reason)] if reason else []


def _devices(known: KnownWheel, target: Target) -> Devices | None:
    """Return what runs a wheel's GPU code: of the platform that its version names, or that is asked for."""
    found = platform_of(known.toolkit or "") or platform_of(target.compute)
    return found[0].devices if found else None
