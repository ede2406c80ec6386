"""An index in a repo of a Hub on this machine, written by the real huggingface_hub."""

import json
import random
import socket
import time
from pathlib import Path

import huggingface_hub
import pytest
from hub_kernels import kernel_wheel
from hub_weather import Weather
from huggingface_hub import HfApi
from loopback_hub import Hub, serve, use_here

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.entries.state import unyank, yank
from wheelsmith.index.publish.kernels_layout import add_release, hub_builds
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage import hub as hub_module
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.hub import HubRepo, open_repo, parse_target
from wheelsmith.index.storage.protocol import ConflictError, Staged
from wheelsmith.model import Cell

# The client's own way to send a file, which its HTTP library has found a new word for.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Use 'content=:DeprecationWarning"),
    pytest.mark.usefixtures("in_process_worker"),
]
NOW = "2026-01-02T03:04:05Z"
CPU = Cell(release="2.11", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.11", toolkit="13.0", arch="x86_64")


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with serve(Hub()) as running:
        use_here(monkeypatch, running.endpoint, tmp_path / "hf")
        running.add("org/index", kind="models")
        running.add("org/relu")
        yield running


INDEX, KERNEL = "hf://org/index", "hf://kernels/org/relu@v1"


def at(target, commit):
    return HubRepo(HfApi(), parse_target(target), commit.oid)


def wheels(folder):
    return [
        kernel_wheel(folder, "relu", "1+cpu.torch2.11", CPU),
        kernel_wheel(folder, "relu", "1+cu130.torch2.11", CUDA),
    ]


def commits(hub, name="org/index"):
    return [commit.title for commit in hub.repos[name].history("main")][::-1][1:]


@pytest.mark.parametrize(
    ("target", "kind", "place"),
    [
        ("hf://org/index", "models", ""),
        ("hf://datasets/org/index", "datasets", ""),
        ("hf://spaces/org/index/whl/new", "spaces", "whl/new/"),
        ("hf://kernels/org/index", "kernels", ""),
    ],
)
def test_a_repo_holds_what_a_folder_would(target, kind, place, hub, tmp_path):
    hub.repos["org/index"].kind = kind
    storage, folder = open_repo(target), Folder(tmp_path / "index")
    made = wheels(tmp_path)
    for index in (Index(storage), Index(folder)):
        index.add(made, upload_time=NOW)
        index.change("relu", lambda state: yank(state, "1+cpu.torch2.11", "broken"))
    in_repo = {path.removeprefix(place): data for path, data in hub.repos["org/index"].files.items()}
    on_disk = {
        p.relative_to(folder.name).as_posix(): p.read_bytes() for p in Path(folder.name).rglob("*") if p.is_file()
    }
    on_disk.pop("_state/.lock")
    assert in_repo == on_disk
    assert commits(hub) == [f"Add {made[0].entry.filename} and 1 more", "Update the index"]
    assert storage.name == target
    assert verify(storage) == ()


def test_what_changes_nothing_makes_no_commit_and_sends_nothing(hub, tmp_path):
    index, made = Index(open_repo(INDEX)), wheels(tmp_path)
    index.add(made, upload_time=NOW)
    before, hub.requests[:] = commits(hub), []
    assert index.add(made, upload_time="2027-01-01T00:00:00Z")[0].upload_time == NOW
    assert index.repair() == ()
    assert index.remove_unused(older_than=float("inf")) == ()
    assert commits(hub) == before
    assert all(request.startswith("GET") for request in hub.requests)
    index.add([kernel_wheel(tmp_path, "relu", "1.1+cpu.torch2.11", CPU)], upload_time=NOW)
    assert sum(request.startswith("PUT") for request in hub.requests) == 1


def test_the_changes_can_be_shown_and_not_made(hub, tmp_path):
    staged, made = Staged(open_repo(KERNEL)), wheels(tmp_path)
    with hub_builds(made, KERNEL) as builds:
        add_release(staged, IndexRelease(uploads=tuple(made)), builds.builds, upload_time=NOW)
        keys = {write.key.split("/")[0] for write in staged.writes if write.size}
    pages = {"index.html", "projects", "simple", "cpu", "cu130"}
    assert keys == {"files", "_state", "build", *pages}
    assert len(hub.repos["org/relu"].commits) == 1


def test_work_is_done_again_on_what_another_committed_meanwhile(hub, tmp_path):
    storage, (first, second) = open_repo(INDEX), wheels(tmp_path)
    heads = []

    def work(staged):
        heads.append(staged.read("_state/relu.json"))
        entries = Index(staged).add([first], upload_time=NOW)
        if len(heads) == 1:
            Index(open_repo(INDEX)).add([second], upload_time=NOW)
        return entries

    assert storage.transaction(work)[0].filename == first.entry.filename
    assert heads[0] is None
    assert second.entry.filename in heads[1].data.decode()
    assert len(commits(hub)) == 2
    assert len(Index(storage).known("relu").entries) == 2
    assert verify(storage) == ()


def test_files_outside_of_an_index_change_by_compare_and_swap(hub):
    storage = open_repo(INDEX)
    storage.swap("x.txt", b"1", None)
    tag = storage.read("x.txt").tag
    with pytest.raises(ConflictError):
        storage.swap("x.txt", b"2", None)
    storage.swap("x.txt", b"2", tag)
    storage.put("y/z.txt", b"3")
    assert (storage.stat("y/z.txt").size, storage.stat("y"), storage.stat("no/such")) == (1, None, None)
    assert [item.key for item in storage.listing("y/")] == ["y/z.txt"]
    storage.delete("x.txt")
    storage.delete("x.txt")
    assert storage.read("x.txt") is None
    assert len(commits(hub)) == 4


@pytest.mark.parametrize("kind", ["silently_done", "cut", "cut before", "refused", "busy", "failed"])
def test_what_goes_wrong_on_the_way_does_no_harm(kind, hub, tmp_path, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    storage = open_repo(INDEX)
    for offer in wheels(tmp_path):
        hub.weather = Weather(planned=[kind] * 3, lagging=0.3, unread=0.3)
        Index(storage).add([offer], upload_time=NOW)
        assert hub.weather.happened[kind] > 0
    hub.weather = Weather()
    assert len(Index(storage).known("relu").entries) == len(commits(hub)) == 2
    assert verify(storage) == Index(storage).repair() == ()


def test_an_old_answer_does_not_undo_what_this_process_did(hub, tmp_path):
    """Yanked and unyanked: were the second based on the head from before the first, it would find nothing to do."""
    index = Index(open_repo(INDEX))
    index.add(wheels(tmp_path), upload_time=NOW)
    index.change("relu", lambda state: yank(state, "1+cpu.torch2.11", ""))
    hub.weather = Weather(late=1)
    index.change("relu", lambda state: unyank(state, "1+cpu.torch2.11"))
    assert {entry.yanked for entry in index.known("relu").entries} == {None}


def test_a_hub_that_never_answers_is_asked_again(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "_READ_TIMEOUT", 1.0)
    monkeypatch.setattr(huggingface_hub.get_session(), "timeout", None)
    hub.silent = True
    Index(open_repo(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    assert len(commits(hub)) == 1


def test_many_files_go_ahead_of_the_commit_that_names_them(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "_MAX_FILES_PER_COMMIT", 4)
    storage, repo = open_repo(INDEX), hub.repos["org/index"]
    made = [kernel_wheel(tmp_path, "relu", f"1.{number}+cpu.torch2.11", CPU) for number in range(5)]
    Index(storage).add(made, upload_time=NOW)
    history = repo.history("main")[::-1]
    assert [len(commit.files) for commit in history[:4]] == [0, 4, 8, 10]
    assert len(history) == 5
    assert {path.split("/")[0] for path in history[-2].files} == {"files"}
    assert verify(storage) == ()
    assert len(Index(storage).known("relu").entries) == 5


def test_the_repos_gitignore_leaves_nothing_out(hub, tmp_path):
    hub.repos["org/index"].files[".gitignore"] = b"files/\nsimple\n*.whl\n"
    Index(open_repo(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    assert verify(open_repo(INDEX)) == ()


def test_listings_go_on_over_pages(hub, tmp_path):
    hub.page = 3
    storage = open_repo(INDEX)
    Index(storage).add(wheels(tmp_path), upload_time=NOW)
    storage.put("files/ab/cd/old.whl", b"old")
    assert len(list(storage.listing("files/"))) == 5
    assert Index(storage).remove_unused(older_than=time.time() - 60) == ()
    assert Index(storage).remove_unused(older_than=time.time() + 60) == ("files/ab/cd/old.whl",)
    assert storage.stat("files/ab/cd/old.whl") is None


# --- builds for the kernels library -------------------------------------------------------------------------


def release(hub, *offers, target=KERNEL):
    with hub_builds(offers, target) as builds:
        add_release(open_repo(target), IndexRelease(uploads=tuple(offers)), builds.builds, upload_time=NOW)
    return builds.left_out


def built(hub, branch="v1"):
    files = hub.repos["org/relu"].at(branch).files
    found = {path: json.loads(data) for path, data in files.items() if path.endswith("/metadata.json")}
    return {path.split("/")[1]: data["wheelsmith"]["wheel"].split("-")[1] for path, data in found.items()}


def test_wheels_and_builds_are_one_commit(hub, tmp_path):
    assert release(hub, *wheels(tmp_path)) == {}
    repo = hub.repos["org/relu"]
    assert len(repo.history("v1")) == 2
    assert len(repo.history("main")) == 1
    assert built(hub) == {
        "torch211-cxx11-cpu-x86_64-linux": "1+cpu.torch2.11",
        "torch211-cxx11-cu130-x86_64-linux": "1+cu130.torch2.11",
    }
    assert verify(open_repo(KERNEL)) == ()
    release(hub, *wheels(tmp_path))
    assert len(repo.history("v1")) == 2


def test_a_newer_build_takes_all_of_the_older_ones_place(hub, tmp_path):
    old = kernel_wheel(tmp_path, "relu", "1+cpu.torch2.11", CPU, more={"relu/old.py": b""})
    release(hub, old)
    release(hub, kernel_wheel(tmp_path, "relu", "1.2+cpu.torch2.11", CPU))
    release(hub, kernel_wheel(tmp_path, "relu", "1.1+cpu.torch2.11", CPU))
    assert built(hub) == {"torch211-cxx11-cpu-x86_64-linux": "1.2+cpu.torch2.11"}
    files = hub.repos["org/relu"].at("v1").files
    assert not any(path.startswith("build/") and path.endswith("old.py") for path in files)
    assert len(Index(open_repo(KERNEL)).known("relu").entries) == 3


def test_of_two_builds_of_one_variant_the_newest_is_taken(hub, tmp_path):
    made = [kernel_wheel(tmp_path, "relu", f"1.{number}+cpu.torch2.11", CPU) for number in (9, 10, 8)]
    release(hub, *made)
    assert built(hub) == {"torch211-cxx11-cpu-x86_64-linux": "1.10+cpu.torch2.11"}


def test_what_has_no_build_is_told_and_still_published(hub, tmp_path):
    other = kernel_wheel(tmp_path, "relu", "2+cpu.torch2.11", CPU)
    plain = kernel_wheel(tmp_path, "tools", "1+cpu.torch2.11", CPU, more={"tools/_ops.py": None})
    left_out = release(hub, other, plain)
    assert {name.split("-")[0]: why.split(":")[0] for name, why in left_out.items()} == {
        "relu": "branch v1 is for version 1 of a kernel (branches are v1, v2, …)",
        "tools": "it is not the wheel of a Hub kernel, which has one package with an _ops.py",
    }
    assert len(Index(open_repo(KERNEL)).states()) == 2
    assert built(hub) == {}


def test_only_a_kernel_repo_gets_builds(hub, tmp_path):
    release(hub, *wheels(tmp_path), target="hf://org/index")
    assert not any(path.startswith("build/") for path in hub.repos["org/index"].files)
    with hub_builds(wheels(tmp_path), str(tmp_path / "index")) as builds:
        made = IndexRelease(uploads=tuple(wheels(tmp_path)))
        add_release(Folder(tmp_path / "index"), made, builds.builds, upload_time=NOW)
    assert verify(Folder(tmp_path / "index")) == ()


# --- what is refused ----------------------------------------------------------------------------------------

SECRET = "hf_averysecrettoken"


@pytest.fixture
def token(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", SECRET)


def refusal(tmp_path, target=INDEX):
    with pytest.raises(PackageIndexError) as caught:
        Index(open_repo(target)).add(wheels(tmp_path), upload_time=NOW)
    error = caught.value
    assert SECRET not in f"{error} {error.remedy} {error!r}"
    assert error.__cause__ is None or error.__suppress_context__
    return f"{error.message} | {error.remedy}"


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (
            "hf://org/gone",
            "there is no model repo org/gone on the Hub, or this account cannot see it | hf repos create",
        ),
        ("hf://kernels/org/gone", "hf repos create org/gone --type kernel"),
        ("hf://datasets/org/index", "there is no dataset repo org/index"),
        ("hf://org/index@v7", "org/index has no branch 'v7' | hf repos branch create org/index v7"),
    ],
)
def test_repos_and_branches_that_are_not_there(target, text, token, tmp_path):
    assert text in refusal(tmp_path, target)


def test_an_account_without_rights(hub, tmp_path, monkeypatch):
    hub.repos["org/index"].write_token = "hf_another"
    assert "may not write to hf://org/index" in refusal(tmp_path)
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert "may not write to hf://org/index: Forbidden: you must use a write token" in refusal(tmp_path)
    assert commits(hub) == []


def test_a_private_repo(hub, token, tmp_path, monkeypatch):
    hub.repos["org/index"].token = hub.repos["org/index"].write_token = "hf_right"
    assert "cannot see it" in refusal(tmp_path)
    monkeypatch.setenv("HF_TOKEN", "hf_right")
    Index(open_repo(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    assert verify(open_repo(INDEX)) == ()


@pytest.mark.parametrize(("how", "text"), [("said", "storage is full"), ("refused", "storage quota exceeded")])
def test_a_repo_that_is_full(how, text, hub, token, tmp_path):
    hub.repos["org/index"].full = how
    assert text in refusal(tmp_path)
    assert commits(hub) == []


def test_a_hub_that_is_not_there_or_switched_off(token, tmp_path, monkeypatch):
    monkeypatch.setattr(hub_module, "_REQUEST_ATTEMPTS", 2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", endpoint)
    assert "cannot be reached: ConnectError | check the network" in refusal(tmp_path)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    assert "in offline mode (HF_HUB_OFFLINE) | unset HF_HUB_OFFLINE" in refusal(tmp_path)


def test_a_hub_that_is_broken(hub, token, tmp_path, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    hub.weather = Weather(failed=1.0)
    assert "cannot be reached: the Hub answered 50" in refusal(tmp_path)
