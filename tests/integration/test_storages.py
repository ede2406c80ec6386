"""What every storage of an index must hold, whatever it is made of."""

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import pytest
from flaky_proxy import FlakyProxy
from loopback import running
from loopback_azure import CONTAINER, azurite, loopback_azure
from loopback_gcs import LoopbackGcs
from loopback_github import OWNER, serve_github
from loopback_s3 import BUCKET, environment, loopback_s3, needs_s3, only
from wheels import make_wheel, offer

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder
from wheelsmith.index.storage.github import GitHubRepo
from wheelsmith.index.storage.location import open_storage
from wheelsmith.index.storage.protocol import ConflictError, Staged
from wheelsmith.model import Cell

pytestmark = pytest.mark.xdist_group("storages")

NOW = "2026-01-02T03:04:05Z"
WHEEL = f"files/ab/{'ab' * 32}/k-1!2+cu130.torch2.9-cp39-abi3-manylinux_2_28_x86_64.whl"
NO_EPOCH = WHEEL.replace("1!", "")  # GitHub takes none
BIG = b"x" * (6 << 20)
BIG_WHEEL = WHEEL.replace("ab" * 32, hashlib.sha256(BIG).hexdigest())
CPU = Cell(release="2.9", toolkit=None, arch="x86_64")


@pytest.fixture(scope="module")
def moto():
    """A loopback S3 behind a proxy that fails in nothing."""
    with loopback_s3() as port, FlakyProxy(port) as proxy:
        yield proxy


@pytest.fixture
def s3(moto):
    with only(environment(moto.url)):
        yield moto


@pytest.fixture
def gcs():
    with LoopbackGcs() as server, running(server), only(server.environ):
        yield server


@pytest.fixture(scope="module")
def account(request, tmp_path_factory):
    program = azurite(request.config.cache.mkdir("azurite"))
    with loopback_azure(program, tmp_path_factory.mktemp("azurite")) as environ:
        yield environ


@pytest.fixture
def azure(account):
    with only(account):
        yield account


@pytest.fixture
def github():
    with serve_github() as server, only(server.environ):
        yield server


# Each makes a storage that is empty, for a test of this name.
def in_folder(request, name, tmp_path):
    return Folder(tmp_path / "index")


def staged(request, name, tmp_path):
    return Staged(Folder(tmp_path / "index"))


def in_s3(request, name, tmp_path):
    request.getfixturevalue("s3")
    return open_storage(f"s3://{BUCKET}/{name}")


def in_gcs(request, name, tmp_path):
    request.getfixturevalue("gcs")
    return open_storage(f"gs://{BUCKET}/{name}")


def in_azure(request, name, tmp_path):
    request.getfixturevalue("azure")
    return open_storage(f"az://{CONTAINER}/{name}")


def on_github(request, name, tmp_path):
    request.getfixturevalue("github")
    return open_storage(f"github://{OWNER}")


NOT_QUICK = pytest.mark.release("another storage: the folder's turn of the same tests is quick")
S3 = [needs_s3, NOT_QUICK]
AZURE = [NOT_QUICK]
# A transaction of these is seen whole or not at all, so it is the transaction that conflicts and not the file.
AT_ONCE = [pytest.param(staged, id="staged")]
BUCKETS = [
    pytest.param(in_s3, id="s3", marks=S3),
    pytest.param(in_gcs, id="gcs", marks=S3),
    pytest.param(in_azure, id="azure", marks=AZURE),
]
FILE_BY_FILE = [pytest.param(in_folder, id="folder"), *BUCKETS]


@pytest.fixture
def storage(request, tmp_path):
    name = "".join(letter if letter.isalnum() else "-" for letter in request.node.name)
    return request.param(request, name, tmp_path)


GITHUB = [pytest.param(on_github, id="github")]
every_storage = pytest.mark.parametrize("storage", [*FILE_BY_FILE, *AT_ONCE, *GITHUB], indirect=True)
# GitHub keeps the time of an asset; a commit says what is removed, so gc there needs no age.
where_age_protects = pytest.mark.parametrize("storage", [*FILE_BY_FILE, *AT_ONCE], indirect=True)
where_files_conflict = pytest.mark.parametrize("storage", FILE_BY_FILE, indirect=True)


@every_storage
def test_what_is_not_there(storage):
    """The first that asks for each storage: servers of other people are fetched and started for some of them."""
    assert storage.read("cpu/k/index.html") is None
    assert storage.stat("cpu/k/index.html") is None
    assert list(storage.listing("files/")) == []
    storage.delete("cpu/k/index.html")


