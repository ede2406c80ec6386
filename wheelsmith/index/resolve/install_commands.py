"""Render the install commands for a choice, from templates with named slots.

A template consists of lines of words. ``{slot}`` in a word is replaced by a value. A word that is only a slot with a
list of values becomes several words. For several wheels, a word of a command is repeated with the values of each wheel,
and so is a line of a file. Repetitions that are equal occur once. Words of shell commands are then quoted.
``commands.js`` implements the same rules, because a page learns its own address only when a browser opens it.

The commands were tested with pip and uv (docs/how-to/choose-a-wheel.md). They name the wheel by its complete version,
which no other index has, and torch by the release that the wheel was built for. If torch is already installed, they
use no index that contains torch, so that nothing replaces it.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from wheelsmith.base.json_dataclass import Record
from wheelsmith.frameworks import (
    TORCH_INDEX,
    framework,
    frameworks,
    patch_releases,
    prerelease_index,
    torch_releases,
)
from wheelsmith.index.entries.entry import EVERYTHING
from wheelsmith.index.resolve.incompatibility import torch_build
from wheelsmith.index.resolve.target import Choice, ParsedWheel, Target, accepts
from wheelsmith.model import NO_FRAMEWORK, TORCH

_UNSAFE = re.compile(r"[^A-Za-z0-9._~:/@%+=,\[\]-]")
_SLOT = re.compile(r"\{([a-z0-9_]+)\}")

Slots = Mapping[str, str | tuple[str, ...]]


class Installer(StrEnum):
    """An installer or a file format for the install command."""

    PIP = "pip"
    UV = "uv"
    PROJECT = "uv-project"
    REQUIREMENTS = "requirements"
    DOCKERFILE = "dockerfile"

    @property
    def label(self) -> str:
        """Return the display name."""
        return _LABELS.get(self, self)


class Presence(StrEnum):
    """State of the framework: to be installed with the wheel, or already installed and to be kept."""

    ABSENT = "absent"
    PRESENT = "present"

    @property
    def label(self) -> str:
        """Return the display text."""
        return "already installed" if self is Presence.PRESENT else "to be installed too"


@dataclass(frozen=True, slots=True, kw_only=True)
class Template(Record):
    """The install commands for one installer, or the text of a file.

    :param lines: the words of each line.
    :param shell: True if the lines are commands, which run in order. Otherwise they are the text of a file.
    :param before: prefix of the commands, e.g. ``RUN ``.
    :param note: additional information for the user.
    """

    lines: tuple[tuple[str, ...], ...]
    shell: bool = True
    before: str = ""
    note: str | None = None

    def text(self, quote: Callable[[str], str] = shlex.quote) -> str:
        """Return the text to paste."""
        if not self.shell:
            return "\n".join(" ".join(words) for words in self.lines)
        return self.before + " && ".join(" ".join(map(quote, words)) for words in self.lines)


_LABELS = {"uv": "uv pip", "uv-project": "uv project", "requirements": "requirements.txt", "dockerfile": "Dockerfile"}
_FROM_ROOT = ("{requirement}", "{framework}", "--index-url", "{base}{root}/")
_WITH_TORCH = ("{requirement}", "{framework}", "--index-url", "{base}{root}/", "--extra-index-url", "{torch_index}")
_ADDRESS = "{name} @ {url}#sha256={sha256}"
# pip searches all of its indexes for every project. A wheel that is named by its URL cannot come from another index.
_BY_ADDRESS = (_ADDRESS, "{framework}", "--extra-index-url", "{torch_index}")
_UV_FROM_ROOT = ("{requirement}", "{framework}", "--default-index", "{base}{root}/")
# uv uses the first index that has a project.
_UV_WITH_TORCH = ("{requirement}", "{framework}", "--index", "{base}{root}/", "--index", "{torch_index}")
# A framework without an index of its own comes from the default index of pip and uv.
_ALONE = (_ADDRESS, "{framework}")
_OTHERS = ("{requires}", "{framework}")
_AND_FRAMEWORK = ', "{framework_release}"'
_PROJECT = (
    f'dependencies = ["{{requirement}}"{_AND_FRAMEWORK}]',
    "",
    "[tool.uv.sources]",
    '{name} = { index = "{index}" }',
)
_PROJECT_INDEX = (
    "",
    "[[tool.uv.index]]",
    'name = "{index}"',
    'url = "{base}{root}/"',
    "explicit = true",
)
_PROJECT_TORCH = (
    "",
    "[[tool.uv.index]]",
    'name = "pytorch-{torch_compute}"',
    'url = "{torch_index}"',
    "explicit = true",
)
_PROJECT_NOTE = "dependencies belong to [project] in pyproject.toml; then run uv sync."
_HASHED = ("--extra-index-url {base}{root}/", "{requirement} --hash=sha256:{sha256}")
_HASHED_NOTE = (
    "With a hash in the file, pip requires a hash for every package that it installs. "
    "Installed packages need none, and pip fails if torch has another release."
)
_ADDRESSED = ("--extra-index-url {torch_index}", "{framework}", _ADDRESS)


_ADDRESSED_ALONE = ("{framework}", _ADDRESS)


def presences_of(name: str) -> tuple[Presence, ...]:
    """Return the states that a framework can have. Without a framework, there is only the wheel to install."""
    return tuple(Presence) if framework(name).project else (Presence.ABSENT,)


def template_for(installer: Installer, presence: Presence, *, framework: str = TORCH, others: bool) -> Template:
    """Return the template for an installer.

    :param others: True if the wheel has other requirements than the framework. The wheel's index does not contain them.
    """
    if framework == NO_FRAMEWORK:
        return _without_framework(_template(installer, Presence.ABSENT, own_index=False, others=others))
    return _template(installer, presence, own_index=frameworks()[framework].builds_per_compute, others=others)


def _template(installer: Installer, presence: Presence, *, own_index: bool, others: bool) -> Template:
    if installer is Installer.PROJECT:
        torch = ('torch = { index = "pytorch-{torch_compute}" }', *_PROJECT_INDEX, *_PROJECT_TORCH)
        text = (*_PROJECT, *(torch if own_index else _PROJECT_INDEX))
        return Template(lines=tuple((line,) for line in text), shell=False, note=_PROJECT_NOTE)
    present = presence is Presence.PRESENT
    words: tuple[str, ...]
    if installer is Installer.REQUIREMENTS:
        words = _HASHED if present else _ADDRESSED if own_index else _ADDRESSED_ALONE
        return Template(lines=tuple((line,) for line in words), shell=False, note=_HASHED_NOTE if present else None)
    if installer is Installer.UV:
        program, words = ("uv", "pip", "install"), _UV_FROM_ROOT if present else _UV_WITH_TORCH
    else:
        quiet = ("--no-cache-dir",) if installer is Installer.DOCKERFILE else ()
        program = ("pip", "install", *quiet)
        words = _FROM_ROOT if present else _BY_ADDRESS if others else _WITH_TORCH
    if not present and not own_index:
        words = _ALONE
    first = ((*program, *_OTHERS),) if others and present else ()
    before = "RUN " if installer is Installer.DOCKERFILE else ""
    return Template(lines=(*first, (*program, *words)), before=before)


def _without_framework(template: Template) -> Template:
    """Return the template without the requirement for a framework."""
    lines = ([word.replace(_AND_FRAMEWORK, "") for word in line if word != "{framework}"] for line in template.lines)
    return replace(template, lines=tuple(tuple(line) for line in lines if line))


def template_for_group(installer: Installer, presence: Presence, *, framework: str = TORCH, others: bool) -> Template:
    """Return the template for several wheels. It names them by version.

    :param framework: torch if any wheel is for torch.
    :param others: True if any wheel has other requirements than torch.
    """
    if framework != TORCH:
        return _without_framework(_template(installer, Presence.PRESENT, own_index=False, others=others))
    template = template_for(installer, presence, others=others)
    if not others or presence is Presence.PRESENT or installer not in {Installer.PIP, Installer.DOCKERFILE}:
        return template
    program = tuple(word for word in template.lines[0] if word not in _BY_ADDRESS)
    # Other requirements come from the default index, torch from its own, and then the wheels from theirs only.
    first = (*program, *_OTHERS, "--extra-index-url", "{torch_index}")
    return replace(template, lines=(first, (*program, *_FROM_ROOT)))


def fill_template(template: Template, *slots: Slots) -> Template:
    """Return the template with its slots replaced.

    :param slots: the values for each wheel. The slot ``url`` is derived from ``base`` and ``path``.
    """
    slots = tuple({**each, "url": join_url(str(each["base"]), str(each["path"]))} for each in slots)
    if template.shell:
        filled = (
            tuple(w for word in line for w in dict.fromkeys(w for each in slots for w in _fill_word(word, each)))
            for line in template.lines
        )
        return replace(template, lines=tuple(filled))
    repeated = (
        dict.fromkeys(tuple(w for word in line for w in _fill_word(word, each)) for each in slots)
        for line in template.lines
    )
    return replace(template, lines=tuple(line for lines in repeated for line in lines))


def join_url(base: str, path: str) -> str:
    """Return the URL of a wheel: its path below the URL of the index, or its own URL on another host."""
    return path if "://" in path else base + path


def pin_by_url(template: Template) -> Template:
    """Return the template with the wheel named by URL and hash instead of by version."""
    lines = (tuple(_ADDRESS if word == "{requirement}" else word for word in line) for line in template.lines)
    return replace(template, lines=tuple(lines))


def keep_substitute(template: Template, installed: str) -> Template:
    """Return the template without dependencies, because installers would add the framework beside its substitute.

    :param installed: the substitute, e.g. ``tensorflow-cpu``.
    """
    if not template.shell:
        return replace(template, note=f"It installs the framework beside {installed}, which has the same files.")
    lines = [tuple(word for word in line if word != "{framework}") for line in template.lines]
    place = lines[-1].index("install") + 1
    lines[-1] = (*lines[-1][:place], "--no-deps", *lines[-1][place:])
    return replace(template, lines=tuple(lines))


def slot_values(
    choice: Choice, target: Target, presence: Presence, torch_base: str = TORCH_INDEX
) -> dict[str, str | tuple[str, ...]]:
    """Return the values of all slots except ``base``, the URL of the index with a trailing slash.

    :param torch_base: the address of the folder with torch's indexes.
    """
    wheel = choice.wheel
    name = str(canonicalize_name(wheel.filename.split("-", maxsplit=1)[0]))
    parsed = ParsedWheel(wheel)
    return {
        "name": name,
        "index": f"{name}-{choice.root}",
        "requirement": pin(name, str(wheel.version), equals=choice.exact),
        "root": choice.root,
        "path": wheel.url,
        "sha256": wheel.sha256,
        "requires": _with_plugins_of(target, parsed.other_requirements(target.framework)),
        **framework_slots([parsed], target, presence, torch_base),
    }


def _with_plugins_of(target: Target, requires: Sequence[str]) -> tuple[str, ...]:
    """Return requirements in which a plugin of the framework has the framework's release, as it must."""
    plugins = framework(target.framework).plugins
    names = {text: canonicalize_name(Requirement(text).name) for text in requires}
    return tuple(f"{name}=={target.release}.*" if name in plugins else text for text, name in names.items())


