"""File name, folders, METADATA and WHEEL agree."""

from __future__ import annotations

from collections.abc import Iterator

from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from wheelsmith.model import same_version
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule

# Subfolders of .data that pip and uv know; they refuse a wheel with another one.
_SCHEMES = frozenset({"purelib", "platlib", "headers", "scripts", "data"})
_SHOWN = 6  # tags


def _name_and_version(wheel: Inspection) -> Iterator[Finding]:
    name, version = wheel.name.project, wheel.name.version
    counts = {field: len(wheel.metadata.get_all(field, [])) for field in ("Name", "Version")}
    wrong = [f"METADATA has {count} lines for {field}" for field, count in counts.items() if count != 1]
    said, number = wheel.metadata.get("Name"), wheel.metadata.get("Version")
    if said is not None and canonicalize_name(said) != name:
        wrong.append(f"METADATA says {said[:100]}, the file name {name}")
    if number is not None and not same_version(number, version):
        wrong.append(f"METADATA says version {number[:100]}, the file name {version}")
    folder, _, folder_version = wheel.info.removesuffix(".dist-info").rpartition("-")
    if canonicalize_name(folder) != name or not same_version(folder_version, version):
        wrong.append(f"the folder {wheel.info} belongs to another project or version than {name} {version}")
    wrong += dict.fromkeys(_data_folders(wheel))
    yield finding("name-and-version", wrong, f"{name} {version} in file name, {wheel.info} and METADATA")


def _data_folders(wheel: Inspection) -> Iterator[str]:
    """Yield what installers refuse, or do not agree on."""
    expected = wheel.info.removesuffix(".dist-info") + ".data"
    for top, scheme, *_ in (f"{name}//".split("/") for name in wheel.files):
        if top.endswith(".data") and scheme and top != expected:
            yield f"the folder {top} is not {expected}: installers disagree on what it is"
        elif top == expected and scheme not in _SCHEMES:
            yield f"{top} holds {scheme}, which installers do not know"


def _tags(wheel: Inspection) -> Iterator[Finding]:
    written: set[Tag] = set()
    wrong = []
    for line in wheel.wheel_headers.get_all("Tag", []):
        try:
            written |= parse_tag(line.strip())
        except ValueError:
            wrong.append(f"WHEEL says {line[:60]!r}, which is no tag")
    claimed = wheel.name.tags
    if written != claimed:
        wrong.append(f"WHEEL says {_listed(written) or 'nothing'}, the file name {_listed(claimed)}")
    wrong += _format(wheel)
    if not wheel.environments and any(tag.interpreter.startswith(("cp3", "py3", "pp3")) for tag in claimed):
        wrong.append(f"Requires-Python {wheel.metadata.get('Requires-Python')!r} excludes every Python of the tags")
    yield finding("tags", wrong, f"{_listed(claimed)} in file name and WHEEL")


def _format(wheel: Inspection) -> Iterator[str]:
    """Compare what WHEEL says besides tags: pip refuses another format, and puts files where purity says."""
    headers = wheel.wheel_headers
    for field in ("Wheel-Version", "Root-Is-Purelib", "Build"):
        if (count := len(headers.get_all(field, []))) > 1:
            yield f"WHEEL has {count} lines for {field}"
    version = (headers.get("Wheel-Version") or "").strip()
    if version.partition(".")[0] != "1":
        yield f"WHEEL says Wheel-Version {version[:40]!r}: installers know 1.0"
    pure = headers.get("Root-Is-Purelib")
    if pure is None or pure.strip().lower() not in {"true", "false"}:
        yield f"WHEEL says Root-Is-Purelib {'nothing' if pure is None else repr(pure[:40])}: it is true or false"
    build = (headers.get("Build") or "").strip()
    # The file name may have a build number that WHEEL leaves out: installers go by the file name.
    if build not in {"", wheel.name.build}:
        yield f"WHEEL says build {build[:40]!r}, the file name {wheel.name.build!r}"


def _listed(tags: set[Tag] | frozenset[Tag]) -> str:
    names = sorted(map(str, tags))
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


NAME_AND_VERSION = Rule(
    name="name-and-version",
    proves="METADATA, the `.dist-info` folder, the `.data` folder and the file name agree on name and version; `.data` "
    "holds only what installers know",
    leaves_open="whether that version was published with other bytes",
    examine=_name_and_version,
)
TAGS = Rule(
    name="tags",
    proves="WHEEL and the file name agree on every tag, and on the build number where WHEEL has one; the format is one "
    "that installers read; Requires-Python admits a Python that the tags name",
    leaves_open="whether there is a Python with the tags' ABI; whether those Pythons can import it, which `suffix`, "
    "`abi3` and `python-symbols` ask",
    in_the_wild="sgl-kernel 0.3.21: WHEEL says `cp310-abi3-linux_x86_64`, the file name `manylinux2014_x86_64`",
    examine=_tags,
)
