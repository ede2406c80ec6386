"""A cache that machines share: what one stores another finds, and nothing that it does can harm a run."""

import threading

import pytest
from memory_storage import Memory
from remote_machine import DIGEST, KEY, machines
from wheels import make_wheel

from wheelsmith.base.errors import AddressError, PackageIndexError
from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.run.remote_cache import Layers, open_remote_cache
from wheelsmith.store import DamagedBlobError, Objects, reject_wheel, send_wheel
from wheelsmith.store import remote as remote_module
from wheelsmith.wheel import wheel_file

KEYS = [letter * 64 for letter in "abcdef"]


@pytest.fixture
def files():
    return Memory()


@pytest.fixture
def machine(tmp_path, files):
    return machines(tmp_path, files)


@pytest.fixture
def built(machine, files, tmp_path):
    """Have a machine build a wheel."""
    wheel = make_wheel(tmp_path / "built", "thing", "1.0")
    one = machine()
    stored = one.store.put(DIGEST, wheel, wheel_file(wheel), checked="by one")
    send_wheel(one.remote, DIGEST, stored.wheel, stored.path)
    one.remote.close()
    return stored.wheel


def spoil(files, part, data):
    (name,) = [name for name in files.files if part in name]
    files.put(name, data)


def test_what_one_machine_compiled_another_finds(machine, files):
    one, other = machine(), machine()
    assert one.find() is None
    one.compile()
    assert [name.split("/")[1] for name, _ in files.written] == ["blobs", "actions"]
    assert other.find() == b"code"
    assert other.objects.find(KEY).lines == ("a line",)
    files.files.clear()
    assert other.find() == b"code"  # it has it by now
    one.compile(key="b" * 64)
    assert one.warnings == other.warnings == []


def test_what_is_there_is_not_written_again(machine, files):
    machine().compile()
    machine().compile()
    assert len(files.written) == 2


def test_a_damaged_blob_is_compiled_again_and_replaced(machine, files):
    machine().compile()
    spoil(files, "blobs", b"noise")
    other = machine()
    with pytest.raises(DamagedBlobError):
        other.find()
    other.compile()
    assert other.find() == machine().find() == b"code"
    assert len(other.warnings) == 1


def test_what_belongs_to_a_damaged_action_is_replaced_too(machine, files):
    machine().compile()
    spoil(files, "actions", b"noise")
    spoil(files, "blobs", b"noise")
    other = machine()
    assert other.find() is None
    other.compile()
    assert machine().find() == b"code"


def test_once_too_much_is_damaged_everything_is_replaced(machine, files):
    for key in KEYS:
        machine().compile(key.encode(), key)
    for name in list(files.files):
        files.put(name, b"noise")
    other = machine()
    for key in KEYS:
        assert other.find(key) is None
        other.compile(key.encode(), key)
    assert [machine().find(key) for key in KEYS] == [key.encode() for key in KEYS]


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"outputs": {"x.o": {"sha256": "../../x", "size": 1}}, "lines": []}'])
def test_a_damaged_action_is_compiled_again_and_replaced(machine, files, data):
    machine().compile()
    spoil(files, "actions", data)
    other = machine()
    assert other.find() is None
    other.compile()
    assert machine().find() == b"code"


def test_a_file_that_is_too_large_is_not_read(machine, files, monkeypatch):
    machine().compile()
    spoil(files, "blobs", bytes(4 << 20))
    monkeypatch.setattr(files, "read", lambda key, read=files.read: read(key) if "actions" in key else 1 / 0)
    with pytest.raises(DamagedBlobError):
        machine().find()


def test_a_cache_that_lies_often_is_not_asked_again(machine, files):
    one = machine()
    keys = [letter * 64 for letter in "abcd"]
    for key in keys:
        one.compile(key.encode(), key)
    for name in [name for name in files.files if "blobs" in name]:
        files.put(name, b"noise")
    other = machine()
    for key in keys[:3]:
        with pytest.raises(DamagedBlobError):
            other.find(key)
    assert other.find(keys[3]) is None
    assert [warning.rpartition(" is not used: ")[2] for warning in other.warnings] == ["it has the wrong content"] * 3


def refuse(*_):
    raise PackageIndexError("no permission")


@pytest.mark.parametrize("what", ["stat", "read"])
def test_three_failures_end_reading(machine, files, monkeypatch, what):
    for key in KEYS:
        machine().compile(key=key)
    asked = []
    monkeypatch.setattr(files, what, lambda *call: asked.append(call) or refuse())
    other = machine()
    assert [other.find(key) for key in KEYS] == [None] * 6
    assert len(asked) == 3
    assert other.warnings == ["remote cache memory: it cannot be read: no permission"]


def test_three_failures_end_writing_but_not_reading(machine, files, monkeypatch):
    machine().compile()
    asked = []
    monkeypatch.setattr(files, "put", lambda *call: asked.append(call) or refuse())
    other = machine()
    for key in KEYS[1:]:
        other.compile(key.encode(), key)
    assert len(asked) == 3
    assert other.warnings == ["remote cache memory: it cannot be written: no permission"]
    assert other.find() == b"code"
    assert other.find(KEYS[1]) == KEYS[1].encode()


