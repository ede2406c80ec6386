"""Prove, from its bytes alone, that a wheel tells the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.model import WheelSpec
from wheelsmith.tags import read_wheel_name
from wheelsmith.wheel import auditwheel
from wheelsmith.wheel.abi3 import outside_abi3
from wheelsmith.wheel.archive import WheelContents, open_wheel, record_mistakes
from wheelsmith.wheel.elf import Extension, read_extension
from wheelsmith.wheel.fatbin import read_fatbins
from wheelsmith.wheel.gpu_code import gpu_findings, planned_code
from wheelsmith.wheel.report import CheckReport, Finding, finding
from wheelsmith.wheel.symbols import symbol_table
from wheelsmith.wheel.variant import variant_finding

_LOCAL = re.compile(r"(?P<compute>cpu|cu\d{3})(?:\.torch(?P<torch>\d+\.\d+))?")
# Of a variant wheel: the label says for which compute platform it is.
_VARIANT_LOCAL = re.compile(r"torch(?:stable|(?P<torch>\d+\.\d+))")
_COMPUTE = re.compile(r"(cu\d{3})(_.*)?")
# PEP 600's names for the platforms of PEP 513, 571 and 599.
_LEGACY = {"manylinux1_": "manylinux_2_5_", "manylinux2010_": "manylinux_2_12_", "manylinux2014_": "manylinux_2_17_"}
_MANYLINUX = re.compile(r"manylinux_(\d+)_(\d+)_(\w+)")


def check_wheel(path: Path, expected: WheelSpec | None = None) -> CheckReport:
    """Check every rule that applies.

    :param expected: what the plan promised; without it, all that the wheel itself claims is still proven.
    :raises WheelError: the file cannot be read as a wheel at all.
    """
    contents = open_wheel(path)
    findings = [*_archive(contents), *_names(contents), *_requirements(contents)]
    extensions = {name: read_extension(name, data) for name, data in contents.extensions.items()}
    findings += _purity(contents, extensions)
    if extensions:
        findings += _platform(path, contents)
    codes = {name: read_fatbins(extension.fatbins) for name, extension in extensions.items()}
    compute = _compute_platform(contents)
    for name, extension in extensions.items():
        findings += _extension(name, extension, contents)
        findings += gpu_findings(name, extension, codes[name], compute)
        findings.append(_symbols(name, extension, contents))
    if label := read_wheel_name(contents.filename).label:
        findings.append(variant_finding(contents, label, codes.values()))
    if expected:
        findings += _promises(contents, expected)
        findings.append(planned_code(codes.values(), expected))
    return CheckReport(wheel=path.name, findings=tuple(findings))


# --- the archive and its names ------------------------------------------------------------------------------


def _archive(contents: WheelContents) -> Iterator[Finding]:
    yield finding("record", record_mistakes(contents), f"{len(contents.files)} files are what RECORD says")


def _names(contents: WheelContents) -> Iterator[Finding]:
    named = read_wheel_name(contents.filename)
    name, version, tags = named.project, named.version, named.tags
    metadata = contents.metadata
    wrong = []
    if canonicalize_name(metadata.get("Name", "")) != name:
        wrong.append(f"METADATA says {metadata.get('Name')}, the file name {name}")
    if metadata.get("Version") != str(version):
        wrong.append(f"METADATA says version {metadata.get('Version')}, the file name {version}")
    yield finding("name-and-version", wrong, f"{name} {version} in file name and METADATA")
    written = {tag for line in contents.wheel.get_all("Tag", []) for tag in [line.strip()]}
    claimed = {str(tag) for tag in tags}
    wrong = [f"WHEEL says {', '.join(sorted(written))}, the file name {', '.join(sorted(claimed))}"]
    yield finding("tags", wrong if written != claimed else [], f"{', '.join(sorted(claimed))} in file name and WHEEL")


def _requirements(contents: WheelContents) -> Iterator[Finding]:
    text = contents.files[f"{contents.info}/METADATA"]
    try:
        Metadata.from_email(text, validate=True)
        wrong = []
    except ExceptionGroup as group:
        wrong = [str(error) for error in group.exceptions]
    yield finding("metadata", wrong, "METADATA keeps the core metadata specification")
    local_part = _local_part(contents) or ""
    local = _LOCAL.fullmatch(local_part) or _VARIANT_LOCAL.fullmatch(local_part)
    torch = _torch_specifier(contents)
    if local is None or torch is None:
        return
    pin = local["torch"]
    wrong = []
    if pin and str(torch) != f"=={pin}.*":
        wrong.append(f"the version says torch {pin}, Requires-Dist says torch{torch}")
    if not pin and not any(specifier.operator == ">=" for specifier in torch):
        wrong.append(f"the version names no torch, Requires-Dist says torch{torch}")
    yield finding("torch-requirement", wrong, f"Requires-Dist: torch{torch}")


def _local_part(contents: WheelContents) -> str | None:
    return read_wheel_name(contents.filename).version.local


def _compute_platform(contents: WheelContents) -> str | None:
    """Give what the version says, or the label of a variant wheel; None where neither says it."""
    if local := _LOCAL.fullmatch(_local_part(contents) or ""):
        return local["compute"]
    label = _COMPUTE.fullmatch(read_wheel_name(contents.filename).label or "")
    return label[1] if label else None


def _torch_specifier(contents: WheelContents) -> SpecifierSet | None:
    for line in contents.metadata.get_all("Requires-Dist", []):
        requirement = Requirement(line)
        if requirement.name == "torch" and requirement.marker is None:
            return requirement.specifier
    return None


# --- what is compiled ---------------------------------------------------------------------------------------


def _purity(contents: WheelContents, extensions: dict[str, Extension]) -> Iterator[Finding]:
    platforms = {tag.platform for tag in read_wheel_name(contents.filename).tags}
    wrong = []
    if platforms == {"any"} and extensions:
        wrong.append(f"a wheel for any platform holds {next(iter(extensions))}")
    if "any" not in platforms and not extensions:
        wrong.append(f"a wheel for {', '.join(platforms)} holds nothing that is compiled")
    yield finding("purity", wrong, f"{len(extensions)} compiled files for platform {', '.join(sorted(platforms))}")


def _platform(path: Path, contents: WheelContents) -> Iterator[Finding]:
    shown = auditwheel.show(path)
    claimed = sorted({tag.platform for tag in read_wheel_name(contents.filename).tags})
    earned = str(shown["sym_tag"])
    wrong = [f"the tag says {tag}, the symbols need {earned}" for tag in claimed if not _no_older(tag, earned)]
    yield finding("platform-tag", wrong, f"{', '.join(claimed)}: the symbols need {earned}")
    foreign = [name for name in shown["external_libs"] if not _matches(name, auditwheel.PROVIDED)]
    yield finding(
        "libraries",
        [f"{name} is neither the platform's nor torch's" for name in foreign],
        f"from torch and CUDA: {', '.join(sorted(shown['external_libs'])) or 'none'}",
    )


def _no_older(claimed: str, earned: str) -> bool:
    """Say whether every machine that ``claimed`` names has the symbols that ``earned`` names."""
    for old, new in _LEGACY.items():
        claimed = claimed.replace(old, new)
    one, other = _MANYLINUX.fullmatch(claimed), _MANYLINUX.fullmatch(earned)
    if not one or not other:
        return claimed == earned
    return one[3] == other[3] and (int(one[1]), int(one[2])) >= (int(other[1]), int(other[2]))


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _extension(name: str, extension: Extension, contents: WheelContents) -> Iterator[Finding]:
    tags = read_wheel_name(contents.filename).tags
    wrong = [] if all(t.platform.endswith(extension.arch) for t in tags) else [f"{name} is for {extension.arch}"]
    yield finding("architecture", wrong, f"{name} is for {extension.arch}")
    yield finding(
        "search-path",
        [f"{name} looks for libraries in {path}" for path in extension.search_paths],
        "no RPATH and no RUNPATH",
    )
    if any(tag.abi == "abi3" for tag in tags):
        since = next(iter(tags)).interpreter
        outside = outside_abi3(extension, since)
        yield finding(
            "abi3",
            [f"{symbol} is not in the stable ABI of {since}" for symbol in outside],
            f"stable ABI of {since}",
        )


def _symbols(name: str, extension: Extension, contents: WheelContents) -> Finding:
    """Find a provider for every symbol that the dynamic linker will look for.

    A symbol with a version was found in its library when the extension was linked. The others are torch's, which was
    linked as empty stand-ins, or Python's.
    """
    free = [
        symbol
        for symbol, version in extension.undefined.items()
        if version is None and not symbol.startswith(("Py", "_Py"))
    ]
    torch = _torch_specifier(contents)
    table = symbol_table(extension.arch)
    if torch is None or table is None:
        missing = [f"{name} needs {symbol}, and the wheel requires no torch" for symbol in free]
        return finding("symbols", missing, "every symbol has a provider")
    promised = {release for release in table.releases if torch.contains(f"{release}.0")}
    if not promised:
        return finding("symbols", [f"no torch that satisfies torch{torch} is known"], "")
    wrong = [
        f"torch {', '.join(sorted(lacking, key=_version))} does not export {symbol}"
        for symbol in free
        if (lacking := promised - table.exported_by(symbol))
    ]
    text = f"{len(free)} symbols, all exported by torch {', '.join(sorted(promised, key=_version))}"
    return finding("symbols", wrong, text)


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(part) for part in release.split("."))


# --- what the plan promised ---------------------------------------------------------------------------------


def _promises(contents: WheelContents, spec: WheelSpec) -> Iterator[Finding]:
    if spec.metadata is not None:
        same = contents.files[f"{contents.info}/METADATA"] == spec.metadata.encode()
        yield finding("plan-metadata", [] if same else ["METADATA is not the plan's"], "METADATA is the plan's")
    named = read_wheel_name(contents.filename)
    name, version, tags = named.project, named.version, named.tags
    planned = (canonicalize_name(spec.distribution), spec.version)
    wrong = [] if (name, str(version)) == planned else [f"the plan is for {spec.distribution} {spec.version}"]
    yield finding("plan-name", wrong, f"{name} {version} as planned")
    # A project may do better than its plan: abi3, which serves later Pythons too.
    wrong = [
        str(tag)
        for tag in tags
        if (tag.interpreter, tag.abi) != (spec.python_tag, spec.abi_tag)
        and not (spec.metadata is None and tag.abi == "abi3")
    ]
    yield finding("plan-tags", wrong, f"{spec.python_tag}-{spec.abi_tag} as planned")
