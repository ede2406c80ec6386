"""What is picked beside JAX and its plugins, and beside TensorFlow and its builds for CPUs."""

from __future__ import annotations

import pytest
from machines import machine
from shop import NOW
from wheels import make_wheel, offer

from wheelsmith.index.entries.catalogue import catalogue_key, load_catalogue
from wheelsmith.index.pick.decide import Overrides, decide
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer
from wheelsmith.index.storage.folder import Folder

TAG = "py3-none-manylinux_2_28_x86_64"
JAX = ("jax>=0.7", "jaxlib>=0.7")
WHEELS = {
    "1+cpu.jaxstable": JAX,
    "1+cu128.jaxstable": (*JAX, "jax-cuda12-plugin>=0.7"),
    "1+cu130.jaxstable": (*JAX, "jax-cuda13-plugin>=0.7.2"),
}


def make_chooser(folder, wheels):
    made = [make_wheel(folder / "made", "k", version, requires=needs, tag=TAG) for version, needs in wheels.items()]
    Index(Folder(folder / "ix")).add([offer(path) for path in made], upload_time=NOW)
    key = catalogue_key("k")
    return Chooser(load_catalogue((folder / "ix" / key).read_bytes(), key))


def with_jax(version, *plugins):
    packages = {"jaxlib": version} | dict.fromkeys(plugins, version)
    return {"frameworks": {"jax": version}, "packages": packages, "driver": "13.0"}


@pytest.mark.parametrize(
    ("there", "version"),
    [
        (with_jax("0.10.2"), "1+cpu.jaxstable"),
        (with_jax("0.10.2", "jax-cuda12-plugin"), "1+cu128.jaxstable"),
        (with_jax("0.10.2", "jax-cuda13-plugin"), "1+cu130.jaxstable"),
        (with_jax("0.10.2", "jax-cuda13-plugin") | {"torch": "2.13.0+cpu"}, "1+cu130.jaxstable"),
        ({"driver": "13.0"}, "1+cu130.jaxstable"),
        ({}, "1+cpu.jaxstable"),
    ],
)
def test_the_plugin_of_jax_decides_on_cuda(tmp_path, there, version):
    found = decide(make_chooser(tmp_path, WHEELS), machine(**there), Overrides())
    assert str(found.answer.wheel.version) == version


def test_an_older_jaxlib_is_refused(tmp_path):
    found = decide(make_chooser(tmp_path, WHEELS), machine(**with_jax("0.6.2")), Overrides())
    assert found.answer.reason == "jax 0.6 is not served; there are wheels for jax 0.7, 0.8, 0.9, 0.10, 0.11 and 0.12"


TENSORFLOW = {f"1+cpu.tensorflow{minor}": (f"tensorflow=={minor}.*",) for minor in ("2.20", "2.21")}
FOR_CPUS = {"frameworks": {"tensorflow": "2.20.0"}, "packages": {"tensorflow-cpu": "2.20.0"}}
WHOLE = {"frameworks": {"tensorflow": "2.20.0"}, "packages": {"tensorflow": "2.20.0"}}


@pytest.mark.parametrize(("there", "alone"), [(FOR_CPUS, True), (WHOLE, False)])
@pytest.mark.parametrize("installer", [Installer.PIP, Installer.UV, Installer.DOCKERFILE])
def test_a_build_for_cpus_is_not_replaced(tmp_path, there, alone, installer):
    found = decide(make_chooser(tmp_path, TENSORFLOW), machine(**there), Overrides())
    assert str(found.answer.wheel.version) == "1+cpu.tensorflow2.20"
    words = [word for line in found.commands(installer, "https://example.org/").lines for word in line]
    assert ("--no-deps" in words, "tensorflow==2.20.*" in words) == (alone, not alone)


def test_a_file_for_an_installer_says_what_it_would_add(tmp_path):
    found = decide(make_chooser(tmp_path, TENSORFLOW), machine(**FOR_CPUS), Overrides())
    note = found.commands(Installer.REQUIREMENTS, "https://example.org/").note
    assert note == "It installs the framework beside tensorflow-cpu, which has the same files."


def test_another_minor_of_tensorflow_is_refused(tmp_path):
    there = {"frameworks": {"tensorflow": "2.19.1"}, "packages": {"tensorflow": "2.19.1"}}
    found = decide(make_chooser(tmp_path, TENSORFLOW), machine(**there), Overrides())
    assert found.answer.reason == "tensorflow 2.19 is not served; there are wheels for tensorflow 2.20 and 2.21"
