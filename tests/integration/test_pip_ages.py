"""One served index, and a pip of each minor that behaved differently, from 20.3 to the newest."""

import sys
import urllib.request

import pytest
from torches import YANKED, right_wheel

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("installers")]
# 20.3 is the first that knows manylinux_2_17. 22.2 is the first that asks for JSON; 22.3 to 23.1 take their side-cars
# from a key of it that PEP 714 therefore renamed, and 23.2 is the first that knows the new name.
QUICK = ("22.3.1", "23.0.1")
OTHERS = (
    "20.3.4",
    "21.0.1",
    "21.3.1",
    "22.0.4",
    "22.1.2",
    "22.2.2",
    "23.1",
    "23.1.2",
    "23.2.1",
    "23.3.2",
    "24.0",
    "24.3.1",
    "25.0.1",
    "25.3",
)
EVERY = pytest.mark.release("an environment for each pip")
AGES = [*QUICK, *(pytest.param(age, marks=EVERY) for age in (*OTHERS, "newest"))]


def pip(tools, age, *argv):
    """Run the pip of that version."""
    if age.startswith(("20.", "21.0")) and sys.version_info >= (3, 12):
        pytest.skip(f"pip {age} does not run on Python 3.12")
    return tools.pip_of("" if age == "newest" else f"=={age}", *argv)


@pytest.mark.parametrize("age", AGES)
def test_every_pip_resolves_and_downloads_with_torch(age, tools, loopback, tmp_path):
    answer = pip(
        *(tools, age, "download", "-d", tmp_path, "--index-url", f"{loopback.index}/cu130/"),
        *("--extra-index-url", f"{loopback.whl}/cu130/", "kernel", "torch==2.9.0"),
    )
    assert answer.returncode == 0, answer.stderr
    assert {path.name.split("-")[1] for path in tmp_path.iterdir()} == {right_wheel("2.9", "cu130"), "2.9.0+cu130"}


@pytest.mark.parametrize("age", AGES)
def test_every_pip_installs_a_pin_beside_a_yanked_wheel(age, tools, loopback, tmp_path):
    answer = pip(
        *(tools, age, "install", "--target", tmp_path, "--no-deps"),
        *("--index-url", f"{loopback.index}/simple/", "kernel==1+cu130.torch2.9", "triton-only"),
    )
    assert answer.returncode == 0, answer.stderr
    assert (tmp_path / "kernel.py").read_text() == "VERSION = '1+cu130.torch2.9'\n"
    assert (tmp_path / "triton_only.py").is_file()
    yanked = pip(
        *(tools, age, "download", "-d", tmp_path / "yanked", "--no-deps"),
        *("--index-url", f"{loopback.index}/cu130/", "kernel==3+cu130.torchstable"),
    )
    assert yanked.returncode == 0, yanked.stderr
    assert YANKED in yanked.stderr


def test_json_does_not_say_what_ends_pip_in_a_traceback(loopback):
    for root in ("simple", "cpu", "cu130"):
        request = urllib.request.Request(
            f"{loopback.index}/{root}/kernel/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
        )
        with urllib.request.urlopen(request) as response:
            page = response.read()
        assert b'"core-metadata"' in page
        assert b"dist-info-metadata" not in page
