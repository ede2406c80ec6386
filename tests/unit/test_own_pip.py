"""wheelsmith's own pip is all that makes environments: no Python that it builds for needs one."""

import json
import socket
import subprocess
import sys
import threading
import tomllib

import pytest
from factory import ROOT
from packaging.requirements import Requirement
from wheels import make_wheel

from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.base.sanitize import visible
from wheelsmith.toolchain import Toolchains, environment
from wheelsmith.toolchain.environment import (
    _check_sizes,
    check_programs,
    install_environment,
    lock_environment,
)
from wheelsmith.toolchain.pip import run_pip


@pytest.fixture
def offered(tmp_path, monkeypatch):
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "wheels"), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return tmp_path / "wheels"


def test_it_is_declared():
    """So it is there after ``uv tool install``, whose environments have nothing that nobody asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [Requirement(text) for text in project["dependencies"]]
    assert [need.name for need in needs if need.name == "pip" and not need.marker] == ["pip"]


def test_an_environment_is_made_for_a_python_that_is_not_there(tmp_path, offered):
    make_wheel(offered, "dep", "1", requires=("sub>=2",))
    make_wheel(offered, "sub", "2", tag="cp399-cp399-manylinux_2_17_x86_64")
    locked = lock_environment(("dep",), "3.99", "x86_64", tmp_path / "locks/it.json")
    assert [(wheel.name, wheel.version) for wheel in locked] == [("dep", "1"), ("sub", "2")]
    install_environment(locked, "3.99", "x86_64", tmp_path / "made")
    assert sorted(path.name for path in (tmp_path / "made").glob("*.py")) == ["dep.py", "sub.py"]
    assert json.loads(next((tmp_path / "locks").glob("*.json")).read_text())


def test_the_build_that_is_meant_is_taken_and_stays(tmp_path, offered):
    """pip by itself takes the version that sorts last, whatever its local part says."""
    for version in ("2.11.0", "2.11.0+cu126"):
        make_wheel(offered, "torch", version)

    def locked(*rather, folder="locks"):
        found = Toolchains(tmp_path / folder, print).lock(("torch==2.11.0",), "3.11", "x86_64", rather)
        return found[0].version

    assert locked() == "2.11.0+cu126"
    assert locked("torch==2.11.0+cpu", "torch===2.11.0") == "2.11.0"
    make_wheel(offered, "torch", "2.11.0+cpu")
    assert locked("torch==2.11.0+cpu", "torch===2.11.0") == "2.11.0"
    assert locked("torch==2.11.0+cpu", "torch===2.11.0", folder="others") == "2.11.0+cpu"


def test_what_fails_for_another_reason_is_asked_once(tmp_path, offered, monkeypatch):
    make_wheel(offered, "torch", "2.11.0+cpu")
    asked = []
    monkeypatch.setattr(environment, "run_pip", lambda *words, **more: asked.append(words) or run_pip(*words, **more))
    needs = ("torch==2.11.0", "absent")
    with pytest.raises(NoEnvironmentError, match="absent"):
        lock_environment(needs, "3.11", "x86_64", tmp_path / "lock.json", preferred=("torch==2.11.0+cpu",))
    assert len(asked) == 1


def test_a_wheel_that_would_fill_the_disk_is_not_unpacked(tmp_path, offered):
    make_wheel(offered, "honest", "1", requires=("bomb",))
    bomb = make_wheel(offered, "bomb", "1", files={"bomb.bin": bytes(300 << 20)})
    assert bomb.stat().st_size < 1 << 20
    locked = lock_environment(("honest",), "3.11", "x86_64", tmp_path / "locks/it.json")
    with pytest.raises(ToolchainError, match=r"bomb-1-py3-none-any.whl \(.* kB\) would unpack to 314.6 MB") as caught:
        install_environment(locked, "3.11", "x86_64", tmp_path / "made")
    assert "pin another version" in caught.value.remedy
    assert sorted(path.name for path in tmp_path.iterdir()) == ["locks", "wheels"]


@pytest.mark.parametrize(
    "files",
    [{f"{n}/{'d/' * 100}f": b"" for n in range(10)}, {f"f{n}": b"" for n in range(2000)}],
    ids=["folders", "empty files"],
)
def test_a_wheel_that_would_fill_the_disk_with_nothing_is_not_unpacked(tmp_path, files, monkeypatch):
    """Folders and empty files have no bytes, and each takes a block."""
    monkeypatch.setattr("wheelsmith.toolchain.environment._EXTRA_SIZE", 1 << 20)
    bomb = make_wheel(tmp_path, "bomb", "1", files=files)
    with pytest.raises(ToolchainError, match=r"bomb-1-py3-none-any.whl \(.*B\) would unpack to"):
        _check_sizes([bomb])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[console_scripts]\n{place} = os:getcwd\n", "names a program by a path: {place}"),
        ("[gui_scripts]\n../../evil.py = os:getcwd\n", "names a program by a path: ../../evil.py"),
    ],
    ids=["console", "gui"],
)
def test_a_program_with_a_path_for_a_name_is_not_written(text, why, tmp_path, offered):
    """pip 25 writes it there, outside of all that confines a build."""
    place = tmp_path / "evil"
    make_wheel(offered, "evil", "1", files={"evil-1.dist-info/entry_points.txt": text.format(place=place).encode()})
    locked = lock_environment(("evil",), "3.11", "x86_64", tmp_path / "locks/it.json")
    with pytest.raises(ToolchainError, match="entry_points") as caught:
        install_environment(locked, "3.11", "x86_64", tmp_path / "made")
    assert caught.value.message.endswith(why.format(place=visible(str(place)[:80])))
    assert not place.exists()


def test_programs_of_other_kinds_are_named_as_they_like(tmp_path):
    """Only of scripts does pip make files."""
    text = b"[console_scripts]\nrun = os:getcwd\n[some.plugins]\na/b = os:getcwd\n"
    check_programs(make_wheel(tmp_path, "honest", "1", files={"honest-1.dist-info/entry_points.txt": text}))


def test_where_somebody_took_it_away_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ToolchainError, match="pip is not installed in wheelsmith's environment") as caught:
        run_pip("config", "list", seconds=60)
    assert caught.value.remedy.startswith(f"uv pip install --python {tmp_path}/bare/bin/python pip")


def test_it_ends_when_the_run_is_cancelled():
    """Not only once an environment of gigabytes is there."""
    cancel = threading.Event()

    def asked(server):
        with server.accept()[0]:
            cancel.set()
            ended.wait()

    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=asked, args=(server,), daemon=True).start()
        index = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ToolchainError, match="pip was cancelled"):
            run_pip("download", "--no-deps", "--index-url", index, "p", seconds=600, cancel=cancel)
        ended.set()
