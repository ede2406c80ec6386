"""Container engines for tests: storage of their own, so that every image is made from nothing, and left nowhere."""

from __future__ import annotations

import hashlib
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

from wheelsmith.engine.containers import image_reference

ROOT = Path(__file__).parent.parent.parent


def params(*names: str, quick: tuple[str, ...] = ("bwrap", "local")) -> list[object]:
    """Return engines as parameters of a test; all but the quick ones wait for a release."""
    why = "the same test runs on another engine in the quick tier"
    return [name if name in quick else pytest.param(name, marks=pytest.mark.release(why)) for name in names]


def wanted(name: str) -> None:
    """Skip the test of an engine that is not here."""
    wants.program("dockerd" if name == "docker" else name)
    if name != "bwrap":
        wants.root(f"a {name} with storage of its own")


@contextmanager
def podman() -> Iterator[None]:
    """Give podman empty storage, and a state that no other podman of this machine shares."""
    folder = Path(tempfile.mkdtemp(prefix="podman-"))
    roots = f'graphroot = "{folder}/graph"\nrunroot = "{folder}/run"\n'
    settings = {
        "CONTAINERS_STORAGE_CONF": f'[storage]\ndriver = "overlay"\n{roots}',
        "CONTAINERS_CONF": f'[engine]\ntmp_dir = "{folder}/tmp"\n',
    }
    for number, (name, text) in enumerate(settings.items()):
        (folder / f"{number}.conf").write_text(text)
        os.environ[name] = str(folder / f"{number}.conf")
    try:
        yield
    finally:
        # Not "system reset", which removes what is every podman's of this machine.
        subprocess.run(["podman", "rm", "--all", "--force", "--time", "0"], capture_output=True)
        # podman binds this folder onto itself and leaves it so.
        subprocess.run(["umount", folder / "graph" / "overlay"], capture_output=True)
        for name in settings:
            del os.environ[name]
        shutil.rmtree(folder, ignore_errors=True)


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


def make_or_load_image(name: str, kept: Path) -> None:
    """Give podman one of our images: that of an earlier run where the recipes are as they were then.

    :param kept: a folder for this.
    """
    made_of = [*sorted((ROOT / "docker").rglob("*")), ROOT / "wheelsmith" / "images.py"]
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in made_of if path.is_file())).hexdigest()
    archive = kept / f"{name}-{digest[:16]}.tar"
    if archive.is_file():
        subprocess.run(["podman", "load", "--quiet", "--input", archive], check=True, capture_output=True)
        return
    make_image("podman", name)
    for old in kept.glob(f"{name}-*"):
        old.unlink()
    whole = archive.with_suffix(".part")
    save = ["podman", "save", "--quiet", "--format", "docker-archive", "--output", whole, image_reference(name)]
    subprocess.run(save, check=True, capture_output=True)
    whole.rename(archive)


def containers_left(engine: str) -> list[str]:
    """Give the containers that an engine knows, running or not."""
    return subprocess.run([engine, "ps", "--all", "--quiet"], capture_output=True, text=True).stdout.split()
