"""The name of the distribution, and the requirements that install the running wheelsmith."""

import json
import shlex
import subprocess
import sys
import tomllib
from importlib.metadata import PathDistribution

import pytest
from command_line import run_command
from factory import ROOT
from loopback import serving_files
from packaging.requirements import Requirement
from wheels import make_wheel

from wheelsmith.base import distribution
from wheelsmith.base.distribution import DISTRIBUTION, Origin, read_origin
from wheelsmith.base.errors import SettingError
from wheelsmith.report.pipelines import Pipeline, github_workflow, requirement

COMMIT, SHA256 = "c" * 40, "5" * 64
GIT = {
    "url": "https://git.example.org/w.git",
    "vcs_info": {"vcs": "git", "commit_id": COMMIT, "requested_revision": "main"},
}
ARCHIVE = {"url": "https://example.org/w-1-py3-none-any.whl", "archive_info": {"hashes": {"sha256": SHA256}}}
PINNED = Origin(url=f"{ARCHIVE['url']}#sha256={SHA256}")
FROM_GIT = Origin(url=f"git+https://git.example.org/w.git@{COMMIT}")


@pytest.fixture
def installed(tmp_path):
    """Return a function that lays out an installation with a direct_url.json."""
    info = tmp_path / "site" / "wheelsmith_factory-1.dist-info"
    info.mkdir(parents=True)

    def install(record):
        if record:
            (info / "direct_url.json").write_text(json.dumps(record))
        return PathDistribution(info)

    return install


@pytest.fixture
def index(tmp_path, monkeypatch):
    """Yield the folder of a project's page, and configure pip to use only its index."""
    with serving_files(tmp_path) as url:
        monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
        monkeypatch.setenv("PIP_INDEX_URL", f"{url}/simple")
        for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_NO_INDEX"):
            monkeypatch.delenv(name, raising=False)
        (page := tmp_path / "simple" / DISTRIBUTION).mkdir(parents=True)
        yield page


def offer(page, wheel, sha256):
    """Write a page with one wheel."""
    (page / "index.html").write_text(f'<a href="{wheel.name}#sha256={sha256}">{wheel.name}</a>')


def sha256_of(path):
    return subprocess.run(["sha256sum", path], check=True, capture_output=True, text=True).stdout.split()[0]


def test_the_name_is_written_in_one_place():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == DISTRIBUTION
    written = [path.name for path in (ROOT / "wheelsmith").rglob("*.py") if DISTRIBUTION in path.read_text("utf-8")]
    assert written == ["distribution.py"]
    names = ("wheelsmith[", "wheelsmith==", "pip install wheelsmith ", "tool install wheelsmith ", "pypi/wheelsmith@")
    found = [
        f"{path}: {name}"
        for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "wheelsmith").rglob("*.py"))
        for name in names
        if name in path.read_text("utf-8")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("record", "origin"),
    [
        (None, Origin()),
        (GIT, FROM_GIT),
        (ARCHIVE, Origin(url=f"https://example.org/w-1-py3-none-any.whl#sha256={SHA256}")),
        ({"url": "file:///w", "dir_info": {}}, Origin(url="file:///w")),
    ],
    ids=["index", "git", "archive", "folder"],
)
def test_an_origin_is_read_from_the_record(record, origin, installed, tmp_path):
    assert read_origin(installed(record), tmp_path / "site") == origin
    assert read_origin(installed(record), tmp_path / "checkout") is None
    assert Requirement(origin.requirement("sign")).extras == {"sign"}


def test_an_editable_folder_is_the_origin_of_what_runs_there(installed, tmp_path):
    record = {"url": (tmp_path / "a b").as_uri(), "dir_info": {"editable": True}}
    origin = read_origin(installed(record), tmp_path / "a b")
    assert (origin, origin.is_local) == (Origin(url=record["url"], editable=True), True)
    assert read_origin(installed(record), tmp_path / "site") is None
    assert origin.install_command("sign", tmp_path) == f"pip install --editable '{tmp_path}/a b[sign]'"


@pytest.mark.parametrize(
    ("file", "origin", "command"),
    [
        (None, Origin(), f"pip install '{DISTRIBUTION}[sign]'"),
        (None, FROM_GIT, f"pip install '{DISTRIBUTION}[sign] @ {FROM_GIT.url}'"),
        ("uv-receipt.toml", Origin(), f"uv tool install '{DISTRIBUTION}[sign]'"),
        ("pipx_metadata.json", Origin(), f"pipx install --force '{DISTRIBUTION}[sign]'"),
    ],
)
def test_the_command_for_an_extra_depends_on_the_installation(file, origin, command, tmp_path):
    if file:
        (tmp_path / file).touch()
    assert origin.install_command("sign", tmp_path) == command


