"""A release from one machine: build, check, sign, changes, publish, live; each step can be done again alone."""

import shutil
import subprocess

import pytest
import wants
from factory import Factory
from kernels import matrix, pure_kernel
from loopback import serving
from once import made_once, run_folder

from wheelsmith.index.publish.verify import verify
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.folder import Folder

pytestmark = pytest.mark.usefixtures("in_process_worker")

WHEEL = "pure-1-py3-none-any.whl"
STEPS = ["build", "check", "sign", "changes", "publish", "live"]


def _lock(folder):
    factory = Factory.at(folder)
    pure_kernel(folder / "k")
    matrix(folder, "k", torch="2.13", cuda="cpu, 13.0")
    answer = factory.run("lock", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    wants.program("openssl")
    new = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", folder / "release.key"]
    subprocess.run(new, check=True, capture_output=True)


@pytest.fixture
def locked(tmp_path, tmp_path_factory):
    """A locked matrix, and a key."""
    before = made_once(run_folder(tmp_path_factory) / "release", _lock)
    folder = tmp_path / "factory"
    shutil.copytree(before, folder, symlinks=True)
    return Factory(folder=folder, cache=folder / "cache")


@pytest.fixture
def served(locked):
    (locked.folder / "index").mkdir(exist_ok=True)
    with serving(locked.folder / "index") as url:
        yield url


def release(factory, *argv):
    return factory.run_in_process("release", "index", "--engine", "local", "--progress", "quiet", *argv)


def steps(answer):
    return [line.partition(":")[0] for line in answer.stderr.splitlines() if line.partition(":")[0] in STEPS]


def test_from_a_matrix_to_what_installers_find(locked, served):
    answer = release(locked, "--key", "release.key", "--url", served)
    assert (answer.returncode, steps(answer)) == (0, STEPS), answer.stderr
    assert "sign: 1 wheel signed" in answer.stderr
    assert "publish: 1 wheel published, 0 already there" in answer.stderr
    assert f"live: 1 wheel unchanged and signed: {served}" in answer.stderr
    assert "1 wheel for 2 combinations" in answer.stdout
    assert (locked.folder / "dist/CHANGES.md").read_text() == answer.stdout[:-1]
    assert verify(Folder(locked.folder / "index")) == ()
    again = release(locked, "--key", "release.key", "--url", served)
    assert (again.returncode, "publish: 0 wheels published, 1 already there" in again.stderr) == (0, True), again.stderr


SET = """\
axes: {torch: [2.13], cuda: [cpu]}
kernels:
  pure: {path: k}
  other: {path: k, distribution: other, module: other}
"""


@pytest.fixture
def locked_set(locked):
    (locked.folder / "matrix.yaml").write_text(SET)
    answer = locked.run_in_process("lock", "--engine", "local")
    assert answer.returncode == 0, answer.stderr
    return locked


def test_all_kernels_of_a_set_are_released_or_some(locked_set, served):
    states = locked_set.folder / "index/_state"
    answer = release(locked_set, "--kernel", "pure")
    assert (answer.returncode, [path.name for path in states.glob("[!.]*.json")]) == (0, ["pure.json"]), answer.stderr
    answer = release(locked_set, "--key", "release.key", "--url", served)
    assert (answer.returncode, steps(answer)) == (0, STEPS), answer.stderr
    assert "build: pure 1, other 1" in answer.stderr
    assert "publish: 1 wheel published, 1 already there" in answer.stderr
    assert f"live: 2 wheels unchanged and signed: {served}" in answer.stderr
    assert [line for line in answer.stdout.splitlines() if line.startswith("# ")] == ["# pure 1", "# other 1"]


def test_nothing_of_a_set_is_released_if_a_kernel_is_lost(locked_set):
    (locked_set.folder / "matrix.yaml").write_text(f"{SET}  lost: {{path: nowhere}}\n")
    answer = release(locked_set)
    assert (answer.returncode, "there is no folder" in answer.stderr) == (1, True), answer.stderr
    assert not (locked_set.folder / "index").exists()
    answer = release(locked_set, "--incomplete")
    assert (answer.returncode, "publish: 2 wheels published" in answer.stderr) == (1, True), answer.stderr


def test_a_dry_run_writes_nothing_to_the_index(locked):
    answer = release(locked, "--key", "release.key", "--url", "http://127.0.0.1:9", "--dry-run")
    assert (answer.returncode, steps(answer)) == (0, STEPS), answer.stderr
    assert not (locked.folder / "index").exists()
    assert not list((locked.folder / "dist").rglob("*.sigstore.json"))
    listed = {line.split()[-1] for line in answer.stdout.splitlines() if line.startswith("write ")}
    assert {"_state/pure.json", "simple/pure/index.html"} < listed
    assert any(key.endswith(WHEEL) for key in listed)


def test_without_a_lock_nothing_is_built(locked):
    (locked.folder / "wheelsmith.lock").unlink()
    answer = release(locked)
    assert answer.returncode != 0
    assert "wheelsmith lock" in answer.stderr
    assert not (locked.folder / "index").exists()


def test_a_cell_that_is_not_locked_is_not_built(locked):
    matrix(locked.folder, "k", torch="2.12, 2.13", cuda="cpu, 13.0")
    answer = release(locked)
    assert answer.returncode != 0
    assert "build: failed" in answer.stderr
    assert not (locked.folder / "index").exists()


def test_a_step_that_failed_is_done_again_alone(locked, served):
    failed = release(locked, "--key", "other.key", "--url", served)
    assert failed.returncode != 0
    assert "sign: failed; after a fix, repeat it with --step sign, and then the later steps" in failed.stderr
    assert not Index(Folder(locked.folder / "index")).states()
    rest = [word for step in STEPS[2:] for word in ("--step", step)]
    answer = release(locked, "--key", "release.key", "--url", served, *rest)
    assert (answer.returncode, steps(answer)) == (0, STEPS[2:]), answer.stderr


@pytest.mark.parametrize("step", ["check", "publish", "live"])
def test_a_step_wants_what_came_before_it(locked, step):
    answer = release(locked, "--step", step, "--url", "http://127.0.0.1:9")
    assert answer.returncode == 1
    assert "dist has no readable record of a run" in answer.stderr


def test_a_wheel_that_was_exchanged_is_not_signed_or_published(locked):
    assert release(locked, "--step", "build").returncode == 0
    (wheel,) = (locked.folder / "dist/index/files").rglob("*.whl")
    data = bytearray(wheel.read_bytes())
    data[40] ^= 1
    wheel.write_bytes(data)
    for step in ("check", "sign", "publish"):
        answer = release(locked, "--step", step, "--key", "release.key")
        assert answer.returncode != 0, step
    assert not (locked.folder / "index").exists()


def other_wheel(index):
    (wheel,) = (index / "files").rglob("*.whl")
    wheel.write_bytes(b"other")


def no_bundle(index):
    for page in (index / "simple/pure").iterdir():
        page.write_text(page.read_text().replace("sigstore-bundle", "nothing"))


def yanked(index):
    page = index / "simple/pure/index.json"
    page.write_text(page.read_text().replace('"yanked": false', '"yanked": "bad"'))


@pytest.mark.release("a whole release each; the first ones are quick")
@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (other_wheel, "does not match the sha256 on its index"),
        (no_bundle, "the signature of pure-1-py3-none-any.whl is not on the index"),
        (yanked, "is yanked on"),
        (shutil.rmtree, "is not listed on"),
        (lambda index: shutil.rmtree(index / "cpu/pure"), "is not listed on"),
    ],
)
def test_what_is_live_is_looked_at_as_installers_do(locked, served, harm, said):
    assert release(locked, "--key", "release.key").returncode == 0
    harm(locked.folder / "index")
    answer = release(locked, "--key", "release.key", "--url", served, "--step", "live")
    assert answer.returncode != 0
    assert said in answer.stderr


