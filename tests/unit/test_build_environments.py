"""Build environments are resolved and installed by wheelsmith's own uv: no Python that it builds for needs anything."""

import json
import socket
import subprocess
import sys
import threading
import time
import tomllib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from factory import ROOT
from packaging.requirements import Requirement
from wheels import make_wheel

from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.model import LockedWheel, Notice, Preparing
from wheelsmith.plan.lock import EnvironmentRequest
from wheelsmith.toolchain import Toolchains, uv
from wheelsmith.toolchain.environment import install_wheel, link_wheels, locate_wheels
from wheelsmith.toolchain.pip import PipSettings, pip_settings, run_pip
from wheelsmith.toolchain.resolve import FoundWheel, find_wheels
from wheelsmith.toolchain.uv import Uv


@pytest.fixture
def offered(tmp_path, monkeypatch):
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "wheels"), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    return tmp_path / "wheels"


def uv_for(folder, python="3.11", cancel=None):
    return Uv(
        settings=pip_settings(), python=python, arch="x86_64", cache=folder / "uv", cancel=cancel or threading.Event()
    )


def lock(folder, *requirements, python="3.11", rather=()):
    return Toolchains(folder, print).lock(requirements, python, "x86_64", rather)


def versions(wheels):
    return {wheel.name: wheel.version for wheel in wheels}