def test_one_failure_ends_nothing(machine, files, monkeypatch):
    machine().compile()
    once = iter([refuse])
    monkeypatch.setattr(files, "stat", lambda key, stat=files.stat: next(once, stat)(key))
    other = machine()
    assert (other.find(), other.find()) == (None, b"code")
    assert other.warnings == ["remote cache memory: it cannot be read: no permission"]


def test_a_cache_that_never_answers_is_left_alone(machine, files, monkeypatch):
    machine().compile()
    released = threading.Event()
    monkeypatch.setattr(remote_module, "_ANSWER", 0.01)
    monkeypatch.setattr(remote_module, "LAST_WRITES", 0.01)
    for name in ("stat", "put"):
        monkeypatch.setattr(files, name, lambda *_: released.wait() and None)
    other = machine()
    try:
        assert [other.find(key) for key in KEYS[:4]] == [None] * 4
        other.compile()
        assert other.find() == b"code"
        assert other.warnings == [
            "remote cache memory: it cannot be read: it answers too slowly",
            "remote cache memory: 1 result could not be written in time",
        ]
    finally:
        released.set()


def test_patience_has_an_end(machine, files, monkeypatch):
    monkeypatch.setattr(remote_module, "_QUICK", 0.0)
    monkeypatch.setattr(remote_module, "PATIENCE", 0.0)
    other = machine()
    assert other.find() is None
    assert other.warnings == ["remote cache memory: it is not read any more: it answers too slowly"]


def test_a_wheel_is_found_and_counts_as_unchecked(machine, built):
    other = machine()
    assert other.fetch()
    found = other.store.find(DIGEST)
    assert (found.wheel, found.checked) == (built, "")


def test_a_wheel_that_failed_the_check_is_replaced(machine, built, files, tmp_path):
    other = machine()
    assert other.fetch()
    reject_wheel(other.remote, other.store, DIGEST)
    assert other.store.find(DIGEST) is None
    right = make_wheel(tmp_path / "right", "thing", "2.0")
    send_wheel(other.remote, DIGEST, wheel_file(right), right)
    other.remote.close()
    third = machine()
    assert third.fetch()
    assert third.store.find(DIGEST).wheel == wheel_file(right)


@pytest.mark.parametrize(
    ("part", "change"),
    [
        ("wheels/", lambda data: data[:-1] + b"x"),
        ("plans/", lambda data: b"{"),
        ("plans/", lambda data: data.replace(b'"sha256": "', b'"sha256": "../../')),
        ("plans/", lambda data: data.replace(b"thing-1.0-", b"../thing-1.0-")),
        ("plans/", lambda data: data.replace(b"{", b'{"checked": "always", ', 1)),
    ],
)
def test_a_wrong_wheel_is_not_taken(machine, built, files, part, change):
    (name,) = [name for name in files.files if part in name]
    changed = change(files.files[name][0])
    assert changed != files.files[name][0]
    files.put(name, changed)
    other = machine()
    assert not other.fetch()
    assert other.store.find(DIGEST) is None
    assert not list(other.root.glob("store/**/*.whl"))


def test_a_wheel_that_is_gone_is_not_taken(machine, built, files):
    files.delete(next(name for name in files.files if name.endswith(".whl")))
    other = machine()
    assert not other.fetch()
    assert other.warnings == []


@pytest.mark.parametrize("address", ["hf://a/b", "github://a/b", "https://a/b"])
def test_other_places_are_refused(address):
    with pytest.raises(AddressError, match="cannot be a remote cache: use s3://"):
        open_remote_cache(RemoteCacheSettings(addresses=(address,)), print)


def test_a_folder_is_one(tmp_path):
    root = tmp_path / "shared"
    for name in ("one", "other"):
        remote = open_remote_cache(RemoteCacheSettings(addresses=(str(root),)), print)
        objects = Objects(tmp_path / name, remote)
        found = objects.find(KEY)
        assert (found is None) == (name == "one")
        objects.put(KEY, {}, ("line",))
        remote.close()
    assert (root / "CACHEDIR.TAG").read_text().startswith("Signature: 8a477f597d28d172789f06886806bc55")
    assert [path.relative_to(root).as_posix() for path in root.rglob("*.json")] == [f"v1/actions/aa/{KEY}.json"]


def test_the_first_of_several_is_written_and_all_are_read(machine):
    trusted, own = Memory(), Memory()
    machine(trusted).compile()
    proposed = machine(Layers([own, trusted]))
    assert proposed.find() == b"code"
    proposed.compile()  # it is there
    proposed.compile(b"other", "b" * 64)
    assert len(trusted.files) == len(own.files) == 2
    assert machine(Layers([own, trusted])).find("b" * 64) == b"other"
    assert machine(trusted).find("b" * 64) is None
