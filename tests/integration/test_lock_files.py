"""One served index, and the programs that lock a project's environment: poetry, pdm, pipenv and uv."""

import subprocess
import sys

import pytest
from torches import HERE, right_wheel

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder

pytestmark = [
    pytest.mark.network,
    pytest.mark.xdist_group("installers"),
    pytest.mark.release("an environment for each of these programs"),
]
PYTHON = f"{sys.version_info[0]}.{sys.version_info[1]}"
# Both come from roots of one compute platform, and nothing from anywhere else.
PROJECT = f"""\
[project]
name = "app"
version = "1"
requires-python = "=={PYTHON}.*"
dependencies = ["kernel{{pin}}", "torch=={{torch}}.0"]

[[tool.poetry.source]]
name = "wheels"
url = "{{wheels}}"
priority = "explicit"

[[tool.poetry.source]]
name = "torch"
url = "{{torches}}"
priority = "primary"

[tool.poetry]
package-mode = false
dependencies.kernel = {{{{ source = "wheels" }}}}

[tool.pdm]
distribution = false

[tool.pdm.resolution]
respect-source-order = true

[[tool.pdm.source]]
name = "pypi"
url = "{{torches}}"
verify_ssl = false
exclude_packages = ["kernel"]

[[tool.pdm.source]]
name = "wheels"
url = "{{wheels}}"
verify_ssl = false
include_packages = ["kernel"]

[[tool.uv.index]]
name = "wheels"
url = "{{wheels}}"
explicit = true

[[tool.uv.index]]
name = "torch"
url = "{{torches}}"
default = true

[tool.uv.sources]
kernel = {{{{ index = "wheels" }}}}
"""
PIPFILE = f"""\
[[source]]
name = "torch"
url = "{{torches}}"
verify_ssl = false

[[source]]
name = "wheels"
url = "{{wheels}}"
verify_ssl = false

[packages]
kernel = {{{{ version = "{{pin_or_any}}", index = "wheels" }}}}
torch = {{{{ version = "=={{torch}}.0", index = "torch" }}}}

[requires]
python_version = "{PYTHON}"
"""
LOCKS = {"poetry": "poetry.lock", "pdm": "pdm.lock", "pipenv": "Pipfile.lock", "uv": "uv.lock"}


@pytest.fixture
def project(tmp_path, loopback):
    """What makes a project that asks for one torch of a compute platform."""

    def project(torch, pin):
        places = {"wheels": f"{loopback.index}/cu130/", "torches": f"{loopback.whl}/cu130/", "torch": torch, "pin": pin}
        (tmp_path / "pyproject.toml").write_text(PROJECT.format(**places))
        (tmp_path / "Pipfile").write_text(PIPFILE.format(**places, pin_or_any=pin or "*"))
        return tmp_path

    return project


def installed(tools, program, folder):
    """Lock, make the environment, and return what is in it."""
    for verb in ("lock", "sync"):
        answer = tools.locker(program, verb, folder=folder)
        assert answer.returncode == 0, answer.stdout + answer.stderr
    says = "from importlib.metadata import version as v; print(v('kernel'), v('torch'))"
    done = subprocess.run([folder / ".venv" / "bin" / "python", "-c", says], capture_output=True, text=True, check=True)
    return tuple(done.stdout.split())


@pytest.mark.parametrize("torch", ["2.9", "2.12"])
@pytest.mark.parametrize("program", LOCKS)
def test_a_pin_is_locked_by_its_hash_and_installed(program, torch, project, tools, loopback):
    kernel = right_wheel(torch, "cu130")
    folder = project(torch, f"=={kernel}")
    assert installed(tools, program, folder) == (kernel, f"{torch}.0+cu130")
    (entry,) = (
        entry
        for entry in Index(Folder(loopback.folder / "index")).entries("kernel")
        if entry.filename.startswith(f"kernel-{kernel}-") and HERE in entry.filename
    )
    assert entry.sha256 in (folder / LOCKS[program]).read_text()


@pytest.mark.parametrize("torch", ["2.9", "2.12"])
@pytest.mark.parametrize("program", sorted(LOCKS.keys() - {"pdm"}))
def test_torch_decides_where_no_version_is_named(program, torch, project, tools):
    assert installed(tools, program, project(torch, "")) == (right_wheel(torch, "cu130"), f"{torch}.0+cu130")


def test_pdm_leaves_local_versions_out_of_its_lock(project, tools):
    """It resolves rightly, locks ``2``, and installs the wheel of 2 that sorts highest: docs say to name it whole."""
    folder = project("2.9", "")
    assert installed(tools, "pdm", folder) == (right_wheel("2.12", "cu130"), "2.9.0+cu130")
    assert 'name = "kernel"\nversion = "2"\n' in (folder / "pdm.lock").read_text()
