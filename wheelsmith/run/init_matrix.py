"""Write a first matrix.yaml for a source. It has the newest combinations that can be planned here."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from wheelsmith.base.errors import MatrixError, WheelsmithError
from wheelsmith.base.templates import text_environment
from wheelsmith.base.units import listed, numbers
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.matrix.types import KernelRef, OutputSettings
from wheelsmith.model import CUDA, NO_FRAMEWORK, TORCH, BuildPlan, Cell, Event, Excluded, Listener, Notice
from wheelsmith.model.events import ignore
from wheelsmith.plan.lock import shards_path, vendor_path
from wheelsmith.plan.planned_run import fold
from wheelsmith.plan.project import version_in
from wheelsmith.plan.pypi_names import find_name_conflict, unique_name
from wheelsmith.plan.recipe.project import ProjectSpec
from wheelsmith.plan.recipe.project_build import uses_torch
from wheelsmith.plan.recipe.project_hints import SuggestedSettings, hint_for
from wheelsmith.plan.recipe.remedies import read_project_code, suggest_settings
from wheelsmith.plan.recipe.spec import KernelSpec
from wheelsmith.plan.recipe.static_setup_metadata import used_names
from wheelsmith.platforms import CPU, platforms
from wheelsmith.run.header_cost import header_cost
from wheelsmith.run.lock import LockedInputs
from wheelsmith.run.prepare import Prepared, Request, fetch_kernel, prepare_matrix
from wheelsmith.run.project_metadata import ask_build_system
from wheelsmith.run.project_source import kernel_name_notices, read_metadata
from wheelsmith.source.archive import ARCHIVES
from wheelsmith.source.folder import is_in_repository
from wheelsmith.source.tree import SourceTree
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.progress import report_preparation

_MAX_RELEASES = 2  # newest releases of a framework to include
_MAX_TORCH_RELEASES = 4  # newest releases of torch to try for a project
_PLAIN_SCALAR = re.compile(r"[A-Za-z_./][A-Za-z0-9_./@+=~-]*(:[A-Za-z0-9_./@+=~-]+)*")
_YAML_WORDS = {"true", "false", "null", "yes", "no", "on", "off", "y", "n", "~"}
_GUESSED_VERSION = "0.1.0"
# The suffix of an archive's name, including its version.
_ARCHIVE = re.compile(rf"(-v?\d[^-]*)?({'|'.join(map(re.escape, ARCHIVES))})$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The content of a first matrix.yaml.

    :param kernel: the source.
    :param distribution: the project's name, if its metadata has no static name or if the kernel's name belongs to
        another project.
    :param module: the kernel's import name, if its own belongs to another project.
    :param version: the version, if the metadata has no static one.
    :param asked: the name and version are those of the project's build system.
    :param computes: values of the cuda axis: ``cpu`` and CUDA toolkits.
    :param pythons: for a project; empty for a kernel, which supports every Python.
    :param hint: build settings that the project needs.
    """

    kernel: KernelRef
    framework: str
    releases: tuple[str, ...]
    computes: tuple[str, ...]
    distribution: str | None = None
    module: str | None = None
    version: str | None = None
    asked: bool = False
    pythons: tuple[str, ...] = ()
    hint: SuggestedSettings | None = None

    @property
    def kinds(self) -> set[tuple[str | None, bool]]:
        """Return each Python, once for the CPU and once for CUDA if the draft has them."""
        return {(python, compute == CPU) for python in self.pythons or (None,) for compute in self.computes}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tried:
    """A draft with its plans, and the notices of planning."""

    draft: Draft
    prepared: Prepared
    notices: tuple[Event, ...]

    @property
    def kinds(self) -> set[tuple[str | None, bool]]:
        return {(plan.cell.python, plan.cell.toolkit is None) for plan in self.prepared.plans}

    @property
    def plans(self) -> tuple[BuildPlan, ...]:
        """The plans of the draft's own cells."""
        return tuple(plan for plan in self.prepared.plans if _includes(self.draft, plan.cell))


