"""Compare the compilers, Python and image of this machine with those of a plan, which another machine may have made."""

from __future__ import annotations

from collections.abc import Iterator

from wheelsmith.base.errors import EngineError
from wheelsmith.engine import Engine, with_installed_toolkit, with_installed_toolset, with_python_digest
from wheelsmith.model import BuildHost, BuildPlan, ImageId

_SHOWN = 12  # digits of a digest


def check_build_host(plan: BuildPlan, engine: Engine) -> None:
    """Require what the plan names and no pinned archive contains.

    Otherwise the wheel and its compiled phases would be stored under the digests of other compilers.

    :raises EngineError: something differs or is missing.
    """
    toolset, toolkit, project = plan.toolset, plan.toolkit, plan.project
    if not (project or (toolset and not toolset.prefix) or (toolkit and not toolkit.is_pinned)):
        return
    host = engine.build_host(plan.image.name if plan.image else None)
    if project:
        host = with_python_digest(host, project.python)
    if toolset and not toolset.prefix:
        host = with_installed_toolset(host, toolset.arch)
    if toolkit and toolkit.on_machine:
        host = with_installed_toolkit(host, plan.cell.platform)
    if differing := tuple(_differences(plan, host)):
        raise EngineError(
            f"the plan was made for another machine: {'; '.join(differing)}",
            remedy="plan again on this machine, or build on one with the same compilers, Python and image",
        )


def _differences(plan: BuildPlan, host: BuildHost) -> Iterator[str]:
    toolset, project = plan.toolset, plan.project
    if project and _image(host.image) != _image(plan.image):
        yield f"builds run in {_image(host.image)}, not in {_image(plan.image)}"
    if toolset and not toolset.prefix:
        found = host.toolset(toolset.arch)
        if found is None or found.digest != toolset.digest:
            here = f"{found.version} ({_short(found.digest)})" if found else "missing"
            yield f"{toolset.cxx} is {here}, not {toolset.version} ({_short(toolset.digest)})"
    if project and project.python_digest:
        digest = host.python_digests.get(project.python)
        if digest != project.python_digest:
            here = _short(digest) if digest else "missing"
            yield f"Python {project.python} is {here}, not {_short(project.python_digest)}"
    if plan.toolkit and not plan.toolkit.is_pinned:
        installed = host.toolkits.get(plan.cell.platform)
        if installed is None or installed.digest != plan.toolkit.digest:
            here = _short(installed.digest) if installed else "missing"
            where = "image" if plan.image else "machine"
            yield f"the {where}'s toolkit is {here}, not {plan.toolkit.version} ({_short(plan.toolkit.digest)})"


def _image(image: ImageId | None) -> str:
    return f"{image.name} ({_short(image.digest)})" if image else "no image"


def _short(digest: str) -> str:
    return digest.removeprefix("sha256:")[:_SHOWN]
