"""Of a folder, what git tracks is source; without a repository, all but outputs, tools' folders and pipelines."""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest
from kernels import pure_kernel, write

from wheelsmith.base.errors import MatrixError, MatrixMistakesError
from wheelsmith.matrix.load import check_kernel, parse_matrix
from wheelsmith.matrix.types import KernelRef
from wheelsmith.source import fetch_source
from wheelsmith.source.folder import Outputs, read_folder
from wheelsmith.source.tree import SourceTree

HONEST = {"README.md", "build.toml", "torch-ext/pure/__init__.py"}
PRIVATE = {".env": "TOKEN=1", "deploy.key": "-----BEGIN PRIVATE KEY-----"}
MATRIX = "kernel: {path: .}\naxes: {torch: [2.13], cuda: [cpu]}\n"


@pytest.fixture(autouse=True)
def user(monkeypatch, tmp_path):
    (tmp_path / "gitconfig").write_text(
        '[user]\n\tname = tester\n\temail = tester@localhost\n[protocol "file"]\n\tallow = always\n'
    )
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)


def git(folder: Path, *argv: str) -> None:
    subprocess.run(["git", "-C", str(folder), *argv], check=True, capture_output=True)


def commit(folder: Path) -> Path:
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "all")
    return folder


@pytest.fixture
def kernel(tmp_path):
    return commit(pure_kernel(tmp_path / "k"))


def read(folder: Path, heard: list | None = None, *, cache: str = "cache", out: str = "dist", **kernel) -> SourceTree:
    outputs = Outputs(out=folder / out, cache=folder / cache, matrix=folder / "matrix.yaml")
    listen = (lambda event: None) if heard is None else (lambda event: heard.append(f"{event.level}: {event.text}"))
    return read_folder(folder, outputs, KernelRef(path=".", **kernel), listen)


def paths(folder: Path, heard: list | None = None, **more) -> set[str]:
    return set(read(folder, heard, **more).paths)


# --- in a repository ------------------------------------------------------------------------------------------


def test_what_git_ignores_is_not_read(kernel):
    write(kernel, {**PRIVATE, ".gitignore": ".env\n*.key\n/data/\n", "data/a.h": "", "torch-ext/pure/x.key": ""})
    heard: list[str] = []
    assert paths(kernel, heard) == HONEST | {".gitignore"}
    assert heard == []


def test_of_what_is_untracked_only_files_that_a_build_can_use_are_read(kernel):
    code = {"new.cu": "", "csrc/new.inc": "", "torch-ext/pure/more.py": "", "LICENSE": "", "CMakeLists.txt": ""}
    write(kernel, code | PRIVATE | {"plan.json": "{}", "build.txt": "", "out/a.bin": "", "build.log": ""})
    heard: list[str] = []
    assert paths(kernel, heard) == HONEST | set(code)
    (note,) = heard
    named = ".env, build.txt, deploy.key, out/a.bin, plan.json"
    assert note.startswith(f"info: untracked files are not in the source: {named}; ")


def test_a_tracked_file_that_was_removed_or_changed(kernel):
    (kernel / "README.md").unlink()
    (kernel / "build.toml").write_text("changed")
    tree = read(kernel)
    assert set(tree.paths) == HONEST - {"README.md"}
    assert tree.read_text("build.toml") == "changed"


def test_a_secret_that_git_tracks_is_named(kernel):
    write(kernel, {**PRIVATE, "tests/server.pem": "", ".env.example": "", "keys.py": ""})
    commit(kernel)
    heard: list[str] = []
    assert paths(kernel, heard, include=("tests/server.pem",)) >= set(PRIVATE)
    (warning,) = heard
    assert warning.startswith("warning: files that look like secrets are in the source: .env, deploy.key; ")
    heard.clear()
    assert not paths(kernel, heard, exclude=(".env", "**/*.key", "tests")) & {*PRIVATE, "tests/server.pem"}
    assert heard == []


def test_a_folder_of_a_repository_is_read_by_the_rules_of_the_whole(tmp_path):
    top = tmp_path / "many"
    pure_kernel(top / "kernels/a")
    write(top, {".gitignore": "secret.h\n", "other/b.h": ""})
    commit(top)
    (top / "kernels/a/secret.h").touch()
    assert paths(top / "kernels/a") == HONEST


def test_a_folder_that_its_repository_ignores_is_read_without_it(kernel):
    (kernel / ".gitignore").write_text("scratch\n")
    assert paths(pure_kernel(kernel / "scratch/k")) == HONEST


def test_submodules_and_repositories_in_the_folder_are_read(kernel, tmp_path):
    library = commit(write(tmp_path / "library", {"a.h": "", ".gitignore": "*.tmp\n"}))
    git(kernel, "submodule", "add", "-q", str(library), "third_party/lib")
    write(kernel / "third_party/lib", {"b.tmp": "", "c.bin": ""})
    shutil.copytree(library, kernel / "cloned")
    found = paths(kernel) - HONEST
    assert found == {
        ".gitmodules",
        *(f"{at}/{name}" for at in ("third_party/lib", "cloned") for name in (".gitignore", "a.h")),
    }


