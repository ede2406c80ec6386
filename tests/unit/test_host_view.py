"""What bubblewrap is told to show of the machine."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import wants

from wheelsmith.engine import Command, Limits, Mount
from wheelsmith.engine.bwrap import Bubblewrap, InstalledPython, host_mounts

ASK = """
from wheelsmith.engine import this_machine, with_installed_toolset
machine = this_machine()
print(with_installed_toolset(machine, machine.machine).toolsets)
"""


@pytest.fixture
def prefix(tmp_path):
    """A Python as people install one, among other things of theirs."""
    folder = tmp_path / "it's [a] place"
    for name in (
        *("bin/python3.11", "bin/nvcc", "bin/pip", "include/python3.11/Python.h", "include/cuda.h"),
        *("lib/python3.11/os.py", "lib/python3.11/sitecustomize.py", "lib/python3.11/site-packages/evil.pth"),
        *("lib/libpython3.11.so.1.0", "lib/libcudart.so.13", "lib/python3.12/os.py", "etc/secret"),
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return folder


def shown(words):
    """Return what is bound, and what lies over it."""
    by_option = {"--ro-bind": [], "--tmpfs": [], "--remount-ro": [], "--symlink": []}
    for place, word in enumerate(words):
        if word in by_option:
            by_option[word].append(words[place + 1 : place + (2 if word in {"--tmpfs", "--remount-ro"} else 3)])
    return by_option


def below(words, prefix):
    found = shown(words)
    bound = [to for _, to in found["--ro-bind"]]
    return (
        sorted(Path(to).relative_to(prefix).as_posix() for to in bound if to.startswith(str(prefix))),
        [Path(to).relative_to(prefix).as_posix() for (to,) in found["--tmpfs"] if to.startswith(str(prefix))],
    )


def test_of_another_python_only_what_is_its_own(prefix):
    words = host_mounts((InstalledPython(str(prefix), "3.11"),)).mounts
    bound, hidden = below(words, prefix)
    assert bound == [
        *("bin/python3.11", "include/python3.11", "lib/libpython3.11.so.1.0", "lib/python3.11"),
        "lib/python3.11/sitecustomize.py",
    ]
    assert hidden == ["lib/python3.11/site-packages"]
    assert ("/dev/null", str(prefix / "lib/python3.11/sitecustomize.py")) in shown(words)["--ro-bind"]
    assert ("python3.11", f"{prefix}/bin/python3") in shown(words)["--symlink"]


def test_of_conda_its_libraries_too(prefix):
    (prefix / "conda-meta").mkdir()
    bound, hidden = below(host_mounts((InstalledPython(str(prefix), "3.11"),)).mounts, prefix)
    assert "lib" in bound
    assert hidden == ["lib/python3.11/site-packages"]
    assert "etc" not in bound


def test_what_hides_comes_before_what_is_shown_there_and_is_shut_last():
    shown = host_mounts((InstalledPython("/usr/local", "3.99"),))
    words, sealing = shown.mounts, shown.sealing
    places = [place for place, word in enumerate(words) if word in {"--tmpfs", "--ro-bind", "--symlink", "--proc"}]
    assert places
    assert "--remount-ro" not in words
    hidden = [words[place + 1] for place, word in enumerate(words) if word == "--tmpfs"]
    assert "/usr/local" in hidden
    assert set(sealing[::2]) == {"--remount-ro"}
    assert {*hidden, "/proc"} <= set(sealing[1::2])
    assert words.index("/usr/local") < words.index("/usr/local/bin/python3")


def test_a_command_may_have_a_folder_below_a_hidden_one(tmp_path):
    """Debian's own Python has packages in /usr/local, which the sandbox hides."""
    wants.program("bwrap")
    (tmp_path / "x").touch()
    place = "/usr/local/lib/python3.99/dist-packages"
    command = Command(
        name="below",
        argv=("ls", place),
        mounts=(Mount(source=tmp_path, target=place),),
        env={},
        workdir="/",
        limits=Limits(),
    )
    lines = []
    assert Bubblewrap().run(command, lines.append, threading.Event()).ok, lines
    assert lines == ["x"]


def test_compilers_are_those_that_the_sandbox_finds(tmp_path):
    """A g++ that is first on the user's PATH is not the one that builds, and must not stand in the plan."""
    wants.program("g++")
    other = tmp_path / "g++"
    other.write_text("#!/bin/sh\necho not a compiler\n")
    other.chmod(0o755)
    answers = {
        subprocess.run(
            [sys.executable, "-c", ASK], env={**os.environ, "PATH": path}, capture_output=True, text=True, check=True
        ).stdout
        for path in (f"{tmp_path}:{os.environ['PATH']}", os.environ["PATH"], "/usr/bin:/bin")
    }
    assert len(answers) == 1
