"""Container engines for tests: storage of their own, so that every image is made from nothing, and left nowhere."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import wants

ROOT = Path(__file__).parent.parent.parent
# What an ordinary user's podman stores belongs to users of a namespace of its own.
AS_OWNER = ("podman", "unshare") if os.getuid() else ()


def params(*names: str, quick: tuple[str, ...] = ("bwrap", "local")) -> list[object]:
    """Return engines as parameters of a test; all but the quick ones wait for a release."""
    why = "the quick tier leaves this engine out"
    return [name if name in quick else pytest.param(name, marks=pytest.mark.release(why)) for name in names]


def wanted(name: str) -> None:
    """Skip the test of an engine that is not here."""
    wants.program("dockerd" if name == "docker" else name)
    if name == "docker":
        wants.root("a daemon of the tests' own")
    if name == "podman" and AS_OWNER and subprocess.run([*AS_OWNER, "true"], capture_output=True).returncode:
        wants.absent("podman may not make user namespaces: it takes uidmap, and lines in /etc/subuid and /etc/subgid")


@contextmanager
def podman() -> Iterator[None]:
    """Yield podman empty storage, and a state that no other podman of this machine shares."""
    folder = Path(tempfile.mkdtemp(prefix="podman-"))
    graph = folder / "graph"
    # An ordinary user's podman takes no other word for graphroot than the first, and would use the user's own storage.
    roots = f'rootless_storage_path = "{graph}"\ngraphroot = "{graph}"\nrunroot = "{folder}/run"\n'
    settings = {
        "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "overlay"\n{roots}',
        "CONTAINERS_CONF": f'[engine]\ntmp_dir = "{folder}/tmp"\n',
    }
    before = {name: os.environ.get(name) for name in settings}
    for number, (name, text) in enumerate(settings.items()):
        (folder / f"{number}.conf").write_text(text)
        os.environ[name] = str(folder / f"{number}.conf")
    try:
        yield
    finally:
        # Not "system reset", which removes what is every podman's of this machine.
        subprocess.run(["podman", "rm", "--all", "--force", "--time", "0"], capture_output=True)
        # podman binds this folder onto itself and leaves it so.
        subprocess.run([*AS_OWNER, "umount", graph / "overlay"], capture_output=True)
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
        subprocess.run([*AS_OWNER, "rm", "-rf", folder], capture_output=True)


@contextmanager
def dockerd() -> Iterator[None]:
    """Start a docker daemon by hand, with nothing but images and containers: no bridge and no firewall rules."""
    folder = Path(tempfile.mkdtemp(prefix="docker-"))
    socket = f"unix://{folder}/docker.sock"
    options = ["--data-root", f"{folder}/data", "--exec-root", f"{folder}/exec", "--pidfile", f"{folder}/pid"]
    quiet = ["--bridge", "none", "--iptables=false", "--ip-masq=false"]
    with (folder / "log").open("w") as log:
        daemon = subprocess.Popen(["dockerd", *options, *quiet, "-H", socket], stdout=log, stderr=log)
    os.environ["DOCKER_HOST"] = socket
    try:
        _wait_for_docker(daemon, folder / "log")
        yield
    finally:
        daemon.terminate()
        daemon.wait()
        del os.environ["DOCKER_HOST"]
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_docker(daemon: subprocess.Popen, log: Path) -> None:
    for _ in range(150):
        if subprocess.run(["docker", "version"], capture_output=True).returncode == 0:
            return
        if daemon.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail(f"dockerd did not start: {log.read_text()[-500:]}")


def make_image(engine: str, name: str) -> None:
    """Build one of our images, as a user would."""
    command = [sys.executable, "-m", "wheelsmith", "image", "build", name, "--engine", engine]
    answer = subprocess.run(command, capture_output=True, text=True)
    if "docker-buildx" in answer.stderr:
        # This docker cannot build it; podman's image is the same image.
        copy = "podman save --format docker-archive localhost/wheelsmith/{0}:latest | docker load"
        answer = subprocess.run(copy.format(name), shell=True, capture_output=True, text=True)
    assert answer.returncode == 0, answer.stderr
    assert "Traceback" not in answer.stderr


def containers_left(engine: str) -> list[str]:
    """Return the containers that an engine knows, running or not."""
    return subprocess.run([engine, "ps", "--all", "--quiet"], capture_output=True, text=True).stdout.split()
