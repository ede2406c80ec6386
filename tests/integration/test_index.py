"""Real installers against a real index."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from loopback import serving
from wheels import make_wheel, offer

from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.model import Cell

pytestmark = pytest.mark.xdist_group("index")

NOW = "2026-01-02T03:04:05Z"
JSON = "application/vnd.pypi.simple.v1+json"


def indexed(path, torch, cuda):
    return offer(path, Cell(release=torch, toolkit=cuda, arch="x86_64"))


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    """A kernel for two torch releases and two compute platforms, and stand-ins for torch."""
    root, made = tmp_path_factory.mktemp("index"), tmp_path_factory.mktemp("wheels")
    wheels = []
    for torch in ("2.9", "2.10"):
        for cuda, compute in ((None, "cpu"), ("13.0", "cu130")):
            version = f"1+{compute}.torch{torch}"
            path = make_wheel(made, "kernel", version, requires=(f"torch=={torch}.*",))
            wheels.append(indexed(path, torch, cuda))
        make_wheel(root / "torches", "torch", f"{torch}.0")
    Index(Folder(root / "index")).add(wheels, upload_time=NOW)
    with serving(root / "index") as url:
        yield root, url


def pip(*argv):
    env = {k: v for k, v in os.environ.items() if not k.startswith("PIP_")} | {"PIP_CONFIG_FILE": os.devnull}
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *argv]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("root", ["cpu", "cu130"])
@pytest.mark.parametrize("torch", ["2.9", "2.10"])
def test_uv_takes_the_wheel_for_its_torch(root, torch, index, tmp_path):
    folder, url = index
    wanted = tmp_path / "in.txt"
    wanted.write_text(f"kernel\ntorch=={torch}.0\n")
    uv = [
        Path(sys.executable).with_name("uv"),
        "pip",
        "compile",
        "--quiet",
        "--no-config",
        "--no-header",
    ]
    answer = subprocess.run(
        [*uv, "--default-index", f"{url}/{root}/", "--find-links", folder / "torches", "--cache-dir", tmp_path, wanted],
        capture_output=True,
        text=True,
        timeout=120,
        env={k: v for k, v in os.environ.items() if not k.startswith("UV_")},
    )
    assert answer.returncode == 0, answer.stderr
    assert f"kernel==1+{root}.torch{torch}" in answer.stdout


def test_pip_finds_the_oldest_minors_wheel_where_newer_ones_look(tmp_path):
    """One wheel a torch, made with CUDA 13.0, for the cells of 13.0 and 13.2; and one that 13.2 had to make itself."""
    wheels = []
    for torch, made, serves in (("2.12", "130", ("13.0", "13.2")), ("2.13", "132", ("13.2",))):
        path = make_wheel(tmp_path, "kernel", f"1+cu{made}.torch{torch}", requires=(f"torch=={torch}.*",))
        cells = tuple(Cell(release=torch, toolkit=cuda, arch="x86_64") for cuda in serves)
        wheels.append(offer(path, *cells))
        make_wheel(tmp_path / "torches", "torch", f"{torch}.0")
    Index(Folder(tmp_path / "index")).add(wheels, upload_time=NOW)
    with serving(tmp_path / "index") as url:
        for torch, made in (("2.12", "130"), ("2.13", "132")):
            answer = pip(
                *("install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"),
                *("--index-url", f"{url}/cu132/", "--find-links", str(tmp_path / "torches")),
                *("kernel", f"torch=={torch}.0"),
            )
            assert answer.returncode == 0, answer.stderr
            chosen = {i["metadata"]["name"]: i["metadata"]["version"] for i in json.loads(answer.stdout)["install"]}
            assert chosen == {"kernel": f"1+cu{made}.torch{torch}", "torch": f"{torch}.0"}
        assert "1+cu130.torch2.12" in pip("index", "versions", "-i", f"{url}/cu130/", "kernel").stdout


def test_pip_takes_an_exact_pin_from_the_root_for_all(index, tmp_path):
    _, url = index
    answer = pip("download", "--no-deps", "-d", str(tmp_path), "-i", f"{url}/simple/", "kernel==1+cu130.torch2.9")
    assert answer.returncode == 0, answer.stderr
    assert [p.name for p in tmp_path.iterdir()] == ["kernel-1+cu130.torch2.9-py3-none-any.whl"]
    versions = pip("index", "versions", "-i", f"{url}/cu130/", "kernel")
    assert "1+cu130.torch2.10, 1+cu130.torch2.9" in versions.stdout
