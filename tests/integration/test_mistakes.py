"""Bad input of every kind: one clear message, an exit code, a remedy, and never a traceback."""

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import run_command
from kernels import BUILD_TOML, matrix, pure_kernel, tiny_kernel
from loopback_hub import Hub, serve, use_here
from sampled import sampled
from zips import wheel_entries, write_zip

pytestmark = pytest.mark.usefixtures("in_process_worker")

AXES = "axes: {torch: [2.13], cuda: [cpu]}\n"


@pytest.fixture(autouse=True)
def machine(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)


def tell(answer):
    assert "Traceback" not in answer.err
    assert answer.err.startswith("error: ") or "\nerror: " in answer.err or "Error: " in answer.err, answer
    return answer.err


# --- matrix.yaml and the command line -----------------------------------------------------------------------

MATRICES = [
    ("missing", None, 2, "there is no matrix.yaml", "wheelsmith init"),
    ("empty", "", 2, "the file is empty", "wheelsmith schema"),
    ("not yaml", "kernel: {path: x\n", 2, "not YAML", None),
    ("deep", "[" * 3000 + "]" * 3000, 2, "nested too deeply", None),
    ("duplicate key", "kernel: {path: x}\nkernel: {path: y}\n" + AXES, 2, "2:1: duplicate key 'kernel'", "keep one"),
    ("unknown key", "kernal: {path: x}\n" + AXES, 2, "unknown key 'kernal'", "did you mean 'kernel'"),
    ("no folder", "kernel: {path: nowhere}\n" + AXES, 4, "matrix.yaml:1:16: there is no folder", "fix path"),
    ("latin-1", b"kernel: {path: \xe9}\n", 2, "not UTF-8", None),
]


@pytest.mark.parametrize(("text", "code", "message", "remedy"), [m[1:] for m in MATRICES], ids=[m[0] for m in MATRICES])
def test_matrix(text, code, message, remedy, monkeypatch, capsys, tmp_path):
    if isinstance(text, bytes):
        (tmp_path / "matrix.yaml").write_bytes(text)
    elif text is not None:
        (tmp_path / "matrix.yaml").write_text(text)
    answer = run_command(monkeypatch, capsys, "plan")
    assert answer.code == code
    assert message in tell(answer)
    assert remedy is None or remedy in answer.err


COMMANDS = [
    (("bild",), 2, "No such command"),
    (("plan", "--only", "torch9*"), 3, "matches no combination"),
    (("plan", "--skip", "*"), 3, "matches no combination"),
    (("build-matrix", "-j", "0"), 2, "Invalid value"),
    (("build-matrix", "--engine", "vagrant"), 2, "Invalid value"),
    (("build-matrix", "--test"), 2, "the matrix has no test"),
    (("serve", "nowhere"), 4, "there is no index"),
    (("shell", "torch299"), 3, "matches no combination"),
]


@pytest.mark.parametrize(("argv", "code", "message"), COMMANDS, ids=[" ".join(c[0]) for c in COMMANDS])
def test_command_line(argv, code, message, monkeypatch, capsys, tmp_path):
    matrix(tmp_path, str(pure_kernel(tmp_path / "k")))
    answer = run_command(monkeypatch, capsys, *argv)
    assert answer.code == code
    assert message in tell(answer)


# --- kernels ------------------------------------------------------------------------------------------------

KERNELS = [
    ("no build.toml", {"build.toml": None}, 4, "the kernel has no build.toml"),
    ("not toml", {"build.toml": "[general\n"}, 2, "build.toml:1:9: not TOML"),
    ("long toml", {"build.toml": BUILD_TOML + "#" * 2**20}, 2, "build.toml: longer than 1 MiB"),
    ("edition 1", {"build.toml": '[general]\nname = "k1"\n[torch]\nuniversal = true\n'}, 2, "edition 1 or 2"),
    ("source missing", {"build.toml": BUILD_TOML.replace("tiny.cpp", "gone.cpp")}, 2, "gone.cpp, which does not exist"),
    ("odd source", {"build.toml": BUILD_TOML.replace("tiny.cpp", "README.md")}, 2, "neither C, C++, CUDA nor a header"),
    ("no package", {"torch-ext/tiny/__init__.py": None}, 2, "no torch-ext/tiny/__init__.py"),
    ("binary build.toml", {"build.toml": b"\xff\xfe"}, 4, "not UTF-8"),
    ("link out", {"leak": Path("/etc/passwd")}, 4, "leads out of the source"),
    ("unsafe name", {"a\nb.py": "x"}, 4, "unsafe name"),
]