def framework_slots(
    wheels: Sequence[ParsedWheel], target: Target, presence: Presence, torch_base: str = TORCH_INDEX
) -> dict[str, str]:
    """Return the values of the slots for the framework, with which all of the wheels work."""
    compute = torch_compute(target, wheels[0] if wheels else None)
    release = framework(target.framework).requirement(target.release)
    kept = release if presence is Presence.PRESENT else None
    known = f"torch=={target.torch_version}" if target.torch_version else kept
    return {
        "framework_release": release,
        "framework": known or _torch_pin(wheels, target, compute) or release,
        "torch_compute": compute,
        "torch_index": prerelease_index(f"{target.release}+{compute}", torch_base) or f"{torch_base}{compute}",
    }


def group_slots(
    wheels: Sequence[tuple[Choice, Target]], lead: Target, presence: Presence, installer: Installer, torch_base: str
) -> tuple[Slots, ...]:
    """Return the values of the slots for each of several wheels. They share a root and the framework.

    :param lead: the target with the torch that all of them use.
    :param torch_base: the address of the folder with torch's indexes.
    """
    roots = {choice.root for choice, _ in wheels}
    root = next(iter(roots)) if len(roots) == 1 else EVERYTHING
    parsed = [ParsedWheel(choice.wheel) for choice, target in wheels if target.framework == TORCH]
    own = [slot_values(choice, target, presence, torch_base) for choice, target in wheels]
    shared = {**framework_slots(parsed, lead, presence, torch_base), "root": root, "index": f"{own[0]['name']}-{root}"}
    if installer is Installer.PROJECT:  # one line names all of them
        shared["requirement"] = '", "'.join(str(slots["requirement"]) for slots in own)
    requires = [choice.wheel.requires for choice, _ in wheels]
    # Of the frameworks, only torch has a slot.
    return tuple(
        {**slots, **shared, **({} if target.framework == TORCH else {"requires": every})}
        for slots, every, (_, target) in zip(own, requires, wheels, strict=True)
    )