@pytest.mark.parametrize("name", ["pip", "uv"])
def test_it_is_declared(name):
    """So it is there after ``uv tool install``, whose environments have nothing that nobody asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needs = [Requirement(text) for text in project["dependencies"]]
    assert [need.name for need in needs if need.name == name and not need.marker] == [name]


def test_an_environment_is_made_for_a_python_that_is_not_there(tmp_path, offered):
    make_wheel(offered, "dep", "1", requires=("sub>=2",))
    make_wheel(offered, "sub", "2", tag="cp399-cp399-manylinux_2_17_x86_64")
    locked = lock(tmp_path, "dep", python="3.99")
    assert versions(locked) == {"dep": "1", "sub": "2"}
    made = Toolchains(tmp_path, print).environment(locked, "3.99", "x86_64")
    assert sorted(path.name for path in made.glob("*.py")) == ["dep.py", "sub.py"]
    assert json.loads(next((tmp_path / "locks").glob("*.json")).read_text())


def test_the_build_that_is_meant_is_taken_and_stays(tmp_path, offered):
    """uv by itself takes the version that sorts last, as pip does, whatever its local part says."""
    for version in ("2.11.0", "2.11.0+cu126"):
        make_wheel(offered, "torch", version)

    def locked(*rather, folder="one"):
        return lock(tmp_path / folder, "torch==2.11.0", rather=rather)[0].version

    assert locked() == "2.11.0+cu126"
    assert locked("torch==2.11.0+cpu", "torch===2.11.0") == "2.11.0"
    make_wheel(offered, "torch", "2.11.0+cpu")
    assert locked("torch==2.11.0+cpu", "torch===2.11.0") == "2.11.0"
    assert locked("torch==2.11.0+cpu", "torch===2.11.0", folder="other") == "2.11.0+cpu"


def test_what_fails_for_another_reason_is_asked_once(tmp_path, offered, monkeypatch):
    make_wheel(offered, "torch", "2.11.0+cpu")
    asked, ask = [], Uv.compile
    monkeypatch.setattr(Uv, "compile", lambda *words: asked.append(words) or ask(*words))
    with pytest.raises(NoEnvironmentError, match="absent"):
        lock(tmp_path, "torch==2.11.0", "absent", rather=("torch==2.11.0+cpu",))
    assert len(asked) == 1


@pytest.mark.parametrize(
    ("offers", "best"),
    [
        (("py3-none-any", "cp311-abi3-manylinux_2_28_x86_64", "cp311-cp311-manylinux_2_17_x86_64"), 2),
        (("cp311-cp311-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_28_x86_64"), 1),
        (("cp311-cp311-manylinux1_x86_64", "cp311-cp311-manylinux_2_34_x86_64", "cp311-cp311-musllinux_1_1_x86_64"), 0),
        (("py3-none-any", "1-py3-none-any", "10-py3-none-any", "2-py3-none-any"), 2),
    ],
    ids=["python", "platform", "legacy", "build number"],
)
def test_of_a_releases_wheels_the_one_is_taken_that_pip_takes(offers, best, tmp_path, offered):
    paths = [make_wheel(offered, "dep", "1", tag=tag, files={"dep_mark.py": tag.encode()}) for tag in offers]
    (locked,) = lock(tmp_path, "dep")
    report = run_pip(
        *("install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-", "--only-binary", ":all:"),
        *("--target", str(tmp_path), "--python-version", "3.11", "--platform", "manylinux_2_28_x86_64"),
        *("--platform", "manylinux_2_17_x86_64", "--platform", "manylinux2014_x86_64", "dep"),
        seconds=60,
    )
    (item,) = json.loads(report.stdout)["install"]
    assert item["download_info"]["archive_info"]["hashes"]["sha256"] == locked.sha256
    folder = Toolchains(tmp_path, print).environment((locked,), "3.11", "x86_64")
    assert (folder / "dep_mark.py").read_text() == offers[best], paths


def test_pre_releases_are_taken_when_they_are_named_or_there_is_nothing_else(tmp_path, offered):
    for version in ("1.0", "2.0rc1", "3.0rc1"):
        make_wheel(offered, "pre", version)
    make_wheel(offered, "only", "1.0b1")
    make_wheel(offered, "wants", "1", requires=("pre>=2.0rc1", "only"))
    assert versions(lock(tmp_path, "pre", "only")) == {"pre": "1.0", "only": "1.0b1"}
    assert versions(lock(tmp_path, "wants")) == {"pre": "3.0rc1", "only": "1.0b1", "wants": "1"}


def test_markers_are_of_the_python_that_is_built_for(tmp_path, offered):
    for name in ("old", "new"):
        make_wheel(offered, name, "1")
    needs = ("old; python_version < '3.99'", "new; python_version >= '3.99'")
    assert versions(lock(tmp_path, *needs, python="3.99")) == {"new": "1"}


def test_a_wheel_without_a_known_c_library_does_not_fit(tmp_path, offered):
    make_wheel(offered, "mine", "1", tag="cp311-cp311-linux_x86_64")
    with pytest.raises(NoEnvironmentError, match="mine 1 has no wheel for manylinux_2_28 or older"):
        lock(tmp_path, "mine")


def test_a_conflict_is_told_with_its_whole_cause(tmp_path, offered, monkeypatch):
    make_wheel(offered, "torch", "2.15.0", requires=("sub<2",))
    make_wheel(offered, "sub", "2")
    with pytest.raises(NoEnvironmentError) as caught:
        lock(tmp_path, "torch==2.15.0", "sub>=2")
    assert "depend on sub<2 and you require torch==2.15.0, we can conclude" in caught.value.message
    assert "And because you require sub>=2, we can conclude" in caught.value.message
    constraints = tmp_path / "constraints.txt"
    constraints.write_text("torch<=2.14.1\n")
    monkeypatch.setenv("PIP_CONSTRAINT", str(constraints))
    with pytest.raises(NoEnvironmentError) as caught:
        lock(tmp_path, "torch==2.15.0")
    assert "you require torch==2.15.0 and torch<=2.14.1" in caught.value.message
    assert caught.value.message.endswith(f"; pip is configured with constraints: {constraints}")


@pytest.mark.parametrize("direct", [True, False])
def test_an_address_in_the_place_of_a_version_is_refused(direct, tmp_path, offered):
    address = make_wheel(tmp_path, "plain", "1").as_uri()
    make_wheel(offered, "needy", "1", requires=(f"plain @ {address}",))
    with pytest.raises(NoEnvironmentError, match=r"plain (is required )?at a URL, not from an index"):
        lock(tmp_path, f"plain @ {address}" if direct else "needy")


def test_several_are_resolved_at_the_same_time_and_each_once(tmp_path, offered, monkeypatch):
    make_wheel(offered, "dep", "1")
    asked, told, ask, together = [], [], Uv.compile, threading.Barrier(3, timeout=60)
    monkeypatch.setattr(Uv, "compile", lambda *words: (together.wait(), asked.append(words), ask(*words))[-1])
    names = ("dep", "absent", "dep", "dep>=1")
    requests = [EnvironmentRequest(requirements=(name,), rather=(), python="3.11", arch="x86_64") for name in names]
    one, none, again, other = Toolchains(tmp_path, told.append).lock_all(requests)
    assert (versions(one), one == again == other, len(asked)) == ({"dep": "1"}, True, 3)
    assert isinstance(none, NoEnvironmentError)
    assert [(event.what, event.done) for event in told if isinstance(event, Preparing)] == [
        ("resolving 3 build environments", False),
        ("resolving 3 build environments", True),
    ]


def test_a_wheel_that_would_fill_the_disk_is_not_kept(tmp_path, offered):
    make_wheel(offered, "honest", "1", requires=("bomb",))
    bomb = make_wheel(offered, "bomb", "1", files={"bomb.bin": bytes(300 << 20)})
    assert bomb.stat().st_size < 1 << 20
    locked = lock(tmp_path, "honest")
    with pytest.raises(ToolchainError, match=r"bomb 1 \(.* kB\) unpacks to more than 27\d\.\d MB") as caught:
        Toolchains(tmp_path, print).environment(locked, "3.11", "x86_64")
    assert "pin another version" in caught.value.remedy
    left = {path.name for path in (tmp_path / "prefix").iterdir() if not path.name.endswith((".lock", ".proof"))}
    assert {name.rpartition("-")[0] for name in left} == {"wheel-honest"}


@pytest.mark.parametrize(
    "files",
    [{f"{n}/{'d/' * 100}f": b"" for n in range(10)}, {f"f{n}": b"" for n in range(2000)}],
    ids=["folders", "empty files"],
)
def test_a_wheel_that_would_fill_the_disk_with_nothing_is_not_kept(tmp_path, offered, files, monkeypatch):
    """Folders and empty files have no bytes, and each takes a block."""
    monkeypatch.setattr("wheelsmith.toolchain.environment._EXTRA_SIZE", 1 << 20)
    make_wheel(offered, "bomb", "1", files=files)
    with pytest.raises(ToolchainError, match=r"bomb 1 \(.*B\) unpacks to more than"):
        Toolchains(tmp_path, print).environment(lock(tmp_path, "bomb"), "3.11", "x86_64")


@pytest.mark.parametrize("name", ["{place}", "../../../evil", "a/../../../evil"])
def test_a_program_with_a_path_for_a_name_is_not_written(name, tmp_path, offered):
    """pip 25 writes it there, outside of all that confines a build."""
    place = tmp_path / "evil"
    text = f"[console_scripts]\n{name.format(place=place)} = os:getcwd\n"
    make_wheel(offered, "evil", "1", files={"evil-1.dist-info/entry_points.txt": text.encode()})
    with pytest.raises(ToolchainError, match="Script path must resolve to a file within the scripts directory"):
        Toolchains(tmp_path, print).environment(lock(tmp_path, "evil"), "3.11", "x86_64")
    assert [path for path in tmp_path.rglob("evil") if path.is_file()] == []


@pytest.mark.parametrize("name", ["../evil.py", "/evil.py", "a/../../evil.py", "evil-1.data/data/../../../evil.py"])
def test_a_file_outside_of_its_folder_is_not_written(name, tmp_path, offered):
    make_wheel(offered, "evil", "1", files={name.replace("evil.py", "escaped"): b""})
    made = Toolchains(tmp_path, print).environment(lock(tmp_path, "evil"), "3.11", "x86_64")
    assert (made / "evil.py").is_file()
    assert list(tmp_path.rglob("escaped")) == []
    assert not Path("/escaped").exists()


def test_another_file_than_was_resolved_is_refused(tmp_path, offered):
    make_wheel(offered, "dep", "1")
    locked = lock(tmp_path, "dep")
    (found,) = find_wheels(locked, uv_for(tmp_path))
    make_wheel(offered, "dep", "1", files={"more.py": b""})
    with pytest.raises(NoEnvironmentError, match="dep==1 was replaced on the index: its sha256 differs"):
        find_wheels(locked, uv_for(tmp_path))
    (tmp_path / "folder").mkdir()
    with pytest.raises(ToolchainError, match="Hash mismatch"):
        install_wheel(found, uv_for(tmp_path), tmp_path / "folder")
    assert not (tmp_path / "folder" / "dep.py").exists()


SCRIPTS = {
    "own-1.data/scripts/written": b"#!python\nprint()\n",
    "own-1.data/scripts/shell": b"#!/bin/sh\n",
    "own-1.data/scripts/binary": b"\x7fELF\xff",
    "own-1.dist-info/entry_points.txt": b"[console_scripts]\nmade = os:getcwd\n",
    "tests/__init__.py": b"own",
}


def test_environments_share_what_their_wheels_contain_but_not_the_interpreter(tmp_path, offered):
    make_wheel(offered, "own", "1", files=SCRIPTS)
    make_wheel(offered, "zoo", "1", files={"tests/__init__.py": b"zoo"})
    toolchains, locked = Toolchains(tmp_path, print), lock(tmp_path, "own", "zoo")
    made = [toolchains.environment(locked, python, "x86_64") for python in ("3.11", "3.12")]
    (whole,) = (path for path in (tmp_path / "prefix").glob("wheel-own-*"))
    for python, folder in zip(("3.11", "3.12"), made, strict=True):
        assert (folder / "own.py").samefile(whole / "own.py")
        assert (folder / "bin/binary").samefile(whole / "bin/binary")
        for script in ("written", "made"):
            assert (folder / "bin" / script).read_text().startswith(f"#!/usr/bin/env python{python}\n")
            assert (folder / "bin" / script).stat().st_mode & 0o111
        assert (folder / "bin/shell").read_text() == "#!/bin/sh\n"
        assert (folder / "tests/__init__.py").read_text() == "own"
        assert not list(folder.rglob("INSTALLER")), "it names times and addresses"
        assert not (folder / ".lock").exists()
    (zoo,) = (path for path in (tmp_path / "prefix").glob("wheel-zoo-*"))
    assert (zoo / "tests/__init__.py").read_text() == "zoo"


def test_a_long_path_of_the_interpreter_is_replaced_too(tmp_path):
    script = tmp_path / "wheel/bin/cmake"
    script.parent.mkdir(parents=True)
    script.write_text("#!/bin/sh\n'''exec' \"/a long place/bin/python3\" \"$0\" \"$@\"\n' '''\nimport cmake\n")
    link_wheels([tmp_path / "wheel"], tmp_path / "made", "3.12")
    assert (tmp_path / "made/bin/cmake").read_text() == "#!/usr/bin/env python3.12\nimport cmake\n"


def test_what_a_build_wrote_into_an_environment_is_in_no_other(tmp_path, offered):
    """Under engine local nothing is mounted read-only, and root may write everywhere."""
    make_wheel(offered, "dep", "1")
    make_wheel(offered, "sub", "1")
    dep, both = lock(tmp_path, "dep"), lock(tmp_path, "dep", "sub")
    first = Toolchains(tmp_path, print).environment(dep, "3.11", "x86_64")
    (first / "dep.py").chmod(0o644)
    (first / "dep.py").write_text("VALUE = 'e'")
    told = []
    other = Toolchains(tmp_path, told.append).environment(both, "3.11", "x86_64")
    assert (other / "dep.py").read_text() == "VERSION = '1'\n"
    assert [event.text.partition(" has changed")[0][:10] for event in told if isinstance(event, Notice)] == [
        "wheel-dep-"
    ]


def test_where_somebody_took_it_away_it_is_said_how_to_get_it(tmp_path, monkeypatch):
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "bare" / "bin" / "python"))
    with pytest.raises(ToolchainError, match="pip is not installed in wheelsmith's environment") as caught:
        run_pip("config", "list", seconds=60)
    assert caught.value.remedy.startswith(f"uv pip install --python {tmp_path}/bare/bin/python pip")
    monkeypatch.setattr("uv.find_uv_bin", missing)
    with pytest.raises(ToolchainError, match="uv is not installed in wheelsmith's environment") as caught:
        find_wheels([], Uv(settings=SETTINGS, python="3.11", arch="x", cache=tmp_path, cancel=threading.Event()))
    assert caught.value.remedy.startswith(f"{tmp_path}/bare/bin/python -m pip install")


def missing():
    raise FileNotFoundError


def test_it_ends_when_the_run_is_cancelled(tmp_path, monkeypatch):
    """Not only once an environment of gigabytes is there."""
    cancel, ended = threading.Event(), threading.Event()

    def asked(server):
        with server.accept()[0]:
            cancel.set()
            ended.wait()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=asked, args=(server,), daemon=True).start()
        monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.getsockname()[1]}")
        start = time.monotonic()
        with pytest.raises(ToolchainError, match="uv pip compile was cancelled"):
            Toolchains(tmp_path, print, cancel).lock(("p",), "3.11", "x86_64")
        assert time.monotonic() - start < 60
        ended.set()


SETTINGS = PipSettings(
    indexes=(), find_links=(), cert=None, client_cert=None, proxy=None, trusted_hosts=(), timeout=0.3
)


def test_uv_is_given_the_settings_of_pip(tmp_path, monkeypatch):
    for name, value in {
        "INDEX_URL": "https://me:hunter2@one.example/simple",
        "EXTRA_INDEX_URL": "https://two.example/simple file:///three",
        "FIND_LINKS": f"{tmp_path} {tmp_path}/absent https://links.example/page.html",
        "CERT": "/certificates.pem",
        "CLIENT_CERT": "/mine.pem",
        "PROXY": "http://proxy.example:3128",
        "TRUSTED_HOST": "one.example:8080 two.example",
        "TIMEOUT": "7",
        "CONSTRAINT": "/a.txt https://b.example/b.txt",
        "KEYRING_PROVIDER": "import",
        "PRE": "1",
        "UPLOADED_PRIOR_TO": "P3D",
        "CONFIG_FILE": "/dev/null",
    }.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    for name in ("UV_INDEX_URL", "UV_RESOLUTION"):
        monkeypatch.setenv(name, "mine")
    program = tmp_path / "keyring"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    given = {}
    monkeypatch.setattr(uv, "run_program", lambda command, *_, env, **more: given.update(env, argv=command, **more))
    uv_for(tmp_path).compile(["dep", "sub"])
    assert {name: given[name] for name in given if name.startswith(("UV_", "SSL_C")) and name != "SSL_CERT_DIR"} == {
        "UV_INDEX": "https://me:hunter2@one.example/simple https://two.example/simple",
        "UV_DEFAULT_INDEX": "file:///three",
        "UV_FIND_LINKS": f"{tmp_path},https://links.example/page.html",
        "SSL_CERT_FILE": "/certificates.pem",
        "SSL_CLIENT_CERT": "/mine.pem",
        "UV_INSECURE_HOST": "one.example:8080 two.example",
        "UV_HTTP_TIMEOUT": "7",
        "UV_CONSTRAINT": "/a.txt https://b.example/b.txt",
        "UV_KEYRING_PROVIDER": "subprocess",
        "UV_PRERELEASE": "allow",
        "UV_EXCLUDE_NEWER": "P3D",
        "UV_NO_INSTALLER_METADATA": "1",
    }
    assert {given[name] for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")} == {"http://proxy.example:3128"}
    assert not [word for word in given["argv"] if "example" in word], "other users see the command line"
    assert ("--no-index" in given["argv"], given["stdin"]) == (False, "dep\nsub")


def test_without_settings_uv_asks_no_index_and_trusts_the_machines_certificates(monkeypatch, tmp_path):
    given = {}
    monkeypatch.setattr(uv, "run_program", lambda command, *_, env, **more: given.update(env, argv=command))
    monkeypatch.setenv("PATH", "/nowhere")
    Uv(settings=SETTINGS, python="3.11", arch="x", cache=tmp_path, cancel=threading.Event()).compile(["dep"])
    assert ("--no-index" in given["argv"], given["UV_SYSTEM_CERTS"], given["UV_HTTP_TIMEOUT"]) == (True, "1", "1")
    assert not {"UV_KEYRING_PROVIDER", "UV_PRERELEASE", "UV_INDEX"} & given.keys()


class Guarded(BaseHTTPRequestHandler):
    """An index that wants a password, for its pages and for its files at an address without one."""

    def do_GET(self):
        if self.headers.get("Authorization") != "Basic bWU6aHVudGVyMg==":
            self.send_response(401)
            self.end_headers()
            return
        path = Path(self.server.folder, self.path.rpartition("/")[2])
        body = path.read_bytes() if path.is_file() else self.page(self.path.strip("/").rpartition("/")[2])
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def page(self, project):
        port = self.server.server_address[1]
        files = Path(self.server.folder).glob(f"{project}-*.whl")
        return "".join(f'<a href="http://127.0.0.1:{port}/f/{file.name}">{file.name}</a>' for file in files).encode()

    do_HEAD = do_GET

    def log_message(self, *words):
        pass


@pytest.fixture
def guarded(tmp_path, monkeypatch):
    with ThreadingHTTPServer(("127.0.0.1", 0), Guarded) as server:
        server.folder = tmp_path / "guarded"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for name in ("EXTRA_INDEX_URL", "FIND_LINKS", "NO_INDEX", "CONSTRAINT"):
            monkeypatch.delenv(f"PIP_{name}", raising=False)
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        yield server
        server.shutdown()


def test_a_password_opens_an_index_and_is_told_to_nobody(guarded, tmp_path, monkeypatch):
    make_wheel(guarded.folder, "dep", "1", requires=("sub",))
    make_wheel(guarded.folder, "sub", "2")
    host = f"127.0.0.1:{guarded.server_address[1]}"
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:hunter2@{host}/simple")
    commands, start = [], subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda argv, **more: commands.append(argv) or start(argv, **more))
    toolchains = Toolchains(tmp_path, print)
    locked = toolchains.lock(("dep",), "3.11", "x86_64")
    made = toolchains.environment(locked, "3.11", "x86_64")
    assert sorted(path.name for path in made.glob("*.py")) == ["dep.py", "sub.py"]
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:wrong-hunter2@{host}/simple")
    with pytest.raises(NoEnvironmentError) as refused:
        lock(tmp_path, "dep", "sub")
    assert "hunter2" not in str(refused.value)
    assert len(commands) > 3
    assert not [word for argv in commands for word in argv if "hunter2" in str(word)]
    written = b"".join(path.read_bytes() for path in (tmp_path / "prefix").rglob("*") if path.is_file())
    assert b"hunter2" not in written


def test_an_exact_wheel_is_found_and_told_without_what_sorts_higher(tmp_path, offered):
    for version in ("1", "1+cpu"):
        make_wheel(offered, "dep", version)
    (plain,) = lock(tmp_path, "dep===1")
    (found,) = find_wheels((plain,), uv_for(tmp_path))
    path = offered / "dep-1-py3-none-any.whl"
    assert found == FoundWheel(wheel=plain, address=path.as_uri(), size=path.stat().st_size)
    gone = LockedWheel(name="dep", version="2", sha256="0" * 64)
    with pytest.raises(NoEnvironmentError, match="there is no version of dep==2"):
        find_wheels((gone,), uv_for(tmp_path))
    with pytest.raises(ToolchainError, match="dep: Invalid version: 'x'"):
        locate_wheels((LockedWheel(name="dep", version="x", sha256="0" * 64),), uv_for(tmp_path))
