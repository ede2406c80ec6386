"""Records of a remote cache are used only if the right key signed them, for the key under which they are."""

import base64
import json

import pytest
from memory_storage import Memory
from remote_machine import DIGEST, KEY, machines
from signing_keys import ED25519, make_key
from wheels import make_wheel

from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.run.remote_cache import open_remote_cache
from wheelsmith.run.remote_records import SignedRecords
from wheelsmith.store import Objects, send_wheel
from wheelsmith.wheel import wheel_file
from wheelsmith.wheel.attestation.keys import key_signer, verifying_key


@pytest.fixture
def files():
    return Memory()


@pytest.fixture
def machine(tmp_path, files):
    return machines(tmp_path, files)


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    """Two keys: signers and their public keys."""
    folder = tmp_path_factory.mktemp("keys")
    made = [make_key(folder, name, ED25519) for name in ("ours", "theirs")]
    return [(key_signer(str(private)), verifying_key(public)) for private, public in made]


@pytest.fixture
def signing(machine, files, keys):
    """Make one more machine that writes with our key and reads what ours signed."""
    return lambda: machine(SignedRecords(files, *keys[0][:1], ()))


@pytest.fixture
def reading(machine, files, keys):
    return lambda: machine(SignedRecords(files, None, (keys[0][1],)))


def test_what_is_signed_is_used(signing, reading, files):
    signing().compile()
    assert reading().find() == signing().find() == b"code"
    assert b"dsseEnvelope" in next(data for name, (data, *_) in files.files.items() if "actions" in name)


def test_a_signed_wheel_is_found(signing, reading, tmp_path):
    wheel = make_wheel(tmp_path / "built", "thing", "1.0")
    one, other = signing(), reading()
    send_wheel(one.remote, DIGEST, wheel_file(wheel), wheel)
    one.remote.close()
    assert other.fetch()
    assert other.store.find(DIGEST).wheel == wheel_file(wheel)


def refused(machine, key=KEY):
    assert machine.find(key) is None
    (warning,) = machine.warnings
    return warning


def test_an_unsigned_record_is_refused(machine, reading):
    machine().compile(b"poison")
    assert f"remote cache memory: v1/actions/aa/{KEY}.json is not used: " in refused(reading())


def test_a_refused_record_is_replaced_by_the_next_who_signs(machine, signing, reading):
    machine().compile(b"poison")
    one = signing()
    refused(one)
    one.compile()
    assert reading().find() == b"code"


def test_the_signature_of_another_key_is_refused(machine, files, keys, reading):
    machine(SignedRecords(files, keys[1][0], ())).compile(b"poison")
    assert "is not used: its signature does not match " in refused(reading())


def test_a_record_of_another_key_is_refused(signing, reading, files):
    signing().compile(b"old", "b" * 64)
    (record,) = [name for name in files.files if "actions" in name]
    files.put(record.replace("b" * 64, KEY).replace("/bb/", "/aa/"), files.files[record][0])
    assert refused(reading()).endswith(f"it is the record of another key: {record}")


def test_a_changed_record_is_refused(signing, reading, files):
    signing().compile()
    (record,) = [name for name in files.files if "actions" in name]
    bundle = json.loads(files.files[record][0])
    statement = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    statement["predicate"]["lines"] = ["another line"]
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(json.dumps(statement).encode()).decode()
    files.put(record, json.dumps(bundle).encode())
    assert "its signature does not match " in refused(reading())


def test_another_signed_statement_is_no_record(signing, reading, files, keys):
    """A release is signed with the same key: its statement must not be taken for a record."""
    signing().compile()
    (record,) = [name for name in files.files if "actions" in name]
    statement = {"subject": [{"name": record}], "predicateType": "https://slsa.dev/provenance/v1", "predicate": {}}
    files.put(record, keys[0][0].sign(json.dumps(statement).encode()).bundle)
    assert "it is signed, but it is not a record of a cache: https://slsa.dev" in refused(reading())


def test_who_requires_signatures_and_has_no_key_writes_nothing(tmp_path):
    folder = tmp_path / "keys"
    folder.mkdir()
    _, public = make_key(folder, "ours", ED25519)
    settings = RemoteCacheSettings(addresses=(str(tmp_path / "shared"),), signers=(str(public),))
    remote = open_remote_cache(settings, print)
    Objects(tmp_path / "one", remote).put(KEY, {}, ("line",))
    remote.close()
    assert not (tmp_path / "shared").exists()