def pin(name: str, version: str, *, equals: bool) -> str:
    """Return a requirement for one version.

    :param equals: True if ``==`` selects only this version. Otherwise ``===`` is used.
    """
    return f"{name}{'==' if equals else '==='}{version}"


def torch_compute(target: Target, parsed: ParsedWheel | None = None) -> str:
    """Return the compute platform of the torch build for a target, or the target's own if no build is suitable."""
    return torch_build(target, parsed) or target.compute


def _torch_pin(wheels: Sequence[ParsedWheel], target: Target, compute: str) -> str | None:
    """Return a requirement for one build of torch. ``==2.11.*`` would keep an installed build for another CUDA."""
    known = torch_releases().get(target.release) if target.framework == TORCH else None
    builds = [f"{each}+{compute}" for each in (known.version, *patch_releases(target.release))] if known else []
    wanted = [parsed.wheel.requires_torch for parsed in wheels]
    return next((f"torch=={build}" for build in builds if all(accepts(each, build) for each in wanted)), None)


def quote_address(address: str) -> str:
    """Return the URL of an index with a trailing slash, and quote characters that a shell, TOML or pip interprets."""
    safe = _UNSAFE.sub(lambda match: "".join(f"%{b:02X}" for b in match[0].encode()), address)
    return safe.rstrip("/") + "/"


def _fill_word(word: str, slots: Slots) -> tuple[str, ...]:
    if (whole := _SLOT.fullmatch(word)) and not isinstance(values := slots[whole[1]], str):
        return values
    return (_SLOT.sub(lambda match: str(slots[match[1]]), word),)
