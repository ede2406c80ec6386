"""Check a wheel's metadata: names, versions, tags, METADATA, its recorded plan and its variant."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from packaging.metadata import Metadata, RawMetadata, parse_email
from packaging.tags import Tag, parse_tag
from packaging.utils import canonicalize_name

from wheelsmith.base.errors import WheelError
from wheelsmith.base.sanitize import join_truncated
from wheelsmith.model import same_version
from wheelsmith.wheel.gpu import combine_gpu_code
from wheelsmith.wheel.inspection import Inspection
from wheelsmith.wheel.relabel import replace_version
from wheelsmith.wheel.report import Finding, finding
from wheelsmith.wheel.rules.rule import Rule
from wheelsmith.wheel.variant import property_mistakes
from wheelsmith.wheel.variant_format import VARIANT_FILE, parse_variant

# Subfolders of .data that pip and uv support. They refuse wheels with other ones.
_SCHEMES = frozenset({"purelib", "platlib", "headers", "scripts", "data"})
_NEWEST = "2.5"  # version of METADATA
_REQUIRED = ("metadata_version", "name", "version")
_EXTRA = re.compile(r'\bextra == "([^"]+)"|"([^"]+)" == extra\b')  # in the form that packaging writes


def _check_name_and_version(wheel: Inspection) -> Iterator[Finding]:
    name, version = wheel.name.project, wheel.name.version
    counts = {field: len(wheel.metadata.get_all(field, [])) for field in ("Name", "Version")}
    mistakes = [f"METADATA has {count} lines for {field}" for field, count in counts.items() if count != 1]
    found, number = wheel.metadata.get("Name"), wheel.metadata.get("Version")
    if found is not None and canonicalize_name(found) != name:
        mistakes.append(f"METADATA has the name {found[:100]}, but the file name has {name}")
    if number is not None and not same_version(number, version):
        mistakes.append(f"METADATA has version {number[:100]}, but the file name has {version}")
    folder, _, folder_version = wheel.info.removesuffix(".dist-info").rpartition("-")
    if canonicalize_name(folder) != name or not same_version(folder_version, version):
        mistakes.append(f"the folder {wheel.info} belongs to another project or version than {name} {version}")
    mistakes += dict.fromkeys(_data_folder_mistakes(wheel))
    yield finding("name-and-version", mistakes, f"{name} {version} in file name, {wheel.info} and METADATA")


def _data_folder_mistakes(wheel: Inspection) -> Iterator[str]:
    """Yield mistakes in the names of ``.data`` folders, which installers refuse or treat differently."""
    expected = wheel.info.removesuffix(".dist-info") + ".data"
    for top, scheme, *_ in (f"{name}//".split("/") for name in wheel.files):
        if top.endswith(".data") and scheme and top != expected:
            yield f"the folder {top} is not {expected}: installers treat it differently"
        elif top == expected and scheme not in _SCHEMES:
            yield f"{top} contains {scheme}, which installers do not support"


def _check_tags(wheel: Inspection) -> Iterator[Finding]:
    written: set[Tag] = set()
    mistakes = []
    for line in wheel.wheel_headers.get_all("Tag", []):
        try:
            written |= parse_tag(line.strip())
        except ValueError:
            mistakes.append(f"WHEEL has the invalid tag {line[:60]!r}")
    claimed = wheel.name.tags
    if written != claimed:
        mistakes.append(f"WHEEL has {_join_tags(written) or 'no tag'}, but the file name has {_join_tags(claimed)}")
    mistakes += _header_mistakes(wheel)
    if not wheel.environments and any(tag.interpreter.startswith(("cp3", "py3", "pp3")) for tag in claimed):
        mistakes.append(f"Requires-Python {wheel.metadata.get('Requires-Python')!r} excludes every Python of the tags")
    yield finding("tags", mistakes, f"{_join_tags(claimed)} in file name and WHEEL")


def _header_mistakes(wheel: Inspection) -> Iterator[str]:
    """Yield mistakes in the other headers of WHEEL. pip refuses unknown formats, and purity decides the folder."""
    headers = wheel.wheel_headers
    for field in ("Wheel-Version", "Root-Is-Purelib", "Build"):
        if (count := len(headers.get_all(field, []))) > 1:
            yield f"WHEEL has {count} lines for {field}"
    version = (headers.get("Wheel-Version") or "").strip()
    if version.partition(".")[0] != "1":
        yield f"WHEEL has Wheel-Version {version[:40]!r}, but installers support 1.0"
    pure = headers.get("Root-Is-Purelib")
    if pure is None or pure.strip().lower() not in {"true", "false"}:
        yield f"Root-Is-Purelib in WHEEL is {'missing' if pure is None else repr(pure[:40])}, not true or false"
    build = (headers.get("Build") or "").strip()
    # WHEEL may omit the build number of the file name: installers use only the file name.
    if build not in {"", wheel.name.build}:
        yield f"WHEEL has the build number {build[:40]!r}, but the file name has {wheel.name.build!r}"


def _join_tags(tags: set[Tag] | frozenset[Tag]) -> str:
    return join_truncated(sorted(map(str, tags)))


NAME_AND_VERSION = Rule(
    name="name-and-version",
    proves="METADATA, the `.dist-info` and `.data` folders and the file name agree on name and version; `.data` "
    "contains only subfolders that installers support",
    leaves_open="whether the same version was published with other bytes",
    examine=_check_name_and_version,
)


TAGS = Rule(
    name="tags",
    proves="WHEEL and the file name agree on every tag, and on the build number if WHEEL has one; installers support "
    "the format version; Requires-Python admits a Python of the tags",
    leaves_open="whether a Python with the tags' ABI exists and can import the wheel (see `suffix`, `abi3` and "
    "`python-symbols`)",
    examine=_check_tags,
)


def _check_metadata(wheel: Inspection) -> Iterator[Finding]:
    raw, unread = parse_email(wheel.metadata_file)
    mistakes = [
        *(["its headers contain an invalid line"] if wheel.metadata.defects else []),
        *(f"{name} is not a field of METADATA, occurs twice or is not UTF-8" for name in sorted(unread)),
        *wheel.requirements.mistakes,
        *_validation_errors({key: value for key, value in raw.items() if key in _REQUIRED}),
        # setuptools wrote License-File years before a metadata version defined it, and installers read it.
        *_validation_errors({**raw, "metadata_version": _NEWEST}),
        *_missing_items(wheel),
        *_self_requirements(wheel),
    ]
    yield finding("metadata", list(dict.fromkeys(mistakes)), "METADATA follows the core metadata specification")


def _validation_errors(raw: dict[str, object]) -> list[str]:
    try:
        Metadata.from_raw(cast("RawMetadata", raw))
    except ExceptionGroup as group:
        # `wheel.requirements` has reported these already.
        found = (" ".join(str(error).split())[:300] for error in group.exceptions)
        return [text for text in found if "requires-dist" not in text]
    return []


def _missing_items(wheel: Inspection) -> Iterator[str]:
    """Yield mistakes for files, modules and extras in METADATA that the wheel lacks."""
    files = [name for name in wheel.files if name.startswith(f"{wheel.info}/")]
    for value in wheel.metadata.get_all("License-File", []):
        # Since metadata 2.4, license files are in `licenses/`. Before, each tool chose its own folder.
        path = value.strip()
        if not any(name.endswith(f"/{path}") or name == f"{wheel.info}/{path.rpartition('/')[2]}" for name in files):
            yield f"License-File is {path[:100]!r}, but there is no such file in {wheel.info}"
    for value in wheel.metadata.get_all("Import-Name", []):
        module = value.partition(";")[0].strip().replace(".", "/")
        if module and not any(path.startswith((f"{module}/", f"{module}.")) for path in wheel.files):
            yield f"Import-Name is {value[:60]!r}, but there is no such module in the wheel"
    provided = {canonicalize_name(value.strip()) for value in wheel.metadata.get_all("Provides-Extra", [])}
    markers = " and ".join(str(line.marker) for line in wheel.requirements.lines if line.marker)
    used = {canonicalize_name(found[1] or found[2]) for found in _EXTRA.finditer(markers)}
    yield from (f"Requires-Dist uses the extra {name}, which is not provided" for name in sorted(used - provided))


def _self_requirements(wheel: Inspection) -> Iterator[str]:
    """Yield a mistake for each requirement of another version of the project itself, which cannot be satisfied."""
    for line in wheel.requirements.lines:
        same = canonicalize_name(line.name) == wheel.name.project and line.marker is None
        if same and not line.specifier.contains(wheel.name.version, prereleases=True):
            yield f"Requires-Dist has {str(line)[:100]!r}, but the wheel itself has version {wheel.name.version}"


METADATA = Rule(
    name="metadata",
    proves="METADATA follows the core metadata specification; the wheel has every module, licence file and extra in "
    "METADATA, and does not require another version of its own project",
    leaves_open="fields of later versions of the specification",
    examine=_check_metadata,
)


def _check_recorded_plan(wheel: Inspection) -> Iterator[Finding]:
    try:
        recorded = wheel.recorded_plan
    except WheelError as error:
        yield finding("recorded-plan", [error.message], "")
        return
    if recorded is None:
        return
    planned, version = recorded.data["wheel"], str(wheel.name.version)
    distribution, built = planned["distribution"][:80], planned["version"][:80]
    # `relabel` removes the local version. In a variant wheel, the label replaces it.
    relabelled = version != planned["version"] and version == planned["version"].partition("+")[0]
    same = version == planned["version"] or relabelled or wheel.name.label is not None
    same = same and canonicalize_name(planned["distribution"]) == wheel.name.project
    mistakes = [] if same else [f"it records a plan for {distribution} {built}"]
    if same and planned.get("metadata") not in {None, _planned_metadata(wheel, planned["version"])}:
        mistakes = ["it records a plan with another METADATA"]
    text = f"the plan {recorded.digest[:12]} of {distribution}"
    found = finding("recorded-plan", mistakes, f"{text} {built}; it was relabelled" if relabelled else text)
    yield replace(found, note=relabelled)


def _planned_metadata(wheel: Inspection, version: str) -> str:
    """Return the sha256 that METADATA has with the planned version."""
    found = wheel.metadata_file
    return hashlib.sha256(found if str(wheel.name.version) == version else replace_version(found, version)).hexdigest()


RECORDED_PLAN = Rule(
    name="recorded-plan",
    proves="a recorded plan has the wheel's name, version and METADATA; the version of a relabelled or variant wheel "
    "may lack its local part",
    leaves_open="whether the plan builds this wheel (see `wheelsmith verify-rebuild`)",
    examine=_check_recorded_plan,
)


def _compare_with_plan(wheel: Inspection) -> Iterator[Finding]:
    spec = wheel.expected
    if spec is None:
        return
    name, version, tags = wheel.name.project, wheel.name.version, wheel.name.tags
    mistakes = []
    if spec.metadata is not None and wheel.metadata_file != spec.metadata.encode():
        mistakes.append("METADATA differs from the plan")
    if (name, str(version)) != (canonicalize_name(spec.distribution), spec.version):
        mistakes.append(f"the plan is for {spec.distribution} {spec.version}")
    # A project may build a wheel that also serves other Pythons, although the plan has another tag.
    mistakes += [
        f"the plan has no tag {tag}"
        for tag in tags
        if (tag.interpreter, tag.abi) != (spec.python_tag, spec.abi_tag)
        and not (spec.metadata is None and tag.abi in {"abi3", "none"})
    ]
    yield finding("plan", mistakes, f"{name} {version} {spec.python_tag}-{spec.abi_tag} as planned")


PLAN = Rule(
    name="plan",
    proves="in a build: name, version, tags and METADATA are as planned",
    leaves_open="METADATA of a project, which the project writes and other rules check",
    examine=_compare_with_plan,
)


def _check_variant(wheel: Inspection) -> Iterator[Finding]:
    label = wheel.name.label
    if not label:
        return
    variant = parse_variant(wheel.info_file(VARIANT_FILE), wheel.path.name, label)
    mistakes = list(property_mistakes(variant, combine_gpu_code(wheel.gpu_code.values())))
    labelled, version = wheel.variant_label.compute, wheel.local_version.compute
    if version and labelled and version != labelled:
        mistakes.append(f"the label is for {labelled}, but the version is for {version}")
    mistakes += [reason.replace("version", "label") for reason in wheel.variant_label.wrong]
    claimed = variant.properties.get("nvidia", {}).get("sm_arch", ())
    yield finding("variant", mistakes, f"{label}: {', '.join(claimed) or 'any GPU or none'}")


VARIANT = Rule(
    name="variant",
    proves="in a variant wheel: `variant.json` follows the format; there is linked code for every GPU in it; no newer "
    "major release of CUDA made the code than the one in it; a label such as `cu130_80` agrees with it; the null "
    "variant has no GPU code and needs no CUDA",
    leaves_open="whether the code for a GPU is complete",
    examine=_check_variant,
)