def first_matrix(
    kernel: KernelRef, file: Path, cache: Path, listen: Listener, pythons: tuple[str, ...] = ()
) -> tuple[str, str, int]:
    """Return a first matrix.yaml, the kernel's display name, and the number of cells with a plan.

    :param kernel: the source.
    :param file: the future file; relative paths start from its folder.
    :param pythons: the Pythons of a project; by default the one that runs wheelsmith.
    :raises WheelsmithError: the source is not available, or none of its cells can be built here.
    """
    request, base = Request(matrix=file, cache=cache), file.resolve().parent
    # One line says that environments are resolved, although each release of torch is tried by itself.
    inputs = LockedInputs(kernel=kernel, lock=None, toolchains=Toolchains(cache, ignore))
    source = fetch_kernel(kernel, request, base / OutputSettings().path, listen)
    spec = read_metadata(source)
    waiting: AbstractContextManager[None] = nullcontext()
    if isinstance(spec, KernelSpec):
        if pythons:
            raise MatrixError("one wheel of this kernel supports every Python", remedy="remove --python")
        drafts = _kernel_drafts(kernel, spec)
    else:
        named = pythons or (f"{sys.version_info[0]}.{sys.version_info[1]}",)
        drafts = _project_drafts(kernel, spec, source, spec.name or _likely_name(kernel, base), named)
        waiting = report_preparation(f"resolving requirements for Python {listed(named)}", listen)
    with waiting:
        tried = _try_drafts(drafts, request, inputs, source)
    best = max(tried, key=lambda each: len(each.kinds))
    if not best.prepared.plans:
        raise _nothing_to_build(tuple(item for each in tried for item in each.prepared.excluded))
    # A plan does not depend on the other cells of a matrix, so these plans remain valid.
    final = replace(best, draft=_narrow(best.draft, best.prepared.plans))
    final = _with_settings(final, request, inputs, source)
    kept, plans = final.draft, final.plans
    costs = header_cost(source, fold(plans))
    for notice in (*final.notices, *kernel_name_notices(spec, kernel), *_reasons(kept, best, tried), *costs):
        listen(notice)
    if isinstance(spec, ProjectSpec) and not (spec.name and spec.version):
        kept = _with_metadata(kept, spec, final.prepared, listen)
    return render(kept), final.prepared.kernel, len(plans)


def _try_drafts(drafts: Iterable[Draft], request: Request, inputs: LockedInputs, source: SourceTree) -> list[_Tried]:
    """Plan the drafts up to the first of which every kind of cell can be built."""
    tried = []
    for draft in drafts:
        notices: list[Event] = []
        matrix = parse_matrix(render(draft), file=request.matrix.name)
        prepared = prepare_matrix(matrix, request, inputs, notices.append, source)
        tried.append(_Tried(draft=draft, prepared=prepared, notices=tuple(notices)))
        if tried[-1].kinds == draft.kinds:
            break
    return tried


def _with_settings(tried: _Tried, request: Request, inputs: LockedInputs, source: SourceTree) -> _Tried:
    """Plan a draft again with the settings that its project's code asks for, if there are any."""
    found = tried.draft.hint or suggest_settings(read_project_code(source.paths, source.read_bytes), tried.plans)
    if found is tried.draft.hint:
        return tried
    [again] = _try_drafts([replace(tried.draft, hint=found)], request, inputs, source)
    return again if len(again.plans) == len(tried.plans) else tried


def _reasons(kept: Draft, best: _Tried, tried: Iterable[_Tried]) -> Iterator[Notice]:
    """Yield why no newer release was chosen, and why kinds of cells cannot be built here."""
    if kept.framework != NO_FRAMEWORK:
        newer = [name for name in framework(kept.framework).releases() if numbers(name) > numbers(kept.releases[-1])]
        excluded = (item for each in tried for item in each.prepared.excluded)
        why = next((item.reason for item in excluded if newer and item.cell.release == newer[0]), None)
        if why:
            yield Notice(level="info", text=f"{kept.framework} {kept.releases[-1]}, not {newer[0]}: {why}")
    lacking = best.draft.kinds - best.kinds
    reasons = [item.reason for item in best.prepared.excluded if (item.cell.python, not item.cell.toolkit) in lacking]
    for reason in dict.fromkeys(reasons):
        yield Notice(level="warning", text=f"excluded: {reason}")


def _with_metadata(draft: Draft, spec: ProjectSpec, prepared: Prepared, listen: Listener) -> Draft:
    """Return the draft with the missing name and version from the project's build system, if it says them."""
    try:
        name, version = ask_build_system(prepared, Toolchains(prepared.request.cache, listen))
    except WheelsmithError as error:
        listen(Notice(level="warning", text=f"name and version are guesses: {error.message}"))
        return draft
    keeps_version = spec.version or spec.git_version_plugin
    return replace(
        draft,
        distribution=None if spec.name else name,
        version=draft.version if keeps_version else version,
        asked=True,
    )


def missing_ignores(matrix: Path) -> tuple[str, ...]:
    """Return the lines that the .gitignore next to a matrix lacks; none outside of a git repository."""
    folder = matrix.absolute().parent
    if not is_in_repository(folder):
        return ()
    file = folder / ".gitignore"
    known = {line.strip().strip("/") for line in file.read_text(errors="replace").splitlines()} if file.exists() else {}
    own = (f"{OutputSettings().path}/", f"{vendor_path(matrix).name}/", shards_path(matrix).name)
    return tuple(line for line in own if line.strip("/") not in known)


