"""Build plans: everything that a wheel is built from."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from wheelsmith.base.json_dataclass import Record, canonical_json
from wheelsmith.model.build_host import ImageId, Toolset
from wheelsmith.model.cell import TORCH, Cell
from wheelsmith.model.pinned import PrefixId
from wheelsmith.model.wheel_name import wheel_stem

SCHEMA_VERSION = 1
# In the .dist-info folder of every built wheel: the data that the plan's digest covers.
RECORDED_PLAN = "build-plan.json"
UPSTREAM = "upstream"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceId(Record):
    """The identity of a wheel's source.

    :param origin: ``hub:org/name``, ``git:https://host/org/name``, ``git:local``, ``sdist:name==version``,
        ``archive:name.tar.gz`` or ``path``. It contains no path of this machine and no credentials. A folder in a git
        repository is appended as ``#subdirectory=…``.
    :param revision: the requested branch, tag or commit; None if the source has none.
    :param commit: the commit of ``revision``, or an archive's sha256; None for a folder.
    :param tree: sha256 over the sorted file names, their contents and their executable bits.
    """

    origin: str
    revision: str | None
    commit: str | None
    tree: str

    @property
    def url(self) -> str | None:
        """Return the public URL of the repository; None for another source."""
        kind, _, address = self.origin.partition(":")
        where = address.partition("#")[0]
        if kind == "hub":
            return f"https://huggingface.co/{where}"
        return where if kind == "git" and where.startswith("https://") else None

    @property
    def place(self) -> str | None:
        """Return the public address in short form; None for a source on this machine."""
        kind, _, address = self.origin.partition(":")
        where, _, folder = address.partition("#subdirectory=")
        if not address or where == "local" or kind == "archive":
            return None
        where = where.removeprefix("https://").removesuffix(".git")
        return f"{where} {folder}" if folder and kind == "git" else where

    @property
    def commit_label(self) -> str:
        """Return the display label of ``commit``."""
        return "SHA-256" if self.origin.startswith(("sdist:", "archive:")) else "commit"


class StepKind(StrEnum):
    """The kind of a step, for progress and cost models."""

    CXX = "cxx"
    NVCC = "nvcc"
    HIP = "hip"
    STUB = "stub"
    LINK = "link"
    CHECK = "check"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Record):
    """One command of a build. All paths are inside the sandbox or relative to the build folder.

    A check is a Python script with its arguments, and the Python of the sandbox runs it.

    :param output: the one file that the command writes.
    :param inputs: the files that the output depends on.
    :param source: the file that it compiles, relative to the kernel's folder; None if it compiles none of those.
    :param gpu_archs: GPU architectures that it generates code for, e.g. ``9.0a+PTX``.
    """

    kind: StepKind
    output: str
    inputs: tuple[str, ...]
    argv: tuple[str, ...]
    source: str | None = None
    gpu_archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Record):
    """The compile steps and wheel contents of one kernel for one cell.

    :param steps: in an order in which they can run one by one; empty for a kernel without compiled code.
    :param generated: path under the source folder → text of a generated file.
    :param contents: path inside the wheel → path of the file in the source or build folder, as ``src/...`` or
        ``build/...``.
    :param namespace: the ``torch.ops`` namespace; also the stem of the extension module.
    :param extension: path of the compiled module inside the wheel, or None.
    """

    steps: tuple[Step, ...]
    generated: dict[str, str]
    contents: dict[str, str]
    namespace: str
    extension: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel(Record):
    """One wheel of a build environment, equivalent to ``name==version --hash=sha256:…``."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Record):
    """The build inputs of a project with its own build system, for one cell.

    :param python: the Python that builds it, ``major.minor``.
    :param python_digest: sha256 over that Python's headers and its options for compiling extensions; None for a
        Python in an image.
    :param environment: all packages that the build system sees, including torch.
    :param variables: environment variables of the build, which describe the cell.
    :param without_cuda: True if torch is a CUDA build in a CPU cell; the build sees no CUDA in it.
    :param test_requires: requirements of the wheel's test, in addition to the wheel's own.
    :param config_settings: config settings of the build backend (PEP 517).
    :param before_build: a shell command that runs before the build.
    """

    python: str
    environment: tuple[LockedWheel, ...]
    variables: dict[str, str]
    without_cuda: bool = False
    test_requires: tuple[str, ...] = ()
    config_settings: dict[str, tuple[str, ...]] = field(default_factory=dict)
    before_build: str | None = None
    python_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredWheel(Record):
    """The wheel of another kernel of the same matrix file.

    :param project: the normalized name of its project.
    :param digest: the digest of the plan that builds it.
    """

    project: str
    digest: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelSpec(Record):
    """The name, version, tags and metadata of a wheel, decided before it is built.

    :param distribution: the project's name as written in METADATA.
    :param version: with the local version, e.g. ``1+cu130.torch2.11``.
    :param python_tag: ``cp39`` or ``py3``.
    :param abi_tag: ``abi3``, ``none``, or for a project e.g. ``cp312``; a project may produce ``abi3`` instead.
    :param platform: ``any``, or ``linux_<arch>``, which repair replaces by the tag that the symbols allow.
    :param metadata: the complete METADATA file; None for a project, which writes its own.
    :param gpu_archs: GPU architectures that the binary must contain, e.g. ``8.0``, ``9.0a``, ``9.0+PTX``.
    :param release: the framework's release, e.g. ``2.11``. Its exports must satisfy the binary's undefined symbols.
        None if nothing is compiled.
    :param stable_abi: the oldest release that the wheel supports, if it uses the framework's stable ABI.
    :param declared: patterns of intended files outside of the import packages.
    :param cpu_features: instructions that some of its code uses and not every CPU has, e.g. ``avx512f``.
    """

    distribution: str
    version: str
    python_tag: str
    abi_tag: str
    platform: str
    metadata: str | None
    module: str
    gpu_archs: tuple[str, ...]
    framework: str = TORCH
    release: str | None
    toolkit: str | None
    arch: str
    stable_abi: str | None
    declared: tuple[str, ...] = ()
    cpu_features: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain data, without the CPU's features if there are none."""
        data = Record.to_json(self)  # slots replace the class, so super() does not work
        if not self.cpu_features:
            del data["cpu_features"]
        return data

    @property
    def stem(self) -> str:
        """Return the wheel's file name up to the platform, which repair decides."""
        return f"{wheel_stem(self.distribution)}-{self.version}-{self.python_tag}-{self.abi_tag}"


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan(Record):
    """Everything that decides the bytes of a wheel. A plan and its source are enough to build the wheel.

    Cells with the same ``build_digest`` share one build: a stable-ABI kernel is compiled once for all the torch
    releases that it supports.

    :param image: the image that it is built in; None for the machine itself.
    :param libraries: prefixes with more headers: a kernel's header dependencies, or the headers that an assembled
        toolkit lacks for a project.
    :param headers: the framework's headers; None for a project, and if nothing is compiled.
    :param recipe: empty for a project, which has its own build system.
    :param requires: wheels of the same run that the build of a project, or the test of a wheel, imports.
    :param repacked: True if the content was compiled upstream, so that this plan cannot build it.
    :param policy: the manylinux policy of repacked content, e.g. ``manylinux_2_28``; None computes it from the symbols.
    :param deflate: fingerprint of the compressor that packs the wheel; None for zlib itself.
    """

    cell: Cell
    image: ImageId | None
    source: SourceId
    toolset: Toolset | None
    toolkit: PrefixId | None
    headers: PrefixId | None
    recipe: Recipe
    environment: dict[str, str]
    wheel: WheelSpec
    recipe_version: int
    project: Project | None = None
    libraries: tuple[PrefixId, ...] = ()
    requires: tuple[RequiredWheel, ...] = ()
    repacked: bool = False
    policy: str | None = None
    deflate: str | None = None
    schema_version: int = SCHEMA_VERSION
    # A run reads each digest several times, and a plan never changes.
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def pinned_compilers(self) -> PrefixId | None:
        """Return the prefix of pinned compilers; None if the machine or the image has them, or none are needed."""
        return self.toolset.prefix if self.toolset else None

    @property
    def compiler(self) -> str | None:
        """Return who compiled: the version of the host compiler, or ``upstream``; None if nothing is compiled."""
        return UPSTREAM if self.repacked else self.toolset.version if self.toolset else None

    @property
    def prefixes(self) -> tuple[PrefixId, ...]:
        """Return the prefixes of the build that are made from pinned files."""
        prefixes = (self.pinned_compilers, self.headers, self.toolkit, *self.libraries)
        return tuple(prefix for prefix in prefixes if prefix and prefix.is_pinned)

    def of_cell(self, cell: Cell) -> BuildPlan:
        """Return the plan for another cell with the same wheel."""
        made = replace(self, cell=cell)
        made._digest.extend(self._digest)  # noqa: SLF001  # it does not depend on the cell
        return made

    @property
    def build_digest(self) -> str:
        """Return the sha256 (hex) of ``recorded()``, and so of everything that decides the wheel's bytes."""
        if not self._digest:
            self._digest.append(hashlib.sha256(self.recorded()).hexdigest())
        return self._digest[0]

    def recorded(self) -> bytes:
        """Return everything that decides the wheel's bytes as canonical JSON, which the wheel contains.

        The cell is left out, so that cells that share a wheel have the same record. A sha256 stands for METADATA, and
        another one for a matrix's settings of a project's build system, which may be private.
        """
        data = self.to_json()
        del data["cell"]
        # Only the compilers of an image affect a kernel's wheel, and toolset has their digest. The same compilers in
        # another engine, or without an image, make the same wheel. A project may use everything in the image.
        if self.project is None:
            del data["image"]
        else:
            # Test requirements do not affect the wheel.
            del data["project"]["test_requires"]
            told = {name: data["project"].pop(name) for name in ("variables", "config_settings", "before_build")}
            data["project"]["told"] = hashlib.sha256(canonical_json(told)).hexdigest()
            data["image"] = self.image and self.image.digest
        if self.project is None or not self.requires:  # nothing of another wheel is in a kernel's own
            del data["requires"]
        for name in ("deflate", "policy"):
            if data[name] is None:
                del data[name]
        # A branch that moved without changing a file needs no new build.
        data["source"] = {"tree": self.source.tree}
        if self.wheel.metadata is not None:
            data["wheel"]["metadata"] = hashlib.sha256(self.wheel.metadata.encode()).hexdigest()
        return canonical_json(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(Record):
    """The shared wheel that serves a cell.

    :param cell: the ID of the cell that the wheel is built for.
    :param reason: why the wheel serves both cells.
    """

    cell: str
    reason: str