@pytest.mark.parametrize(("files", "code", "message"), [k[1:] for k in KERNELS], ids=[k[0] for k in KERNELS])
def test_kernel(files, code, message, monkeypatch, capsys, tmp_path):
    root = tiny_kernel(tmp_path / "k")
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if content is None:
            path.unlink()
        elif isinstance(content, Path):
            path.symlink_to(content)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content)
    matrix(tmp_path, "k")
    answer = run_command(monkeypatch, capsys, "plan", "--engine", "local")
    assert answer.code == code
    assert message in tell(answer)


# --- the Hub ------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path):
    with serve(Hub()) as running:
        running.add_folder("org/pure", pure_kernel(tmp_path / "repo"))
        yield running


def ask(repo="org/pure", revision="v1"):
    Path("matrix.yaml").write_text(f"kernel: {{hub: {repo}, revision: {revision}}}\n{AXES}")
    return "plan", "--engine", "local"


@pytest.fixture
def hub_plan(hub, monkeypatch, capsys, tmp_path):
    """Plan a Hub kernel."""
    use_here(monkeypatch, hub.endpoint, tmp_path / "hf")
    return lambda **asked: run_command(monkeypatch, capsys, *ask(**asked))


def plan_as_told(hub, tmp_path, **env):
    """Plan in a process of its own: the client reads its environment when it is imported."""
    environment = {**os.environ, "HF_ENDPOINT": hub.endpoint, "HF_HOME": str(tmp_path / "hf"), **env}
    command = [sys.executable, "-m", "wheelsmith", *ask()]
    answer = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert "Traceback" not in answer.stderr
    return answer


