import shutil

import pytest
from command_line import run_command
from factory import Factory
from in_process_worker import InProcessWorker
from installers import Installers
from kernels import matrix, pure_kernel
from once import made_once, run_folder
from torches import world

from wheelsmith.worker import Worker


@pytest.fixture(scope="session")
def loopback(tmp_path_factory):
    """One published index, and the indexes that torch comes from."""
    with world(tmp_path_factory.mktemp("world")) as made:
        yield made


@pytest.fixture(scope="session")
def tools(tmp_path_factory):
    """Every installer."""
    return Installers(tmp_path_factory.mktemp("tools"))


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process, and give its exit code and what it printed."""

    def run(*argv):
        return run_command(monkeypatch, capsys, *map(str, argv))

    return run


@pytest.fixture
def in_process_worker(monkeypatch):
    """Read wheels in this process: hundreds of workers would take minutes to start, and other tests have them."""
    for name in ("__enter__", "__exit__", "call"):
        monkeypatch.setattr(Worker, name, getattr(InProcessWorker, name))


@pytest.fixture
def stored(tmp_path, tmp_path_factory):
    """A cache in ``tmp_path`` where the wheel of a kernel with nothing compiled lies: runs have nothing to build."""
    before = made_once(run_folder(tmp_path_factory) / "stored", _store)
    return shutil.copytree(before / "cache", tmp_path / "cache", symlinks=True)


def _store(folder):
    factory = Factory.at(folder)
    pure_kernel(folder / "k")
    matrix(folder, "k", torch="2.12, 2.13", cuda="cpu, 13.0")
    answer = factory.run("build-matrix", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
