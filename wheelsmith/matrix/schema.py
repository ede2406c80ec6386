"""Pydantic models of matrix.yaml, which validate the file and generate the JSON Schema for editors.

Only this module and ``values`` use pydantic. ``load`` turns the models into the dataclasses of ``types``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    create_model,
    field_validator,
    model_validator,
)

from wheelsmith.base.git_address import check_revision
from wheelsmith.base.units import parse_seconds, parse_size
from wheelsmith.frameworks import frameworks
from wheelsmith.matrix.kernel_set import INCLUDE, KERNELS, OF_RUN
from wheelsmith.matrix.placeholders import PLACEHOLDERS
from wheelsmith.matrix.values import (
    TEXT_OR_NUMBER,
    Arch,
    Boolean,
    BuildRequires,
    CacheAddresses,
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
    Sdist,
    ShellCommand,
    Subfolder,
    Subfolders,
    Submodules,
    Toolchain,
    as_text,
    as_text_or_number,
    check_distinct,
    computes_of,
    release_of,
    toolkit_of,
)
from wheelsmith.model.build_host import AUTO
from wheelsmith.platforms import Platform, platforms

CxxStandard = Literal["torch", "project"]
Size = Annotated[int, BeforeValidator(parse_size)]
File = Annotated[str, Field(min_length=1)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=False, title=None)


class KernelModel(_Model):
    """The source of the kernel, in kernel-builder layout or with its own build system."""

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
    subdirectory: Subfolder | None = Field(None, description="The kernel's folder in the git repository")
    submodules: Submodules = Field(
        None, description="Submodules of the git repository: a list of paths, or false for none; default: all"
    )
    include: Subfolders = Field([], description="Files in path to take although git ignores them: paths or globs")
    exclude: Subfolders = Field([], description="Files in path to leave out: paths or globs, such as docs/*.png")
    build_toml: Subfolder | None = Field(
        None,
        alias="build-toml",
        description="The kernel's build.toml, such as jax-ext/build.toml: a source may have one for each framework",
    )
    test: str | None = Field(None, description="A command that tests an installed wheel", min_length=1)
    distribution: ProjectName | None = Field(
        None, description="The project's name in the index; default: the name in build.toml or pyproject.toml"
    )
    declare: Annotated[list[Declared], AfterValidator(check_distinct)] = Field(
        [],
        description="Files that the wheel may install outside of its import packages, and libraries that something "
        "else provides: paths or names as in the check's finding, or patterns with *",
    )
    module: ModuleName | None = Field(
        None, description="The import name of a kernel in kernel-builder layout; default: the name in build.toml"
    )

    builds: Literal["prefer"] | None = Field(
        None,
        description="prefer: take the builds that the Hub repo or folder has under build/, if they pass the check, and "
        "compile only the rest",
    )

    @model_validator(mode="after")
    def _check_source(self) -> KernelModel:
        if sum(place is not None for place in (self.hub, self.git, self.path, self.sdist)) != 1:
            raise ValueError("give exactly one of hub, git, path and sdist")
        if (self.hub or self.git) and self.revision is None:
            which = "Hub kernel" if self.hub else "git repository"
            raise ValueError(f"a {which} needs a revision, such as v1, since repositories change")
        if self.git is None and (self.subdirectory is not None or self.submodules is not None):
            raise ValueError("subdirectory and submodules require git")
        if self.path is None and (self.include or self.exclude):
            raise ValueError("include and exclude require path")
        if not (self.hub or self.git) and self.revision is not None:
            raise ValueError("revision requires hub or git")
        if self.builds is not None and not (self.hub or self.path):
            raise ValueError("builds requires hub or path")
        if self.revision is not None:
            check_revision(self.revision)
        return self


class _Axes(_Model):
    """The axes ``arch`` and ``python``; ``AxesModel`` adds an axis for each framework and platform."""

    arch: Annotated[list[Arch], AfterValidator(check_distinct), Field(min_length=1)] = Field(
        ["x86_64"], description="CPU architectures"
    )
    python: Annotated[list[PythonMinor], AfterValidator(check_distinct)] = Field(
        [],
        description="Python versions, such as 3.12, or 3.14t for a free-threaded one; only for projects",
    )

    @property
    def releases(self) -> dict[str, list[str]]:
        """Return the releases of each framework that has an axis."""
        return _nonempty(self, frameworks())

    @property
    def computes(self) -> tuple[str, ...]:
        """Return the compute platforms in the order of their axes, without duplicates."""
        return tuple(dict.fromkeys(name for found in _nonempty(self, platforms()).values() for name in found))

    @model_validator(mode="after")
    def _check_axes(self) -> Self:
        if not self.computes:
            raise ValueError(f"axes need a platform: {' or '.join(platforms())}; its values may include cpu")
        return self


class _Patterns(_Model):
    arch: Patterns | None = None
    python: Patterns | None = None

    @property
    def releases(self) -> dict[str, list[str]]:
        """Return the patterns of each framework in the selector."""
        return _nonempty(self, frameworks())

    @property
    def toolkits(self) -> dict[str, list[str]]:
        """Return the patterns of each platform in the selector."""
        return _nonempty(self, platforms())

    @model_validator(mode="after")
    def _check_nonempty(self) -> Self:
        if not (self.releases or self.toolkits or self.arch or self.python):
            axes = ", ".join((*frameworks(), *platforms()))
            raise ValueError(f"a selector needs at least one of {axes}, arch and python")
        return self


def _nonempty(model: BaseModel, names: Iterable[str]) -> dict[str, list[str]]:
    return {name: found for name in names if (found := getattr(model, _field_name(name)))}


def _field_name(name: str) -> str:
    return name.replace("-", "_")


def _release_axis(framework: str) -> Any:
    chosen = frameworks()[framework]
    value = Annotated[str, AfterValidator(release_of(chosen)), Field(json_schema_extra=TEXT_OR_NUMBER)]
    values = Annotated[list[value], AfterValidator(check_distinct), Field(min_length=1)]
    more = ", pre-releases such as 2.16.0rc2, and nightly" if chosen.has_prereleases else ""
    text = f"{framework} releases, such as {list(chosen.releases())[-1]}{more}; exactly one framework is required"
    return values | None, Field(None, alias=framework, description=text)


def _compute_axis(platform: Platform) -> Any:
    value = Annotated[str, AfterValidator(toolkit_of(platform)), Field(json_schema_extra=TEXT_OR_NUMBER)]
    # Check for duplicates first, so that the message shows the value as written.
    read = (AfterValidator(check_distinct), AfterValidator(computes_of(platform)))
    values = Annotated[list[value], *read, Field(min_length=1)]
    example = list(platform.toolkits())[-1]
    text = f"{platform.title} toolkits, such as {example}, and cpu; at least one platform is required"
    return values | None, Field(None, alias=platform.name, description=text)


def _pattern_axis(axis: str) -> Any:
    return Patterns | None, Field(None, alias=axis)


AxesModel = create_model(
    "AxesModel",
    __base__=_Axes,
    __doc__="The values to combine, in this order.",
    **{_field_name(name): _release_axis(name) for name in frameworks()},
    **{_field_name(name): _compute_axis(platform) for name, platform in platforms().items()},
)
SelectorModel = create_model(
    "SelectorModel",
    __base__=_Patterns,
    __doc__="Selects combinations by a value, a glob (13.*), a version specifier (<2.11), or a list of these.",
    **{_field_name(name): _pattern_axis(name) for name in (*frameworks(), *platforms())},
)


class SettingsModel(_Model):
    """Settings for the combinations that a rule selects. Variables, requirements and options add to the matrix's."""

    gpu_archs: GpuArchs | None = Field(None, alias="gpu-archs", description="Compute capabilities: 8.0, 9.0+PTX")
    advertise: Boolean | None = Field(None, description="false: build the wheel, but do not list it in the index")
    torch_headers: Headers | None = Field(None, alias="torch-headers", description="whole or light")
    toolchain: Toolchain | None = Field(None, description="The C++ compilers")
    manylinux: Manylinux | None = Field(None, description="The manylinux policy of pinned compilers")
    image: Image | None = Field(None, description="The required container image")
    max_size: Size | None = Field(
        None, alias="max-size", description="The maximum size of a wheel", json_schema_extra=as_text
    )
    env: Env | None = Field(None, description="Further environment variables for a project's build")
    build_requires: BuildRequires | None = Field(
        None, alias="build-requires", description="Further build requirements of a project"
    )
    test_requires: BuildRequires | None = Field(
        None, alias="test-requires", description="Further test requirements of a project"
    )
    config_settings: ConfigSettings | None = Field(
        None, alias="config-settings", description="Further options of a project's build backend"
    )
    before_build: ShellCommand | None = Field(
        None, alias="before-build", description="Another command to run before a project's build"
    )
    cxx_standard: CxxStandard | None = Field(None, alias="cxx-standard", description="torch or project")


