"""The commands of one cell, with their mounts and environment variables."""

from __future__ import annotations

import json
import re
import shutil
import zipfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.engine import Command, Limits, Mount, with_installed_toolkit
from wheelsmith.frameworks import framework
from wheelsmith.model import BuildPlan, LockedWheel, PrefixId, Project, Step, StepKind
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.tasks import MIB
from wheelsmith.platforms import platforms
from wheelsmith.source.tree import SourceTree, copy_into
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel.install_layout import Scheme, install_path

# cudafe++ and cicc allocate a gigabyte in small blocks. Larger requests to the kernel save a tenth of their time.
# https://www.gnu.org/software/libc/manual/html_node/Memory-Allocation-Tunables.html
_TUNABLES = {"hugetlb": 1, "top_pad": 256 * MIB, "mmap_threshold": 1024 * MIB, "trim_threshold": 4096 * MIB}
_MALLOC_SETTINGS = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{name}={value}" for name, value in _TUNABLES.items())}
_PROJECT_BUILDER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/project.py"
_LAUNCHER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/launcher.py"
# Variables for the number of parallel compilers: of torch's cpp_extension, and of CMake.
_JOBS = ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL")
_REQUIRED = "required"  # the folder of other kernels' wheels in the work folder
COMPILED = frozenset({StepKind.CXX, StepKind.NVCC, StepKind.HIP})
# All projects with the same torch share one folder for these packages, which have gigabytes. torch's libraries find
# NVIDIA's by relative paths, so both must be in the same folder.
_TORCH_WHEEL = re.compile(r"torch|(pytorch-)?triton|(nvidia|cuda)[-_.].+")


def lay_out(plan: BuildPlan, source: SourceTree, work: Path, required: Iterable[Path] = ()) -> None:
    """Create the work folder of a cell with the source, the generated files and the plan for the backend.

    :param work: the folder. An existing one is replaced.
    :param required: wheels of other kernels that the build of a project imports.
    :raises SourceError: the source has changed since it was planned.
    """
    remove_tree(work)
    with WorkFolder.make(work) as folder:
        for name in ("src", "build", "dist"):
            folder.make_folder(name)
        copy_into(_needed_files(plan, source), folder, "src")
        for name, text in plan.recipe.generated.items():
            with folder.create(f"src/{name}") as file:
                file.write(text.encode())
        with folder.create("plan.json") as file:
            file.write(json.dumps(plan.to_json()).encode())
        for wheel in required:
            unpack_wheel(wheel, folder, _REQUIRED)


def unpack_wheel(wheel: Path, folder: WorkFolder, under: str) -> None:
    """Install the files of a checked wheel to a folder."""
    with zipfile.ZipFile(wheel) as archive:
        for member in [member for member in archive.infolist() if not member.is_dir()]:
            place = install_path(member.filename)
            path = place.path if place.scheme is Scheme.LIBRARY else member.filename
            with archive.open(member) as content, folder.create(f"{under}/{path}") as file:
                shutil.copyfileobj(content, file)


def _needed_files(plan: BuildPlan, source: SourceTree) -> SourceTree:
    """Return the files that a build reads. If it compiles nothing, these are the contents of the wheel."""
    if plan.project or plan.recipe.steps:
        return source
    contents = frozenset(plan.recipe.contents.values())
    return replace(source, files=tuple(file for file in source.files if f"src/{file.path}" in contents))


def without_compiling(plan: BuildPlan) -> BuildPlan:
    """Return the plan without its compile steps."""
    steps = tuple(step for step in plan.recipe.steps if step.kind not in COMPILED)
    return replace(plan, recipe=replace(plan.recipe, steps=steps))


def compile_steps(plan: BuildPlan) -> tuple[Step, ...]:
    """Return the steps that compile objects."""
    return tuple(step for step in plan.recipe.steps if step.kind in COMPILED)


def toolchain_mounts(plan: BuildPlan, context: BuildContext, *, headers: bool) -> tuple[Mount, ...]:
    """Return the mounts of the platform's toolkit. Fetch missing prefixes.

    :param headers: include the headers of the framework and of libraries.
    """
    mounts = []
    if plan.headers and headers:
        place = framework(plan.cell.framework).mount_point
        mounts.append(Mount(source=context.toolchains.prepare(plan.headers), target=place))
        mounts += [
            Mount(source=context.toolchains.prepare(library), target=f"{sandbox_paths.LIBRARIES}/{library.version}")
            for library in plan.libraries
        ]
    # A toolkit in an image needs no mount.
    if plan.toolkit and not plan.toolkit.in_image:
        place = platforms()[plan.cell.platform].mount_point
        mounts.append(Mount(source=_toolkit_home(plan.toolkit, plan, context), target=place))
    return tuple(mounts)


