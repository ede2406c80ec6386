"""What a project's build sees, and what its wheel is tested with: a cell's own torch, and what each of them names."""

import json
import sys

import pytest
import wants
from factory import Factory
from wheels import make_wheel

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("own torch")]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
TORCH = {
    "torch/__init__.py": b"import torch\nfrom . import version\n\nclass _C:\n    _has_cuda = True\n"
    b"    _cuda_getDeviceCount = print\n",
    "torch/version.py": b"__version__ = '2.13.0+cu130'\ncuda: str = '13.0'\n",
}
CPU = {"torch/version.py": b"__version__ = '2.13.0+cpu'\ncuda = None\n"}
BACKEND = """
import base64, hashlib, os, subprocess, sys, sysconfig, zipfile
import build_only, torch

def build_wheel(folder, settings=None, metadata=None):
    of_the_machine = ("numpy", "pip", "setuptools") if os.path.isdir("/opt/environment") else ()
    for name in ("test_only", *of_the_machine):
        try:
            __import__(name)
        except ImportError:
            continue
        raise SystemExit(f"{name} can be imported")
    print("TORCH OF THE BUILD", torch.version.__version__, torch.version.cuda, torch._C._has_cuda)
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    include = sysconfig.get_paths()["include"]
    subprocess.run(["g++", "-shared", "-fPIC", "-Wl,-s", f"-I{include}", "k.cpp", "-o", "k.so"], check=True)
    tag = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    tag = f"{tag}-{tag}-linux_{os.uname().machine}"
    needs = "".join(f"Requires-Dist: {need}\\n" for need in ("torch", "run_only; python_version >= '3'"))
    files = {
        f"k{suffix}": open("k.so", "rb").read(),
        "k-1.dist-info/METADATA": f"Metadata-Version: 2.1\\nName: k\\nVersion: 1\\n{needs}".encode(),
        "k-1.dist-info/WHEEL": f"Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: {tag}\\n".encode(),
    }
    rows = [f"{name},sha256={_hash(data)},{len(data)}" for name, data in files.items()]
    files["k-1.dist-info/RECORD"] = "\\n".join([*rows, "k-1.dist-info/RECORD,,", ""]).encode()
    with zipfile.ZipFile(f"{folder}/k-1-{tag}.whl", "w") as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data)
    return f"k-1-{tag}.whl"

def _hash(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
"""
SOURCE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "k", nullptr, -1, nullptr};
extern "C" PyObject *PyInit_k() { return PyModule_Create(&definition); }
"""
TEST = """
import importlib.util, os, torch, k, run_only, test_only
assert torch.version.cuda is None and torch.version.__version__.endswith("+cpu"), vars(torch.version)
assert not hasattr(torch._C, "_cuda_getDeviceCount")
assert k.__file__.startswith(os.getcwd() + "/site/"), k.__file__
of_the_machine = ("pip", "setuptools") if os.path.isdir("/opt/environment") else ()
left = [name for name in ("build_only", *of_the_machine) if importlib.util.find_spec(name)]
assert not left, left
print("TESTED WITH", torch.version.__version__)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    for program in ("bwrap", "g++"):
        wants.program(program)
    folder = tmp_path_factory.mktemp("project")
    # A cache of its own, whole: what these indexes offer is no torch of anybody's.
    factory = Factory(folder=folder, cache=folder / "cache")
    for name, text in {
        "pyproject.toml": '[build-system]\nrequires=["build_only"]\nbuild-backend="backend"\nbackend-path=["."]\n',
        "backend.py": BACKEND,
        "k.cpp": SOURCE,
        "tests/run.py": TEST,
    }.items():
        path = factory.folder / "k" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (factory.folder / "matrix.yaml").write_text(
        "kernel: {path: k, distribution: k, test: python3 src/tests/run.py}\nversion: 1\n"
        f"axes: {{torch: [2.13], cuda: [cpu], python: [{PYTHON}]}}\n"
        "test-requires: [test_only]\n"
    )
    return factory


def offered(folder, *torches):
    """Offer torch in some builds, and what is required."""
    for name in ("build_only", "run_only", "test_only"):
        make_wheel(folder, name, "1")
    make_wheel(folder, "nvidia_cuda_runtime", "13.0.96", files={"nvidia/cu13/lib/libcudart.so.13": b"\x7fELF"})
    for version, files in torches:
        needs = ("nvidia-cuda-runtime",) if b"'13.0'" in files["torch/version.py"] else ()
        make_wheel(folder, "torch", version, files={"torch.py": b"", **files}, requires=needs)
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(folder), "PIP_CONFIG_FILE": "/dev/null"}


@pytest.mark.release("an environment with a whole torch")
@pytest.mark.parametrize("engine", ["bwrap", "local"])
def test_where_only_a_cuda_build_can_be_reached(project, tmp_path, engine):
    """As PyPI's is: the cell sees a torch that knows nothing of CUDA, and the test sees nothing of what built it."""
    pip = offered(tmp_path / "links", ("2.13.0", TORCH))
    answer = project.run("build-matrix", "--engine", engine, "--test", "--force", "--out", f"by-{engine}", **pip)
    (log,) = (project.folder / f"by-{engine}" / "logs").iterdir()
    said = log.read_text()
    assert answer.returncode == 0, answer.stderr + said
    assert "TORCH OF THE BUILD 2.13.0+cpu None False" in said
    assert "TESTED WITH 2.13.0+cpu" in said


def test_a_cpu_build_that_can_be_reached_is_taken(project, tmp_path):
    """Though pip by itself takes the build for CUDA, whose version sorts later."""
    builds = [("2.13.0", TORCH), ("2.13.0+cpu", CPU), ("2.13.0+cu130", TORCH)]
    pip = offered(tmp_path / "links", *builds)
    answer = project.run("plan", "--engine", "bwrap", "--json", WHEELSMITH_CACHE=str(tmp_path / "cache"), **pip)
    assert answer.returncode == 0, answer.stderr
    (plan,) = (found["project"] for found in find(json.loads(answer.stdout), "project"))
    assert [wheel["version"] for wheel in plan["environment"] if wheel["name"] == "torch"] == ["2.13.0+cpu"]
    assert not plan["without_cuda"]
    assert plan["test_requires"] == ["test_only"]


def find(data, key):
    """Yield the mappings in JSON that have a key."""
    if isinstance(data, dict):
        if isinstance(data.get(key), dict):
            yield data
        data = list(data.values())
    for each in data if isinstance(data, list) else ():
        yield from find(each, key)