class RuleModel(_Model):
    """Excludes combinations or changes their settings. Later rules win."""

    exclude: SelectorModel | None = Field(None, description="The combinations to exclude")
    where: SelectorModel | None = Field(None, description="The combinations that get the settings")
    set: SettingsModel | None = Field(None, description="The settings to change")
    reason: str | None = Field(None, description="The reason; required for an exclusion", min_length=1)

    @model_validator(mode="after")
    def _check_rule(self) -> RuleModel:
        if (self.exclude is None) == (self.set is None):
            raise ValueError("a rule needs exactly one of exclude and set")
        if self.exclude is not None and self.reason is None:
            raise ValueError("an exclusion needs a reason")
        if self.exclude is not None and self.where is not None:
            raise ValueError("exclude and where cannot be used together")
        if self.set is not None and self.where is None:
            raise ValueError("set requires where")
        return self


class EngineModel(_Model):
    """The build engine, and limits for one compilation, test or project build."""

    name: EngineName = Field(AUTO, description="auto uses the first engine that works and has the image")
    image: Image | None = Field(
        None, description="A container image: a recipe of wheelsmith image, or a reference; default: manylinux_2_28"
    )
    memory: Size | None = Field(
        None,
        description="Memory limit, such as 8GiB",
        json_schema_extra=as_text,
    )
    disk: Size | None = Field(
        None,
        description="Disk limit, such as 8GiB; default: 16GiB",
        json_schema_extra=as_text,
    )
    seconds: Annotated[float, BeforeValidator(parse_seconds)] | None = Field(
        None,
        alias="timeout",
        description="Time limit, such as 45m, without the time in which a build waits for its compilations; "
        "default: 1h",
        json_schema_extra=as_text,
    )


