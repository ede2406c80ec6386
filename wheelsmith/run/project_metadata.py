"""Ask a project's build system for the project's name and version, in a sandbox."""

from __future__ import annotations

import json
from threading import Event

from packaging.utils import InvalidName, canonicalize_name
from packaging.version import Version

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import SourceError
from wheelsmith.engine import Command, Limits, Mount
from wheelsmith.engine.backend.metadata import MARK
from wheelsmith.frameworks import patch_releases
from wheelsmith.model import MAX_VERSION_LENGTH
from wheelsmith.pipeline.command import command_name, environment_mounts, lay_out, torch_wheels
from wheelsmith.run.prepare import Prepared
from wheelsmith.run.scratch import scratch
from wheelsmith.store import in_use
from wheelsmith.toolchain import Toolchains

_PROGRAM = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/metadata.py"
_LIMITS = Limits(memory=2 << 30, seconds=120.0, disk=1 << 30)
_MAX_NAME, _MAX_REASON = 100, 300  # characters


def ask_build_system(prepared: Prepared, toolchains: Toolchains) -> tuple[str, str]:
    """Return the name and the public version of a project.

    The build system has the requirements of the last plan. A stand-in takes the place of torch, which has gigabytes.

    :raises WheelsmithError: the requirements are not available, or the build system does not say them without torch.
    """
    plan = prepared.plans[-1]
    if plan.project is None or not prepared.engine.isolates:
        raise SourceError("there is no sandbox for its build system")
    with in_use(prepared.request.cache), scratch(prepared.request.cache / "work") as folder:
        work, lines = folder / "metadata", list[str]()
        lay_out(plan, prepared.source, work)
        environment = plan.project.environment
        others = tuple(wheel for wheel in environment if wheel not in torch_wheels(environment))
        requirements = environment_mounts(plan.project, others, plan.cell.arch, toolchains)
        importable = [f"{sandbox_paths.TOOLS}/site", *(mount.target for mount in requirements)]
        release = patch_releases(plan.cell.release)[0]
        command = Command(
            name=f"{command_name(plan)}-metadata",
            argv=(f"python{plan.project.python}", _PROGRAM, sandbox_paths.SOURCE),
            mounts=(
                Mount(source=work, target=sandbox_paths.WORK, writable=True),
                Mount(source=toolchains.tools(), target=sandbox_paths.TOOLS),
                *requirements,
            ),
            env={
                **plan.environment,
                **plan.project.variables,
                "WHEELSMITH_TORCH": release,
                "PYTHONPATH": ":".join(importable),
            },
            workdir=sandbox_paths.SOURCE,
            limits=_LIMITS,
            path=(f"{sandbox_paths.REQUIREMENTS}/bin",),
            python=plan.project.python,
            image=plan.image,
        )
        prepared.engine.run(command, lines.append, Event())
    return _read(next((line.removeprefix(MARK) for line in lines if line.startswith(MARK)), ""), lines)


def _read(text: str, output: list[str]) -> tuple[str, str]:
    """Return the name and the version that the program printed."""
    try:
        name, version = map(str, json.loads(text))
        canonicalize_name(name if len(name) <= _MAX_NAME else "", validate=True)
        return name, Version(version if len(version) <= MAX_VERSION_LENGTH else "").public
    except (ValueError, TypeError, InvalidName, RecursionError):
        last = next((line for line in reversed(output) if line.strip()), "it printed nothing")
        raise SourceError(f"its build system does not say them without torch: {last[:_MAX_REASON]}") from None
