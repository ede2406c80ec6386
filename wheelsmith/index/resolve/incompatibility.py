"""Find the reasons that a wheel does not suit a machine or any build of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from packaging.tags import Tag

from wheelsmith.base.units import listed, numbers
from wheelsmith.frameworks import TorchRelease, torch_releases
from wheelsmith.index.resolve.target import ParsedWheel, Target, accepts, glibc_of
from wheelsmith.model import CUDA, TORCH
from wheelsmith.platforms import Devices, cuda_version_of, platform_of, platforms


def torch_build(target: Target, parsed: ParsedWheel | None = None) -> str | None:
    """Return the compute platform of the torch build for a target, or None if no build is suitable.

    This is the build for the target's CUDA or for the nearest newer minor. If torch has neither, it is the newest
    build that is not older than the wheel's toolkit. For unknown torch releases and for other frameworks, which have
    no builds per CUDA, it is the target's own compute platform.
    """
    cuda, release = cuda_version_of(target.compute), _torch_release(target)
    if cuda is None or release is None:
        found = platform_of(target.compute)
        return found[0].torch_build(found[1]) if found else target.compute
    if newer := release.compatible_cuda(cuda):
        return _compute(newer[0])
    older = release.compatible_cuda(_oldest_usable_cuda(cuda, parsed))
    return _compute(older[-1]) if older else None


def _torch_release(target: Target) -> TorchRelease | None:
    return torch_releases().get(target.release) if target.framework == TORCH else None


def missing_torch_build(target: Target, parsed: ParsedWheel) -> str | None:
    """Return the reason that no torch build suits a wheel, or None if one does.

    :return: a sentence that begins with *it*.
    """
    if torch_build(target, parsed):
        return None
    needed = _oldest_usable_cuda(cuda_version_of(target.compute) or "", parsed)
    built = listed(list(torch_releases()[target.release].cuda))
    return f"it needs torch {target.release} for CUDA {needed} or a newer minor; torch has builds for CUDA {built} only"


def _oldest_usable_cuda(cuda: str, parsed: ParsedWheel | None) -> str:
    """Return the oldest CUDA of a torch build that can be used with a wheel."""
    if parsed and parsed.is_pure:
        return f"{cuda.split('.', maxsplit=1)[0]}.0"
    return cuda_version_of(parsed.toolkit or "") or cuda if parsed else cuda


def _compute(cuda: str) -> str:
    return platforms()[CUDA].compute(cuda)


class Obstacle(NamedTuple):
    """A reason that a wheel does not fit.

    :param code: one word, for programs.
    :param reason: a sentence that begins with *it*.
    """

    code: str
    reason: str


def find_obstacle(parsed: ParsedWheel, target: Target, ranks: dict[Tag, int]) -> Obstacle | None:
    """Return the first reason that a wheel does not fit a target, or None if it fits.

    :param ranks: the tags that the machine accepts.
    """
    return next(_find_obstacles(parsed, target, ranks), None)


def gpu_note(parsed: ParsedWheel, target: Target) -> str | None:
    """Return a note about the GPUs for which the wheel has no code, or None."""
    archs, devices = parsed.wheel.gpu_archs, _devices(parsed, target)
    left_out = [gpu for gpu in target.capabilities if devices and not devices.best_code(archs, gpu)]
    if not archs or not left_out:
        return None
    return f"it has no code for GPUs of capability {listed(left_out)}"


def _find_obstacles(parsed: ParsedWheel, target: Target, ranks: dict[Tag, int]) -> Iterator[Obstacle]:
    wheel = parsed.wheel
    if not accepts(wheel.requires_python, target.python):
        yield Obstacle("python", f"it needs Python {wheel.requires_python}, not {target.python}")
    if not ranks.keys() & parsed.tags:
        yield _tag_obstacle(parsed, target)
    there, wanted = target.torch_version or target.release, parsed.required_versions(target.framework)
    if not accepts(wanted, there):
        yield Obstacle(target.framework, f"it requires {target.framework} {wanted}, not {there}")
    # An installed torch stays, so its CUDA cannot be chosen.
    if target.torch_version is None and (why := missing_torch_build(target, parsed)):
        yield Obstacle("torch", why)
    yield from _driver_obstacles(parsed, target)
    yield from _gpu_obstacles(parsed, target)


def _tag_obstacle(parsed: ParsedWheel, target: Target) -> Obstacle:
    oldest = min((glibc for name in parsed.platforms if (glibc := glibc_of(name))), default=None)
    if target.glibc and oldest and numbers(target.glibc) < oldest:
        here = f"this machine has {target.glibc}" if target.glibc != "0.0" else "this machine has none"
        return Obstacle("glibc", f"it needs glibc {oldest[0]}.{oldest[1]} or newer, {here}")
    kind = "Python without the GIL" if target.free_threaded else f"Python {target.python_minor} on {target.arch}"
    return Obstacle("python", f"its tag {'-'.join(parsed.wheel.filename.removesuffix('.whl').split('-')[-3:])} "
                    f"is not for {kind}")  # fmt: skip


def _driver_obstacles(parsed: ParsedWheel, target: Target) -> Iterator[Obstacle]:
    if target.driver is None:
        return
    for found in filter(None, (platform_of(parsed.toolkit or ""), platform_of(target.compute))):
        platform, version = found
        if reason := platform.devices.why_refused(version, target.driver):
            yield Obstacle("driver", reason)


def _gpu_obstacles(parsed: ParsedWheel, target: Target) -> Iterator[Obstacle]:
    archs, devices = parsed.wheel.gpu_archs, _devices(parsed, target)
    if not archs or not target.capabilities or devices is None:
        return
    found = {gpu: devices.best_code(archs, gpu) for gpu in target.capabilities}
    if not any(found.values()):
        yield Obstacle("gpu", f"it has code for {listed(list(archs))}, but the GPU has capability "
                       f"{listed(list(target.capabilities))}")  # fmt: skip
        return
    made = platform_of(parsed.toolkit or "")
    compiled = [gpu for gpu, code in found.items() if code and devices.is_foreign(code, gpu)]
    if made and target.driver and len(compiled) == len(found):
        reason = devices.why_not_compiled(made[1], target.driver, compiled)
        yield from [Obstacle("driver", reason)] if reason else []


def _devices(parsed: ParsedWheel, target: Target) -> Devices | None:
    """Return the devices that run a wheel's GPU code: those of the wheel's own platform, or of the target's."""
    found = platform_of(parsed.toolkit or "") or platform_of(target.compute)
    return found[0].devices if found else None
