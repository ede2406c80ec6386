"""A git repository of a stranger: nothing outside of it is read or run, and it costs a bounded while."""

import contextlib
import random

import pytest
from git_repos import EXECUTABLE, FILE, FOLDER, LINK, MODULE, GitRepo, modules, serve_git

from wheelsmith.base.errors import SourceError
from wheelsmith.matrix.types import KernelRef
from wheelsmith.source import fetch_source, git_repository
from wheelsmith.source import git as source
from wheelsmith.source import tree as source_tree
from wheelsmith.source.folder import Outputs
from wheelsmith.source.tree import SourceTree

START = {"setup.py": "raise SystemExit('never run to plan')\n"}


@pytest.fixture
def repo(tmp_path):
    return GitRepo.make(tmp_path / "served" / "org" / "evil")


@pytest.fixture
def refused(tmp_path):
    """Fetch a source, and give the one error that it ends with."""

    def refused(url: str, revision: str = "main", **more) -> SourceError:
        with pytest.raises(SourceError) as raised:
            fetched(tmp_path, url, revision, **more)
        words = f"{raised.value} {raised.value.remedy}"
        assert words.isprintable(), words
        assert not list((tmp_path / "cache").glob("sources/.*/checkout"))
        assert len(words) < 900
        return raised.value

    return refused


def fetched(folder, url: str, revision: str = "main", **more) -> SourceTree:
    outputs = Outputs(out=folder / "dist", cache=folder / "cache")
    return fetch_source(
        KernelRef(git=url, revision=revision, **more), base=folder, outputs=outputs, listen=lambda event: None
    )


# --- names --------------------------------------------------------------------------------------------------

NAMES = {
    "the folder above": b"..",
    "git's own folder": b".git",
    "git's own, with what cannot be seen": "\u200c.git".encode(),
    "a way out in a name": b"../../etc/passwd",
    "an absolute path": b"/etc/passwd",
    "a path of Windows": b"a\\b",
    "an escape": b"\x1b[2Ja",
    "no text": b"\xff\xfe",
}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_names_that_lead_elsewhere(name, repo, refused):
    start = repo.blob("x")
    repo.commit_tree(repo.tree((FILE, name, start), (FILE, "setup.py", start)))
    refused(repo.url)


# --- links --------------------------------------------------------------------------------------------------

LINKS = {
    "out": ("../../../../../../../../etc/passwd", "leads out of the source"),
    "absolute": ("/etc/passwd", "leads out of the source"),
    "nowhere": ("nope", "is a dangling link"),
    "to the top": (".", "more than 100 folders"),
    "no text": (b"\xff", "is a dangling link"),
}


@pytest.mark.parametrize(("to", "why"), LINKS.values(), ids=LINKS)
def test_links_that_lead_nowhere_good(to, why, repo, refused):
    inner = repo.tree((FILE, "f", repo.blob("f")))
    entries = ((FOLDER, "folder", inner), (LINK, "link", repo.blob(to)), (FILE, "setup.py", repo.blob("x")))
    repo.commit_tree(repo.tree(*entries))
    assert why in str(refused(repo.url))


def test_a_folder_that_is_a_link_out_of_the_source(repo, refused, tmp_path):
    (tmp_path / "setup.py").touch()
    repo.commit({**START, "kernel": (LINK, str(tmp_path))})
    assert "is a link that leads out" in str(refused(repo.url, subdirectory="kernel"))


def test_two_folders_that_are_in_each_other(repo, refused):
    repo.commit({**START, "a/b": (LINK, "../b"), "b/a": (LINK, "../a"), "b/f": "x"})
    assert "more than 100 folders" in str(refused(repo.url))


def test_a_folder_of_links_to_folders_of_links(repo, refused):
    """Ten by ten by ten: without a limit, as many files as one likes."""
    files = {f"d{n}/{m}": (LINK, f"../d{n + 1}") for n in range(8) for m in range(10)}
    repo.commit({**START, **files, "d8/f": "x"})
    assert "more than 20000 files" in str(refused(repo.url))


