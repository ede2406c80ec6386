"""An index on GitHub: releases and a branch of a GitHub on this machine."""

import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from command_line import run_command
from installers import Installers
from loopback_github import OWNER, TOKEN, Asset, moment, serve_github
from wheels import make_wheel, offer

from wheelsmith.base.errors import AddressError, PackageIndexError
from wheelsmith.index.entries.catalogue import catalogue_key, load_catalogue
from wheelsmith.index.entries.state import remove
from wheelsmith.index.publish.promote import Promotion, promote
from wheelsmith.index.publish.verify import repair, verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage import compare_and_swap, github_api, github_releases
from wheelsmith.index.storage.github import open_github
from wheelsmith.index.storage.github_api import parse_target
from wheelsmith.index.storage.protocol import ConflictError
from wheelsmith.model import Cell

pytestmark = pytest.mark.usefixtures("in_process_worker")
NOW = "2026-01-02T03:04:05Z"
INDEX = f"github://{OWNER}"
CPU = Cell(release="2.9", toolkit=None, arch="x86_64")
CUDA = Cell(release="2.9", toolkit="13.0", arch="x86_64")


@pytest.fixture
def github(monkeypatch):
    with serve_github() as running:
        monkeypatch.delenv("GH_TOKEN", raising=False)
        for name, value in running.environ.items():
            monkeypatch.setenv(name, value)
        yield running
        assert running.broken == []
        assert running.tokens_elsewhere == []


def wheel(folder, version="1+cpu.torch2.9", cell=CPU, name="relu", **more):
    return offer(make_wheel(folder, name, version, **more), cell)


def wheels(folder):
    return [wheel(folder), wheel(folder, "1+cu130.torch2.9", CUDA)]


def test_wheels_are_assets_of_a_release_and_pages_name_them(github, tmp_path):
    made = wheels(tmp_path)
    entries = Index(open_github(INDEX)).add(made, upload_time=NOW)
    names = [name for each in made for name in (each.entry.filename, f"{each.entry.filename}.metadata")]
    assert github.names("relu-1") == sorted(names)
    url = f"{github.url}/{OWNER}/releases/download/relu-1/{made[0].entry.filename.replace('+', '%2B')}"
    assert entries[0].served_at == url
    files = github.files()
    assert not any(path.startswith("files/") for path in files)
    assert ".nojekyll" in files
    for page in (
        "cpu/relu/index.html",
        "cpu/relu/index.json",
        "projects/relu/index.html",
        "projects/relu/catalogue.json",
    ):
        assert url in files[page].decode()
    catalogue = load_catalogue(files[catalogue_key("relu")], "here")
    assert {each.url for each in catalogue.wheels} == {each.served_at for each in entries}
    assert b'"schema_version": 6' in files["_state/relu.json"]
    assert verify(open_github(INDEX)) == ()
    assert open_github(INDEX).name == INDEX


def test_what_changes_nothing_writes_nothing(github, tmp_path):
    index, made = Index(open_github(INDEX)), wheels(tmp_path)
    index.add(made, upload_time=NOW)
    before = len(github.requests)
    assert index.add(made, upload_time="2027-01-01T00:00:00Z")[0].upload_time == NOW
    assert index.repair() == ()
    assert index.remove_unused(older_than=float("inf")) == ()
    assert [each for each in github.requests[before:] if not each.startswith("GET")] == []


def test_files_of_the_branch_change_by_compare_and_swap(github):
    storage = open_github(INDEX)
    storage.swap("x.txt", b"1", None)
    tag = storage.read("x.txt").tag
    with pytest.raises(ConflictError):
        storage.swap("x.txt", b"2", None)
    open_github(INDEX).swap("x.txt", b"2", tag)
    with pytest.raises(ConflictError):
        storage.swap("x.txt", b"3", tag)
    storage.put("y/z.bin", b"\xff\0")
    assert storage.read("x.txt").data == b"2"
    assert storage.read("y/z.bin").data == b"\xff\0"
    storage.delete("x.txt")
    storage.delete("x.txt")
    assert set(github.files()) == {".nojekyll", "y/z.bin"}
    assert len(github.commits) == 4


