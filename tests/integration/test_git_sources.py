"""Kernels and projects in git repositories: what is fetched, when, and how it is read."""

import json
import os
import random
import subprocess
import threading
from pathlib import Path

import pytest
from git_repos import EXECUTABLE, LINK, MODULE, GitRepo, git, modules, serve_git
from kernels import NOARCH_TOML

from wheelsmith.base.errors import SourceError
from wheelsmith.matrix.types import KernelRef
from wheelsmith.source import fetch_source
from wheelsmith.source.folder import Outputs
from wheelsmith.source.tree import SourceTree

PURE = {"build.toml": NOARCH_TOML, "torch-ext/pure/__init__.py": "VALUE = 1\n", "README.md": "# pure\n"}


@pytest.fixture(autouse=True)
def user(monkeypatch, tmp_path):
    """A user with a git configuration of their own, and no way to a proxy."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "gitconfig").touch()
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", os.devnull)
    return tmp_path / "gitconfig"


@pytest.fixture
def repo(tmp_path):
    return GitRepo.make(tmp_path / "served" / "org" / "pure")


@pytest.fixture
def server(tmp_path):
    (tmp_path / "served").mkdir(exist_ok=True)
    with serve_git(tmp_path / "served") as served:
        yield served


@pytest.fixture
def heard():
    return []


@pytest.fixture
def fetch(tmp_path, heard):
    """Fetch a source into the cache of the test."""

    def fetch(url: str, revision: str = "main", **more) -> SourceTree:
        outputs = Outputs(out=tmp_path / "dist", cache=tmp_path / "cache")
        return fetch_source(
            KernelRef(git=url, revision=revision, **more), base=tmp_path, outputs=outputs, listen=heard.append
        )

    return fetch


def text_of(tree: SourceTree) -> str:
    return tree.read_text("torch-ext/pure/__init__.py")


# --- what is read -------------------------------------------------------------------------------------------


def test_a_kernel_in_a_git_repository(repo, fetch):
    commit = repo.commit(PURE)
    tree = fetch(repo.url)
    assert tree.paths == ("README.md", "build.toml", "torch-ext/pure/__init__.py")
    assert text_of(tree) == "VALUE = 1\n"
    assert (tree.id.origin, tree.id.revision, tree.id.commit) == ("git:local", "main", commit)


def test_a_folder_and_its_repository_are_one_source(repo, fetch, tmp_path, heard):
    """Nothing is built again because it was pushed."""
    files = {**PURE, "run.sh": (EXECUTABLE, "#!/bin/sh\n"), "link.md": (LINK, "README.md"), "matrix.yaml": "x"}
    repo.commit(files | {"build/torch29/x.so": "binary"})
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(repo.path), str(clone)], check=True)
    outputs = Outputs(out=tmp_path / "dist", cache=tmp_path / "cache")
    folder = fetch_source(KernelRef(path=str(clone)), base=tmp_path, outputs=outputs, listen=heard.append)
    assert fetch(repo.url).id.tree == folder.id.tree


def test_nothing_of_the_repository_changes_what_is_read(repo, fetch, user, tmp_path):
    """No attribute, no filter of the user's, no smudging by LFS: what was committed is what is built."""
    user.write_text(f'[filter "x"]\n\tsmudge = touch {tmp_path}/ran\n\trequired = true\n')
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "0" * 64 + "\nsize 1\n"
    more = {
        ".gitattributes": "* filter=x text eol=crlf\n*.sub export-subst\n",
        "a.sub": "$Format:%H$",
        "w.bin": pointer,
    }
    repo.commit(PURE | more)
    tree = fetch(repo.url)
    assert (tree.read_text("a.sub"), tree.read_text("w.bin")) == ("$Format:%H$", pointer)
    assert text_of(tree) == "VALUE = 1\n"
    assert not (tmp_path / "ran").exists()


