"""Pydantic models of matrix.yaml, which validate the file and generate the JSON Schema for editors.

Only this module and ``values`` use pydantic. ``load`` turns the models into the dataclasses of ``types``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, create_model, model_validator

from wheelsmith.base.git_address import check_revision
from wheelsmith.base.units import parse_seconds, parse_size
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix.placeholders import PLACEHOLDERS
from wheelsmith.matrix.values import (
    TEXT_OR_NUMBER,
    Arch,
    Boolean,
    BuildRequires,
    ConfigSettings,
    Declared,
    EngineName,
    Env,
    GitUrl,
    GpuArchs,
    Headers,
    HubRepo,
    Image,
    Manylinux,
    ModuleName,
    Patterns,
    ProjectName,
    PublicVersion,
    PythonMinor,
    ReleaseMinor,
    Sdist,
    ShellCommand,
    Subfolder,
    Submodules,
    Toolchain,
    computes_of,
    distinct,
    only_text,
    text_or_number,
    toolkit_of,
)
from wheelsmith.model.build_host import AUTO
from wheelsmith.platforms import Platform, platforms


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=False, title=None)


class KernelModel(_Model):
    """The kernel: where its source is, in kernel-builder layout or with a build system of its own."""

    hub: HubRepo | None = Field(None, description="A Hub repo, such as kernels-community/activation")
    git: GitUrl | None = Field(None, description="A git repository, such as https://github.com/org/project")
    path: str | None = Field(
        None, description="A folder, or an archive (.tar.gz, .tgz, .zip), relative to this file", min_length=1
    )
    sdist: Sdist | None = Field(
        None, description="A release's sdist on pip's package indexes, such as torch-scatter==2.1.2"
    )
    revision: str | None = Field(
        None, description="A branch, tag or commit of the Hub repo or git repository", min_length=1
    )
    subdirectory: Subfolder | None = Field(None, description="Where the kernel lies in the git repository")
    submodules: Submodules = Field(
        None, description="Of the git repository: the paths of those that are fetched; or false for none; default: all"
    )
    test: str | None = Field(None, description="A command that shows that an installed wheel works", min_length=1)
    distribution: ProjectName | None = Field(
        None, description="The project's name on the index; default: the name in build.toml or pyproject.toml"
    )
    declare: Annotated[list[Declared], AfterValidator(distinct)] = Field(
        [],
        description="Files that the wheel is meant to install outside of its import packages: as the check's finding "
        "names them, * allowed",
    )
    module: ModuleName | None = Field(
        None, description="The import name, of a kernel in kernel-builder layout; default: the name in build.toml"
    )

    @model_validator(mode="after")
    def _one_place(self) -> KernelModel:
        if sum(place is not None for place in (self.hub, self.git, self.path, self.sdist)) != 1:
            raise ValueError("give exactly one of hub, git, path and sdist")
        if (self.hub or self.git) and self.revision is None:
            which = "Hub kernel" if self.hub else "git repository"
            raise ValueError(f"a {which} needs a revision, such as v1: what a repo holds changes")
        if self.git is None and (self.subdirectory is not None or self.submodules is not None):
            raise ValueError("subdirectory and submodules are for git")
        if not (self.hub or self.git) and self.revision is not None:
            raise ValueError("only a Hub repo and a git repository have a revision")
        if self.revision is not None:
            check_revision(self.revision)
        return self


class _Axes(_Model):
    """The axes ``arch`` and ``python``; ``AxesModel`` adds an axis for each framework and platform."""

    arch: Annotated[list[Arch], AfterValidator(distinct), Field(min_length=1)] = Field(
        ["x86_64"], description="CPU architectures"
    )
    python: Annotated[list[PythonMinor], AfterValidator(distinct)] = Field(
        [], description="Pythons, such as 3.12; only for a project that is not in kernel-builder layout"
    )

    @property
    def releases(self) -> dict[str, list[str]]:
        """Return the releases of each framework that has an axis."""
        return _given(self, frameworks())

    @property
    def computes(self) -> tuple[str, ...]:
        """Return the compute platforms in the order of their axes, without duplicates."""
        return tuple(dict.fromkeys(name for found in _given(self, platforms()).values() for name in found))

    @model_validator(mode="after")
    def _of_each_kind(self) -> Self:
        if len(self.releases) != 1:
            raise ValueError(f"axes name one framework: {' or '.join(frameworks())}")
        if not self.computes:
            raise ValueError(f"axes name what is compiled for: {' or '.join(platforms())}, where cpu stands, too")
        return self


class _Patterns(_Model):
    arch: Patterns | None = None
    python: Patterns | None = None

    @property
    def releases(self) -> dict[str, list[str]]:
        """Return the patterns of each framework in the selector."""
        return _given(self, frameworks())

    @property
    def toolkits(self) -> dict[str, list[str]]:
        """Return the patterns of each platform in the selector."""
        return _given(self, platforms())

    @model_validator(mode="after")
    def _something(self) -> Self:
        if not (self.releases or self.toolkits or self.arch or self.python):
            axes = ", ".join((*frameworks(), *platforms()))
            raise ValueError(f"a selector names at least one of {axes}, arch and python")
        return self


def _given(model: BaseModel, names: Iterable[str]) -> dict[str, list[str]]:
    return {name: found for name in names if (found := getattr(model, _field(name)))}


def _field(name: str) -> str:
    return name.replace("-", "_")


def _releases(framework: str) -> Any:
    values = Annotated[list[ReleaseMinor], AfterValidator(distinct), Field(min_length=1)]
    example = list(frameworks()[framework].releases())[-1]
    said = f"{framework} releases, such as {example}; the axes name one framework"
    return values | None, Field(None, alias=framework, description=said)


def _computes(platform: Platform) -> Any:
    value = Annotated[str, AfterValidator(toolkit_of(platform)), Field(json_schema_extra=TEXT_OR_NUMBER)]
    # Check for duplicates first, so that the message shows the value as written.
    read = (AfterValidator(distinct), AfterValidator(computes_of(platform)))
    values = Annotated[list[value], *read, Field(min_length=1)]
    example = list(platform.toolkits())[-1]
    said = f"{platform.title} toolkits, such as {example}, and cpu; at least one platform is named"
    return values | None, Field(None, alias=platform.name, description=said)


def _patterns(axis: str) -> Any:
    return Patterns | None, Field(None, alias=axis)


AxesModel = create_model(
    "AxesModel",
    __base__=_Axes,
    __doc__="What is combined with what, in this order.",
    **{_field(name): _releases(name) for name in frameworks()},
    **{_field(name): _computes(platform) for name, platform in platforms().items()},
)
SelectorModel = create_model(
    "SelectorModel",
    __base__=_Patterns,
    __doc__="Which cells: a value, a glob (13.*), a version specifier (<2.11), or a list of these.",
    **{_field(name): _patterns(name) for name in (*frameworks(), *platforms())},
)


class SettingsModel(_Model):
    """What a rule sets for the cells it selects."""

    gpu_archs: GpuArchs | None = Field(None, alias="gpu-archs", description="Compute capabilities: 8.0, 9.0+PTX")
    advertise: Boolean | None = Field(None, description="false: build, but leave out of the index")
    torch_headers: Headers | None = Field(None, alias="torch-headers", description="whole or light, for these cells")
    toolchain: Toolchain | None = Field(None, description="The C++ compilers for these cells")
    manylinux: Manylinux | None = Field(None, description="The manylinux policy that these cells keep to")
    image: Image | None = Field(None, description="The container image that these cells must be built in")
    env: Env | None = Field(None, description="A project's: more variables for these cells")
    build_requires: BuildRequires | None = Field(
        None, alias="build-requires", description="A project's: what these cells need besides"
    )
    test_requires: BuildRequires | None = Field(
        None, alias="test-requires", description="A project's: what tests of these cells need besides"
    )
    config_settings: ConfigSettings | None = Field(
        None, alias="config-settings", description="A project's: more of them for these cells"
    )
    before_build: ShellCommand | None = Field(
        None, alias="before-build", description="A project's: another command for these cells"
    )


class RuleModel(_Model):
    """Excludes cells, or changes their settings; later rules win."""

    exclude: SelectorModel | None = Field(None, description="The cells that are not built")
    where: SelectorModel | None = Field(None, description="The cells that set is for")
    set: SettingsModel | None = Field(None, description="What changes for them")
    reason: str | None = Field(None, description="Why; an exclusion needs it", min_length=1)

    @model_validator(mode="after")
    def _one_job(self) -> RuleModel:
        if (self.exclude is None) == (self.set is None):
            raise ValueError("a rule either excludes cells or sets something: give exactly one of exclude and set")
        if self.exclude is not None and self.reason is None:
            raise ValueError("an exclusion needs a reason")
        if self.exclude is not None and self.where is not None:
            raise ValueError("exclude selects its own cells: where belongs to set")
        if self.set is not None and self.where is None:
            raise ValueError("set needs where, the cells it is for")
        return self


class EngineModel(_Model):
    """Where cells are built, and what one command there may use."""

    name: EngineName = Field(AUTO, description="auto takes the first that works here and has the image")
    image: Image | None = Field(
        None, description="A container image: a recipe of wheelsmith image, or a reference; default: manylinux_2_28"
    )
    memory: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        None,
        description="Most memory for one compilation, test or project's build, such as 8GiB",
        json_schema_extra=only_text,
    )
    disk: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        None,
        description="Most disk for one compilation, test or project's build, such as 8GiB; default: 16GiB",
        json_schema_extra=only_text,
    )
    seconds: Annotated[float, BeforeValidator(parse_seconds)] | None = Field(
        None,
        alias="timeout",
        description="Longest time for one compilation, test or project's build, such as 45m; what a build waits for "
        "its compilations is not counted; default: 1h",
        json_schema_extra=only_text,
    )


class OutputModel(_Model):
    """Where the wheels, the index and the logs go."""

    path: str = Field("dist", description="A folder, relative to this file", min_length=1)
    variants: Boolean = Field(
        False,  # the default must be the first argument
        description="true: offer beside each CUDA and CPU wheel a wheel variant, among which installers choose by the "
        "GPU and its driver; a draft standard, which uv reads when it is asked to",
    )


class MatrixModel(_Model):
    """One kernel and every combination that its users run."""

    kernel: KernelModel
    version: PublicVersion | None = Field(
        None,
        description="The version of the wheels; default: that of build.toml or pyproject.toml",
        json_schema_extra=text_or_number,
    )
    axes: AxesModel
    gpu_archs: GpuArchs | None = Field(
        None,
        alias="gpu-archs",
        description="Compute capabilities for every CUDA cell; default: the toolkit's own",
    )
    cuda_compatibility: Literal["hub", "minor", "oldest-minor"] = Field(
        "hub",
        alias="cuda-compatibility",
        description="hub: no CUDA newer than torch's own. minor: any minor of the same CUDA major. "
        "oldest-minor: the same, and one wheel, made with the oldest, serves the newer ones",
    )
    torch_headers: Headers = Field(
        "whole",
        alias="torch-headers",
        description="light: torch/all.h has tensors, operators and their registration only, which compiles in half "
        "the time; whole: all of it",
    )
    toolchain: Toolchain | None = Field(
        None,
        description="The C++ compilers: pinned, those that wheelsmith fetches; the name of such; or host, those of the "
        "machine or the image. Where nothing is said: pinned, or host on a machine that there are no pinned ones for",
    )
    manylinux: Manylinux = Field(
        "2_28", description="The manylinux policy that pinned compilers keep to: the glibc that wheels need"
    )
    env: Env | None = Field(
        None,
        description="Variables for a project's own build system; in their values may stand what is known of the cell: "
        + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS),
    )
    build_requires: BuildRequires | None = Field(
        None,
        alias="build-requires",
        description="What a project's own build system needs beside what it declares, such as ninja; never torch",
    )
    test_requires: BuildRequires | None = Field(
        None,
        alias="test-requires",
        description="What kernel.test needs for a project's wheel beside what the wheel requires, such as pytest",
    )
    config_settings: ConfigSettings | None = Field(
        None,
        alias="config-settings",
        description="What a project's build backend is told, as python -m build -C name=value does; a name may have "
        "several values; in them stands what may stand in env's",
    )
    before_build: ShellCommand | None = Field(
        None,
        alias="before-build",
        description="A shell command that a project's build begins with, in its folder and in the sandbox",
    )
    rules: list[RuleModel] = Field([], description="Exclusions and settings, in order")
    engine: EngineModel = EngineModel()
    output: OutputModel = OutputModel()


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of matrix.yaml."""
    schema = MatrixModel.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "matrix.yaml of wheelsmith",
    }