def test_a_worktree_is_read_as_its_repository(kernel, tmp_path):
    git(kernel, "worktree", "add", "-q", str(tmp_path / "w"))
    (tmp_path / "w/deploy.key").touch()
    assert read(tmp_path / "w").id == read(kernel).id


def test_links_lead_to_what_git_lists(kernel):
    write(kernel, {"csrc/a.h": "A", "csrc/b.tmp": "", ".gitignore": "*.tmp\n"})
    (kernel / "include").symlink_to("csrc")
    (kernel / "a.h").symlink_to("csrc/a.h")
    (kernel / "result").symlink_to("/etc")
    git(kernel, "add", "include", "a.h", "csrc")
    assert paths(kernel) - HONEST == {".gitignore", "a.h", "csrc/a.h", "include/a.h"}


def test_a_repository_of_another_user_is_read_and_none_of_its_programs_run(kernel, tmp_path):
    if os.geteuid():
        pytest.skip("only root can give files away")
    program = write(tmp_path, {"program": f"#!/bin/sh\ntouch {tmp_path}/ran\n"}) / "program"
    program.chmod(0o755)
    git(kernel, "config", "core.fsmonitor", str(program))
    shutil.copy(program, kernel / ".git/hooks/post-index-change")
    write(kernel, {**PRIVATE, ".gitignore": ".env\n*.key\n"})
    for path in (kernel, *kernel.rglob("*")):
        os.chown(path, 12345, 12345)
    assert paths(kernel) == HONEST | {".gitignore"}
    assert not (tmp_path / "ran").exists()


def test_variables_of_a_hook_do_not_name_another_repository(kernel, tmp_path, monkeypatch):
    other = commit(write(tmp_path / "other", {"a.h": ""}))
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git/index"))
    assert paths(kernel) == HONEST


@pytest.mark.parametrize("fault", ["no git", "broken"])
def test_where_git_cannot_list_files_a_warning_names_the_reason(fault, kernel, monkeypatch, tmp_path):
    clean = read(kernel).id
    if fault == "no git":
        monkeypatch.setenv("PATH", str(tmp_path))
    else:
        (kernel / ".git/HEAD").write_text("x")
    heard: list[str] = []
    assert read(kernel, heard).id == clean
    (warning,) = heard
    assert warning.startswith(
        "warning: git cannot list the kernel's folder, so files that it ignores are part of the source: "
    )
    (kernel / ".env").touch()
    paths(kernel, heard)
    assert "source: .env;" in heard[-1]


# --- with and without a repository ----------------------------------------------------------------------------


def test_a_clone_has_the_same_digest_without_its_repository(kernel, tmp_path):
    write(
        kernel,
        {
            **PRIVATE,
            **dict.fromkeys(("data", "a.bin", "x/y.log", "x/.env", "node_modules/a.js", "build/a", "dist/b"), "x"),
            ".github/workflows/wheels.yml": "x",
            "x/matrix.yaml": "not a matrix",
            "log": "x",
            "run.sh": "#!/bin/sh\n",
        },
    )
    (kernel / "run.sh").chmod(0o755)
    (kernel / "link").symlink_to("x")
    commit(kernel)
    git(tmp_path, "clone", "-q", str(kernel), "clone")
    plain = shutil.copytree(tmp_path / "clone", tmp_path / "plain", symlinks=True, ignore=lambda *_: {".git"})
    assert read(tmp_path / "clone").id == read(plain).id
    outputs = Outputs(out=tmp_path / "dist", cache=tmp_path / "cache")
    head = fetch_source(KernelRef(git=str(kernel), revision="HEAD"), base=tmp_path, outputs=outputs)
    assert set(head.paths) - set(read(plain).paths) == {"dist/b"}


PIPELINES = (".github/workflows/wheels.yml", ".github/dependabot.yml", ".gitlab-ci.yml", ".buildkite/wheels.yml")


@pytest.mark.parametrize("is_tracked", [True, False])
@pytest.mark.parametrize(
    "path",
    [
        *PIPELINES,
        *("matrix.yaml", "cuda.yaml", "ci/cpu.yml", "wheelsmith.lock", "cuda.yaml.wheelsmith.lock"),
        *("wheelsmith.lock.d/pylock.a.toml", "wheelsmith.shards.json", "wheelsmith.vendor/source/a.h"),
        *(
            "build/torch/a.h",
            "dist/wheels/a.py",
            "log",
            "build.log",
            "nohup.out",
            "x/__pycache__/a.py",
            ".venv/a.py",
            "wheels.slurm.sh",
            "wheels.kubernetes.yaml",
            ".wheelsmith-kubernetes/cache/a.py",
            "cache.pub",
        ),
    ],
)
def test_what_wheelsmith_and_pipelines_write_is_not_source(path, is_tracked, tmp_path):
    kernel = pure_kernel(tmp_path / "k")
    before = read(kernel).id
    write(kernel, {path: MATRIX})
    assert read(kernel).id == before
    if is_tracked:
        commit(kernel)
        assert read(kernel).id == before


