"""Two machines with a remote cache: the second one builds nothing, and believes nothing."""

import json
import shutil

import pytest
from factory import Factory
from kernels import matrix, pure_kernel, tiny_kernel
from loopback_s3 import BUCKET, environment, loopback_s3, needs_s3
from signing_keys import make_key
from wheels import make_wheel

from wheelsmith.store import Store
from wheelsmith.wheel import wheel_file

BUILD = ("build-matrix", "--engine", "local", "--progress", "plain")


@pytest.fixture
def machine(tmp_path):
    """Make one more machine with the same kernel and an empty cache."""

    def make(name, more=""):
        folder = tmp_path / name
        pure_kernel(folder / "k")
        matrix(folder, "k", torch="2.12, 2.13", cuda="cpu", more=more)
        return Factory.at(folder)

    return make


def build(factory, *options, **env):
    answer = factory.run_in_process(*BUILD, *options, **env)
    assert answer.returncode == 0, answer.stderr
    cells = json.loads((factory.folder / "dist/results.json").read_text())["cells"].values()
    return answer.stderr, [cell["status"] for cell in cells], [cell["wheel"]["sha256"] for cell in cells]


def test_the_second_machine_takes_the_wheels_of_the_first(machine, tmp_path):
    shared = str(tmp_path / "shared")
    _, statuses, first = build(machine("one"), "--remote-cache", shared)
    assert statuses == ["built", "folded"]
    said, statuses, second = build(machine("other"), WHEELSMITH_REMOTE_CACHE=shared)
    assert (statuses, second) == (["cached", "cached"], first)
    assert "warning: remote cache" not in said
    named = machine("named", "remote-cache: {address: ../shared}\n")
    assert build(named)[1] == ["cached", "cached"]
    assert build(machine("forced"), "--remote-cache", shared, "--force")[1] == ["built", "folded"]
    assert build(machine("alone"))[1] == ["built", "folded"]


def test_a_cache_in_the_kernels_folder_is_no_source(machine):
    one = machine("one", "remote-cache: {address: k/cache}\n")
    first = build(one)
    assert first[1] == ["built", "folded"]
    assert build(one, "--force")[2] == first[2]


def test_a_wheel_that_was_compiled_without_a_sandbox_is_not_shared(machine, tmp_path):
    one, address = machine("one"), tmp_path / "shared"
    shutil.rmtree(one.folder / "k")
    tiny_kernel(one.folder / "k")
    assert build(one, "--remote-cache", str(address), "--only", "torch213-*")[1] == ["built"]
    assert [path.name for path in address.rglob("*") if path.is_file()] == ["CACHEDIR.TAG"]


@pytest.fixture
def shared(machine, tmp_path):
    """A remote cache with the wheel that both combinations share."""
    build(machine("one"), "--remote-cache", str(tmp_path / "shared"))
    return tmp_path / "shared/v1"


def test_a_wheel_of_another_plan_is_built_again_and_replaced(machine, shared, tmp_path):
    (record,) = (shared / "plans").glob("*.json")
    known = json.loads(record.read_text())
    wheel = make_wheel(tmp_path / "foreign", "pure", "1.0")
    file = wheel_file(wheel)
    record.write_text(json.dumps(file.to_json()))
    (shared / "wheels" / file.sha256).mkdir()
    shutil.copy(wheel, shared / "wheels" / file.sha256)
    _, statuses, hashes = build(machine("other"), "--remote-cache", str(shared.parent))
    assert statuses == ["built", "folded"]
    assert set(hashes) == {known["sha256"]}
    assert json.loads(record.read_text())["sha256"] == known["sha256"]


@pytest.mark.parametrize("what", ["plans", "wheels"])
def test_what_is_damaged_is_built_again_and_replaced(machine, shared, what):
    (path,) = (path for path in (shared / what).rglob("*") if path.is_file())
    right = path.read_bytes()
    path.write_bytes(right[:-2] + b"xx")
    _, statuses, _ = build(machine("other"), "--remote-cache", str(shared.parent))
    assert statuses == ["built", "folded"]
    assert path.read_bytes() == right


def test_without_permission_to_write_the_build_goes_on(machine, shared):
    record = next((shared / "plans").glob("*.json"))
    record.unlink()
    shutil.rmtree(shared / "plans")
    (shared / "plans").write_text("a file, where a folder is needed")
    said, statuses, _ = build(machine("other"), "--remote-cache", str(shared.parent))
    assert statuses == ["built", "folded"]
    assert "warning: remote cache " in said
    assert said.count("it cannot be written: ") == 1


def test_only_what_the_right_key_signed_is_taken(machine, tmp_path):
    key, _ = make_key(tmp_path, "cache")
    address = str(tmp_path / "shared")
    signers = "remote-cache: {address: ../shared, signers: [../cache.pub]}\n"
    build(machine("poisoner"), "--remote-cache", address)
    said, statuses, _ = build(machine("reader", signers))
    assert statuses == ["built", "folded"]
    assert "json is not used: it is not signed with " in said
    signed = machine("signer", signers)
    text = key.read_text()
    assert build(signed, "--remote-cache-key", "env:CACHE_KEY", CACHE_KEY=text)[1] == ["built", "folded"]
    said, statuses, _ = build(machine("other", signers))
    assert statuses == ["cached", "cached"]
    assert "warning: remote cache" not in said


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{address: hf://a/b}", "cannot be a remote cache: use s3://, gs://, az:// or a folder"),
        ("{addres: x}", "addres"),
        ("{address: shared, signers: [nothing.pub]}", "nothing.pub"),
    ],
)
def test_mistakes_are_named(machine, settings, message):
    answer = machine("one", f"remote-cache: {settings}\n").run_in_process(*BUILD)
    assert answer.returncode == 2
    assert message in answer.stderr


def test_a_key_without_an_address_is_a_mistake(machine):
    answer = machine("one").run_in_process(*BUILD, "--remote-cache-key", "env:CACHE_KEY")
    assert answer.returncode == 2
    assert "error: --remote-cache-key needs a remote cache" in answer.stderr


@needs_s3
@pytest.mark.release("another storage: the folder's turn of the same tests is quick")
def test_a_bucket_is_shared(machine):
    with loopback_s3() as port:
        env = environment(f"http://127.0.0.1:{port}")
        address = f"s3://{BUCKET}/cache"
        first = build(machine("one"), "--remote-cache", address, **env)
        assert first[1] == ["built", "folded"]
        other = machine("other")
        assert build(other, "--remote-cache", address, **env)[1:] == (["cached", "cached"], first[2])
        assert all(Store(other.cache / "store").find(path.stem) for path in other.cache.glob("store/plans/*.json"))
    # Nobody is there any more.
    said, statuses, hashes = build(machine("third"), "--remote-cache", address, **env)
    assert (statuses, hashes) == (["built", "folded"], first[2])
    assert said.count("it cannot be read: ") == said.count("it cannot be written: ") == 1