@pytest.mark.release("a whole release each; the first ones are quick")
def test_another_key_than_the_live_one_is_noticed(locked, served):
    assert release(locked, "--key", "release.key").returncode == 0
    new = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", locked.folder / "other.key"]
    subprocess.run(new, check=True, capture_output=True)
    answer = release(locked, "--key", "other.key", "--url", served, "--step", "live")
    assert answer.returncode == 1
    assert "is not signed by other.key" in answer.stderr


@pytest.mark.release("a whole release each; the first ones are quick")
def test_a_channel_is_released_to(locked, served):
    answer = release(locked, "--channel", "nightly", "--url", served)
    assert answer.returncode == 0, answer.stderr
    assert f"live: 1 wheel unchanged: {served}/nightly" in answer.stderr
    assert list(Index(Folder(locked.folder / "index/nightly")).states()) == ["pure"]


def test_only_the_version_that_was_made_is_released(locked):
    """Another lies there of an earlier run, which made a part of it alone."""
    answer = locked.run_in_process("build-matrix", "--engine", "local", "--only", "*-cpu-*", "--locked")
    assert answer.returncode == 0, answer.stderr
    toml = locked.folder / "k/build.toml"
    toml.write_text(toml.read_text().replace("version = 1", "version = 2"))
    answer = release(locked)
    assert answer.returncode == 0, answer.stderr
    assert [entry.filename for entry in Index(Folder(locked.folder / "index")).entries("pure")] == [
        "pure-2-py3-none-any.whl"
    ]