class OutputModel(_Model):
    """The output of a run."""

    path: str = Field("dist", description="A folder for wheels, index and logs, relative to this file", min_length=1)
    variants: Boolean = Field(
        False,  # the default must be the first argument
        description="true: add a wheel variant (a draft standard) for each CUDA and CPU wheel",
    )


class RemoteCacheModel(_Model):
    """A cache that machines share."""

    addresses: CacheAddresses = Field(
        [],
        alias="address",
        description="s3://…, gs://…, az://… or a folder, relative to this file; the first of a list is written",
    )
    signers: list[File] = Field(
        [], description="Public keys, relative to this file, one of which must have signed a record"
    )


class MatrixModel(_Model):
    """A kernel and the combinations to build."""

    kernel: KernelModel
    version: PublicVersion | None = Field(
        None,
        description="The version of the wheels; default: that of build.toml or pyproject.toml",
        json_schema_extra=as_text_or_number,
    )
    framework: Literal["none"] | None = Field(
        None, description="none: a project that is compiled without a framework, with one wheel for each platform"
    )
    axes: AxesModel
    gpu_archs: GpuArchs | None = Field(
        None,
        alias="gpu-archs",
        description="Compute capabilities, such as 8.0 and 9.0+PTX; default: those of the toolkit",
    )
    cuda_compatibility: Literal["hub", "minor", "oldest-minor"] = Field(
        "hub",
        alias="cuda-compatibility",
        description="hub: no CUDA newer than torch's own. minor: any minor of the same CUDA major. "
        "oldest-minor: the same, and a wheel of the oldest minor serves the newer ones too",
    )
    torch_headers: Headers = Field(
        "whole",
        alias="torch-headers",
        description="light: torch/all.h contains only tensors, operators and their registration; whole: all of it",
    )
    toolchain: Toolchain | None = Field(
        None,
        description="The C++ compilers: pinned (fetched by wheelsmith), their name, or host (of the machine or "
        "image); default: pinned, or host if there are none for the machine",
    )
    manylinux: Manylinux = Field(
        "2_28", description="The manylinux policy of pinned compilers: the glibc version that wheels need"
    )
    max_size: Size | None = Field(
        None,
        alias="max-size",
        description="The maximum size of a wheel, such as 100MB; the build of a larger wheel fails",
        json_schema_extra=as_text,
    )
    env: Env | None = Field(
        None,
        description="Environment variables for a project's build; values may contain placeholders: "
        + ", ".join(f"{{{name}}}" for name in PLACEHOLDERS),
    )
    build_requires: BuildRequires | None = Field(
        None,
        alias="build-requires",
        description="Build requirements that a project does not declare, such as ninja; never torch",
    )
    test_requires: BuildRequires | None = Field(
        None,
        alias="test-requires",
        description="Requirements of kernel.test that a project's wheel does not declare, such as pytest",
    )
    config_settings: ConfigSettings | None = Field(
        None,
        alias="config-settings",
        description="Options of a project's build backend, as in python -m build -C name=value; a name may have a list "
        "of values; values may contain the placeholders of env",
    )
    before_build: ShellCommand | None = Field(
        None,
        alias="before-build",
        description="A shell command that runs before a project's build, in its folder in the sandbox",
    )
    cxx_standard: CxxStandard | None = Field(
        None,
        alias="cxx-standard",
        description="torch: raise an older C++ standard of a project's compiler calls to the one that torch's headers "
        "need; project (default): leave it",
    )
    rules: list[RuleModel] = Field([], description="Exclusions and settings, in order")
    engine: EngineModel = EngineModel()
    output: OutputModel = OutputModel()
    remote_cache: RemoteCacheModel = Field(RemoteCacheModel(), alias="remote-cache")

    @field_validator("axes")
    @classmethod
    def _check_framework(cls, axes: AxesModel, info: ValidationInfo) -> AxesModel:
        if info.data.get("framework") and axes.releases:
            raise ValueError(f"with framework: none, there is no axis {next(iter(axes.releases))}")
        if info.data.get("framework", "none") is None and len(axes.releases) != 1:
            raise ValueError(
                f"axes need exactly one framework: {' or '.join(frameworks())}; a project that is compiled without one "
                "has framework: none above axes"
            )
        return axes


