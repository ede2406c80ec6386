"""The commands of one cell, and the folders and environments that they see."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.engine import Command, Limits, Mount
from wheelsmith.frameworks import framework
from wheelsmith.model import BuildPlan, LockedWheel, Project, Step, StepKind
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.tasks import MIB
from wheelsmith.platforms import platforms
from wheelsmith.source.tree import SourceTree, copy_into
from wheelsmith.toolchain import Toolchains

# cudafe++ and cicc take a gigabyte from malloc in small steps; asking for more at once saves a tenth of their time.
# https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
_TUNABLES = {"hugetlb": 1, "top_pad": 256 * MIB, "mmap_threshold": 1024 * MIB, "trim_threshold": 4096 * MIB}
_QUICK_MEMORY = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())}
_PROJECT_BUILDER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/project.py"
_LAUNCHER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/launcher.py"
# What build systems take the number of compilers at once from: torch's cpp_extension, and CMake, whatever calls it.
_JOBS = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
COMPILED = frozenset({StepKind.CXX, StepKind.NVCC})
# Gigabytes that hardly change, in one folder for every project that uses this torch; its libraries find NVIDIA's by
# where they lie.
_OF_TORCH = re.compile(r"torch|(pytorch-)?triton|(nvidia|cuda)[-_.].+")


def lay_out(plan: BuildPlan, source: SourceTree, work: Path) -> None:
    """Write a cell's work folder anew: the source, what is generated, and the plan where the backend reads it.

    :raises SourceError: the source is not what was planned any more.
    """
    remove_tree(work)
    with WorkFolder.make(work) as folder:
        for name in ("src", "build", "dist"):
            folder.make_folder(name)
        copy_into(_needed(plan, source), folder, "src")
        for name, text in plan.recipe.generated.items():
            with folder.create(f"src/{name}") as file:
                file.write(text.encode())
        with folder.create("plan.json") as file:
            file.write(json.dumps(plan.to_json()).encode())


def _needed(plan: BuildPlan, source: SourceTree) -> SourceTree:
    """Return what a build reads: where nothing is compiled, what the wheel holds."""
    if plan.project or plan.recipe.steps:
        return source
    held = frozenset(plan.recipe.contents.values())
    return replace(source, files=tuple(file for file in source.files if f"src/{file.path}" in held))


def without_compiling(plan: BuildPlan) -> BuildPlan:
    """Return the plan of a cell whose objects are there already: what is left is to link and to pack."""
    steps = tuple(step for step in plan.recipe.steps if step.kind not in COMPILED)
    return replace(plan, recipe=replace(plan.recipe, steps=steps))


def compile_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps that make objects."""
    return tuple(step for step in plan.recipe.steps if step.kind in COMPILED)


def toolchain_mounts(plan: BuildPlan, context: BuildContext, *, headers: bool) -> tuple[Mount, ...]:
    """Return the mounts of the platform's compilers, fetching what is not here.

    :param headers: the framework's and those of libraries, too.
    """
    mounts = []
    if plan.headers and headers:
        place = framework(plan.cell.framework).mount_point
        mounts.append(Mount(source=context.toolchains.prepare(plan.headers), target=place))
        mounts += [
            Mount(source=context.toolchains.prepare(library), target=f"{sandbox_paths.LIBRARIES}/{library.version}")
            for library in plan.libraries
        ]
    # An image's own toolkit is where the image has it.
    if plan.toolkit and not plan.toolkit.in_image:
        place = platforms()[plan.cell.platform].mount_point
        mounts.append(Mount(source=context.toolchains.prepare(plan.toolkit), target=place))
    return tuple(mounts)


def host_compiler_mounts(plan: BuildPlan, context: BuildContext) -> tuple[Mount, ...]:
    """Return the mount of pinned compilers, fetching what is not here; none where the machine or the image has them."""
    prefix = plan.pinned_compilers
    return (Mount(source=context.toolchains.prepare(prefix), target=sandbox_paths.CXX),) if prefix else ()


def host_compiler_path(plan: BuildPlan) -> tuple[str, ...]:
    """Return the folder of pinned compilers, for PATH."""
    return (f"{sandbox_paths.CXX}/bin",) if plan.pinned_compilers else ()


