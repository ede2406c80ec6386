"""Run the test command of the matrix with a finished wheel and its framework in a sandbox."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.resources import files
from pathlib import Path
from threading import Event as Flag

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.engine import Command, Engine, Exit, Mount
from wheelsmith.frameworks import framework, read_local_version
from wheelsmith.model import CUDA, TORCH, BuildPlan, LockedWheel, Project
from wheelsmith.pipeline.command import command_name, environment_mounts, unpack_wheel
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.plan.project import why_other_cuda
from wheelsmith.platforms import compute_name
from wheelsmith.source.tree import copy_into
from wheelsmith.toolchain import Toolchains
from wheelsmith.wheel.requirements import active_requirements

# Contains sitecustomize.py, which every Python of a test imports.
_STARTUP_FOLDER = f"{sandbox_paths.WORK}/start"
_IMPORT_GUARD = files("wheelsmith") / "engine" / "backend" / "import_path_guard.py"


def why_untested(plan: BuildPlan, engine: Engine, toolchains: Toolchains) -> str | None:
    """Return the reason why a wheel cannot be tested on this machine, or None."""
    if plan.cell.arch != engine.build_host(_image(plan)).machine:
        return f"this machine does not run {plan.cell.arch}"
    found = plan.project.environment if plan.project else _environment(plan, _python(plan, engine), toolchains)
    torch = next((Version(wheel.version) for wheel in found if wheel.name == "torch"), None)
    if plan.toolkit and plan.cell.platform != CUDA:
        built_for = read_local_version(torch.local).compute if torch else None
        wanted = compute_name(plan.cell.compute)
        return None if built_for == plan.cell.compute else f"the torch that pip finds was not built for {wanted}"
    if plan.toolkit and torch and torch.local == "cpu":
        return "the torch that pip finds is a CPU build, which cannot load a CUDA extension"
    return why_other_cuda(found, plan.wheel.toolkit) if plan.toolkit and plan.wheel.toolkit else None


def smoke_test(
    plan: BuildPlan,
    wheel: Path,
    command: str,
    work: Path,
    *,
    context: BuildContext,
    on_line: Callable[[str], None],
    cancel: Flag,
) -> Exit:
    """Run a test command in a sandbox in which the wheel and its framework can be imported.

    :param command: a shell command.
    :param work: current folder of the command, created by this function. For a project, it contains the source in
        ``src``.
    """
    _lay_out((wheel, *context.required_wheels(plan)), work)
    engine, toolchains = context.engine, context.toolchains.toolchains
    python = _python(plan, engine)
    if plan.project:
        with WorkFolder(work) as folder:
            copy_into(context.source(plan), folder, "src")
        wheels = _project_environment(plan, plan.project, wheel, toolchains)
        environment = environment_mounts(plan.project, wheels, plan.cell.arch, toolchains)
    else:
        found = toolchains.environment(_environment(plan, python, toolchains), python, plan.cell.arch)
        environment = (Mount(source=found, target=sandbox_paths.ENVIRONMENT),)
    return engine.run(
        Command(
            name=f"{command_name(plan)}-test",
            argv=("/bin/sh", "-c", command),
            mounts=(Mount(source=work, target=sandbox_paths.WORK, writable=True), *environment),
            # Without isolation, the test would otherwise write bytecode to the shared environment.
            env={
                "PYTHONPATH": ":".join(
                    [_STARTUP_FOLDER, f"{sandbox_paths.WORK}/site", *(mount.target for mount in environment)]
                ),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LC_ALL": "C.UTF-8",
            },
            workdir=sandbox_paths.WORK,
            limits=context.limits,
            python=plan.project.python if plan.project else None,
            image=plan.image,
        ),
        on_line,
        cancel,
    )


def _lay_out(wheels: Iterable[Path], work: Path) -> None:
    """Install checked wheels to ``site``, and the guard of imports."""
    with WorkFolder.make(work) as folder:
        for wheel in wheels:
            unpack_wheel(wheel, folder, "site")
        with folder.create(f"{Path(_STARTUP_FOLDER).name}/sitecustomize.py") as file:
            file.write(_IMPORT_GUARD.read_bytes())


def _image(plan: BuildPlan) -> str | None:
    return plan.image.name if plan.image else None


def _python(plan: BuildPlan, engine: Engine) -> str:
    return plan.project.python if plan.project else engine.build_host(_image(plan)).python


def _project_environment(
    plan: BuildPlan, project: Project, wheel: Path, toolchains: Toolchains
) -> tuple[LockedWheel, ...]:
    """Return the environment of a user: the build's torch and the wheel's requirements, but no build requirements.

    :raises ToolchainError: the requirements cannot be resolved.
    """
    torch = tuple(f"torch==={each.version}" for each in project.environment if each.name == TORCH)
    if not torch and plan.cell.framework == TORCH:  # nothing is compiled, so the build needs no torch
        torch = (framework(TORCH).requirement(plan.cell.release),)
    present = {each.project for each in plan.requires}
    own = active_requirements(wheel, project.python, plan.cell.arch)
    others = (line for line in own if canonicalize_name(Requirement(line).name) not in present)
    needs = (*torch, *others, *project.test_requires)
    try:
        return toolchains.lock(needs, project.python, plan.cell.arch) if needs else ()
    except NoEnvironmentError as error:
        with_torch = "".join(f" with {each}" for each in torch).replace("===", " ")
        raise ToolchainError(
            f"{wheel.name} cannot be installed{with_torch} to be tested: {error.message}",
            remedy="check Requires-Dist of the wheel and test-requires for packages that no index has for this Python",
        ) from None


def _environment(plan: BuildPlan, python: str, toolchains: Toolchains) -> tuple[LockedWheel, ...]:
    """Return the environment with the cell's release of the framework. A stable-ABI wheel may be built with another."""
    target = framework(plan.cell.framework)
    known = target.release(plan.cell.release, plan.cell.arch, plan.cell.compute)
    version = known.version if known else plan.cell.release
    try:
        return toolchains.lock((f"{target.project}=={version}", *target.test_requirements), python, plan.cell.arch)
    except NoEnvironmentError as error:
        message = f"{target.project} {version} could not be installed for the test: {error.message}"
        raise ToolchainError(message) from None