# --- what is asked for -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "word",
    [
        *("git+ext::sh -c 'touch ran'", "git+--upload-pack=x://host/x", "git+https://host/x@+a:refs/heads/b"),
        *("git+https://host/x@a:refs/heads/b", "git+https://host/x@-u", "git+https://host/x#subdirectory=../.."),
        *(
            "git+https://host/\x1b[2J",
            "git+ssh://-oProxyCommand=x/y",
            "git+https://[/x",
            "git+",
            "git+https://host/x?y",
        ),
    ],
)
def test_what_a_command_line_names_is_as_little_believed(word, run, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WHEELSMITH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GIT_ALLOW_PROTOCOL", "none")
    answer = run("init", word)
    assert answer.code != 0
    assert answer.err.startswith("error: ")
    assert "Traceback" not in answer.err
    assert "transport" not in answer.err  # git itself was not asked
    assert not (tmp_path / "matrix.yaml").exists()


# --- sizes --------------------------------------------------------------------------------------------------


def test_a_large_file_that_many_names_have(repo, refused, monkeypatch):
    monkeypatch.setattr(source_tree, "MAX_BYTES", 1000)
    repo.commit({**START, **{f"f{n}": (LINK, "big") for n in range(20)}, "big": "x" * 100})
    assert "larger than" in str(refused(repo.url))


def test_ten_folders_in_each_of_ten_folders(repo, refused):
    """A few objects, and without a limit more files than any disk holds."""
    tree = repo.tree()
    for _ in range(12):
        tree = repo.tree(*((FOLDER, f"{n}", tree) for n in range(10)))
    repo.commit_tree(tree)
    assert "killed by signal 25" in str(refused(repo.url))


def test_more_than_any_repository_has_is_not_written(repo, refused, monkeypatch):
    monkeypatch.setattr(git_repository, "_MAX_REPOSITORY", 1000)
    repo.commit({**START, **{f"f{n}": "x" * 100 for n in range(10)}})
    assert "is too large for a source: over" in str(refused(repo.url))


SIZES = {"nothing": "0 MiB", "a size": "9 GiB", "no such size": "9" * 5000 + " GiB"}


@pytest.mark.parametrize("said", SIZES.values(), ids=SIZES)
def test_what_a_server_tells_of_its_progress_is_not_believed(said, repo, tmp_path, monkeypatch):
    hook = tmp_path / "hook"
    words = f"Receiving objects: 1% (1/2), {said}"
    hook.write_text(f'#!/bin/sh\necho "{words}" >&2\nprintf "%90000s{words}\\n" >&2\nexec "$@"\n')
    hook.chmod(0o755)
    (tmp_path / "config").write_text(f"[uploadpack]\n\tpackObjectsHook = {hook}\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "config"))
    repo.commit(START)
    heard = []
    kernel, outputs = KernelRef(git=repo.url, revision="main"), Outputs(out=tmp_path / "dist", cache=tmp_path / "cache")
    assert fetch_source(kernel, base=tmp_path, outputs=outputs, listen=heard.append).paths == ("setup.py",)
    assert heard == []


def test_a_pack_is_not_taken_without_end(repo, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(git_repository, "MAX_FILE_SIZE", 1 << 20)
    item = repo.blob(random.Random(0).randbytes(3 << 20))
    repo.commit_tree(repo.tree((FILE, "big", item), (FILE, "setup.py", repo.blob(""))))
    assert "or larger than 1 MiB" in str(refused(repo.url))
    assert sum(path.stat().st_size for path in (tmp_path / "cache").rglob("*") if path.is_file()) < 3 << 20


def test_a_few_bytes_that_become_very_many(repo, refused, monkeypatch, tmp_path):
    """A delta copies the same piece again and again; git holds all of it in memory."""
    monkeypatch.setattr(git_repository, "MEMORY", 64 << 20)
    big = repo.pack_of_copies(piece=b"\0" * (1 << 20), times=160)
    repo.commit_tree(repo.tree((FILE, "big", big), (FILE, "setup.py", repo.blob("x"))))
    with serve_git(tmp_path / "served") as server:
        assert "Out of memory" in str(refused(server.url_of(repo)))


def test_a_server_that_says_nothing(repo, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(git_repository, "COMMAND_TIMEOUT", 1.0)
    repo.commit(START)
    with serve_git(tmp_path / "served") as server:
        server.silent = "/org/evil/git-upload-pack"
        assert "it took longer than" in str(refused(server.url_of(repo)))


def test_a_file_that_is_not_there(repo, refused):
    repo.commit_tree(repo.tree((FILE, "a", "1" * 40), (FILE, "setup.py", repo.blob("x"))))
    assert "could not be fetched" in str(refused(repo.url))


# --- submodules ---------------------------------------------------------------------------------------------

ADDRESSES = {
    "this machine": ("/etc", "would be a folder of this machine"),
    "beside a local repository": ("../other", "would be a folder of this machine"),
    "a program": ("ext::sh -c 'touch ran'", "git would run a program"),
    "an option": ("-u./payload", "is not the address"),
}


@pytest.mark.parametrize(("url", "why"), ADDRESSES.values(), ids=ADDRESSES)
def test_addresses_of_submodules(url, why, repo, refused, tmp_path):
    listed = f'[submodule "a"]\n\tpath = a\n\turl = {url}\n'
    repo.commit({**START, ".gitmodules": listed, "a": (MODULE, "1" * 40)})
    error = refused(repo.url)
    assert str(error).startswith("submodule a: ")
    assert why in str(error)
    assert "submodules: false" in error.remedy


LISTS = {
    "none": None,
    "no settings": "[submodule",
    "another file's settings": '[include]\n\tpath = /etc/passwd\n[submodule "a"]\n\tpath = a\n',
    "a link": (LINK, "/etc/passwd"),
}


@pytest.mark.parametrize("listed", LISTS.values(), ids=LISTS)
def test_lists_of_submodules(listed, repo, refused):
    repo.commit({**START, "a": (MODULE, "1" * 40), **({".gitmodules": listed} if listed else {})})
    assert ".gitmodules" in str(refused(repo.url))


def test_a_list_of_submodules_includes_no_file_of_this_machine(repo, refused, tmp_path):
    own = tmp_path / "own"
    own.write_text('[submodule "a"]\n\turl = https://a-secret-of-this-machine.invalid/x\n')
    listed = f'[include]\n\tpath = {own}\n[submodule "a"]\n\tpath = a\n'
    repo.commit({**START, ".gitmodules": listed, "a": (MODULE, "1" * 40)})
    assert ".gitmodules has no address for it" in str(refused(repo.url))


def test_submodules_without_end(repo, refused):
    repo.commit({**START, **{f"m{n}": (MODULE, "1" * 40) for n in range(source._MAX_SUBMODULES + 1)}})
    assert f"{source._MAX_SUBMODULES} submodules" in str(refused(repo.url))


def test_submodules_within_one_another(repo, refused, tmp_path, monkeypatch):
    monkeypatch.setattr(source, "_MAX_SUBMODULES", 3)
    commit = repo.commit(START)
    for _ in range(4):
        commit = repo.commit({**START, ".gitmodules": modules(a="a ../evil"), "a": (MODULE, commit)}, parent=commit)
    with serve_git(tmp_path / "served") as server:
        assert "3 submodules" in str(refused(server.url_of(repo)))


def test_a_submodule_below_a_link_is_not_written_there(repo, refused, tmp_path):
    """git keeps one of two entries of a name; whichever it is, nothing leaves the checkout."""
    victim = tmp_path / "victim"
    victim.mkdir()
    inner = GitRepo.make(tmp_path / "served/org/inner")
    commit = inner.commit({"b": "theirs"})
    listed = repo.blob(modules(a="a ../inner"))
    both = ((LINK, "a", repo.blob(str(victim))), (MODULE, "a", commit))
    for entries in (both, both[::-1]):
        repo.commit_tree(repo.tree((FILE, ".gitmodules", listed), *entries, (FILE, "setup.py", repo.blob("x"))))
        with serve_git(tmp_path / "served") as server, contextlib.suppress(SourceError):
            fetched(tmp_path, server.url_of(repo))
    assert not list(victim.iterdir())


# --- what is executable is so by its mode alone -------------------------------------------------------------


def test_modes_are_no_more_than_git_knows(repo, tmp_path):
    repo.commit({**START, "tool": (EXECUTABLE, "#!/bin/sh\n"), "100755": "x"})
    found = {file.path: file.executable for file in fetched(tmp_path, repo.url).files}
    assert found == {"100755": False, "setup.py": False, "tool": True}