class KernelInSetModel(MatrixModel):
    """One of several kernels, with the common settings of the file."""


def keys_schema(model: type[BaseModel]) -> dict[str, Any]:
    """Return the JSON Schema with the keys that a user may write where a model is read."""
    if not issubclass(model, MatrixModel):
        return model.model_json_schema()
    schema = json_schema()
    if model is KernelInSetModel:
        of_run = {name: schema["properties"][name] for name in OF_RUN}
        schema["properties"] = schema["$defs"]["KernelEntry"]["properties"] | of_run
    return schema


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of matrix.yaml, with one kernel or with several."""
    schema = MatrixModel.model_json_schema(by_alias=True)
    settings = {name: value for name, value in schema["properties"].items() if name not in {"kernel", *OF_RUN}}
    schema["$defs"]["KernelEntry"] = {
        "additionalProperties": False,
        "description": "One of several kernels: its source, and settings that differ from the common ones.",
        "properties": schema["$defs"]["KernelModel"]["properties"] | settings,
        "type": "object",
    }
    schema["properties"] |= {
        KERNELS: {
            "additionalProperties": {"$ref": "#/$defs/KernelEntry"},
            "description": "Several kernels, in place of kernel: name → the keys of kernel, and the keys of this file "
            "that differ, but not engine, output and remote-cache",
            "type": "object",
        },
        INCLUDE: {
            "description": "Further matrix files, relative to this one, whose kernels join those of kernels",
            "items": {"type": "string"},
            "type": "array",
        },
    }
    del schema["required"]
    schema["anyOf"] = [{"required": ["kernel", "axes"]}, {"required": [KERNELS]}, {"required": [INCLUDE]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "matrix.yaml of wheelsmith",
    }