@pytest.mark.parametrize("has_repository", [False, True])
def test_a_virtual_environment_of_any_name_is_not_source(has_repository, tmp_path):
    folder = pure_kernel(tmp_path / "k")
    venv.create(folder / "user", with_pip=False, symlinks=True)  # its Python is a link that leads out
    assert paths(commit(folder) if has_repository else folder) == HONEST


def test_files_with_similar_names_are_source(kernel):
    names = {"x/log", "x/a.log", "kernel.yaml", "x/build/a.h", "buildx/a.h", ".githubx/a.h", "x/Jenkinsfile"}
    write(kernel, dict.fromkeys(names, "kernel: rbf\n  axes: x\n"))
    commit(kernel)
    assert paths(kernel) == HONEST | names


def test_the_matrix_of_the_command_is_not_source_whatever_its_name(tmp_path):
    kernel = pure_kernel(tmp_path / "k")
    (kernel / "wheels.conf").write_text('{"kernel": {"path": "."}}')
    outputs = Outputs(out=tmp_path / "dist", cache=tmp_path / "cache", matrix=kernel / "wheels.conf")
    assert set(read_folder(kernel, outputs).paths) == HONEST


REDIRECTED = """
import sys
from pathlib import Path
from wheelsmith.source.folder import Outputs, read_folder
print("begun", flush=True)
tree = read_folder(Path("."), Outputs(out=Path("dist"), cache=Path("cache")))
sys.exit(sorted(tree.paths) != ["README.md", "build.toml", "torch-ext/pure/__init__.py"])
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_a_file_that_gets_the_output_is_not_source(stream, tmp_path):
    kernel = pure_kernel(tmp_path / "k")
    with (kernel / "said.py").open("w") as file:
        subprocess.run([sys.executable, "-c", REDIRECTED], cwd=kernel, check=True, **{stream: file})


# --- include and exclude --------------------------------------------------------------------------------------


NAMED = {
    ".gitignore": "/generated/\n",
    **dict.fromkeys(
        ("generated/a.h", "generated/deep/b.h", "generated/c.bin", "docs/d.md", "docs/keep.md", "e.bin"), ""
    ),
}


def test_files_that_git_ignores_or_does_not_track_can_be_named(kernel):
    write(kernel, NAMED)
    known = HONEST | {".gitignore"}
    assert paths(kernel, include=("generated",)) == known | {path for path in NAMED if path.startswith("generated")}
    assert paths(kernel, include=("*/**/*.bin", "docs")) == known | {"generated/c.bin", "docs/d.md", "docs/keep.md"}
    assert paths(kernel, include=("**/*.bin",), exclude=("generated",)) == known | {"e.bin"}


@pytest.mark.parametrize("has_repository", [True, False])
def test_files_can_be_left_out(has_repository, tmp_path):
    kernel = write(pure_kernel(tmp_path / "k"), NAMED)
    if has_repository:
        (kernel / ".gitignore").write_text("")
        commit(kernel)
    found = paths(kernel, exclude=("generated/deep", "docs/d*", "**/*.bin"))
    assert found == HONEST | {".gitignore", "generated/a.h", "docs/keep.md"}


def test_what_is_named_never_brings_in_the_repository_or_outputs(kernel):
    outputs = ("cache/a.h", "wheelsmith.lock", "out/report.html", "out/results.json", "out/wheels/a.h", ".github/a.py")
    write(kernel, dict.fromkeys((*outputs, "out/b"), ""))
    assert paths(kernel, include=("**",)) == HONEST | {"out/b"}


@pytest.mark.parametrize("pattern", ["../x", "/etc", ".", "a\\b", ""])
def test_a_pattern_stays_in_the_folder(pattern):
    with pytest.raises(MatrixMistakesError):
        check_kernel({"path": ".", "exclude": [pattern]})


def test_they_are_settings_of_a_folder(tmp_path):
    kernel = parse_matrix(
        "kernel: {path: ., include: [a, b/*.h], exclude: [c]}\naxes: {torch: [2.13], cuda: [cpu]}"
    ).kernel
    assert (kernel.include, kernel.exclude) == (("a", "b/*.h"), ("c",))
    with pytest.raises(MatrixMistakesError):
        check_kernel({"sdist": "a==1", "include": ["a"]})
    shutil.make_archive(str(tmp_path / "k"), "gztar", pure_kernel(tmp_path / "k"))
    outputs = Outputs(out=tmp_path / "dist", cache=tmp_path / "cache")
    with pytest.raises(MatrixError, match="archive"):
        fetch_source(KernelRef(path="k.tar.gz", include=("a",)), base=tmp_path, outputs=outputs)
