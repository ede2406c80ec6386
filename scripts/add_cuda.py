"""Add a CUDA toolkit to wheelsmith's facts, or replace one with a newer patch release.

    python scripts/add_cuda.py 13.5

NVIDIA's package cuda-toolkit lists the packages of each release. The script runs their compilers to find the facts:
ptxas reports its capabilities and PTX version, and nvcc compiles torch's headers to find the oldest usable C++
standard. At its end it writes platforms/cuda.json and, with --driver, drivers.json. It fetches about 150 MB, needs g++,
and takes a few minutes.

The headers of libraries such as cuBLAS and the default capabilities come from the previous toolkit of the same major.
The first toolkit of a major has no predecessor: it needs the options --default-capability and --driver.
"""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import tempfile
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from package_index import ARCHES, make_partial_pin, make_pin, published, read_member, wheel_for_each_arch
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from wheelsmith.base.files import default_cache
from wheelsmith.frameworks import framework, torch_releases
from wheelsmith.model import PinnedFile
from wheelsmith.platforms import CudaToolkit, cuda_prefix, cuda_toolkits
from wheelsmith.report import reporter
from wheelsmith.toolchain import Toolchains

PLATFORMS = Path(__file__).parent.parent / "wheelsmith" / "platforms"
TARGET = PLATFORMS / "cuda.json"
DRIVERS = PLATFORMS / "drivers.json"
# Packages of a toolkit, in this order; packages with headers that torch's headers include; and packages with headers
# that projects include although no torch requires them.
RUNTIME = "nvidia-cuda-runtime"
PACKAGES = ("nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt", "nvidia-cuda-cccl", RUNTIME)
HEADERS = ("nvidia-cublas", "nvidia-cusparse", "nvidia-cusolver", "nvidia-curand", "nvidia-cufft", "nvidia-nvtx")
DEVELOPMENT = ("nvidia-nvml-dev", "nvidia-cuda-profiler-api")
STANDARDS = (17, 20)
SOURCE = (
    "the packages on PyPI, as cuda-toolkit names them; capabilities and PTX from ptxas; C++ standard by compiling the "
    "headers of torch; defaults from huggingface/kernels templates/torch/preamble.cmake"
)
_CAPABILITY = re.compile(r"'sm_(\d+)(\d)([af]?)'")
_PTX = re.compile(r"current version is '([\d.]+)'")


def main() -> None:
    """Add the toolkit that the command line names."""
    options = _options()
    data = json.loads(TARGET.read_text())
    before = previous_toolkit(options.version, data["toolkits"])
    if before is None and not (options.default_capability and options.driver):
        raise SystemExit(
            f"CUDA {options.version} is the first release of its major: pass --default-capability and --driver"
        )
    entry = describe_toolkit(options, before)
    if options.cxx_std is None:
        entry["cxx_std"] = find_cxx_standard(CudaToolkit.from_json(entry))
    write(entry, data)
    if options.driver:
        add_driver(options)
    if before is None:
        print("next: update the exported symbols with scripts/library_symbols.py cuda")
    known = cuda_toolkits()[options.version]
    print(f"CUDA {known.version}: PTX {known.ptx}, C++ {known.cxx_std}, {', '.join(known.capabilities)}")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", help="such as 13.5")
    parser.add_argument(
        "--date", default=datetime.now(UTC).date().isoformat(), help="the date of the facts; default: today"
    )
    parser.add_argument("--cxx-std", type=int, help="the oldest C++ standard that compiles torch's headers")
    parser.add_argument(
        "--default-capability", action="append", help="a default capability, such as 9.0 or 12.1+PTX; repeatable"
    )
    parser.add_argument("--driver", help="the driver branch in the toolkit's release notes, such as 580")
    parser.add_argument("--source", help="the source of the other facts")
    options = parser.parse_args()
    if not re.fullmatch(r"\d+\.\d+", options.version):
        parser.error(f"{options.version} is not a toolkit such as 13.5")
    return options