def test_links_are_followed_as_a_file_system_does(repo, fetch):
    repo.commit(
        {
            "src/kernel/build.toml": NOARCH_TOML,
            "src/kernel/up.h": (LINK, "../../include/a.h"),
            "src/kernel/twice.h": (LINK, "up.h"),
            "src/kernel/through.h": (LINK, "../inc/a.h"),
            "src/inc": (LINK, "../include"),
            "include/a.h": "A",
        }
    )
    tree = fetch(repo.url, subdirectory="src/kernel")
    assert tree.paths == ("build.toml", "through.h", "twice.h", "up.h")
    assert {tree.read_text(name) for name in ("up.h", "twice.h", "through.h")} == {"A"}


def test_a_link_to_a_folder_is_all_that_is_in_it(repo, fetch):
    """As DeepSpeed has them."""
    files = {"csrc/a.cpp": "A", "csrc/run": (EXECUTABLE, "R"), "csrc/inner/b.h": "B", "csrc/c.h": (LINK, "inner/b.h")}
    repo.commit(
        {**files, "setup.py": "", "pkg/ops": (LINK, "../csrc"), "csrc0": "other", "pkg/deep": (LINK, "ops/inner")}
    )
    tree = fetch(repo.url)
    assert [path for path in tree.paths if path.startswith("pkg")] == [
        *("pkg/deep/b.h", "pkg/ops/a.cpp", "pkg/ops/c.h", "pkg/ops/inner/b.h", "pkg/ops/run")
    ]
    assert (tree.read_text("pkg/ops/c.h"), tree.read_text("pkg/deep/b.h")) == ("B", "B")
    assert [file.path for file in tree.files if file.executable] == ["csrc/run", "pkg/ops/run"]


# --- where it lies in the repository ------------------------------------------------------------------------


def test_one_of_many_kernels_in_a_repository(repo, fetch):
    repo.commit({f"kernels/{name}/{path}": text for name in ("a", "b") for path, text in PURE.items()})
    tree = fetch(repo.url, subdirectory="kernels/a")
    assert (tree.paths, tree.id.origin) == (tuple(sorted(PURE)), "git:local#subdirectory=kernels/a")
    with pytest.raises(SourceError, match=r"no build.toml and no pyproject.toml and no setup.py in the top") as raised:
        fetch(repo.url)
    assert raised.value.remedy.endswith("subdirectory, such as kernels/a, kernels/b")
    with pytest.raises(SourceError, match="in kernels/c in the repository"):
        fetch(repo.url, subdirectory="kernels/c")


# --- revisions ----------------------------------------------------------------------------------------------


def test_a_branch_is_asked_for_and_a_commit_is_not(repo, fetch, server):
    first = repo.commit(PURE)
    url = server.url_of(repo)
    assert fetch(url).id.commit == first
    second = repo.commit(PURE | {"torch-ext/pure/__init__.py": "VALUE = 2\n"}, parent=first)
    assert text_of(fetch(url)) == "VALUE = 2\n"
    asked = len(server.requests)
    assert text_of(fetch(url, first)) == "VALUE = 1\n"
    assert text_of(fetch(url, second)) == "VALUE = 2\n"
    assert len(server.requests) == asked


def test_a_commit_is_fetched_from_a_server_that_gives_what_it_has_a_name_for(repo, fetch, user):
    """git's older protocol: some servers have no other."""
    user.write_text("[protocol]\n\tversion = 0\n")
    first = repo.commit(PURE)
    repo.commit(PURE | {"README.md": "# more\n"}, parent=first)
    fetch(repo.url)
    assert fetch(repo.url, first).id.commit == first
    with pytest.raises(SourceError, match="has no revision '0000"):
        fetch(repo.url, "0" * 39 + "1")


@pytest.mark.parametrize("name", ["v1.2", "refs/tags/v1.2", "HEAD", "a/b", "a"])
def test_names_of_a_commit(name, repo, fetch):
    if name in {"a", "a/b"}:  # one cannot be beside the other, but after it
        repo.commit(PURE, branch="a/b")
        fetch(repo.url, "a/b")
        git(repo.path, "update-ref", "-d", "refs/heads/a/b")
    commit = repo.commit(PURE, branch=name if name in {"a", "a/b"} else "main")
    repo.tag("v1.2", commit)
    assert fetch(repo.url, name).id.commit == commit


