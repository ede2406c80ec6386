"""Variant wheels of a kernel that is really built."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from factory import gallery
from loopback import serving
from wheels import make_wheel

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.storage.folder import Folder

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.network,
    pytest.mark.release("quick tests make variants of smaller wheels"),
    pytest.mark.xdist_group("variant builds"),
]
LABEL = "cu130_80_90_90v_100v_110v_120v"
MACHINES = {("13.0", "8.6"): LABEL, ("13.2", "12.0"): LABEL, ("12.8", "9.0"): None}


@pytest.fixture(scope="module")
def factory(tmp_path_factory):
    factory = gallery(tmp_path_factory.mktemp("variants"), "variants")
    answer = factory.run("build-matrix", "--engine", "bwrap")
    assert answer.returncode == 0, answer.stderr
    return factory


def wheels(folder: Path) -> dict[str, Path]:
    return {path.name: path for path in folder.rglob("*.whl")}


def test_a_built_wheel_and_its_variant_tell_the_truth(factory):
    (plain,) = wheels(factory.folder / "dist" / "wheels")
    offered = wheels(factory.folder / "dist" / "index")
    variant = plain.replace("1+cu130.torch2.13", "1+torch2.13").replace(".whl", f"-{LABEL}.whl")
    assert offered.keys() == {plain, variant}
    answer = factory.run("check", "--verbose", *(str(path) for path in offered.values()))
    assert answer.returncode == 0, answer.stdout
    assert "ok    variant: " in answer.stdout
    assert "ok    toolkit: " in answer.stdout.partition(variant)[2]
    assert verify(Folder(factory.folder / "dist" / "index")) == ()


def test_another_run_changes_nothing(factory):
    index = factory.folder / "dist" / "index"
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in index.rglob("*.*") if path.is_file()}
    assert factory.run("build-matrix", "--engine", "bwrap").returncode == 0
    assert {
        path: (path.read_bytes(), path.stat().st_mtime_ns) for path in index.rglob("*.*") if path.is_file()
    } == before


@pytest.mark.parametrize("machine", MACHINES)
def test_uv_installs_what_fits(machine, factory, tmp_path):
    make_wheel(tmp_path / "torches", "torch", "2.13.0")
    driver, capability = machine
    force = "NV_VARIANT_PROVIDER_FORCE_"
    forced = {f"{force}CUDA_DRIVER_VERSION": driver, f"{force}SM_ARCH": capability}
    kept = {key: value for key, value in os.environ.items() if not key.startswith("UV_")}
    uv = [Path(sys.executable).with_name("uv"), "pip", "install", "--no-config", "--preview-features", "wheel-variants"]
    uv += ["--target", tmp_path / "site", "--cache-dir", tmp_path / "cache", "--find-links", tmp_path / "torches"]
    with serving(factory.folder / "dist" / "index") as url:
        command = [*uv, "--default-index", f"{url}/simple/", "img2gray", "torch==2.13.0"]
        answer = subprocess.run(command, env=kept | forced, capture_output=True, text=True, timeout=120)
    assert answer.returncode == 0, answer.stderr
    (info,) = (tmp_path / "site").glob("img2gray-*.dist-info")
    found = info / "variant.json"
    label = next(iter(json.loads(found.read_bytes())["variants"])) if found.exists() else None
    assert (label, info.name.split("-")[1]) == (
        MACHINES[machine],
        "1+torch2.13.dist" if MACHINES[machine] else "1+cu130.torch2.13.dist",
    )
