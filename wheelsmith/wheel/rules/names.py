"""File name, folders, METADATA and WHEEL say the same."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from wheelsmith.model import MOST_TAGS, same_version
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# Subfolders of .data that pip and uv know; they refuse a wheel with another one.
SCHEMES = ("purelib", "platlib", "headers", "scripts", "data")

_MAJOR = 1  # of the wheel format
_TAG = re.compile(r"\w+(\.\w+)*-\w+(\.\w+)*-\w+(\.\w+)*", re.ASCII)
_LONGEST_TAG = 300
# Which interpreters and ABIs stand together in the tags that `packaging.tags` lists for some Python.
_PYTHONS = (
    (re.compile(r"py[23]\d{0,2}"), "none"),
    (re.compile(r"cp(2\d|3\d{1,2})"), r"none|{0}d?m?u?"),
    (re.compile(r"cp3([2-9]|\d{2})"), "abi3"),
    (re.compile(r"cp3(1[3-9]|[2-9]\d)"), r"{0}d?t"),
    (re.compile(r"cp3(1[5-9]|[2-9]\d)"), "abi3t"),
    (re.compile(r"pp(2\d|3\d{1,2})"), r"none|pypy\d+_pp\d+"),
)
# https://learn.microsoft.com/en-us/windows/win32/fileio/naming-a-file
_NOT_ON_WINDOWS = re.compile(
    r'[<>:"|?*]|(?:^|/)(?:con|prn|aux|nul|com[1-9]|lpt[1-9])(?:\.[^/]*)?(?:/|$)', re.IGNORECASE
)


def _name_and_version(wheel: Inspection) -> Iterator[Finding]:
    name, version = wheel.name.project, wheel.name.version
    counts = {field: len(wheel.metadata.get_all(field)) for field in ("Name", "Version")}
    wrong = [f"METADATA has {count} lines for {field}" for field, count in counts.items() if count != 1]
    said, number = wheel.metadata.get("Name"), wheel.metadata.get("Version")
    if said is not None and canonicalize_name(said) != name:
        wrong.append(f"METADATA says {said[:100]}, the file name {name}")
    if number is not None and not same_version(number, version):
        wrong.append(f"METADATA says version {number[:100]}, the file name {version}")
    stem = wheel.info.removesuffix(".dist-info")
    folder, _, folder_version = stem.rpartition("-")
    if canonicalize_name(folder) != name or not same_version(folder_version, version):
        wrong.append(f"the folder {wheel.info} belongs to another project or version than {name} {version}")
    wrong += _data_folders(wheel, stem)
    if any(tag.platform == "any" for tag in wheel.name.tags):
        unfit = [path for path in wheel.files if _NOT_ON_WINDOWS.search(path)]
        wrong += [f"it is for any platform, and Windows takes no file {path[:100]!r}" for path in unfit[:3]]
    yield finding("name-and-version", wrong, f"{name} {version} in file name, {wheel.info} and METADATA")


def _data_folders(wheel: Inspection, stem: str) -> Iterator[str]:
    """Find what pip would unpack elsewhere, and uv as a package or not at all."""
    tops: dict[str, set[str]] = {}
    for name in wheel.files:
        top, _, rest = name.partition("/")
        if top.lower().endswith(".data") and rest:
            tops.setdefault(top, set()).add(rest.partition("/")[0] if "/" in rest else f"{rest} (a file)")
    for top, kinds in sorted(tops.items()):
        if top != f"{stem}.data":
            yield f"the folder {top} is not {stem}.data: installers disagree on what it is"
        if unknown := sorted(kinds - set(SCHEMES)):
            yield f"{top} holds {unknown[0]}, which installers do not know"


def _tags(wheel: Inspection) -> Iterator[Finding]:
    headers = wheel.wheel_headers
    wrong = [f"WHEEL: {reason}" for reason in headers.wrong]
    lines = headers.get_all("Tag")
    wrong += [f"WHEEL says {line[:60]!r}, which is no tag" for line in lines if not _is_tag(line)]
    written = _expanded([line for line in lines if _is_tag(line)])
    claimed = wheel.name.tags
    if written != claimed:
        said = _listed(written) or "nothing"
        wrong.append(f"WHEEL says {said}, the file name {_listed(claimed)}")
    if not any(_is_some_pythons(tag) for tag in claimed):
        wrong.append(f"no installer takes it: no Python has the ABI of {_listed(claimed)}")
    wrong += [f"no installer takes {tag.platform}: its numbers begin with 0" for tag in claimed if _has_zeros(tag)]
    wrong += _format(wheel)
    if not wheel.environments and any(tag.interpreter.startswith(("cp3", "py3", "pp3")) for tag in claimed):
        wrong.append(f"Requires-Python {wheel.metadata.get('Requires-Python')!r} excludes every Python of the tags")
    yield finding("tags", wrong, f"{_listed(claimed)} in file name and WHEEL")


def _format(wheel: Inspection) -> Iterator[str]:
    """Compare what WHEEL says besides tags: pip refuses another format, and puts files where purity says."""
    headers = wheel.wheel_headers
    for field in ("Wheel-Version", "Root-Is-Purelib", "Build"):
        if len(headers.get_all(field)) > 1:
            yield f"WHEEL has {len(headers.get_all(field))} lines for {field}"
    said = (headers.get("Wheel-Version") or "").strip()
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4})*", said, re.ASCII) or int(said.split(".")[0]) != _MAJOR:
        yield f"WHEEL says Wheel-Version {said[:40]!r}: installers know {_MAJOR}.0"
    if (pure := headers.get("Root-Is-Purelib")) is None or pure.strip().lower() not in {"true", "false"}:
        yield f"WHEEL says Root-Is-Purelib {'nothing' if pure is None else repr(pure[:40])}: it is true or false"
    build = (headers.get("Build") or "").strip()
    # The file name may have a build number that WHEEL leaves out: installers go by the file name.
    if build not in {"", wheel.name.build}:
        yield f"WHEEL says build {build[:40]!r}, the file name {wheel.name.build!r}"


def _is_tag(line: str) -> bool:
    if len(line) > _LONGEST_TAG or not _TAG.fullmatch(line.strip()):
        return False
    if prod(part.count(".") + 1 for part in line.split("-")) > MOST_TAGS:
        return False
    try:
        parse_tag(line.strip())
    except ValueError:  # an interpreter that begins with a digit, and whatever else packaging refuses
        return False
    return True


def _has_zeros(tag: Tag) -> bool:
    return re.match(r"(?:many|musl)linux_(?:0\d|\d+_0\d)", tag.platform) is not None


def _is_some_pythons(tag: Tag) -> bool:
    """Say whether some Python has that ABI; of others than CPython and PyPy nothing is known."""
    name = tag.interpreter
    if not name.startswith(("py", "cp", "pp")):
        return True
    return any(one.fullmatch(name) and re.fullmatch(abi.format(name), tag.abi) for one, abi in _PYTHONS)


def _expanded(lines: list[str]) -> frozenset[Tag]:
    """Return the tags of WHEEL; a line may hold several, written as a file name has them."""
    found: set[Tag] = set()
    for line in lines:
        if len(found) <= MOST_TAGS:
            found |= parse_tag(line.strip())
    return frozenset(found)


def _listed(tags: frozenset[Tag]) -> str:
    names = sorted(map(str, tags))
    return ", ".join(names[:6]) + (f" and {len(names) - 6} more" if len(names) > 6 else "")  # noqa: PLR2004  # a line


NAME_AND_VERSION = Rule(
    name="name-and-version",
    proves="METADATA, the `.dist-info` folder, the `.data` folder and the file name agree on name and version, each "
    "said once; `.data` holds only what installers know; a wheel for any platform has no file name that Windows does "
    "not take",
    leaves_open="whether the project is its maker's, and whether that version was published with other bytes",
    examine=_name_and_version,
)
TAGS = Rule(
    name="tags",
    proves="WHEEL and the file name agree on every tag, and on the build number where WHEEL has one; the format is one "
    "that installers read; there is a Python with the tags' ABI; Requires-Python admits a Python that the tags name; "
    "platforms are spelt as installers compare them",
    leaves_open="whether those Pythons can import it, which `suffix`, `abi3` and `python-symbols` ask; of interpreters "
    "other than CPython and PyPy nothing is known",
    in_the_wild="sgl-kernel 0.3.21: WHEEL says `cp310-abi3-linux_x86_64`, the file name `manylinux2014_x86_64`",
    examine=_tags,
)