def test_another_commit_in_between_makes_the_work_run_again(github, tmp_path):
    first, second = wheels(tmp_path)
    seen = []

    def work(staged):
        seen.append(staged.read("_state/relu.json"))
        Index(staged).add([first], upload_time=NOW)
        if len(seen) == 1:
            Index(open_github(INDEX)).add([second], upload_time=NOW)

    open_github(INDEX).transaction(work)
    assert len(seen) == 2
    assert len(Index(open_github(INDEX)).known("relu").entries) == 2


FAULTS = [
    (kind, where) for kind in ("500", "500-done", "cut-done", "403") for where in ("/uploads/", "PATCH", "POST /api")
]


@pytest.mark.parametrize(("kind", "where"), [*FAULTS, ("429", "POST /api"), ("starter", "/uploads/")])
def test_what_goes_wrong_on_the_way_does_no_harm(kind, where, github, tmp_path, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    Index(open_github(INDEX)).add([wheel(tmp_path, name="other")], upload_time=NOW)
    github.once[where] = [kind] * 2
    Index(open_github(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    assert github.happened[kind] == 2
    assert len(github.names("relu-1")) == 4
    assert verify(open_github(INDEX)) == ()


def test_two_publishers_at_once_on_a_bad_day(github, tmp_path, monkeypatch):
    """Both have one wheel in common. After every change, GitHub here looks for links that lead nowhere."""
    monkeypatch.setattr(compare_and_swap, "_MAX_PAUSE", 0.05)
    github.faults = {"500": 13, "500-done": 17, "cut-done": 19, "403": 23, "429": 29, "starter": 7}
    shared = wheel(tmp_path, "9+cpu.torch2.9")
    mine = [[wheel(tmp_path, f"{n}.{m}+cpu.torch2.9", name=f"k{m % 2}") for m in range(4)] + [shared] for n in (1, 2)]
    ready = threading.Barrier(2)

    def publish(offers):
        index = Index(open_github(INDEX))
        ready.wait()
        for each in offers:
            index.add([each], upload_time=NOW)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(publish, mine))
    assert {kind for kind in github.faults if github.happened[kind]} == set(github.faults)
    github.faults = {}
    assert github.broken == []
    assert verify(open_github(INDEX)) == ()
    found = {entry.filename for state in Index(open_github(INDEX)).states().values() for entry in state.entries}
    assert found == {each.entry.filename for offers in mine for each in offers}


def test_the_watch_of_links_sees_a_page_before_its_wheel(github, tmp_path, monkeypatch):
    monkeypatch.setattr(github_releases.Uploader, "upload", lambda *_: None)
    Index(open_github(INDEX)).add([wheel(tmp_path)], upload_time=NOW)
    assert github.broken
    github.broken.clear()


# --- installing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("installer", ["pip", "uv"])
def test_installers_install_from_it(installer, github, tmp_path):
    Index(open_github(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    installers = Installers(tmp_path)
    environment = installers.environment("plain")
    python = environment / "bin" / "python"
    if installer == "pip":
        first = (sys.executable, "-m", "pip", "--python", python, "install", "--index-url")
        done = installers._run(*first, f"{github.index}cpu/", "relu")
    else:
        done = installers.uv("pip", "install", "--python", python, "--default-index", f"{github.index}cpu/", "relu")
    assert done.returncode == 0, done.stderr
    assert installers.run(environment, "import relu; print(relu.VERSION)") == "1+cpu.torch2.9"
    assert any(each.endswith(".whl.metadata") for each in github.requests)


def test_the_command_that_pick_prints_is_served(github, tmp_path, monkeypatch, capsys):
    Index(open_github(INDEX)).add([wheel(tmp_path, requires=("torch==2.9.*",))], upload_time=NOW)
    command = (
        "pick",
        "relu",
        "--index",
        github.index,
        "--torch",
        "2.9",
        "--cuda",
        "cpu",
        "--with-torch",
        "--installer",
    )
    done = run_command(monkeypatch, capsys, *command, "requirements")
    assert done.code == 0, done.err
    (entry,) = Index(open_github(INDEX)).known("relu").entries
    assert f"relu @ {entry.served_at}#sha256={entry.sha256}" in done.out


def test_the_doctor_finds_it_well(github, tmp_path, monkeypatch, capsys):
    Index(open_github(INDEX)).add(wheels(tmp_path), upload_time=NOW)
    done = run_command(monkeypatch, capsys, "index", "doctor", github.index)
    assert done.code == 0, done.out + done.err


# --- removal ----------------------------------------------------------------------------------------------------------


def age(github, seconds=30 * 86400):
    for asset in github.assets.values():
        asset.created_at = moment(seconds)


def test_removed_wheels_are_collected(github, tmp_path):
    index, made = Index(open_github(INDEX)), wheels(tmp_path)
    index.add(made, upload_time=NOW)
    index.change("relu", lambda state: remove(state, "1+cpu.torch2.9"))
    assert index.remove_unused(older_than=time.time() - 60) == ()
    age(github)
    assert index.remove_unused(older_than=time.time() - 60) == tuple(sorted(made[0].entry.paths))
    assert github.names() == sorted([made[1].entry.filename, f"{made[1].entry.filename}.metadata"])
    assert "_state/.removed-assets.json" not in github.files()
    assert verify(open_github(INDEX)) == ()


@pytest.mark.parametrize("killed", [True, False])
def test_a_publisher_never_names_what_gc_removes_at_the_same_moment(killed, github, tmp_path, monkeypatch):
    """It finds an old wheel that no page names, and gc removes that before the publisher has committed."""
    index, made = Index(open_github(INDEX)), wheel(tmp_path)
    index.add([made], upload_time=NOW)
    index.change("relu", lambda state: remove(state, "1+cpu.torch2.9"))
    age(github)
    runs = []

    def work(staged):
        runs.append(None)
        Index(staged).add([made], upload_time=NOW)
        if len(runs) > 1:
            return
        with monkeypatch.context() as patch:
            if killed:  # after the commit that says what is removed, and before the removal
                patch.setattr(github_api.GitHubApi, "delete_asset", lambda *_: os.kill(0, 99))
            try:
                Index(open_github(INDEX)).remove_unused(older_than=time.time() - 60)
            except OSError:
                assert len(github.assets) == 2

    open_github(INDEX).transaction(work)
    assert len(runs) == 2
    assert len(github.assets) == 2
    assert "_state/.removed-assets.json" not in github.files()
    assert verify(open_github(INDEX)) == ()


def test_releases_of_other_people_are_left_alone(github, tmp_path):
    storage = open_github(INDEX)
    Index(storage).add([wheel(tmp_path)], upload_time=NOW)
    theirs = github.add_release("v1", "Our first release")
    asset = add_asset(github, theirs, "relu-0-py3-none-any.whl")
    assert Index(storage).remove_unused(older_than=float("inf")) == ()
    assert asset in github.assets.values()
    github.add_release("relu-2", "By hand")
    with pytest.raises(PackageIndexError, match="has a release relu-2 that is not of github://acme/kernels"):
        Index(storage).add([wheel(tmp_path, "2+cpu.torch2.9")], upload_time=NOW)


def add_asset(github, release, name, state="uploaded", before=86400.0 * 30):
    asset = Asset(next(github.numbers), release, name, b"x" if state == "uploaded" else b"", state, moment(before))
    github.assets[asset.id] = asset
    return asset


def test_what_is_left_of_a_broken_upload_is_uploaded_again(github, tmp_path):
    made, storage = wheel(tmp_path), open_github(INDEX)
    Index(storage).add([wheel(tmp_path, "1+cu130.torch2.9", CUDA)], upload_time=NOW)
    release = next(iter(github.releases))
    add_asset(github, release, made.entry.filename, "starter", before=700.0)
    left = add_asset(github, release, "relu-1+cpu.torch2.8-py3-none-any.whl", "starter")
    Index(storage).add([made], upload_time=NOW)
    assert verify(storage) == ()
    assert len(Index(storage).remove_unused(older_than=time.time() - 60)) == 1
    assert left.id not in github.assets


def test_the_upload_of_another_publisher_is_waited_for(github, tmp_path, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.05)
    made, storage = wheel(tmp_path), open_github(INDEX)
    Index(storage).add([wheel(tmp_path, "1+cu130.torch2.9", CUDA)], upload_time=NOW)
    theirs = add_asset(github, next(iter(github.releases)), made.entry.filename, "starter", before=1.0)
    asked = github.requests.count("GET /api/repos/acme/kernels/releases/tags/relu-1")
    with ThreadPoolExecutor(1) as pool:
        adding = pool.submit(Index(storage).add, [made], upload_time=NOW)
        while github.requests.count("GET /api/repos/acme/kernels/releases/tags/relu-1") < asked + 3:
            time.sleep(0.01)
        theirs.data, theirs.state = made.wheel.read_bytes(), "uploaded"
        adding.result()
    assert theirs.id in github.assets
    assert verify(storage) == ()


# --- channels, repair, and servers without hashes ---------------------------------------------------------------------


def test_a_version_is_promoted_between_channels(github, tmp_path):
    nightly, stable = open_github(f"{INDEX}/nightly"), open_github(f"{INDEX}/stable")
    Index(nightly).add(wheels(tmp_path), upload_time=NOW)
    promote(nightly, stable, Promotion(project="relu", version="1", incomplete=True), stable.name)
    assert github.names("relu-1-nightly") == github.names("relu-1-stable")
    assert all("/relu-1-stable/" in entry.served_at for entry in Index(stable).known("relu").entries)
    assert verify(stable) == verify(nightly) == ()
    Index(nightly).change("relu", lambda state: remove(state, "1"))
    assert len(Index(nightly).remove_unused(older_than=float("inf"))) == 4
    assert verify(stable) == ()


def test_a_lost_wheel_is_restored(github, tmp_path):
    storage, made = open_github(INDEX), wheel(tmp_path)
    Index(storage).add([made], upload_time=NOW)
    github.assets = {n: asset for n, asset in github.assets.items() if asset.name != made.entry.filename}
    github.broken.clear()
    assert [problem.message for problem in verify(open_github(INDEX))] == [
        f"{made.entry.filename} is listed but missing"
    ]
    assert repair(open_github(INDEX), [tmp_path]).left == ()
    github.broken.clear()
    assert verify(open_github(INDEX)) == ()


def test_a_server_that_reports_no_hashes(github, tmp_path):
    github.digests = False
    storage = open_github(INDEX)
    Index(storage).add(wheels(tmp_path), upload_time=NOW)
    Index(storage).add(wheels(tmp_path), upload_time=NOW)
    assert verify(storage) == ()
    assert Index(storage).remove_unused(older_than=float("inf")) == ()


# --- what is refused --------------------------------------------------------------------------------------------------


def refusal(target, *offers):
    with pytest.raises(PackageIndexError) as caught:
        Index(open_github(target)).add(list(offers), upload_time=NOW)
    error = caught.value
    assert TOKEN not in f"{error} {error.remedy} {error!r}"
    return f"{error.message} | {error.remedy}"


def uploads(github):
    return [each for each in github.requests if each.startswith("POST")]


def test_limits_are_told_before_anything_is_uploaded(github, tmp_path, monkeypatch):
    monkeypatch.setattr(github_releases, "MAX_ASSET", 1000)
    assert "GitHub's assets have less than 2 GiB" in refusal(
        INDEX, wheel(tmp_path, files={"relu/big": random.randbytes(5000)})
    )
    monkeypatch.undo()
    monkeypatch.setattr(github_releases, "MAX_ASSETS", 3)
    for name, value in github.environ.items():
        monkeypatch.setenv(name, value)
    assert "the release relu-1 would have 4 assets, two for each wheel; GitHub allows 3" in refusal(
        INDEX, *wheels(tmp_path)
    )
    assert uploads(github) == []
    Index(open_github(INDEX)).add(wheels(tmp_path)[:1], upload_time=NOW)
    assert "would have 4 assets" in refusal(INDEX, wheels(tmp_path)[1])


def test_an_asset_is_never_replaced(github, tmp_path):
    index = Index(open_github(INDEX))
    index.add([wheel(tmp_path / "one")], upload_time=NOW)
    before = {asset.id: asset.data for asset in github.assets.values()}
    github.branches.clear()  # its page and its state are lost
    other = wheel(tmp_path / "other", files={"relu/other": b"x"})
    said = refusal(INDEX, other)
    assert "is in the release relu-1 with other bytes, and an asset is never replaced" in said
    assert f"wheelsmith index gc {INDEX} --grace 0s" in said
    assert {asset.id: asset.data for asset in github.assets.values()} == before
    assert len(index.remove_unused(older_than=time.time() + 60)) == 2
    index.add([other], upload_time=NOW)
    assert verify(open_github(INDEX)) == ()


def test_an_epoch_is_refused_because_github_renames_it(github, tmp_path):
    assert "GitHub replaces the ! of an epoch in file names" in refusal(INDEX, wheel(tmp_path, "1!2+cpu.torch2.9"))
    assert uploads(github) == []


@pytest.mark.parametrize(
    ("change", "target", "text"),
    [
        ({"token": "another"}, INDEX, "the token for github://acme/kernels is not accepted: Bad credentials"),
        (
            {},
            "github://acme/gone",
            "GitHub allows no such request for github://acme/gone with this token (404): Not Found",
        ),
        ({"is_empty": True}, INDEX, "acme/kernels has no commit"),
        ({"protected": True}, INDEX, "Changes must be made through a pull request."),
    ],
)
def test_what_github_refuses_is_one_message(change, target, text, github, tmp_path):
    for name, value in change.items():
        setattr(github, name, value)
    assert text in refusal(target, wheel(tmp_path))


def test_without_a_token_an_index_is_read_and_not_written(github, tmp_path, monkeypatch):
    Index(open_github(INDEX)).add([wheel(tmp_path)], upload_time=NOW)
    monkeypatch.delenv("GITHUB_TOKEN")
    assert verify(open_github(INDEX)) == ()
    assert "GitHub allows no such request for github://acme/kernels without a token (404)" in refusal(
        INDEX, wheel(tmp_path, "2+cpu.torch2.9")
    )
    monkeypatch.setenv("GH_TOKEN", TOKEN)
    Index(open_github(INDEX)).add([wheel(tmp_path, "2+cpu.torch2.9")], upload_time=NOW)


def test_a_server_that_keeps_failing_is_one_error(github, tmp_path, monkeypatch):
    monkeypatch.setattr(random, "uniform", lambda *_: 0.0)
    github.once["POST /uploads"] = ["500"] * 50
    assert "cannot be uploaded: GitHub answered 500" in refusal(INDEX, wheel(tmp_path))
    monkeypatch.setenv("GITHUB_API_URL", "http://127.0.0.1:9")
    assert "github://acme/kernels cannot be reached" in refusal(INDEX, wheel(tmp_path))
    monkeypatch.setenv("GITHUB_API_URL", "http://github.example.org/api/v3")
    with pytest.raises(PackageIndexError, match="GITHUB_API_URL is not an https address"):
        open_github(INDEX)


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("github://acme/kernels", "github://acme/kernels"),
        ("github://acme/kernels@gh-pages/", "github://acme/kernels"),
        ("github://acme/kernels@wheels/stable", "github://acme/kernels@wheels/stable"),
    ],
)
def test_addresses(target, name):
    assert parse_target(target).name == name


@pytest.mark.parametrize(
    "target",
    [
        "github://acme",
        "github://acme/..",
        "github://hunter2@acme/x",
        "github://acme/x/../y",
        "github://acme/x?token=hunter2",
    ],
)
def test_addresses_of_nothing(target):
    with pytest.raises(AddressError) as caught:
        parse_target(target)
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"