def test_hub_kernels_are_planned_at_their_commit(hub, hub_plan, tmp_path):
    answer = plan_as_told(hub, tmp_path)
    assert answer.returncode == 0, answer.stderr
    hub.down = True
    offline = plan_as_told(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert offline.returncode == 0, offline.stderr
    pinned = hub_plan(revision=hub.repos["org/pure"].commit)
    assert pinned.code == 0, pinned.err  # a commit in the cache needs no network


@pytest.mark.parametrize(
    ("case", "message", "remedy"),
    [
        ({"repo": "org/gone"}, "there is no kernel org/gone", "HF_TOKEN"),
        ({"revision": "v9"}, "has no revision 'v9'", "a branch"),
    ],
)
def test_hub_answers(case, message, remedy, hub_plan):
    answer = hub_plan(**case)
    assert answer.code == 4
    assert message in tell(answer)
    assert remedy in answer.err


def test_what_is_not_in_the_hubs_cache_is_not_had_offline(hub, tmp_path):
    answer = plan_as_told(hub, tmp_path, HF_HUB_OFFLINE="1")
    assert answer.returncode == 4
    assert "not in the Hub cache" in answer.stderr
    assert "hf download" in answer.stderr


def test_a_private_repo_needs_the_token_and_does_not_tell_it(hub, hub_plan, monkeypatch):
    hub.repos["org/pure"].token = "hf_right"
    monkeypatch.setenv("HF_TOKEN", "hf_wrongsecret")
    wrong = hub_plan()
    assert wrong.code == 4
    assert "private" in wrong.err
    assert "hf_wrongsecret" not in wrong.err + wrong.out
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    right = hub_plan()
    assert right.code == 0, right.err
    assert "hf_right" not in right.err + right.out


def test_a_hub_that_is_not_there(hub_plan, monkeypatch, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        use_here(monkeypatch, f"http://127.0.0.1:{free.getsockname()[1]}", tmp_path / "hf")
    answer = hub_plan()
    assert answer.code == 4
    assert "could not be fetched" in tell(answer)


@pytest.mark.parametrize("name", ["../evil.py"])
def test_a_hostile_repo_is_refused_before_it_is_fetched(name, hub, hub_plan):
    hub.repos["org/pure"].files[name] = b"x"
    answer = hub_plan()
    assert answer.code == 4
    assert "unsafe name" in tell(answer)
    assert not any("resolve" in request for request in hub.requests)


def test_the_hubs_binaries_are_not_fetched(hub, hub_plan):
    hub.repos["org/pure"].files["build/torch211/x.so"] = b"x" * 1000
    assert hub_plan().code == 0
    assert not any("torch211" in request for request in hub.requests)


# --- machines -----------------------------------------------------------------------------------------------


def test_no_engine_for_somebody_elses_code(monkeypatch, capsys, tmp_path):
    from wheelsmith.base.errors import EngineError
    from wheelsmith.engine import choose

    monkeypatch.setenv("PATH", str(tmp_path))
    known = {"images": frozenset(), "cache": tmp_path}
    with pytest.raises(EngineError) as caught:
        choose("auto", trusted=False, **known)
    assert "apt-get install bubblewrap" in caught.value.remedy
    assert choose("auto", trusted=True, **known).engine.name == "local"
    with pytest.raises(EngineError, match="engine bwrap is missing"):
        choose("bwrap", trusted=True, **known)


def test_no_compiler_is_a_reason_not_a_crash(monkeypatch, capsys, tmp_path):
    tiny_kernel(tmp_path / "k")
    matrix(tmp_path, "k", more="toolchain: host\n")
    monkeypatch.setattr("wheelsmith.engine.installed_compilers.SYSTEM_PROGRAMS", str(tmp_path))
    answer = run_command(monkeypatch, capsys, "plan", "--engine", "local")
    assert answer.code == 3
    assert "apt-get install g++" in answer.out


def test_a_build_that_cannot_write_its_output(monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k")
    (tmp_path / "dist").write_text("in the way")
    answer = run_command(monkeypatch, capsys, "build-matrix", "--engine", "local")
    assert answer.code in {1, 4}
    assert "dist" in answer.err
    assert "Traceback" not in answer.err


def test_a_cache_that_is_in_the_way(monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k")
    (tmp_path / "cache").write_text("a file")
    answer = run_command(monkeypatch, capsys, "build-matrix", "--engine", "local")
    assert answer.code == 4
    assert "WHEELSMITH_CACHE" in tell(answer)


@contextmanager
def one_small_disk(path: Path):
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a small file system")
    path.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(path)], capture_output=True).returncode:
        pytest.skip("may not mount here")
    try:
        yield path
    finally:
        subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path, begin: str, run: subprocess.Popen) -> None:
    """From the moment that a path appears on take every byte that is free, as another program on the disk may."""
    while not list(disk.glob(begin)) and run.poll() is None:
        os.sched_yield()
    with (disk / "ballast").open("ab", buffering=0) as ballast:
        while run.poll() is None:
            try:
                ballast.write(bytes(512))
            except OSError:
                os.sched_yield()


@pytest.mark.parametrize(
    "begin",
    sampled(
        ["cache/work/run-*", "cache/store/*", "dist/index", "dist/wheels"],
        "cache/store/*",
    ),
)
def test_a_disk_that_fills_while_a_run_writes_leaves_nothing_half_written(begin, tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k")
    with one_small_disk(tmp_path / "small") as disk:
        command = [sys.executable, "-m", "wheelsmith", "build-matrix", "--engine", "local", "--out", "small/dist"]
        env = {**os.environ, "WHEELSMITH_CACHE": str(disk / "cache")}
        with subprocess.Popen(command, env=env, stderr=subprocess.PIPE, text=True) as run:
            filling = threading.Thread(target=fill, args=(disk, begin, run))
            filling.start()
            told = run.communicate(timeout=300)[1]
            filling.join()
        assert "Traceback" not in told
        assert run.returncode in {0, 1, 4}  # 0 where it was done before the disk was full
        assert run.returncode == 0 or ("No space left" in told and "help: " in told)
        for results in (disk / "dist").glob("results.json"):
            (cell,) = json.loads(results.read_text())["cells"].values()
            assert cell["status"] in {"failed", "built", "cancelled"}
        assert any(words in told for words in ("1 failed in", "1 built in", "no combinations in"))
        assert [path.name for path in (disk / "dist").glob(".results*")] == []


def test_a_disk_that_is_full_is_told_before_anything_is_built(tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k")
    with one_small_disk(tmp_path / "small") as disk:
        with (disk / "ballast").open("wb", buffering=0) as ballast:
            assert ballast.write(bytes(4 << 20)) < 4 << 20
        command = [sys.executable, "-m", "wheelsmith", "build-matrix", "--engine", "local", "--out", "small/dist"]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=300)
        assert answer.returncode == 4
        assert "Traceback" not in answer.stderr
        assert "help: " in answer.stderr
        assert "built" not in answer.stderr


def test_a_plan_of_nothing_ends_as_a_build_of_nothing(monkeypatch, capsys, tmp_path):
    pure_kernel(tmp_path / "k")
    matrix(tmp_path, "k", more="rules: [{exclude: {cuda: cpu}, reason: not yet}]\n")
    for argv in (("plan",), ("plan", "--json"), ("build-matrix", "--dry-run"), ("build-matrix",)):
        answer = run_command(monkeypatch, capsys, *argv, "--engine", "local")
        assert answer.code == 3
        if argv == ("plan",):
            assert answer.out.endswith("0 combinations → 0 builds (0 cached)\n  1 excluded: not yet (matrix.yaml:3)\n")


def test_a_taken_port(monkeypatch, capsys, tmp_path):
    (tmp_path / "index" / "simple").mkdir(parents=True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        answer = run_command(monkeypatch, capsys, "serve", "index", "--port", str(taken.getsockname()[1]))
    assert answer.code == 4
    assert "--port" in tell(answer)


# --- wheels -------------------------------------------------------------------------------------------------

GOOD = {
    "pure/__init__.py": "",
    "pure-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: pure\nVersion: 1\n",
    "pure-1.dist-info/WHEEL": "Wheel-Version: 1.0\nTag: py3-none-any\n",
}


def make_wheel(path: Path, files: dict[str, str], record: str = "pure-1.dist-info/RECORD,,\n") -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**files, "pure-1.dist-info/RECORD": record}.items():
            archive.writestr(name, text)
    return path


WHEELS = [
    ("absent", lambda p: None, "there is no"),
    ("a pipe", os.mkfifo, "not a plain file"),
    (
        "a name beyond ASCII",
        lambda p: make_wheel(p, {**GOOD, "pure-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: pürë\n"}),
        "METADATA has the name pürë",
    ),
    ("truncated", lambda p: p.write_bytes(make_wheel(p, GOOD).read_bytes()[:-40]), "not a readable zip"),
    ("no METADATA", lambda p: make_wheel(p, {"pure-1.dist-info/WHEEL": ""}), "has no pure-1.dist-info/METADATA"),
    ("no dist-info", lambda p: zipfile.ZipFile(p, "w").close(), "0 .dist-info folders"),
    ("traversal", lambda p: make_wheel(p, {**GOOD, "../evil": ""}), "unsafe name"),
    ("RECORD lies", lambda p: make_wheel(p, GOOD), "is not in RECORD"),
    (
        "other version",
        lambda p: make_wheel(
            p, {**GOOD, "pure-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: pure\nVersion: 2\n"}
        ),
        "METADATA has version 2",
    ),
    (
        "broken ELF",
        lambda p: make_wheel(p, {**GOOD, "pure/x.so": "\x7fELF" + "x" * 60}),
        "cannot be read as an ELF file",
    ),
]


@pytest.mark.parametrize(("spoil", "message"), [w[1:] for w in WHEELS], ids=[w[0] for w in WHEELS])
def test_wheel(spoil, message, monkeypatch, capsys, tmp_path):
    path = tmp_path / "pure-1-py3-none-any.whl"
    spoil(path)
    answer = run_command(monkeypatch, capsys, "check", str(path))
    assert answer.code == 1
    assert message in answer.out
    assert "Traceback" not in answer.err


def test_a_file_of_another_project_is_declared(monkeypatch, capsys, tmp_path):
    path = write_zip(tmp_path / "kernel-1-py3-none-any.whl", wheel_entries({"torch/extra.py": b"", "kernel.pth": b""}))
    refused = run_command(monkeypatch, capsys, "check", str(path))
    assert (refused.code, "wrong installs: it installs torch/extra.py" in refused.out) == (1, True)
    accepted = run_command(monkeypatch, capsys, "check", "-v", "--declare", "torch/*", str(path))
    assert (accepted.code, "outside its import packages: kernel.pth" in accepted.out) == (0, True)