@pytest.mark.parametrize(
    ("origin", "version", "reason"),
    [
        (None, "1.0", "it comes from this machine"),
        (Origin(url="file:///w", editable=True), "1.0", "it comes from this machine"),
        (Origin(url=f"git+file:///w@{COMMIT}"), "1.0", "it comes from this machine"),
        (Origin(), "1.0.dev0", "it is not a release"),
        (Origin(), "1.0+mine", "it is not a release"),
    ],
)
def test_a_pipeline_asks_for_the_requirement_if_others_cannot_install_it(origin, version, reason, monkeypatch):
    monkeypatch.setattr(requirement, "running_origin", lambda: origin)
    monkeypatch.setattr(requirement, "__version__", version)
    with pytest.raises(SettingError, match=reason) as caught:
        requirement.running_requirement(pytest.fail)
    assert "--wheelsmith" in caught.value.remedy


def test_a_pipeline_installs_the_commit_that_runs(monkeypatch, capsys):
    monkeypatch.setattr(requirement, "running_origin", lambda: FROM_GIT)
    answer = run_command(monkeypatch, capsys, "ci", "github", "--output", "-")
    assert f'WHEELSMITH: "{DISTRIBUTION} @ {FROM_GIT.url}"' in answer.out


def test_a_pipeline_installs_the_release_that_runs_by_its_hash(index, tmp_path, monkeypatch):
    monkeypatch.setattr(requirement, "running_origin", Origin)
    monkeypatch.setattr(requirement, "__version__", "1.0")
    wheel = make_wheel(index, "wheelsmith_factory", "1.0")
    offer(index, wheel, sha256_of(wheel))
    found = requirement.running_requirement(pytest.fail)
    assert found.endswith(f"/{wheel.name}#sha256={sha256_of(wheel)}")
    assert f'WHEELSMITH: "{found}"' in github_workflow(Pipeline(wheelsmith=found))


@pytest.mark.release("pip installs twice")
def test_pip_refuses_a_release_with_another_hash(index, tmp_path):
    wheel = make_wheel(index, "wheelsmith_factory", "1.0")
    offer(index, wheel, sha256_of(wheel))
    found = requirement.released_requirement("1.0", pytest.fail)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-cache-dir", "--no-deps", "--target"]
    assert subprocess.run([*pip, tmp_path / "a", found]).returncode == 0
    make_wheel(index, "wheelsmith_factory", "1.0", files={"other.py": b""})
    refused = subprocess.run([*pip, tmp_path / "b", found], capture_output=True, text=True)
    assert (refused.returncode, "DO NOT MATCH THE HASHES" in refused.stderr) == (1, True)


@pytest.mark.parametrize("offered", ["nothing", "another version", "no hash", "a password"])
def test_a_release_without_a_known_hash_is_written_with_a_warning(offered, index, monkeypatch):
    wheel = make_wheel(index, "wheelsmith_factory", "2.0" if offered == "another version" else "1.0")
    offer(index, wheel, "" if offered == "no hash" else SHA256)
    if offered == "nothing":
        (index / "index.html").unlink()
    if offered == "a password":
        text = (index / "index.html").read_text()
        (index / "index.html").write_text(text.replace('href="', 'href="http://me:hunter2@127.0.0.1/'))
    warnings = []
    assert requirement.released_requirement("1.0", warnings.append) == f"{DISTRIBUTION}==1.0"
    assert [f"{DISTRIBUTION}==1.0 is written without a hash: " in each for each in warnings] == [True]


def test_without_a_network_the_warning_has_the_reason(monkeypatch, capsys):
    monkeypatch.setattr(requirement, "running_origin", Origin)
    monkeypatch.setattr(requirement, "__version__", "1.0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple")
    answer = run_command(monkeypatch, capsys, "ci", "github", "--output", "-")
    assert f'WHEELSMITH: "{DISTRIBUTION}==1.0"' in answer.out
    assert shlex.split(answer.err)[0] == "warning:"


def test_a_copy_that_is_not_installed_has_no_origin(monkeypatch):
    monkeypatch.setattr(distribution, "DISTRIBUTION", "no-such-distribution")
    assert distribution.running_origin() is None
    assert distribution.install_command("sign") == "pip install 'no-such-distribution[sign]'"


def test_a_wheel_with_its_hash_is_of_a_release_that_an_index_may_have_a_newer_one_of():
    origins = (PINNED, FROM_GIT, Origin(), Origin(url=f"file:///w.whl#sha256={SHA256}"), Origin(url=ARCHIVE["url"]))
    assert [each.is_pinned_wheel for each in origins] == [True, False, False, False, False]