@every_storage
@pytest.mark.parametrize("content", [b"", b"some\0bytes", b"x" * (11 << 20)], ids=["empty", "small", "in-parts"])
def test_what_was_put_is_there(content, storage, tmp_path):
    if not content and isinstance(storage, GitHubRepo):
        return  # GitHub takes no empty file
    (tmp_path / "wheel").write_bytes(content)
    sha256 = hashlib.sha256(content).hexdigest()
    wheel = NO_EPOCH.replace("ab" * 32, sha256).replace("/ab/", f"/{sha256[:2]}/")
    storage.put(wheel, tmp_path / "wheel")
    storage.put(f"{wheel}.metadata", content[:100])
    assert storage.read(wheel).data == content
    assert storage.stat(wheel).size == len(content)
    assert {(item.key, item.size) for item in storage.listing("files/")} == {
        (wheel, len(content)),
        (f"{wheel}.metadata", len(content[:100])),
    }
    storage.delete(f"{wheel}.metadata")
    assert storage.read(f"{wheel}.metadata") is None
    assert [item.key for item in storage.listing("files/")] == [wheel]


@every_storage
@pytest.mark.parametrize("size", [5, 11 << 20], ids=["small", "in-parts"])
def test_a_file_of_another_hash_than_its_key_has_is_not_put(size, storage, tmp_path):
    (tmp_path / "wheel").write_bytes(b"x" * size)

    def put():
        storage.put(NO_EPOCH, tmp_path / "wheel")
        storage.read(NO_EPOCH)  # what is staged is read when it is sent

    with pytest.raises(PackageIndexError, match="has changed: its sha256 is"):
        put()
    (tmp_path / "wheel").unlink()
    os.mkfifo(tmp_path / "wheel")
    with pytest.raises(PackageIndexError, match="is not a file"):
        put()


@where_age_protects
def test_a_file_that_is_put_again_is_new_again(storage):
    storage.put(WHEEL, b"wheel")
    first = storage.stat(WHEEL).modified
    time.sleep(1.1)  # HTTP's dates are whole seconds
    storage.put(WHEEL, b"wheel")
    assert storage.stat(WHEEL).modified > first or first == float("inf")


@every_storage
def test_a_listing_is_of_all_keys_that_begin_so(storage):
    keys = ["_state/k.json", "_state/k-more.json", "_state/other.json", "_states/k.json", "cpu/index.html"]
    for key in keys:
        storage.swap(key, key.encode(), None)
    for prefix in ("_state/", "_state/k", "_state/k.json", "_st", "", "nothing/", "cpu/index.html/"):
        found = {item.key: item.size for item in storage.listing(prefix)}
        assert found == {key: len(key) for key in keys if key.startswith(prefix)}


@every_storage
def test_a_change_gives_another_tag(storage):
    storage.swap("_state/k.json", b"1", None)
    one = storage.read("_state/k.json")
    storage.swap("_state/k.json", b"2", one.tag)
    two = storage.read("_state/k.json")
    assert (one.data, two.data) == (b"1", b"2")
    assert two.tag != one.tag or isinstance(storage, Staged)


@where_files_conflict
def test_only_one_of_two_changes_is_made(storage):
    storage.swap("_state/k.json", b"1", None)
    one = storage.read("_state/k.json")
    with pytest.raises(ConflictError):
        storage.swap("_state/k.json", b"made again", None)
    storage.swap("_state/k.json", b"2", one.tag)
    with pytest.raises(ConflictError):
        storage.swap("_state/k.json", b"too late", one.tag)
    assert storage.read("_state/k.json").data == b"2"
    two = storage.read("_state/k.json")
    storage.delete("_state/k.json")
    with pytest.raises(ConflictError):
        storage.swap("_state/k.json", b"of what is gone", two.tag)
    assert storage.read("_state/k.json") is None


@where_files_conflict
def test_counting_together_loses_no_count(storage):
    threads, each = 4, 4
    storage.swap("_state/count.json", b"0", None)

    def count(_):
        for _ in range(each):
            while True:
                now = storage.read("_state/count.json")
                more = ("_state/count.json", b"%d" % (int(now.data) + 1), now.tag)
                try:
                    storage.transaction(lambda inner, more=more: inner.swap(*more))
                    break
                except ConflictError:
                    continue

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(count, range(threads)))
    assert storage.read("_state/count.json").data == str(threads * each).encode()


@every_storage
def test_a_transaction_gives_what_its_work_gives(storage):
    def work(inner):
        inner.swap("_state/k.json", b"1", None)
        return inner.read("_state/k.json").data

    assert storage.transaction(work) == b"1"
    assert storage.read("_state/k.json").data == b"1"


