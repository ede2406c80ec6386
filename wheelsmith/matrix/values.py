"""Types that validate single values of matrix.yaml."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Collection
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Literal

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version
from pydantic import AfterValidator, BeforeValidator, Field

from wheelsmith.base.git_address import check_subfolder, parse_git_address
from wheelsmith.base.redact import redact
from wheelsmith.base.suggest import nearest, respell_release
from wheelsmith.base.units import listed
from wheelsmith.frameworks import NIGHTLY, Framework, read_prerelease
from wheelsmith.matrix.placeholders import check_placeholders
from wheelsmith.matrix.remote_cache import check_address
from wheelsmith.matrix.types import is_specifier
from wheelsmith.model import ARCHES, HOST, MAX_VERSION_LENGTH, PINNED, TORCH
from wheelsmith.model.build_host import AUTO, ENGINES
from wheelsmith.platforms import CPU, Platform, check_capability, cxx_toolchains

# Other names of the architectures, and of true and false.
_ARCH_NAMES = {"amd64": "x86_64", "x64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64"}
_BOOLEANS = {"yes": "true", "on": "true", "true": "true", "no": "false", "off": "false", "false": "false"}
# The name of a cell joins major and minor, so 21.1 and 2.11 would collide.
MINOR = re.compile(r"[0-9]\.[0-9]{1,3}")
_PYTHON = re.compile(r"3\.[1-9][0-9]?|3\.(1[3-9]|[2-9][0-9])t")  # with t: free-threaded
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}", re.ASCII)
# Variables that the sandbox needs, or that keep builds reproducible.
_RESERVED = re.compile(
    r"PATH|HOME|TMP|TEMP|TMPDIR|LANG|LANGUAGE|LC_\w+|LOCPATH|GCONV_PATH|TZ|TZDIR|LD_\w+|GLIBC_TUNABLES|BASH_ENV|SHELLOPTS"
    r"|GCC_EXEC_PREFIX|SOURCE_DATE_EPOCH|_?PYTHON\w*|WHEELSMITH_\w+"
)
# Names that scikit-build-core, meson-python and setuptools use. The frontend would read a leading - as an option.
_SETTING = re.compile(r"(--)?[A-Za-z0-9_][A-Za-z0-9_.:/+-]{0,199}", re.ASCII)
_HUB = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}")
_PROJECT = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
# The Hub's loader accepts these names, and wheels become builds for that loader too.
_MODULE = re.compile(r"[a-z][_a-z0-9]*[a-z0-9]")


def release(text: str, shape: re.Pattern[str], known: Collection[str] = ()) -> str:
    """Validate a release as major and minor.

    :param shape: matches such a release.
    :param known: the known releases, oldest first; without any, every release is valid.
    :raises ValueError: the text is not such a release; the message shows the right one.
    """
    if re.fullmatch(r"\d+\.\d+\.\d+\S*", text):
        short = ".".join(text.split(".")[:2])
        raise ValueError(f"{text} is a patch release: write {short}, since its wheel serves every {short}.x")
    if shape.fullmatch(text):
        if known and text not in known:
            hint = f"did you mean {nearest(text, known)}?"
            raise ValueError(f"{text} is not known: this wheelsmith knows {listed(tuple(known))}; {hint}")
        return text
    if meant := respell_release(text, shape, known):
        raise ValueError(f"{text!r} is not a release: write {meant}")
    raise ValueError(f"{text!r} is not a release such as 2.11, 13.0 or 3.12")


def release_of(chosen: Framework) -> Callable[[str], str]:
    """Return a validator for one value of a framework's axis: a release, or a pre-release if it has them."""

    def check(text: str) -> str:
        if chosen.has_prereleases and (found := NIGHTLY if text == NIGHTLY else read_prerelease(text)):
            return found
        return release(text, MINOR, chosen.releases())

    return check


def toolkit_of(platform: Platform) -> Callable[[str], str]:
    """Return a validator for one value of a platform's axis: a toolkit version or ``cpu``."""
    return lambda text: text if text == CPU else release(text, platform.version_pattern, platform.toolkits())


def computes_of(platform: Platform) -> Callable[[list[str]], list[str]]:
    """Return a validator that turns a platform's axis into names of compute platforms."""
    return lambda texts: [text if text == CPU else platform.compute(text) for text in texts]


