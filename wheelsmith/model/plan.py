"""What a wheel is built from: plans."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import StrEnum

from wheelsmith.base.json_dataclass import Record, canonical_json
from wheelsmith.model.build_host import ImageId, Toolset
from wheelsmith.model.cell import TORCH, Cell
from wheelsmith.model.pinned import PrefixId

SCHEMA_VERSION = 1
# In the .dist-info folder of every wheel that is built: what its plan's digest is of.
RECORDED_PLAN = "build-plan.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceId(Record):
    """Which source a wheel is made from.

    :param origin: ``hub:org/name``, ``git:https://host/org/name``, ``git:local``, ``sdist:name==version``,
        ``archive:name.tar.gz`` or ``path``; never a path of this host, and no credentials. A folder in a git repository
        follows as ``#subdirectory=…``.
    :param revision: what was asked for: a branch, tag or commit; None where there is none.
    :param commit: the commit that ``revision`` named, or an archive's sha256; None for a folder.
    :param tree: sha256 over the sorted file names, their contents, and which of them are executable.
    """

    origin: str
    revision: str | None
    commit: str | None
    tree: str

    @property
    def place(self) -> str | None:
        """Return where others find it, as people write it; None for what lies on this machine."""
        kind, _, address = self.origin.partition(":")
        where, _, folder = address.partition("#subdirectory=")
        if not address or where == "local" or kind == "archive":
            return None
        where = where.removeprefix("https://").removesuffix(".git")
        return f"{where} {folder}" if folder and kind == "git" else where

    @property
    def commit_is(self) -> str:
        """Return what people call ``commit``."""
        return "SHA-256" if self.origin.startswith(("sdist:", "archive:")) else "commit"


class StepKind(StrEnum):
    """What a step does, for progress and for cost models."""

    CXX = "cxx"
    NVCC = "nvcc"
    STUB = "stub"
    LINK = "link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step(Record):
    """One command of a build; all paths are those inside the sandbox or relative to the build folder.

    :param output: the one file that the command makes.
    :param inputs: files whose change makes it stale.
    :param source: what it compiles, relative to the kernel's folder; None for a step that compiles nothing of it.
    :param gpu_archs: capabilities that it makes code for, as ``9.0a+PTX``.
    """

    kind: StepKind
    output: str
    inputs: tuple[str, ...]
    argv: tuple[str, ...]
    source: str | None = None
    gpu_archs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe(Record):
    """How one kernel is compiled for one cell.

    :param steps: in an order in which they could run one by one; empty for a kernel with nothing compiled.
    :param generated: file path under the source folder → its text.
    :param contents: path inside the wheel → path under the source or the build folder it comes from, as
        ``src/...`` or ``build/...``.
    :param namespace: the ``torch.ops`` namespace; also the stem of the extension module.
    :param extension: path inside the wheel of the compiled module, or None.
    """

    steps: tuple[Step, ...]
    generated: dict[str, str]
    contents: dict[str, str]
    namespace: str
    extension: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LockedWheel(Record):
    """One wheel of a build environment, as ``name==version --hash=sha256:…`` would have it."""

    name: str
    version: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Project(Record):
    """How a project with a build system of its own is built for one cell.

    :param python: the Python that builds it, ``major.minor``.
    :param python_digest: sha256 over its headers and what it compiles extensions with; None of an image's.
    :param environment: everything that its build system sees, torch among it.
    :param variables: what tells the build system about the cell.
    :param without_cuda: that torch is a CUDA build, and the cell, for the CPU, sees nothing of CUDA in it.
    :param test_requires: what a test of the wheel needs beside what the wheel requires.
    :param config_settings: what its backend is told.
    :param before_build: a shell command that comes first.
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
class WheelSpec(Record):
    """What the wheel says of itself, decided before it is built.

    :param distribution: the project's name as written in METADATA.
    :param version: with the local part, e.g. ``1+cu130.torch2.11``.
    :param python_tag: ``cp39`` or ``py3``.
    :param abi_tag: ``abi3``, ``none``, or ``cp312`` of a project, which may give ``abi3`` instead.
    :param platform: ``any``, or ``linux_<arch>``, which repair replaces by what the symbols allow.
    :param metadata: the whole METADATA file; None for a project, which writes its own.
    :param gpu_archs: capabilities that must be found in the binary, e.g. ``8.0``, ``9.0a``, ``9.0+PTX``.
    :param release: of the framework, whose exports must satisfy the binary's undefined symbols, e.g. ``2.11``;
        None when nothing is compiled.
    :param stable_abi: the torch release from which on the wheel works, when it uses torch's stable ABI.
    :param declared: patterns of files that are meant, though they are outside of its import packages.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildPlan(Record):
    """Everything that decides the bytes of a wheel; whoever holds it and the source can make it.

    Two cells whose plans have the same ``build_digest`` are one build: a stable-ABI kernel is compiled once
    for every torch it serves.

    :param image: where it is built, or None on the machine itself.
    :param libraries: of headers that a kernel depends on beside them, or that a project has beside its toolkit's.
    :param headers: the framework's; None where nothing is compiled, and of a project.
    :param recipe: empty for a project, which has its own way.
    :param repacked: what the wheel holds was compiled elsewhere, and cannot be built again from this.
    :param deflate: what packs it, by what that makes of a text; None of zlib's own.
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
    repacked: bool = False
    deflate: str | None = None
    schema_version: int = SCHEMA_VERSION
    # A run asks several times for the digest of each plan, and a plan never changes.
    _digest: list[str] = field(default_factory=list, init=False, repr=False, compare=False)

    @property
    def pinned_compilers(self) -> PrefixId | None:
        """Return the prefix of pinned compilers; None where the machine or the image has them, or none are needed."""
        return self.toolset.prefix if self.toolset else None

    @property
    def prefixes(self) -> tuple[PrefixId, ...]:
        """Return the prefixes that it is built with and that are made from pinned files."""
        prefixes = (self.pinned_compilers, self.headers, self.toolkit, *self.libraries)
        return tuple(prefix for prefix in prefixes if prefix and not prefix.in_image)

    @property
    def build_digest(self) -> str:
        """Return the sha256 of all that decides the wheel's bytes, in hex: that of what its wheel records."""
        if not self._digest:
            self._digest.append(hashlib.sha256(self.recorded()).hexdigest())
        return self._digest[0]

    def recorded(self) -> bytes:
        """Return all that decides the wheel's bytes as canonical JSON, which the wheel holds; METADATA as its sha256.

        Nothing of the cell is in it but what the wheel is made for: cells that share a wheel record the same. What a
        matrix tells a project's build system, which others need not know, is in it as one sha256.
        """
        data = self.to_json()
        del data["cell"]
        # Of an image only its compilers reach a kernel's wheel, and toolset names those by their bytes: another engine,
        # or the same compilers without any image, make the same wheel. A project may use all that it finds.
        if self.project is None:
            del data["image"]
        else:
            # What a test needs changes no byte of what is tested.
            del data["project"]["test_requires"]
            told = {name: data["project"].pop(name) for name in ("variables", "config_settings", "before_build")}
            data["project"]["told"] = hashlib.sha256(canonical_json(told)).hexdigest()
            data["image"] = self.image and self.image.digest
        if self.deflate is None:
            del data["deflate"]
        # A branch that moved without changing a file is no reason to build again.
        data["source"] = {"tree": self.source.tree}
        if self.wheel.metadata is not None:
            data["wheel"]["metadata"] = hashlib.sha256(self.wheel.metadata.encode()).hexdigest()
        return canonical_json(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folded(Record):
    """Whose wheel a cell shares, and why that wheel serves it.

    :param cell: the id of the cell that the wheel is built for.
    """

    cell: str
    reason: str