@every_storage
def test_an_index_can_live_there(storage, tmp_path):
    index = Index(storage)
    wheels = [offer(make_wheel(tmp_path, name, "1+cpu.torch2.9"), CPU) for name in ("a", "b")]
    index.add(wheels[:1], upload_time=NOW)
    index.add(wheels, upload_time=NOW)
    assert verify(storage) == ()
    assert index.repair() == ()
    storage.delete("cpu/a/index.html")
    assert index.repair() == ("cpu/a/index.html",)
    sha256 = hashlib.sha256(b"nobody's").hexdigest()
    unused = NO_EPOCH.replace("ab" * 32, sha256).replace("/ab/", f"/{sha256[:2]}/")
    storage.put(unused, b"nobody's")
    gone = index.remove_unused(older_than=time.time() + 3600)
    assert gone == () if isinstance(storage, Staged) else (unused,)
    assert verify(storage) == ()


@where_files_conflict
def test_staging_changes_nothing_beneath(storage, tmp_path):
    wheels = [offer(make_wheel(tmp_path, name, "1+cpu.torch2.9"), CPU) for name in ("a", "b")]
    Index(storage).add(wheels[:1], upload_time=NOW)
    before = {item.key for item in storage.listing("")}
    above = Staged(storage)
    Index(above).add(wheels[1:], upload_time=NOW)
    assert verify(above) == ()
    assert {item.key for item in storage.listing("")} == before
    assert {write.key for write in above.writes} - before


in_every_bucket = pytest.mark.parametrize("storage", BUCKETS, indirect=True)


def headers(storage, key):
    import obstore

    said = obstore.get(storage._store, key).attributes
    return said["Content-Type"], said["Cache-Control"]


@in_every_bucket
def test_a_bucket_serves_what_installers_need(storage, tmp_path):
    entry = Index(storage).add([offer(make_wheel(tmp_path, "k", "1+cpu.torch2.9"), CPU)], upload_time=NOW)[0]
    page = "cpu/k/index.json"
    # Every write has to say it again.
    storage.swap(page, storage.read(page).data + b"\n", storage.read(page).tag)
    forever = "max-age=365000000, immutable"
    for key, expected in {
        "cpu/k/index.html": ("text/html; charset=utf-8", "no-cache"),
        page: ("application/vnd.pypi.simple.v1+json", "no-cache"),
        "_state/k.json": ("application/json", "no-cache"),
        entry.path: ("application/octet-stream", forever),
        f"{entry.path}.metadata": ("text/plain; charset=utf-8", forever),
    }.items():
        assert headers(storage, key) == expected
    (tmp_path / "big").write_bytes(BIG)
    storage.put(BIG_WHEEL, tmp_path / "big")
    assert headers(storage, BIG_WHEEL) == ("application/octet-stream", forever)


@pytest.mark.parametrize(
    ("cloud", "target"),
    [
        pytest.param("s3", "s3://nosuch-bucket/x", marks=S3),
        pytest.param("gcs", "gs://nosuch-bucket/x", marks=S3),
        pytest.param("azure", "az://nosuch-bucket/x", marks=AZURE),
    ],
)
def test_a_bucket_that_is_not_there_is_no_empty_index(request, cloud, target):
    request.getfixturevalue(cloud)
    storage = open_storage(target)
    for work in (
        lambda: storage.read("simple/index.html"),
        lambda: list(storage.listing("_state/")),
        lambda: storage.put("files/x", b"x"),
        lambda: storage.swap("_state/x.json", b"x", None),
        lambda: Index(storage).states(),
    ):
        with pytest.raises(PackageIndexError, match="there is no such bucket") as caught:
            work()
        assert "nosuch-bucket" in caught.value.remedy


@needs_s3
@NOT_QUICK
def test_a_host_that_ignores_preconditions_is_refused(s3, tmp_path):
    s3.blind = True
    try:
        storage = open_storage(f"s3://{BUCKET}/blind")
        with pytest.raises(PackageIndexError, match="ignores If-Match or If-None-Match"):
            Index(storage).add([offer(make_wheel(tmp_path, "k", "1"), CPU)], upload_time=NOW)
        assert Index(storage).states() == {}
    finally:
        s3.blind = False


LOST = [
    # What befalls it, whether it was there before, whether it is seen as another's change, whether it was made.
    ("500", True, False, True),
    ("silence", True, False, True),
    ("silence", False, False, True),
    ("silence-done", True, False, True),
    ("silence-done", False, False, True),
    # obstore asks again, and finds the change that it has made itself; so does whoever reads again now.
    ("500-done", True, True, True),
    ("cut-done", True, True, True),
    ("cut-done", False, True, True),
    # S3 says so when two come at once.
    ("409", True, False, True),
    ("409", False, True, False),
    ("412", True, True, False),
]


