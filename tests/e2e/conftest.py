import shutil
import subprocess
import sys
from functools import partial

import containers
import pytest
from confined import Confined
from factory import Factory, example
from kept_objects import objects_kept
from once import made_once, run_folder

from wheelsmith.engine import engines
from wheelsmith.toolchain.pip import pip_settings


@pytest.fixture(scope="session")
def built(request, tmp_path_factory):
    """The default matrix, built; ``first`` is its ``dist`` as that build left it."""
    folder = made_once(run_folder(tmp_path_factory) / "default", partial(_build_default, request.config))
    return Factory(folder=folder, cache=folder / "cache")


def _build_default(config, folder):
    factory = example(folder)
    with objects_kept(config, "default matrix", factory):
        answer = factory.run("build-matrix", "--engine", "bwrap" if shutil.which("bwrap") else "auto")
        assert answer.returncode == 0, answer.stderr
    shutil.copytree(folder / "dist", folder / "first", symlinks=True)


@pytest.fixture(scope="session")
def podman_image():
    """podman with image debian."""
    containers.wanted("podman")
    with containers.podman():
        containers.make_image("podman", "debian")
        yield "podman"


@pytest.fixture(scope="session")
def docker():
    """A docker daemon of the tests' own."""
    containers.wanted("docker")
    with containers.dockerd():
        yield "docker"


@pytest.fixture(scope="session")
def docker_image(podman_image, docker):
    containers.make_image("docker", "debian")
    return docker


@pytest.fixture(params=containers.params("podman", "docker"))
def container_engine(request):
    """The name of an engine that has image debian."""
    return request.getfixturevalue(f"{request.param}_image")


@pytest.fixture(params=containers.params("bwrap", "podman", "docker"))
def confining(request, tmp_path_factory):
    """An engine that keeps commands in, with its image."""
    if request.param == "bwrap":
        containers.wanted("bwrap")
    else:
        request.getfixturevalue(f"{request.param}_image")
    engine = engines(tmp_path_factory.mktemp("engine"))[request.param]
    return Confined(engine, engine.build_host("debian").image)


@pytest.fixture(params=containers.params("bwrap", "podman", "docker"))
def releasing(request, tmp_path):
    """A folder to release a hostile project from, by one engine."""
    name = request.param
    if name == "bwrap":
        containers.wanted("bwrap")
    else:
        request.getfixturevalue(f"{name}_image")
    return Factory.at(tmp_path / "factory"), name


@pytest.fixture(scope="session")
def whole_torch(request, tmp_path_factory):
    """The packages of an environment with torch 2.13, to which nothing is added; it may be that of an earlier run."""
    every = request.config.getoption("all")
    base = run_folder(tmp_path_factory) if every else request.config.cache.mkdir("environments")
    folder = base / f"torch-2.13-{sys.version_info[0]}.{sys.version_info[1]}.{sys.version_info[2]}"
    return next(made_once(folder, _install_torch).glob("lib/python*/site-packages"))


def _install_torch(folder):
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    # By uv, which links what it installed before. It is told what pip would do, whose settings it does not read.
    settings = pip_settings()
    first, *others = settings.indexes
    indexes = ["--default-index", first, *(word for index in others for word in ("--index", index))]
    indexes += [word for place in settings.find_links for word in ("--find-links", place)]
    install = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--quiet",
        "--system-certs",
        "--python",
        folder / "bin" / "python",
    ]
    subprocess.run([*install, *indexes, "torch==2.13.0", "numpy", "pytest", "setuptools"], check=True)


@pytest.fixture
def torch_python(whole_torch, tmp_path):
    """The Python of an environment of the test's own, where torch 2.13 is installed."""
    venv = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    next(venv.glob("lib/python*/site-packages")).joinpath("torch.pth").write_text(f"{whole_torch}\n")
    return venv / "bin" / "python"