def _capability(text: str) -> str:
    check_capability(text)
    return text


def _pattern(text: str) -> str:
    if is_specifier(text):
        try:
            SpecifierSet(text)
        except InvalidSpecifier:
            raise ValueError(f"{text!r} is not a version specifier such as '<2.11' or '>=13.0,<13.3'") from None
    return text


def public_version(text: str) -> str:
    """Validate a version without a local part.

    :raises ValueError: the text is not such a version, or is too long for a file name.
    """
    if len(text) > MAX_VERSION_LENGTH:
        raise ValueError(f"a version has at most {MAX_VERSION_LENGTH} characters")
    try:
        version = Version(text)
    except InvalidVersion:
        raise ValueError(f"{text!r} is not a version such as 1 or 1.2.0") from None
    if version.local:
        raise ValueError(f"{text!r} has a local version, which wheelsmith adds itself: write {version.public}")
    return text


def _boolean(text: Any) -> bool:
    if text in {"true", "false"}:
        return bool(text == "true")
    meant = _BOOLEANS.get(str(text).lower())
    raise ValueError(f"{text!r} is neither true nor false{f': write {meant}' if meant else ''}")


def _arch(text: Any) -> Any:
    if meant := _ARCH_NAMES.get(str(text).lower()):
        raise ValueError(f"{text!r} is not one of {', '.join(ARCHES)}: write {meant}")
    return text


