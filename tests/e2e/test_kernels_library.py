"""Kernels built here and published to a Hub are loaded by the newest ``kernels`` library, and compute."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from factory import Factory
from kernels import STABLE_TOML, matrix, pure_kernel, stable_kernel
from loopback_hub import Hub, serve

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("another library's loader"),
    pytest.mark.xdist_group("kernels"),
]
STABLE, BOUNDED = "torch-stable-abi210-cpu-x86_64-linux", "torch213-cxx11-cpu-x86_64-linux"
KERNELS = ("affine", "bounded", "pure")
SUPPORT = Path(__file__).parent.parent / "support"

LOAD = """
import json, sys, torch
from kernels import get_kernel, get_kernel_variants, get_loaded_kernels
from kernels._rust import Digest

found = {}
for name in "affine", "bounded":
    kernel = get_kernel(f"org/{name}", version=1, backend="cpu")
    x = torch.randn(3, 5, 101)
    torch.testing.assert_close(kernel.affine(x, 1.5, -0.25), x * 1.5 - 0.25)
assert get_kernel("org/pure", version=1, backend="cpu").VALUE == 1
try:
    get_kernel("stranger/pure", version=1)
except ValueError as error:
    assert "not from a trusted publisher" in str(error)
else:
    raise AssertionError("a stranger's code was run")
assert get_kernel("stranger/pure", version=1, backend="cpu", trust_remote_code=True).VALUE == 1
for loaded in get_loaded_kernels():
    metadata, name = loaded.metadata, str(loaded.metadata.name)
    folder = loaded.module.__path__[0]
    metadata.digest.validate(Digest.hash_variant(metadata.digest.algorithm, folder))
    found[name] = [folder.rsplit("/", 1)[1], metadata.id, loaded.module.__name__, metadata.version, metadata.license]
found["variants"] = {
    decision.variant.variant_str: type(decision).__name__
    for decision in get_kernel_variants("org/affine", version=1)
}
json.dump(found, sys.stdout)
"""

# huggingface_hub takes a snapshot for whole only when every file of the repo is there; load_kernel asks for all of it.
WHOLE = """
import sys
from huggingface_hub import snapshot_download
snapshot_download("org/affine", repo_type="kernel", revision=sys.argv[1])
"""

LOCKED = """
import sys, torch
from pathlib import Path
from kernels import get_local_kernel, load_kernel

kernel = load_kernel("org/affine", lockfile=Path("kernels.lock"))
folder = Path(kernel.__path__[0])
torch.testing.assert_close(kernel.affine(torch.ones(3), 2.0, 1.0), torch.full((3,), 3.0))
assert get_local_kernel(folder.parent.parent) is kernel
# Older versions of the library look for the kernel under its name.
sys.path.insert(0, str(folder))
import affine
assert affine.affine is kernel.affine
print("OK")
"""


@pytest.fixture(scope="module")
def kernels_python(tmp_path_factory):
    """The Python of an environment that has nothing but the newest ``kernels``."""
    venv = tmp_path_factory.mktemp("kernels") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    python = venv / "bin" / "python"
    install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "kernels"], check=True)
    return python


@pytest.fixture(scope="module")
def hub(tmp_path_factory):
    """A Hub with three kernels: in torch's stable ABI, for one torch alone, and with nothing compiled."""
    factory = Factory.at(tmp_path_factory.mktemp("hub"))
    stable_kernel(factory.folder / "affine")
    bounded = stable_kernel(factory.folder / "bounded") / "build.toml"
    bounded.write_text(STABLE_TOML.replace('"affine"', '"bounded"').replace('"2.10"', '"2.10"\nmaxver = "2.13"'))
    (bounded.parent / "torch-ext" / "affine").rename(bounded.parent / "torch-ext" / "bounded")
    pure_kernel(factory.folder / "pure")
    for name in KERNELS:
        matrix(factory.folder, name, torch="2.13", cuda="cpu, 13.0" if name == "pure" else "cpu")
        built = factory.run("build-matrix", "--engine", "bwrap", "--out", f"dist-{name}")
        assert built.returncode == 0, built.stdout + built.stderr
    with serve(Hub(trusted={"org"})) as running:
        pairs = []
        for name in KERNELS:
            running.add(f"org/{name}")
            pairs += [factory.folder / f"dist-{name}" / "index", f"hf://kernels/org/{name}@v1"]
        answer = subprocess.run(
            [sys.executable, SUPPORT / "hub_publish.py", *pairs],
            env={**os.environ, **running.environment(factory.folder / "hf")},
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stderr
        running.published = dict(zip(KERNELS, answer.stdout.splitlines(), strict=True))
        running.add("stranger/pure", files=running.repos["org/pure"].at("v1").files)
        yield running


def run(python, whole_torch, hub, home, *argv, cwd=None, **env):
    """Run the library's Python, which finds torch in another environment."""
    clean = {"PATH": os.environ["PATH"], "HOME": str(home), "PYTHONPATH": str(whole_torch)}
    return subprocess.run(
        [python, *argv],
        env={**clean, **hub.environment(home / "hf"), **env},
        cwd=cwd or home,
        capture_output=True,
        text=True,
    )


def test_each_wheel_has_its_variants(hub):
    assert hub.published == {
        "affine": STABLE,
        "bounded": BOUNDED,
        "pure": "torch-cpu torch-cuda",
    }
    for name in hub.published:
        assert len(hub.repos[f"org/{name}"].history("v1")) == 2


def test_the_library_loads_what_was_published(hub, kernels_python, whole_torch, tmp_path):
    """A whole torch and the library are installed for it."""
    answer = run(kernels_python, whole_torch, hub, tmp_path, "-c", LOAD)
    assert answer.returncode == 0, answer.stderr
    found = json.loads(answer.stdout)
    for name, variant in (("affine", STABLE), ("bounded", BOUNDED)):
        folder, identifier, module, *rest = found[name]
        assert (folder, identifier, rest) == (variant, module, [1, "Apache-2.0"])
        assert identifier.startswith(f"_{name}_cpu_")
    assert found["pure"][0] == "torch-cpu"
    assert found["variants"] == {STABLE: "VariantAccepted"}

    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text('[tool.kernels.dependencies]\n"org/affine" = 1\n')
    locked = run(
        kernels_python, whole_torch, hub, tmp_path, kernels_python.with_name("kernels"), "lock", ".", cwd=project
    )
    assert locked.returncode == 0, locked.stderr
    commit = hub.repos["org/affine"].branches["v1"]
    assert commit in (project / "kernels.lock").read_text()
    run(kernels_python, whole_torch, hub, tmp_path, "-c", WHOLE, commit).check_returncode()
    offline = run(kernels_python, whole_torch, hub, tmp_path, "-c", LOCKED, cwd=project, HF_HUB_OFFLINE="1")
    assert (offline.stdout, offline.returncode) == ("OK\n", 0), offline.stderr
