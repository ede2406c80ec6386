"""Why a wheel that serves a combination does not suit a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.tags import Tag

from wheelsmith.base.units import listed, numbers
from wheelsmith.index.resolve.fits import accepts, glibc_of, gpu_code_for, needs_compiling
from wheelsmith.index.resolve.pairing import why_no_torch_build
from wheelsmith.index.resolve.target import KnownWheel, Target
from wheelsmith.platforms import cuda_of, driver_floors


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
    left_out = [gpu for gpu in target.capabilities if not gpu_code_for(known.wheel.gpu_archs, gpu)]
    if not known.wheel.gpu_archs or not left_out:
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
    """Within a CUDA major any driver of that major will do; an older major's will not (minor-version compatibility)."""
    if target.driver is None:
        return
    for cuda in (cuda_of(known.toolkit or ""), cuda_of(target.compute)):
        if cuda and numbers(cuda)[0] > numbers(target.driver)[0]:
            major = cuda.split(".", maxsplit=1)[0]
            floor = driver_floors().get(major)
            needed = f"driver {floor.driver} or newer" if floor else f"a driver for CUDA {major}"
            reason = f"it is made with CUDA {cuda}, which needs {needed}; this driver runs CUDA up to {target.driver}"
            yield Obstacle("driver", reason)


def _gpus(known: KnownWheel, target: Target) -> Iterator[Obstacle]:
    archs = known.wheel.gpu_archs
    if not archs or not target.capabilities:
        return
    found = {gpu: gpu_code_for(archs, gpu) for gpu in target.capabilities}
    if not any(found.values()):
        yield Obstacle("gpu", f"it has code for {listed(list(archs))}, the GPU is of capability "
                       f"{listed(list(target.capabilities))}")  # fmt: skip
        return
    cuda = cuda_of(known.toolkit or "")
    compiled = [gpu for gpu, code in found.items() if code and needs_compiling(code, gpu)]
    # A driver compiles PTX of its own CUDA and of older ones.
    if cuda and target.driver and len(compiled) == len(found) and numbers(target.driver) < numbers(cuda):
        reason = f"its PTX of CUDA {cuda} must be compiled for capability {listed(compiled)} by the driver"
        yield Obstacle("driver", f"{reason}, which knows CUDA up to {target.driver}")