@needs_s3
@NOT_QUICK
@pytest.mark.parametrize(("befalls", "known", "conflicts", "made"), LOST)
def test_a_change_whose_answer_is_lost(s3, befalls, known, conflicts, made):
    storage = open_storage(f"s3://{BUCKET}/lost-{befalls}-{known}")
    if known:
        storage.swap("_state/k.json", b"1", None)
    before = storage.read("_state/k.json")
    s3.faults.next_put[:] = [befalls]
    s3.faults.patience = 1.0 if "silence" in befalls else 30.0
    with only(environment(s3.url, patience=s3.faults.patience)):
        impatient = open_storage(storage.name)
    with pytest.raises(ConflictError) if conflicts else nullcontext():
        impatient.swap("_state/k.json", b"2", before.tag if before else None)
    assert s3.faults.next_put == []
    now = storage.read("_state/k.json")
    assert now == before if not made else now.data == b"2"


@needs_s3
@NOT_QUICK
@pytest.mark.parametrize("befalls", ["cut-done", "500-done", "500"])
def test_an_upload_whose_end_is_not_heard_of_is_made_whole(s3, befalls, tmp_path):
    (tmp_path / "wheel").write_bytes(BIG)
    storage = open_storage(f"s3://{BUCKET}/parts-{befalls}")
    s3.faults.next_complete[:] = [befalls]
    storage.put(BIG_WHEEL, tmp_path / "wheel")
    assert s3.faults.next_complete == []
    assert storage.stat(BIG_WHEEL).size == len(BIG)


@needs_s3
@NOT_QUICK
def test_a_profile_is_read_where_boto3_is_there(s3, tmp_path):
    pytest.importorskip("boto3")
    (tmp_path / "credentials").write_text("[ada]\naws_access_key_id = AKIAOFADA\naws_secret_access_key = hunter2\n")
    kept = {k: v for k, v in os.environ.items() if k in {"AWS_ENDPOINT_URL", "AWS_REGION"}}
    profile = {"AWS_PROFILE": "ada", "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "credentials")}
    with only(kept | profile):
        open_storage(f"s3://{BUCKET}/profile").put("files/x", b"x")
    assert "AKIAOFADA" in s3.keys
    with only(kept | profile | {"AWS_PROFILE": "nobody"}), pytest.raises(PackageIndexError, match="nobody") as caught:
        open_storage(f"s3://{BUCKET}/profile")
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"


@needs_s3
@NOT_QUICK
@pytest.mark.parametrize(
    ("target", "environ", "named"),
    [
        ("s3://wheels/x", environment("http://127.0.0.1:9") | {"AWS_TIMEOUT": "hunter2"}, "AWS_TIMEOUT"),
        ("s3://wheels/x", {"AWS_ACCESS_KEY_ID": "hunter2"}, "AWS_ACCESS_KEY_ID"),
        ("gs://wheels/x", {"GOOGLE_SERVICE_ACCOUNT_KEY": '{"private_key": "hunter2"'}, "GOOGLE_SERVICE_ACCOUNT_KEY"),
        ("gs://wheels/x", {"GOOGLE_APPLICATION_CREDENTIALS": "/hunter2.json"}, "GOOGLE_APPLICATION_CREDENTIALS"),
        ("az://wheels/x", {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "hunter2!"}, "AZURE_STORAGE_KEY"),
        ("az://wheels/x", {"AZURE_STORAGE_KEY": "hunter2!"}, "AZURE_STORAGE_ACCOUNT_NAME"),
    ],
)
def test_a_setting_that_cannot_be_used_is_one_error(target, environ, named):
    with only(environ), pytest.raises(PackageIndexError) as caught:
        open_storage(target)
    assert named in caught.value.remedy
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"


@needs_s3
@NOT_QUICK
def test_a_network_that_is_down_is_one_error(s3):
    with only(environment("http://127.0.0.1:9") | {"AWS_SECRET_ACCESS_KEY": "hunter2"}):
        storage = open_storage(f"s3://{BUCKET}/down")
        with pytest.raises(PackageIndexError, match="does not answer") as caught:
            storage.read("simple/index.html")
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"


@needs_s3
@NOT_QUICK
def test_a_wheel_that_went_away_is_one_error(s3, tmp_path):
    with pytest.raises(PackageIndexError, match="cannot be read: No such file"):
        open_storage(f"s3://{BUCKET}/gone").put(WHEEL, tmp_path / "gone.whl")
