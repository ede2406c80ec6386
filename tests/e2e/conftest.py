import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import containers
import pytest
from once import made_once, run_folder

from wheelsmith.engine import engines
from wheelsmith.prepare import default_cache

ROOT = Path(__file__).parent.parent.parent


@dataclass
class Factory:
    """A folder with a matrix, and a cache of its own that shares only the user's toolchains."""

    folder: Path
    cache: Path

    @classmethod
    def at(cls, folder: Path) -> "Factory":
        cache = folder / "cache"
        cache.mkdir(parents=True)
        shared = default_cache() / "prefix"
        shared.mkdir(parents=True, exist_ok=True)
        (cache / "prefix").symlink_to(shared)
        locks = default_cache() / "locks"
        locks.mkdir(exist_ok=True)
        (cache / "locks").symlink_to(locks)
        return cls(folder=folder, cache=cache)

    def command(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "wheelsmith", *argv]

    def environment(self, **env: str) -> dict[str, str]:
        return {**os.environ, "WHEELSMITH_CACHE": str(self.cache), **env}

    def run(self, *argv: str, **env: str) -> subprocess.CompletedProcess[str]:
        answer = subprocess.run(
            self.command(*argv), cwd=self.folder, env=self.environment(**env), capture_output=True, text=True
        )
        assert "Traceback" not in answer.stderr, answer.stderr
        return answer

    def results(self, out: str = "dist") -> dict[str, dict]:
        return json.loads((self.folder / out / "results.json").read_text())["cells"]

    def hashes(self, out: str = "dist") -> dict[str, str]:
        return {name: cell["wheel"]["sha256"] for name, cell in self.results(out).items() if "wheel" in cell}


def example(folder: Path) -> Factory:
    """Lay out this repository's own matrix and example elsewhere."""
    factory = Factory.at(folder)
    shutil.copy(ROOT / "matrix.yaml", folder)
    shutil.copytree(ROOT / "examples", folder / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    return factory


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """The default matrix, built; ``first`` is its ``dist`` as that build left it."""
    folder = made_once(run_folder(tmp_path_factory) / "default", _build_default)
    return Factory(folder=folder, cache=folder / "cache")


def _build_default(folder):
    factory = example(folder)
    answer = factory.run("build-matrix", "--engine", "bwrap" if shutil.which("bwrap") else "auto")
    assert answer.returncode == 0, answer.stderr
    shutil.copytree(folder / "dist", folder / "first", symlinks=True)


@pytest.fixture(scope="session")
def podman():
    """podman with nothing in it but what the tests make."""
    containers.wanted("podman")
    with containers.podman():
        yield "podman"


@pytest.fixture(scope="session")
def docker():
    """A docker daemon of the tests' own."""
    containers.wanted("docker")
    with containers.dockerd():
        yield "docker"


@pytest.fixture(scope="session")
def podman_image(podman):
    containers.make_image("podman", "debian")
    return podman


@pytest.fixture(scope="session")
def docker_image(podman_image, docker):
    containers.make_image("docker", "debian")
    return docker


@pytest.fixture(params=containers.params("podman", "docker", quick=("podman",)))
def container_engine(request):
    """The name of an engine that has image debian."""
    return request.getfixturevalue(f"{request.param}_image")


@pytest.fixture(params=containers.params("bwrap", "podman", "docker"))
def confining(request, tmp_path):
    """An engine that keeps commands in, and the image that they run in there."""
    if request.param == "bwrap":
        containers.wanted("bwrap")
    else:
        request.getfixturevalue(f"{request.param}_image")
    engine = engines(tmp_path / "cache")[request.param]
    return engine, engine.workplace("debian").image


@pytest.fixture(scope="session")
def whole_torch(tmp_path_factory):
    """The packages of an environment with torch 2.13; nothing is added to them."""
    return next(made_once(run_folder(tmp_path_factory) / "torch", _install_torch).glob("lib/python*/site-packages"))


def _install_torch(folder):
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    install = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, "torch==2.13.0", "numpy", "pytest", "setuptools"], check=True)


@pytest.fixture
def torch_python(whole_torch, tmp_path):
    """The Python of an environment of the test's own, where torch 2.13 is installed."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    next(venv.glob("lib/python*/site-packages")).joinpath("torch.pth").write_text(f"{whole_torch}\n")
    return venv / "bin" / "python"
