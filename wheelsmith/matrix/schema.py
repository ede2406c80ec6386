"""The shape of matrix.yaml, declared once: it validates, and it becomes the JSON Schema that editors use.

This is the only module that knows pydantic; what it accepts leaves as the plain types of ``types``.
"""

from __future__ import annotations

import keyword
import re
from typing import Annotated, Any, Literal

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from wheelsmith.base.units import parse_seconds, parse_size
from wheelsmith.matrix.types import is_specifier
from wheelsmith.platforms import parse_capability

ARCHES = ("x86_64", "aarch64")
# A cell's name joins major and minor, so 21.1 and 2.11 must not both be releases.
_TORCH = re.compile(r"[1-9]\.[0-9]{1,3}")
_CUDA = re.compile(r"[1-9][0-9]\.[0-9]")
_PYTHON = re.compile(r"3\.[1-9][0-9]?")
_LONGEST_PATTERN = 200
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
# What the Hub's loader takes, for the layout that it loads is made of wheels, too.
_MODULE = re.compile(r"[a-z][_a-z0-9]*[a-z0-9]")


def _release(text: str, shape: re.Pattern[str]) -> str:
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", text):
        short = ".".join(text.split(".")[:2])
        raise ValueError(f"{text} names a patch release; write {short}: its wheel serves every {short}.x")
    if not shape.fullmatch(text):
        raise ValueError(f"{text!r} is not a release such as 2.11, 13.0 or 3.12")
    return text


def _torch(text: str) -> str:
    return _release(text, _TORCH)


def _cuda(text: str) -> str:
    return text if text == "cpu" else _release(text, _CUDA)


def _python(text: str) -> str:
    return _release(text, _PYTHON)


def _capability(text: str) -> str:
    parse_capability(text)
    return text


def _pattern(text: str) -> str:
    if len(text) > _LONGEST_PATTERN:
        raise ValueError(f"a pattern of {len(text)} characters is no pattern")
    if is_specifier(text):
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            raise ValueError(f"{text!r} is not a version specifier such as '<2.11' or '>=13.0,<13.3'") from None
    return text


def _public_version(text: str) -> str:
    try:
        version = Version(text)
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a version such as 1 or 1.2.0") from None
    if version.local:
        raise ValueError(f"{text!r} has a local part; wheelsmith adds that itself: write {version.public}")
    return text


def _boolean(text: Any) -> bool:
    if text not in {"true", "false"}:
        raise ValueError(f"{text!r} is neither true nor false")
    return bool(text == "true")


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _hub(text: str) -> str:
    if not _HUB.fullmatch(text) or ".." in text:
        raise ValueError(f"{text!r} is not a Hub repo such as kernels-community/activation")
    return text


def _project(text: str) -> str:
    if not _PROJECT.fullmatch(text):
        raise ValueError(f"{text!r} is not a project name: letters, digits, '.', '_' and '-'")
    return text


def _module(text: str) -> str:
    if not _MODULE.fullmatch(text) or keyword.iskeyword(text):
        raise ValueError(f"{text!r} is not an import name such as my_kernel: small letters, digits and '_'")
    return text


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError(f"{text!r} is not an image such as debian, or localhost/builder:12 or name@sha256:…")
    return text


def _declared(text: str) -> str:
    if len(text) > _LONGEST_PATTERN or not text.strip("*?/."):
        raise ValueError(f"{text[:80]!r} names no file: write its path in the wheel, such as kernel.pth or bin/tool")
    return text


def _distinct(values: list[str]) -> list[str]:
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value} stands twice")
    return values


def _only_text(schema: dict[str, Any]) -> None:
    """Show editors the text that a person writes, not the number that it becomes."""
    schema.pop("anyOf", None)
    schema["type"] = "string"


def _text_or_number(schema: dict[str, Any]) -> None:
    schema.pop("anyOf", None)
    schema["type"] = ["string", "number"]


# Editors read an unquoted 2.10 as a number; wheelsmith reads it as the text it is.
_TEXT_OR_NUMBER: dict[str, Any] = {"type": ["string", "number"]}

TorchMinor = Annotated[str, AfterValidator(_torch), Field(json_schema_extra=_TEXT_OR_NUMBER)]
CudaMinor = Annotated[str, AfterValidator(_cuda), Field(json_schema_extra=_TEXT_OR_NUMBER)]
PythonMinor = Annotated[str, AfterValidator(_python), Field(json_schema_extra=_TEXT_OR_NUMBER)]
Capability = Annotated[str, AfterValidator(_capability), Field(json_schema_extra=_TEXT_OR_NUMBER)]
Pattern = Annotated[str, AfterValidator(_pattern), Field(json_schema_extra=_TEXT_OR_NUMBER)]
Patterns = Annotated[
    list[Pattern],
    BeforeValidator(_listed),
    Field(min_length=1, json_schema_extra={"type": ["array", "string", "number"]}),
]
Declared = Annotated[str, AfterValidator(_declared)]
Image = Annotated[str, AfterValidator(_image)]
Boolean = Annotated[bool, BeforeValidator(_boolean)]
Arch = Literal["x86_64", "aarch64"]
Headers = Literal["whole", "light"]
GpuArchs = Annotated[list[Capability], Field(min_length=1), AfterValidator(_distinct)]


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", populate_by_name=False, title=None)


