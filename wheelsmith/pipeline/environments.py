"""The Python environments that a project is built and tested in, as a sandbox sees them."""

from __future__ import annotations

import re

from wheelsmith.base import sandbox_paths
from wheelsmith.engine import Mount
from wheelsmith.model import LockedWheel, Project
from wheelsmith.toolchain import Toolchains

# Gigabytes that hardly change, in one folder for every project that uses this torch; its libraries find NVIDIA's by
# where they lie.
_OF_TORCH = re.compile(r"torch|(pytorch-)?triton|(nvidia|cuda)[-_.].+")


def torch_wheels(wheels: tuple[LockedWheel, ...]) -> tuple[LockedWheel, ...]:
    """Return the torch of an environment, and all of CUDA's, for itself."""
    return tuple(wheel for wheel in wheels if _OF_TORCH.fullmatch(wheel.name))


def environment_mounts(
    project: Project, wheels: tuple[LockedWheel, ...], arch: str, toolchains: Toolchains
) -> tuple[Mount, ...]:
    """Return the mounts of an environment with the project's torch, which is made if it is not here.

    :param wheels: all of it, torch among them.
    """
    torch = torch_wheels(wheels)
    others = tuple(wheel for wheel in wheels if wheel not in torch)
    make = toolchains.environment_without_cuda if project.without_cuda else toolchains.environment
    found = [Mount(source=make(torch, project.python, arch), target=sandbox_paths.ENVIRONMENT)]
    if others:
        folder = toolchains.environment(others, project.python, arch)
        found.append(Mount(source=folder, target=sandbox_paths.REQUIREMENTS))
    return tuple(found)