def build_command(plan: BuildPlan, context: BuildContext, work: Path) -> Command:
    """Return the one command that builds a laid-out cell, fetching the toolchains it mounts."""
    toolchains = context.toolchains.toolchains
    project = plan.project
    mounts = [
        Mount(source=work, target=sandbox_paths.WORK, writable=True),
        Mount(source=toolchains.tools(), target=sandbox_paths.TOOLS),
    ]
    importable, programs = [f"{sandbox_paths.TOOLS}/site"], [f"{sandbox_paths.TOOLS}/bin"]
    mounts += host_compiler_mounts(plan, context)
    programs += host_compiler_path(plan)
    if project:
        if context.engine.isolates:
            programs.insert(0, sandbox_paths.LAUNCH)
        environment = environment_mounts(project, project.environment, plan.cell.arch, toolchains)
        toolkit = _toolkit_mounts(plan, project, context)
        mounts += (*toolkit, *environment)
        importable += [mount.target for mount in environment]
        # nvcc and cmake are on PATH, as where people build by hand.
        programs += [f"{mount.target}/bin" for mount in (*toolkit, *environment)]
    else:
        mounts += toolchain_mounts(plan, context, headers=True)
    return Command(
        name=command_name(plan),
        argv=_build_argv(plan),
        mounts=tuple(mounts),
        env={
            **plan.environment,
            **_variables(project, context),
            "PYTHONPATH": ":".join(importable),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        workdir=sandbox_paths.WORK,
        limits=context.limits,
        path=tuple(programs),
        python=project.python if project else None,
        image=plan.image,
        brings_compilers=plan.pinned_compilers is not None,
    )


def _build_argv(plan: BuildPlan) -> tuple[str, ...]:
    if plan.project:
        return (
            f"python{plan.project.python}",
            _PROJECT_BUILDER,
            sandbox_paths.PLAN,
            sandbox_paths.SOURCE,
            sandbox_paths.DIST,
        )
    return ("python3", "-m", "build", "--wheel", "--no-isolation", "--outdir", sandbox_paths.DIST, sandbox_paths.SOURCE)


def _variables(project: Project | None, context: BuildContext) -> dict[str, str]:
    if project is None:
        return {"WHEELSMITH_JOBS": str(context.cores)}
    if not context.engine.isolates:
        return dict.fromkeys(_JOBS, str(context.cores)) | project.variables
    # As many calls as the board can choose from: what waits costs nothing.
    answered = {"WHEELSMITH_LAUNCH": sandbox_paths.CALLS, "WHEELSMITH_LAUNCHER": _LAUNCHER}
    return dict.fromkeys(_JOBS, str(context.all_cores + 1)) | project.variables | answered


def _toolkit_mounts(plan: BuildPlan, project: Project, context: BuildContext) -> tuple[Mount, ...]:
    if plan.toolkit is None or plan.toolkit.in_image:
        return ()
    for prefix in (plan.toolkit, *plan.libraries):
        context.toolchains.prepare(prefix)  # it tells what went wrong ahead
    torch = torch_wheels(project.environment)
    home = context.toolchains.toolchains.complete_toolkit(plan.toolkit, plan.libraries, torch, project.python)
    return (Mount(source=home, target=platforms()[plan.cell.platform].mount_point),)


def compile_command(
    plan: BuildPlan, limits: Limits, argv: tuple[str, ...], mounts: tuple[Mount, ...], *, name: str, memory: int
) -> Command:
    """Return the command that makes one piece of a cell.

    :param name: of the piece, unique in the cell.
    :param memory: bytes that are set aside for it.
    """
    return Command(
        name=f"{command_name(plan)}-{name}",
        argv=argv,
        mounts=mounts,
        env={**plan.environment, **_QUICK_MEMORY},
        workdir=sandbox_paths.WORK,
        limits=replace(limits, cpus=1.0, reserved=memory),
        path=host_compiler_path(plan),
        image=plan.image,
        brings_compilers=plan.pinned_compilers is not None,
    )


def command_name(plan: BuildPlan) -> str:
    """Return what a cell's sandboxes are called after."""
    return f"wheelsmith-{plan.cell.id}-{plan.build_digest[:12]}"


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