def _toolkit_home(toolkit: PrefixId, plan: BuildPlan, context: BuildContext) -> Path:
    if not toolkit.on_machine:
        return context.toolchains.prepare(toolkit)
    platform = plan.cell.platform
    return Path(with_installed_toolkit(context.engine.build_host(None), platform).toolkits[platform].home)


def host_compiler_mounts(plan: BuildPlan, context: BuildContext) -> tuple[Mount, ...]:
    """Return the mount of the pinned compilers, if the plan has some. Fetch them if they are missing."""
    prefix = plan.pinned_compilers
    return (Mount(source=context.toolchains.prepare(prefix), target=sandbox_paths.CXX),) if prefix else ()


def host_compiler_path(plan: BuildPlan) -> tuple[str, ...]:
    """Return the PATH folder of the pinned compilers, if the plan has some."""
    return (f"{sandbox_paths.CXX}/bin",) if plan.pinned_compilers else ()


def build_command(plan: BuildPlan, context: BuildContext, work: Path) -> Command:
    """Return the command that builds a wheel in a work folder. Fetch the toolchains that it mounts."""
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
        importable += [f"{sandbox_paths.WORK}/{_REQUIRED}"] * bool(plan.requires)
        # Build systems expect nvcc and cmake on PATH.
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
    # The backend of kernels requires nothing; asking it would start another Python.
    options = ("--wheel", "--no-isolation", "--skip-dependency-check")
    return ("python3", "-m", "build", *options, "--outdir", sandbox_paths.DIST, sandbox_paths.SOURCE)


def _variables(project: Project | None, context: BuildContext) -> dict[str, str]:
    if project is None:
        return {"WHEELSMITH_JOBS": str(context.cores), "PYTHONDONTWRITEBYTECODE": "1"}
    # A setup.py that imports torch runs three times, and compiling torch's modules takes longer than importing them.
    own = {"PYTHONPYCACHEPREFIX": f"{sandbox_paths.WORK}/bytecode"}
    jobs = context.cores
    if context.engine.isolates:
        own |= {"WHEELSMITH_LAUNCH": sandbox_paths.CALLS, "WHEELSMITH_LAUNCHER": _LAUNCHER}
        # More calls than cores, so that the scheduler can choose. Waiting calls cost nothing.
        jobs = context.all_cores + 1
    return dict.fromkeys(_JOBS, str(jobs)) | project.variables | own


def _toolkit_mounts(plan: BuildPlan, project: Project, context: BuildContext) -> tuple[Mount, ...]:
    if plan.toolkit is None or plan.toolkit.in_image:
        return ()
    for prefix in (plan.toolkit, *plan.libraries):
        context.toolchains.prepare(prefix)  # raises the error of an earlier prefetch
    torch = torch_wheels(project.environment)
    home = context.toolchains.toolchains.complete_toolkit(plan.toolkit, plan.libraries, torch, project.python)
    return (Mount(source=home, target=platforms()[plan.cell.platform].mount_point),)


def compile_command(
    plan: BuildPlan, limits: Limits, argv: tuple[str, ...], mounts: tuple[Mount, ...], *, name: str, memory: int
) -> Command:
    """Return a command that runs compilers.

    :param name: name of the command, unique in the cell.
    :param memory: bytes that are reserved for it.
    """
    return Command(
        name=f"{command_name(plan)}-{name}",
        argv=argv,
        mounts=mounts,
        env={**plan.environment, **_MALLOC_SETTINGS},
        workdir=sandbox_paths.WORK,
        limits=replace(limits, cpus=1.0, reserved=memory),
        path=host_compiler_path(plan),
        image=plan.image,
        brings_compilers=plan.pinned_compilers is not None,
    )


def command_name(plan: BuildPlan) -> str:
    """Return the prefix of the names of a cell's sandboxes."""
    return f"wheelsmith-{plan.cell.id.replace('/', '.')}-{plan.build_digest[:12]}"


def torch_wheels(wheels: tuple[LockedWheel, ...]) -> tuple[LockedWheel, ...]:
    """Return the wheels of torch and its CUDA libraries in an environment."""
    return tuple(wheel for wheel in wheels if _TORCH_WHEEL.fullmatch(wheel.name))


def environment_mounts(
    project: Project, wheels: tuple[LockedWheel, ...], arch: str, toolchains: Toolchains
) -> tuple[Mount, ...]:
    """Return the mounts of an environment with the project's torch. Create it if it is missing.

    :param wheels: all wheels of the environment, including torch.
    """
    torch = torch_wheels(wheels)
    others = tuple(wheel for wheel in wheels if wheel not in torch)
    make = toolchains.environment_without_cuda if project.without_cuda else toolchains.environment
    found = [Mount(source=make(torch, project.python, arch), target=sandbox_paths.ENVIRONMENT)] if torch else []
    if others:
        folder = toolchains.environment(others, project.python, arch)
        found.append(Mount(source=folder, target=sandbox_paths.REQUIREMENTS))
    return tuple(found)