def _kernel_drafts(kernel: KernelRef, spec: KernelSpec) -> Iterator[Draft]:
    computes = [CPU, *platforms()[CUDA].toolkits()]
    releases = tuple(framework(spec.framework).releases())
    own = None
    if find_name_conflict(spec.name, distribution=None, module=spec.module):
        own = unique_name(kernel.hub or spec.repo_id or f"{spec.name}-kernel")
    yield Draft(
        kernel=kernel,
        framework=spec.framework,
        releases=releases,
        computes=tuple(computes),
        distribution=own,
        module=own and own.replace("-", "_"),
        version=None if spec.version is not None else _GUESSED_VERSION,
    )


def _project_drafts(
    kernel: KernelRef, spec: ProjectSpec, source: SourceTree, name: str, pythons: tuple[str, ...]
) -> Iterator[Draft]:
    """Yield a draft for each torch release, newest first. Each release needs its own environment."""
    hint = hint_for(name)
    likely = spec.likely_version[0] if spec.likely_version else _GUESSED_VERSION
    backends = (CPU, CUDA) if spec.is_pure else hint.backends if hint else _backends(source)
    with_torch = spec.builds_with_torch or uses_torch(source.paths, source.read_bytes)
    tried = [*reversed(torch_releases().values())][: _MAX_TORCH_RELEASES if with_torch else 1]
    for release in tried:
        toolkits = [cuda for cuda in release.cuda if cuda in platforms()[CUDA].toolkits()]
        yield Draft(
            kernel=kernel,
            framework=TORCH if with_torch else NO_FRAMEWORK,
            releases=(release.minor if with_torch else "",),
            computes=(*((CPU,) if CPU in backends else ()), *(toolkits if CUDA in backends else ())),
            distribution=None if spec.name else name,
            version=None if spec.version else version_in(source.id.revision) or likely,
            pythons=() if spec.is_pure else pythons,
            hint=hint,
        )


def _likely_name(kernel: KernelRef, base: Path) -> str:
    """Guess the name of a project without a static name from its address."""
    if kernel.sdist:
        return kernel.sdist.partition("==")[0]
    place = kernel.subdirectory or kernel.hub or (kernel.git or "").removesuffix(".git")
    name = _ARCHIVE.sub("", Path(place or (base / str(kernel.path)).resolve()).name)
    return re.sub(r"[^A-Za-z0-9]+", "-", name)[:100].strip("-") or "project"


def _backends(source: SourceTree) -> tuple[str, ...]:
    """Return the backends of a project, from its .cu files and the classes of cpp_extension that its setup.py uses."""
    used = used_names(source.read_bytes("setup.py")) if "setup.py" in source.paths else ()
    device = any(path.endswith(".cu") for path in source.paths) or "CUDAExtension" in used
    only_device = "CUDAExtension" in used and "CppExtension" not in used
    return (*(() if only_device else (CPU,)), *((CUDA,) if device else ()))


def _narrow(draft: Draft, plans: tuple[BuildPlan, ...]) -> Draft:
    """Keep the newest releases with a plan, and for them the CPU and the newest toolkit."""
    cells = [plan.cell for plan in plans]
    releases = sorted({cell.release for cell in cells}, key=numbers)[-_MAX_RELEASES:]
    newest = {cell.toolkit for cell in cells if cell.release == releases[-1]}
    toolkits = sorted((toolkit for toolkit in newest if toolkit), key=numbers)[-1:]
    computes = (*((CPU,) if None in newest else ()), *toolkits)
    narrow = replace(draft, releases=tuple(releases), computes=computes)
    kept = {cell.release for cell in cells if _includes(narrow, cell)}
    return replace(narrow, releases=tuple(release for release in releases if release in kept))


def _includes(draft: Draft, cell: Cell) -> bool:
    return cell.release in draft.releases and (cell.toolkit or CPU) in draft.computes


def _nothing_to_build(excluded: tuple[Excluded, ...]) -> MatrixError:
    reasons = list(dict.fromkeys(item.reason for item in excluded))
    return MatrixError(
        f"this machine can build no wheel of it: {'; '.join(reasons[-3:]) or 'it has no combinations'}",
        remedy="run wheelsmith doctor to see the machine's abilities, or write matrix.yaml by hand as in docs/how-to",
    )


def render(draft: Draft) -> str:
    """Return a draft as YAML, with comments about other settings."""
    environment = text_environment("wheelsmith.run")
    environment.filters |= {"scalar": _yaml_scalar, "quoted": _quote_release, "json": json.dumps}
    environment.tests["commit"] = re.compile("[0-9a-f]{40}").fullmatch
    return environment.get_template("matrix.yaml").render(draft=draft)


def _quote_release(release: str) -> str:
    return f'"{release}"' if release.endswith("0") else release


def _yaml_scalar(text: str) -> str:
    """Return a text as a YAML scalar, quoted only if necessary."""
    if _PLAIN_SCALAR.fullmatch(text) and text.lower() not in _YAML_WORDS:
        return text
    # JSON escapes a character above U+FFFF as two surrogates, which YAML reads as two characters.
    return json.dumps(text, ensure_ascii=not text.isprintable())