def _as_list(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _hub_repo(text: str) -> str:
    if not _HUB.fullmatch(text) or ".." in text:
        raise ValueError(f"{redact(text)[:80]!r} is not a Hub repo such as kernels-community/activation")
    return text


def _git(text: str) -> str:
    parse_git_address(text)
    return text


def _submodules(value: Any) -> Any:
    """Return an empty list for ``false``, None (all submodules) for ``true``, and any other value unchanged."""
    return [] if value == "false" else None if value == "true" else value


def _project_name(text: str) -> str:
    if not _PROJECT.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a project name: letters, digits, '.', '_' and '-'")
    return text


def _module_name(text: str) -> str:
    if not _MODULE.fullmatch(text) or keyword.iskeyword(text):
        raise ValueError(f"{text[:80]!r} is not an import name such as my_kernel: lowercase letters, digits and '_'")
    return text


def _image(text: str) -> str:
    if not _IMAGE.fullmatch(text):
        raise ValueError(f"{text!r} is not an image such as debian, or localhost/builder:12 or name@sha256:…")
    return text


def _declared_file(text: str) -> str:
    if not text.strip("*?/."):
        raise ValueError(f"{text[:80]!r} is not a file: write a path in the wheel, such as kernel.pth or bin/tool")
    return text


def _variable(name: str) -> str:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of a variable: letters, digits and '_'")
    if _RESERVED.fullmatch(name):
        raise ValueError(f"{name} cannot be set: wheelsmith sets it, so that builds work and are reproducible")
    return name


def _value(text: str) -> str:
    check_placeholders(_program_text(text))
    return text


def _program_text(text: str) -> str:
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("the text has characters that programs cannot receive")
    return text


def _setting_name(name: str) -> str:
    if not _SETTING.fullmatch(name):
        raise ValueError(f"{name[:80]!r} is not the name of a setting: letters, digits and -_.:/+")
    return name


def _command(text: str) -> str:
    if not text.strip():
        raise ValueError("the command is empty")
    return _program_text(text)


def _build_requirement(text: str) -> str:
    try:
        found = Requirement(text)
    except InvalidRequirement:
        found = None
    if found is None or found.url:
        raise ValueError(f"{text[:80]!r} is not a requirement such as ninja or setuptools>=77")
    if canonicalize_name(found.name) == TORCH:
        raise ValueError("torch cannot be a build requirement: its axis selects the release")
    return str(found)


def _sdist(text: str) -> str:
    try:
        found = Requirement(text)
        (specifier,) = found.specifier
        version = Version(specifier.version)
    except (InvalidRequirement, ValueError):  # InvalidVersion is a ValueError; so is any number of specifiers but one
        version = None
    if version is None or specifier.operator != "==" or version.local or found.url or found.extras or found.marker:
        raise ValueError(f"{redact(text)[:80]!r} is not a release such as torch-scatter==2.1.2")
    return f"{canonicalize_name(found.name)}=={version}"


def check_distinct(values: list[str]) -> list[str]:
    """Check that a list has no duplicates, and return the list.

    :raises ValueError: a value is a duplicate.
    """
    for number, value in enumerate(values):
        if value in values[:number]:
            raise ValueError(f"{value} is a duplicate")
    return values


def as_text(schema: dict[str, Any]) -> None:
    """Describe a quantity in the JSON Schema as text, not as the number that it becomes."""
    schema.pop("anyOf", None)
    schema["type"] = "string"


def as_text_or_number(schema: dict[str, Any]) -> None:
    """Allow an unquoted number in the JSON Schema."""
    schema.pop("anyOf", None)
    schema["type"] = ["string", "number"]


def as_bool_or_list(schema: dict[str, Any]) -> None:
    """Allow ``true`` and ``false`` instead of a list in the JSON Schema."""
    schema.pop("anyOf", None)
    schema |= {"type": ["boolean", "array"], "items": {"type": "string"}}


# Editors read an unquoted 2.10 as a number; wheelsmith reads it as text.
TEXT_OR_NUMBER: dict[str, Any] = {"type": ["string", "number"]}

PythonMinor = Annotated[str, AfterValidator(partial(release, shape=_PYTHON)), Field(json_schema_extra=TEXT_OR_NUMBER)]
Capability = Annotated[str, AfterValidator(_capability), Field(json_schema_extra=TEXT_OR_NUMBER)]
Pattern = Annotated[str, AfterValidator(_pattern), Field(json_schema_extra=TEXT_OR_NUMBER)]
Patterns = Annotated[
    list[Pattern],
    BeforeValidator(_as_list),
    Field(min_length=1, json_schema_extra={"type": ["array", "string", "number"]}),
]
CacheAddresses = Annotated[
    list[Annotated[str, AfterValidator(check_address)]],
    BeforeValidator(_as_list),
    Field(json_schema_extra={"type": ["array", "string"]}),
]
Env = dict[Annotated[str, AfterValidator(_variable)], Annotated[str, AfterValidator(_value)]]
ConfigSettings = dict[
    Annotated[str, AfterValidator(_setting_name)],
    Annotated[
        list[Annotated[str, AfterValidator(_value)]],
        BeforeValidator(_as_list),
        Field(json_schema_extra={"type": ["array", "string"]}),
    ],
]
ShellCommand = Annotated[str, AfterValidator(_command)]
BuildRequires = Annotated[list[Annotated[str, AfterValidator(_build_requirement)]], AfterValidator(check_distinct)]
Declared = Annotated[str, AfterValidator(_declared_file)]
HubRepo = Annotated[str, AfterValidator(_hub_repo)]
GitUrl = Annotated[str, AfterValidator(_git)]
Subfolder = Annotated[str, AfterValidator(check_subfolder)]
Subfolders = Annotated[list[Subfolder], AfterValidator(check_distinct)]
Submodules = Annotated[
    Subfolders | None,
    BeforeValidator(_submodules),
    Field(json_schema_extra=as_bool_or_list),
]
Sdist = Annotated[str, AfterValidator(_sdist)]
ProjectName = Annotated[str, AfterValidator(_project_name)]
ModuleName = Annotated[str, AfterValidator(_module_name)]
PublicVersion = Annotated[str, AfterValidator(public_version)]
Image = Annotated[str, AfterValidator(_image)]
Boolean = Annotated[bool, BeforeValidator(_boolean)]
Arch = Annotated[Literal["x86_64", "aarch64"], BeforeValidator(_arch)]
if TYPE_CHECKING:
    EngineName = str
    Toolchain = str
    Manylinux = str
else:
    EngineName = Literal[(AUTO, *ENGINES)]
    Toolchain = Literal[(PINNED, HOST, *dict.fromkeys(each.compilers.name for each in cxx_toolchains()))]
    Manylinux = Literal[tuple(dict.fromkeys(each.policy.name for each in cxx_toolchains()))]
Headers = Literal["whole", "light"]
GpuArchs = Annotated[list[Capability], Field(min_length=1), AfterValidator(check_distinct)]
