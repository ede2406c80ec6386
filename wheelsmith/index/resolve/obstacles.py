"""Why a wheel that serves a combination does not suit a machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.tags import Tag

from wheelsmith.index.resolve.fits import accepts, glibc_of, gpu_code_for, needs_compiling, numbers
from wheelsmith.index.resolve.pairing import why_no_torch_build
from wheelsmith.index.resolve.target import KnownWheel, Wish, listed
from wheelsmith.platforms import cuda_of, driver_floors


class Obstacle(NamedTuple):
    """What is in the way: one word for programs, and a sentence that begins with *it*."""

    code: str
    reason: str


def obstacle(known: KnownWheel, wish: Wish, ranks: dict[Tag, int]) -> Obstacle | None:
    """Return the first thing in the way of a wheel, or None.

    :param ranks: the tags that the machine takes.
    """
    return next(_obstacles(known, wish, ranks), None)


def gpu_note(known: KnownWheel, wish: Wish) -> str | None:
    """Say which of several GPUs a wheel leaves out."""
    left_out = [gpu for gpu in wish.capabilities if not gpu_code_for(known.wheel.gpu_archs, gpu)]
    if not known.wheel.gpu_archs or not left_out:
        return None
    return f"it has no code for the GPU of capability {listed(left_out)}"


def _obstacles(known: KnownWheel, wish: Wish, ranks: dict[Tag, int]) -> Iterator[Obstacle]:
    wheel = known.wheel
    if not accepts(wheel.requires_python, wish.python):
        yield Obstacle("python", f"it needs Python {wheel.requires_python}, not {wish.python}")
    if not ranks.keys() & known.tags:
        yield _wrong_tag(known, wish)
    if not accepts(wheel.requires_torch, wish.torch_version or wish.torch):
        yield Obstacle("torch", f"it asks for torch {wheel.requires_torch}, not {wish.torch_version or wish.torch}")
    # A torch that is there already has whatever CUDA it has.
    if wish.torch_version is None and (why := why_no_torch_build(wish, known)):
        yield Obstacle("torch", why)
    yield from _driver(known, wish)
    yield from _gpus(known, wish)


def _wrong_tag(known: KnownWheel, wish: Wish) -> Obstacle:
    oldest = min((glibc for name in known.platforms if (glibc := glibc_of(name))), default=None)
    if wish.glibc and oldest and numbers(wish.glibc) < oldest:
        here = f"this machine has {wish.glibc}" if wish.glibc != "0.0" else "this machine has none"
        return Obstacle("glibc", f"it needs glibc {oldest[0]}.{oldest[1]} or newer, {here}")
    kind = "Python without the GIL" if wish.free_threaded else f"Python {wish.python_minor} on {wish.arch}"
    return Obstacle("python", f"its tag {'-'.join(known.wheel.filename.removesuffix('.whl').split('-')[-3:])} "
                    f"is not for {kind}")  # fmt: skip


def _driver(known: KnownWheel, wish: Wish) -> Iterator[Obstacle]:
    """Within a CUDA major any driver of that major will do; an older major's will not (minor-version compatibility)."""
    if wish.driver is None:
        return
    for cuda in (cuda_of(known.toolkit or ""), cuda_of(wish.compute)):
        if cuda and numbers(cuda)[0] > numbers(wish.driver)[0]:
            major = cuda.split(".", maxsplit=1)[0]
            floor = driver_floors().get(major)
            needed = f"driver {floor.driver} or newer" if floor else f"a driver for CUDA {major}"
            reason = f"it is made with CUDA {cuda}, which needs {needed}; this driver runs CUDA up to {wish.driver}"
            yield Obstacle("driver", reason)


def _gpus(known: KnownWheel, wish: Wish) -> Iterator[Obstacle]:
    archs = known.wheel.gpu_archs
    if not archs or not wish.capabilities:
        return
    found = {gpu: gpu_code_for(archs, gpu) for gpu in wish.capabilities}
    if not any(found.values()):
        yield Obstacle("gpu", f"it has code for {listed(list(archs))}, the GPU is of capability "
                       f"{listed(list(wish.capabilities))}")  # fmt: skip
        return
    cuda = cuda_of(known.toolkit or "")
    compiled = [gpu for gpu, code in found.items() if code and needs_compiling(code, gpu)]
    # A driver compiles PTX of its own CUDA and of older ones.
    if cuda and wish.driver and len(compiled) == len(found) and numbers(wish.driver) < numbers(cuda):
        reason = f"its PTX of CUDA {cuda} must be compiled for capability {listed(compiled)} by the driver"
        yield Obstacle("driver", f"{reason}, which knows CUDA up to {wish.driver}")