def describe_toolkit(options: argparse.Namespace, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the facts about a toolkit. Without ``--cxx-std``, they contain the oldest standard of ``STANDARDS``."""
    specifiers = packages_of_release(options.version)
    packages = {project: find_wheels(project, specifiers) for project in PACKAGES}
    capabilities, ptx = run_ptxas(packages[PACKAGES[0]][platform.machine()])
    defaults = options.default_capability or (before or {})["default_capabilities"]
    if unknown := {text.removesuffix("+PTX") for text in defaults} - set(capabilities):
        raise SystemExit(f"CUDA {options.version} does not support {', '.join(unknown)}: pass --default-capability")
    return {
        "version": options.version,
        "ptx": ptx,
        "cxx_std": options.cxx_std or STANDARDS[0],
        "packages": {arch: [make_pin(packages[project][arch]) for project in PACKAGES] for arch in ARCHES},
        "headers": before["headers"]
        if before
        else [make_partial_pin(find_wheels(each, specifiers)[ARCHES[0]]) for each in HEADERS],
        "target_runtime": {arch: make_pin(packages[RUNTIME][arch]) for arch in ARCHES},
        "development": [make_partial_pin(find_wheels(each, specifiers)[ARCHES[0]]) for each in DEVELOPMENT],
        "capabilities": capabilities,
        "default_capabilities": defaults,
        "source": options.source or SOURCE,
        "date": options.date,
    }


def previous_toolkit(version: str, toolkits: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the newest toolkit of the same major that is not newer, or else the newest of that major.

    Return None for a new major.
    """
    of_major = [item for item in toolkits if Version(item["version"]).major == Version(version).major]
    older = [item for item in of_major if Version(item["version"]) <= Version(version)]
    return max(older or of_major, key=lambda item: Version(item["version"]), default=None)


def packages_of_release(version: str) -> dict[str, SpecifierSet]:
    """Return the specifiers of NVIDIA's packages in the newest patch of a CUDA release, by project."""
    releases = published("cuda-toolkit")
    patches = [release for release in releases if f"{release.major}.{release.minor}" == version]
    if not patches:
        raise SystemExit(f"the package index has no cuda-toolkit {version}; the newest is {list(releases)[-1]}")
    text = read_member(releases[max(patches)][0], "*.dist-info/METADATA")
    return pinned_requirements(Metadata.from_email(text, validate=False).requires_dist or [])


def pinned_requirements(requirements: Iterable[Requirement]) -> dict[str, SpecifierSet]:
    """Return the specifiers of the toolkit's own packages, which are the exactly pinned requirements."""
    return {need.name: need.specifier for need in requirements if all(each.operator == "==" for each in need.specifier)}


def find_wheels(project: str, specifiers: dict[str, SpecifierSet]) -> dict[str, PinnedFile]:
    """Return the newest wheel of a package in a release, by CPU architecture.

    :param specifiers: the specifiers of the release, by project.
    """
    if project not in specifiers:
        raise SystemExit(f"cuda-toolkit does not require {project}")
    wheels = published(project)
    fitting = [version for version in wheels if version in specifiers[project]]
    if not fitting:
        raise SystemExit(f"the package index has no {project}{specifiers[project]}")
    return wheel_for_each_arch(project, wheels[max(fitting)])


def run_ptxas(pin: PinnedFile) -> tuple[list[str], str]:
    """Run ptxas and return the capabilities that it supports, and its newest PTX version, which nvcc writes."""
    with tempfile.TemporaryDirectory() as scratch:
        ptxas, source = Path(scratch) / "ptxas", Path(scratch) / "new.ptx"
        ptxas.write_bytes(read_member(pin, "*/bin/ptxas"))
        ptxas.chmod(0o755)
        source.write_text(".version 99.0\n.target sm_90\n.address_size 64\n")
        outputs = [
            subprocess.run([ptxas, *words], capture_output=True, text=True, check=False)
            for words in (["--help"], [source, "-o", "/dev/null"])
        ]
    return parse_capabilities(outputs[0].stdout), parse_ptx_version(outputs[1].stdout + outputs[1].stderr)


def parse_capabilities(text: str) -> list[str]:
    """Return the capabilities that the help of ptxas lists, in order: ``9.0``, ``9.0a``."""
    found = {(int(major), int(minor), suffix) for major, minor, suffix in _CAPABILITY.findall(text)}
    return [f"{major}.{minor}{suffix}" for major, minor, suffix in sorted(found)]


def parse_ptx_version(text: str) -> str:
    """Return the PTX version in the error message of ptxas for a newer version."""
    found = _PTX.search(text)
    if found is None:
        raise SystemExit(f"ptxas does not report its PTX version: {text[:200]!r}")
    return found[1]


def write(entry: dict[str, Any], data: dict[str, Any]) -> None:
    """Write the toolkits with this one added or replaced."""
    others = [item for item in data["toolkits"] if item["version"] != entry["version"]]
    data["toolkits"] = sorted([*others, entry], key=lambda item: Version(item["version"]))
    TARGET.write_text(json.dumps(data, indent=1) + "\n")
    cuda_toolkits.cache_clear()


def find_cxx_standard(toolkit: CudaToolkit) -> int:
    """Return the oldest C++ standard with which a toolkit compiles the headers of torch.

    The torch release is the newest that itself needs no newer standard than the oldest of ``STANDARDS``.
    """
    machine, version = platform.machine(), toolkit.version
    toolchains = Toolchains(default_cache(), reporter("plain", Path()))
    cuda_toolkits()[version] = toolkit  # for this process
    home = toolchains.prepare(cuda_prefix(toolkit, machine, machine))
    torch = [release for release in torch_releases().values() if release.cxx_std <= STANDARDS[0]][-1]
    calls = framework("torch")
    headers = toolchains.prepare(calls.prefix(torch, machine))
    with tempfile.TemporaryDirectory() as scratch:
        source = Path(scratch) / "all.cu"
        source.write_text("#include <torch/all.h>\n")
        for standard in STANDARDS:
            command = [
                *(home / "bin" / "nvcc", f"-std=c++{standard}", "--expt-relaxed-constexpr", "-arch=compute_90", "-c"),
                # The errors of a standard are those of the parsers; the rest takes longer.
                *("-Xcicc", "-O0", "-Xcompiler", "-fsyntax-only", source, "-o", source.with_suffix(".o")),
                *(word for folder in calls.include for word in ("-I", headers / folder)),
            ]
            result = subprocess.run(command, capture_output=True, text=True, check=False)
            error = next((line for line in result.stderr.splitlines() if "error" in line), "ok")
            print(f"nvcc {version} and the headers of torch {torch} as C++{standard}: {error}", flush=True)
            if result.returncode == 0:
                return standard
    raise SystemExit(f"nvcc {version} cannot compile the headers of torch {torch}:\n{result.stderr[-2000:]}")


def add_driver(options: argparse.Namespace) -> None:
    """Add the driver of a CUDA release to ``drivers.json``."""
    data = json.loads(DRIVERS.read_text())
    data["newest_cuda"][options.driver] = options.version
    data["date"] = options.date
    DRIVERS.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main()