def test_a_build_that_fails_altogether_releases_nothing_that_lies_there(locked):
    assert release(locked, "--step", "build").returncode == 0
    toml = locked.folder / "k/build.toml"
    toml.write_text(toml.read_text().replace("version = 1", "version = 2"))
    (locked.folder / "k/torch-ext/pure/__init__.py").unlink()
    answer = release(locked)
    assert answer.returncode != 0
    assert not (locked.folder / "index").exists()


@pytest.mark.release("a whole release each; the first ones are quick")
def test_what_is_in_an_address_is_shown_to_nobody(locked, served):
    hidden = served.replace("://", "://alice:s3cr3t@")
    words = ("release", "index", "--engine", "local", "--progress", "quiet", "--url", hidden)
    answer = locked.run(*words)
    assert (answer.returncode, "s3cr3t" in answer.stderr + answer.stdout) == (0, False)
    shutil.rmtree(locked.folder / "index/simple")
    answer = locked.run(*words, "--step", "live")
    assert answer.returncode != 0
    assert "s3cr3t" not in answer.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [(("--public-key", "x.pub"), "--public-key requires --key"), (("--step", "live"), "--step live requires --url")],
)
def test_words_that_need_another_are_refused(locked, words, said):
    answer = release(locked, *words)
    assert (answer.returncode, said in answer.stderr) == (2, True)


def test_a_version_that_is_not_complete_is_not_released(locked):
    """A build.toml without a backend that the matrix asks for is an exclusion; a selection in an earlier run is not."""
    answer = locked.run_in_process("build-matrix", "--engine", "local", "--only", "*-cpu-*", "--locked")
    assert answer.returncode == 0, answer.stderr
    answer = release(locked, "--step", "publish")
    assert answer.returncode == 1
    assert "pure 1 is not complete: torch213-cxx11-cu130-x86_64-linux" in answer.stderr
    assert release(locked, "--step", "publish", "--incomplete").returncode == 0


def test_a_conflict_is_found_before_anything_is_built(locked):
    assert release(locked).returncode == 0
    change_kernel(locked)
    answer = release(locked)
    assert answer.returncode == 4
    assert f"error: {WHEEL} is in the index with other bytes" in answer.stderr
    assert "wheelsmith index yank INDEX PROJECT VERSION" in answer.stderr
    assert "build: failed" in answer.stderr
    assert not (locked.folder / "dist/index").exists()


def test_a_name_that_was_removed_is_not_released_again(locked):
    assert release(locked).returncode == 0
    assert locked.run_in_process("index", "remove", "index", "pure", "1").returncode == 0
    change_kernel(locked)
    answer = release(locked)
    assert (answer.returncode, steps(answer)) == (4, ["build"]), answer.stderr
    assert f"{WHEEL} was in the index with other bytes" in answer.stderr


def change_kernel(factory):
    (factory.folder / "k/torch-ext/pure/__init__.py").write_text("VALUE = 2\n")
    assert factory.run_in_process("lock", "--engine", "local").returncode == 0
    shutil.rmtree(factory.folder / "dist")
