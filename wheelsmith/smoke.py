"""Run a kernel's own test command against its finished wheel, in the sandbox, with a real torch."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag

from wheelsmith import layout
from wheelsmith.engine import Command, Engine, Exit, Limits, Mount
from wheelsmith.facts import torch_releases
from wheelsmith.model import BuildPlan
from wheelsmith.toolchain import Toolchains

_RUNTIME = "/opt/runtime"


def why_untested(plan: BuildPlan, toolchains: Toolchains) -> str | None:
    """Say why a wheel's test would say nothing here, or None when it can be run."""
    if plan.cuda and not toolchains.runtime_has_cuda(_torch_version(plan)):
        return "the torch that pip finds is a CPU build, which cannot load a CUDA extension"
    return None


def smoke_test(
    plan: BuildPlan,
    wheel: Path,
    command: str,
    work: Path,
    *,
    engine: Engine,
    toolchains: Toolchains,
    limits: Limits,
    on_line: Callable[[str], None],
    cancel: Flag,
) -> Exit:
    """Run ``command`` with the wheel and torch importable, no network, and an empty folder to write to."""
    site = work / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # checked member by member when the wheel was repaired
    return engine.run(
        Command(
            name=f"wheelsmith-test-{plan.cell.id}-{plan.build_digest[:12]}",
            argv=("/bin/sh", "-c", command),
            mounts=(
                Mount(source=work, target=layout.WORK, writable=True),
                Mount(source=toolchains.runtime(_torch_version(plan)), target=_RUNTIME),
            ),
            env={"PYTHONPATH": f"{layout.WORK}/site:{_RUNTIME}", "LC_ALL": "C.UTF-8"},
            workdir=layout.WORK,
            limits=limits,
            image=plan.image,
        ),
        on_line,
        cancel,
    )


def _torch_version(plan: BuildPlan) -> str:
    """Give the release that the cell's users run, which for a stable-ABI wheel is not the one it was built from."""
    return torch_releases()[plan.cell.torch].version
