"""What is picked of a framework that is built for no CUDA: whatever torch is there stays, and is told of."""

import pytest
from machines import machine
from shop import NOW
from wheels import make_wheel, offer

from wheelsmith.frameworks import frameworks
from wheelsmith.index.entries.catalogue import catalogue_key, load_catalogue
from wheelsmith.index.pick.decide import Overrides, decide
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer
from wheelsmith.index.resolve.target import Choice
from wheelsmith.index.storage.folder import Folder

TAG = "py3-none-manylinux_2_28_x86_64"
VERSIONS = ("1+cpu.tvmffi0.1", "1+cu130.tvmffi0.1", "1+cu132.tvmffi0.1")


@pytest.fixture(scope="module")
def chooser(tmp_path_factory):
    """A kernel for tvm-ffi 0.1, for the CPU and two CUDAs."""
    folder = tmp_path_factory.mktemp("index")
    made = [make_wheel(folder / "made", "k", v, requires=("apache-tvm-ffi==0.1.*",), tag=TAG) for v in VERSIONS]
    Index(Folder(folder / "ix")).add([offer(path) for path in made], upload_time=NOW)
    key = catalogue_key("k")
    return Chooser(load_catalogue((folder / "ix" / key).read_bytes(), key))


ABSENT = "tvm-ffi is not installed in /env/bin/python; the command installs it with the wheel"
ANY_TORCH = "a wheel for tvm-ffi works with any torch: --torch 2.9 has no effect"
REPLACED = "this replaces tvm-ffi 0.2.3, as requested"
THERE = {"there": "0.1.9"}
# What there is and what is asked → the wheel, and what is noted.
PICKED: dict[str, tuple[dict[str, str], dict[str, object], str, tuple[str, ...]]] = {
    "nothing there": ({}, {}, "cpu", (ABSENT,)),
    "tvm-ffi": (THERE, {}, "cpu", ()),
    "a driver": ({**THERE, "driver": "13.5"}, {}, "cu132", ()),
    "a driver of another major": ({**THERE, "driver": "12.8"}, {}, "cpu", ()),
    "a torch for another CUDA": ({**THERE, "driver": "13.5", "torch": "2.11.0+cu130"}, {}, "cu130", ()),
    "a torch for no CUDA": ({**THERE, "driver": "13.5", "torch": "2.11.0+cpu"}, {}, "cpu", ()),
    "a CUDA that is asked for": (THERE, {"compute": "13.0"}, "cu130", ()),
    "a torch that is asked for": (THERE, {"torch": "2.9"}, "cpu", (ANY_TORCH,)),
    "with it, where it is there": (THERE, {"keep_torch": False}, "cpu", ()),
    "with it, where another minor is there": ({"there": "0.2.3"}, {"keep_torch": False}, "cpu", (REPLACED,)),
}


@pytest.mark.parametrize("name", PICKED)
def test_what_is_picked(name, chooser):
    given, asked, compute, notes = PICKED[name]
    found = decide(chooser, machine(**given), Overrides(**asked))
    assert isinstance(found.answer, Choice)
    assert (str(found.answer.wheel.version), found.notes) == (f"1+{compute}.tvmffi0.1", notes)
    for installer in Installer:
        text = found.commands(installer, "https://example.org/").text()
        assert frameworks()["tvm-ffi"].project in text or installer is Installer.REQUIREMENTS
        assert "torch" not in text.replace("pip fails if torch has another release", "")


def test_another_minor_stays_and_is_told(chooser):
    found = decide(chooser, machine(there="0.2.3"), Overrides())
    assert found.answer.reason == "tvm-ffi 0.2 is not served; there are wheels for tvm-ffi 0.1"
    assert [near.change for near in found.answer.nearest] == ["tvm-ffi 0.1"]


def test_another_python_than_cpython_is_told(chooser):
    assert decide(chooser, machine(python="pypy"), Overrides()).answer.code == "python"