class KernelModel(_Model):
    """The kernel: a Hub repo or a folder, in kernel-builder layout or with a build system of its own."""

    hub: Annotated[str, AfterValidator(_hub)] | None = Field(
        None, description="A Hub repo, such as kernels-community/activation"
    )
    path: str | None = Field(None, description="A folder, relative to this file", min_length=1)
    revision: str | None = Field(
        None, description="A branch, tag or commit of the Hub repo", min_length=1, max_length=200
    )
    test: str | None = Field(None, description="A command that shows that an installed wheel works", min_length=1)
    distribution: Annotated[str, AfterValidator(_project)] | None = Field(
        None, description="The project's name on the index; default: the name in build.toml or pyproject.toml"
    )
    declare: Annotated[list[Declared], AfterValidator(_distinct), Field(max_length=50)] = Field(
        [],
        description="Files that the wheel is meant to install, though they are another project's or run whenever "
        "Python starts: as the check's finding names them, * allowed",
    )
    module: Annotated[str, AfterValidator(_module)] | None = Field(
        None, description="The import name, of a kernel in kernel-builder layout; default: the name in build.toml"
    )

    @model_validator(mode="after")
    def _one_place(self) -> KernelModel:
        if (self.hub is None) == (self.path is None):
            raise ValueError("give exactly one of hub and path")
        if self.hub is not None and self.revision is None:
            raise ValueError("a Hub kernel needs a revision, such as v1: what a repo holds changes")
        if self.path is not None and self.revision is not None:
            raise ValueError("a folder has no revision")
        return self


class AxesModel(_Model):
    """What is combined with what, in this order."""

    torch: Annotated[list[TorchMinor], AfterValidator(_distinct), Field(min_length=1, max_length=100)] = Field(
        description="torch releases, such as 2.11"
    )
    cuda: Annotated[list[CudaMinor], AfterValidator(_distinct), Field(min_length=1, max_length=100)] = Field(
        description="CUDA toolkits, such as 13.0, and cpu"
    )
    arch: Annotated[list[Arch], AfterValidator(_distinct), Field(min_length=1)] = Field(
        ["x86_64"], description="CPU architectures"
    )
    python: Annotated[list[PythonMinor], AfterValidator(_distinct), Field(max_length=20)] = Field(
        [], description="Pythons, such as 3.12; only for a project that is not in kernel-builder layout"
    )


class SelectorModel(_Model):
    """Which cells: a value, a glob (13.*), a version specifier (<2.11), or a list of these."""

    torch: Patterns | None = None
    cuda: Patterns | None = None
    arch: Patterns | None = None
    python: Patterns | None = None

    @model_validator(mode="after")
    def _something(self) -> SelectorModel:
        if not (self.torch or self.cuda or self.arch or self.python):
            raise ValueError("a selector names at least one of torch, cuda, arch and python")
        return self


class SettingsModel(_Model):
    """What a rule sets for the cells it selects."""

    gpu_archs: GpuArchs | None = Field(None, alias="gpu-archs", description="Compute capabilities: 8.0, 9.0+PTX")
    advertise: Boolean | None = Field(None, description="false: build, but leave out of the index")
    torch_headers: Headers | None = Field(None, alias="torch-headers", description="whole or light, for these cells")
    image: Image | None = Field(None, description="The container image that these cells must be built in")


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
    """Where cells are built, and what one cell may use."""

    name: Literal["auto", "podman", "docker", "bwrap", "local"] = Field(
        "auto", description="auto takes the first that works here and has the image"
    )
    image: Image | None = Field(
        None, description="A container image: a recipe of wheelsmith image, or a reference; default: manylinux_2_28"
    )
    memory: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        None, description="Most memory for one cell, such as 8GiB", json_schema_extra=_only_text
    )
    disk: Annotated[int, BeforeValidator(parse_size)] | None = Field(
        None, description="Most disk for one cell, such as 16GiB", json_schema_extra=_only_text
    )
    timeout: Annotated[float, BeforeValidator(parse_seconds)] | None = Field(
        None, description="Longest time for one cell, such as 45m", json_schema_extra=_only_text
    )


class OutputModel(_Model):
    """Where the wheels, the index and the logs go."""

    path: str = Field("dist", description="A folder, relative to this file", min_length=1)
    variants: Boolean = Field(
        False,  # pydantic's default comes first
        description="true: offer beside each CUDA and CPU wheel a wheel variant, among which installers choose by the "
        "GPU and its driver; a draft standard, which uv reads when it is asked to",
    )


class MatrixModel(_Model):
    """One kernel and every combination that its users run."""

    kernel: KernelModel
    version: Annotated[str, AfterValidator(_public_version)] | None = Field(
        None,
        description="The version of the wheels; default: that of build.toml or pyproject.toml",
        json_schema_extra=_text_or_number,
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
    rules: list[RuleModel] = Field([], description="Exclusions and settings, in order")
    engine: EngineModel = EngineModel()
    output: OutputModel = OutputModel()


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of matrix.yaml, for editors."""
    schema = MatrixModel.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "matrix.yaml of wheelsmith",
    }