@pytest.mark.parametrize("name", ["nope", "0" * 40])
def test_a_revision_that_is_not_there(name, repo, fetch):
    repo.commit(PURE)
    with pytest.raises(SourceError, match=f"has no revision '{name}'") as raised:
        fetch(repo.url, name)
    assert "all 40 digits of a commit" in raised.value.remedy


# --- the network --------------------------------------------------------------------------------------------


def test_without_a_network_the_last_commit_is_told(repo, fetch, tmp_path):
    commit = repo.commit(PURE)
    with serve_git(tmp_path / "served") as server:
        url = server.url_of(repo)
        fetch(url)
    with pytest.raises(SourceError, match="could not be fetched") as raised:
        fetch(url)
    assert raised.value.remedy.endswith(f"revision: {commit}")
    assert fetch(url, commit).id.commit == commit


def test_a_repository_that_is_not_there(fetch, server, tmp_path):
    with pytest.raises(SourceError, match=f"there is no git repository {server.url}/org/nope"):
        fetch(f"{server.url}/org/nope")
    with pytest.raises(SourceError, match="there is no git repository"):
        fetch("nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SourceError, match="there is no git repository"):
        fetch("empty")


def test_credentials_are_the_users_and_told_to_nobody(repo, fetch, server, user, run, tmp_path, monkeypatch):
    repo.commit(PURE)
    server.password = "s3cret"
    url = server.url_of(repo)
    with pytest.raises(SourceError, match="needs credentials, or does not exist"):
        fetch(url)
    with pytest.raises(SourceError) as raised:
        fetch(url.replace("//", "//ada:wr0ng@"))
    assert "wr0ng" not in f"{raised.value}{raised.value.remedy}"
    given = url.replace("//", "//ada:s3cret@")
    assert fetch(given).id.origin == f"git:{url}"
    text = f"kernel: {{git: '{given}', revision: main}}\naxes: {{torch: [2.13], cuda: [cpu]}}\n"
    (tmp_path / "matrix.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    for options in ((), ("--json",)):
        answer = run("plan", "--engine", "local", *options)
        assert (answer.code, "s3cret" in answer.out + answer.err) == (0, False)
    assert json.loads(answer.out)["kernel"].startswith(f"{url.removesuffix('.git')} @")
    kept = [path for path in (tmp_path / "cache").rglob("*") if path.is_file() and b"s3cret" in path.read_bytes()]
    assert kept == []
    user.write_text('[credential]\n\thelper = "!f() { echo username=ada; echo password=s3cret; }; f"\n')
    assert fetch(url).id.origin == f"git:{url}"


def test_what_git_says_is_shown_as_words_alone(fetch, monkeypatch, tmp_path):
    """Older releases tell the whole address, and a server chooses some of the words."""
    (tmp_path / "git").write_text(
        "#!/bin/sh\nprintf \"fatal: unable to access 'https://ada:s3cret@host/x' \\033[2J%01000d\\n\" 1 >&2; exit 128\n"
    )
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(SourceError, match="unable to access 'https://host/x'") as raised:
        fetch("https://ada:s3cret@host/x")
    words = f"{raised.value} {raised.value.remedy}"
    assert words.isprintable()
    assert len(words) < 600
    assert "s3cret" not in words


def test_what_a_helper_leaves_running_is_not_waited_for(repo, fetch, server, user, tmp_path):
    """As ssh's shared connections, and git's own cache of passwords."""
    repo.commit(PURE)
    server.password = "s3cret"
    script = tmp_path / "helper"
    script.write_text(
        f"#!/bin/sh\nsleep 600 >/dev/null & echo $! >{tmp_path}/pid\necho username=ada; echo password=s3cret\n"
    )
    script.chmod(0o755)
    user.write_text(f"[credential]\n\thelper = {script}\n")
    try:
        assert text_of(fetch(server.url_of(repo))) == "VALUE = 1\n"
        os.kill(int((tmp_path / "pid").read_text()), 0)  # it was running all the time
    finally:
        os.kill(int((tmp_path / "pid").read_text()), 9)


@pytest.mark.parametrize("url", ["git@host.invalid:org/pure", "ssh://git@host.invalid:2222/org/pure"])
def test_over_ssh(url, repo, fetch, monkeypatch, tmp_path):
    """The user's own way to start it; what it is told is the address and git's own program, nothing else."""
    ssh = tmp_path / "ssh"
    ssh.write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/said\n[ -t 0 ] && exit 9\nexec git upload-pack {repo.path}\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("GIT_SSH", str(ssh))
    monkeypatch.setenv("GIT_SSH_VARIANT", "ssh")
    repo.commit(PURE)
    assert fetch(url).id.origin == f"git:{url}"
    assert all("git-upload-pack " in line for line in (tmp_path / "said").read_text().splitlines())


def test_in_a_hook_of_another_repository(repo, fetch, monkeypatch, tmp_path):
    """A hook runs with the names of its own repository in its environment."""
    repo.commit(PURE)
    other = GitRepo.make(tmp_path / "other")
    for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE", "GIT_WORK_TREE", "GIT_SHALLOW_FILE"):
        monkeypatch.setenv(name, str(other.path))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", f"url.file://{repo.path}.insteadOf")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", "https://host.invalid/x")
    assert text_of(fetch("https://host.invalid/x")) == "VALUE = 1\n"
    assert git(other.path, "for-each-ref") == ""


def test_no_hook_is_run(repo, fetch, user, tmp_path):
    """Neither one of the user's for all repositories, nor one that lies in a template."""
    repo.commit(PURE)
    (tmp_path / "template/hooks").mkdir(parents=True)
    hook = tmp_path / "template/hooks/reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    user.write_text(f"[core]\n\thooksPath = {hook.parent}\n[init]\n\ttemplateDir = {tmp_path}/template\n")
    fetch(repo.url)
    assert not (tmp_path / "ran").exists()


def test_without_git(repo, fetch, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SourceError, match="there is no git on PATH") as raised:
        fetch("https://host.invalid/x")
    assert "install git" in raised.value.remedy


def test_a_download_is_told_of(repo, fetch, server, heard):
    repo.commit(PURE | {"noise": random.Random(0).randbytes(3 << 20)})
    url = server.url_of(repo)
    fetch(url)
    assert {event.name for event in heard} == {url}
    assert heard[-1].done == heard[-1].total >= 3 << 20
    told = len(heard)
    fetch(url)
    assert len(heard) == told


# --- submodules ---------------------------------------------------------------------------------------------


@pytest.fixture
def family(repo, tmp_path):
    """A project with two submodules, one of which has another."""
    inner = GitRepo.make(tmp_path / "served/org/inner")
    deep = inner.commit({"deep.h": "DEEP"})
    outer = GitRepo.make(tmp_path / "served/org/outer")
    mid = outer.commit({".gitmodules": modules(x="deps/inner ../inner"), "deps/inner": (MODULE, deep), "mid.h": "MID"})
    listed = modules(a="third/outer ../outer", b="docs/theme ../gone")
    repo.commit(
        PURE
        | {".gitmodules": listed, "third/outer": (MODULE, mid), "docs/theme": (MODULE, "1" * 40)}
        | {"inner.h": (LINK, "third/outer/deps/inner/deep.h")}
    )
    return repo


def test_submodules_are_part_of_the_source(family, fetch, server):
    tree = fetch(server.url_of(family), submodules=("third/outer",))
    assert tree.read_text("third/outer/mid.h") == "MID"
    assert tree.read_text("third/outer/deps/inner/deep.h") == "DEEP"
    assert tree.read_text("inner.h") == "DEEP"
    asked = len(server.requests)
    assert fetch(server.url_of(family), str(tree.id.commit), submodules=("third/outer",)).id.tree == tree.id.tree
    assert len(server.requests) == asked


def test_a_submodule_that_cannot_be_had_is_named(family, fetch, server):
    with pytest.raises(SourceError, match="submodule docs/theme: there is no git repository") as raised:
        fetch(server.url_of(family))
    assert "submodules: false" in raised.value.remedy


def test_submodules_can_be_left_out(family, fetch, server):
    git(family.path, "update-ref", "refs/heads/main", family.commit({**PURE, "x": (MODULE, "1" * 40)}))
    assert fetch(server.url_of(family), submodules=()).paths == tuple(sorted(PURE))


def test_submodules_beside_the_kernel_are_not_fetched(tmp_path, fetch, server, repo):
    library = GitRepo.make(tmp_path / "served/org/library")
    commit = library.commit({"a.h": "A"})
    listed = modules(a="kernels/a/lib ../library", b="kernels/b/lib ../gone")
    files = {f"kernels/a/{path}": text for path, text in PURE.items()}
    repo.commit(files | {".gitmodules": listed, "kernels/a/lib": (MODULE, commit), "kernels/b/lib": (MODULE, "1" * 40)})
    assert fetch(server.url_of(repo), subdirectory="kernels/a").read_text("lib/a.h") == "A"


def test_a_kernel_that_lies_in_a_submodule(tmp_path, fetch, server, repo):
    inner = GitRepo.make(tmp_path / "served/org/inner")
    commit = inner.commit({f"kernel/{path}": text for path, text in PURE.items()})
    repo.commit({".gitmodules": modules(a="inner ../inner"), "inner": (MODULE, commit), "other/setup.py": "x"})
    assert fetch(server.url_of(repo), subdirectory="inner/kernel").paths == tuple(sorted(PURE))


def test_a_submodule_that_is_never_fetched(repo, fetch):
    listed = modules(a="big https://host.invalid/big") + "\tupdate = none\n"
    repo.commit(PURE | {".gitmodules": listed, "big": (MODULE, "1" * 40)})
    assert "big" not in " ".join(fetch(repo.url).paths)


def test_a_submodule_that_is_misspelt(family, fetch, server):
    with pytest.raises(SourceError, match="has no submodule third/outre") as raised:
        fetch(server.url_of(family), submodules=("third/outre",))
    assert raised.value.remedy == "fix kernel.submodules: it has docs/theme, third/outer"


# --- the cache ----------------------------------------------------------------------------------------------


def damage(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"x" * path.stat().st_size)


@pytest.mark.parametrize("what", ["*.pack", "*.idx"])
def test_a_damaged_repository_is_fetched_again(what, repo, fetch, tmp_path):
    first = repo.commit(PURE)
    fetch(repo.url)
    (found,) = (tmp_path / "cache/git").glob(f"*/repository.git/objects/pack/{what}")
    damage(found)
    repo.commit(PURE | {"more": "x"}, parent=first)
    assert fetch(repo.url).read_text("more") == "x"


def test_what_killed_runs_left_does_not_disturb(repo, fetch, tmp_path):
    commit = repo.commit(PURE)
    fetch(repo.url)
    (root,) = (tmp_path / "cache/git").glob("*/repository.git")
    left = [root / name for name in ("shallow.lock", "packed-refs.lock", "refs/wheelsmith/x.lock", "index.lock")]
    left.append(root / "objects/pack/tmp_pack_x")
    for path in left:
        path.touch()
    repo.commit(PURE | {"more": "x"}, parent=commit)
    assert fetch(repo.url).read_text("more") == "x"
    assert not [path for path in left if path.exists()]


def test_two_runs_at_once(family, fetch, server):
    results, start = [], threading.Barrier(4)

    def work():
        start.wait()
        results.append(fetch(server.url_of(family), submodules=("third/outer",)).id.tree)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    assert len(set(results)) == 1


@pytest.mark.release("builds a kernel")
def test_a_wheel_tells_where_its_source_is_from(repo, fetch, server, run, tmp_path, monkeypatch):
    commit = repo.commit(PURE)
    (tmp_path / "matrix.yaml").write_text(
        f"kernel: {{git: '{server.url_of(repo)}', revision: main}}\naxes: {{torch: [2.13], cuda: [cpu]}}\n"
    )
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    answer = run("build-matrix", "--engine", "local")
    assert answer.code == 0, answer.err
    results = json.loads((tmp_path / "dist/results.json").read_text())
    (cell,) = results["cells"].values()
    assert results["kernel"] == f"{server.url_of(repo)} @{commit[:7]}"
    assert {name: cell["source"][name] for name in ("origin", "revision", "commit")} == {
        "origin": f"git:{server.url_of(repo)}",
        "revision": "main",
        "commit": commit,
    }
    assert f"git:{server.url_of(repo)}" in (tmp_path / "dist/report.html").read_text()
