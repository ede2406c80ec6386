"""What a wheel requires: of its framework in all environments of its tags, and where it is tested."""

import pytest
from packaging.specifiers import SpecifierSet
from packaging.utils import parse_wheel_filename
from wheels import make_wheel

from wheelsmith.base.errors import WheelError
from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.requirements import active_requirements, environments, framework_requirement, read_requirements

KNOWN = ("2.9", "2.10", "2.11", "2.12")


def _tags(tag):
    return parse_wheel_filename(f"kernel-1-{tag}.whl")[3]


def _torch(*lines, tag="cp311-cp311-manylinux_2_28_x86_64", python=""):
    read = read_requirements(lines)
    assert not read.mistakes
    return framework_requirement("torch", read.lines, environments(_tags(tag), SpecifierSet(python)), KNOWN)


@pytest.mark.parametrize(
    ("lines", "releases", "beyond"),
    [
        (("torch>=2.11", "torch<2.12"), ("2.11",), ()),
        (("torch==2.11.*; extra == 'old'", "torch==2.11.1"), ("2.11",), ()),
        (("torch",), KNOWN, ("older than 2.9", "later than 2.12")),
        (("torch!=2.11.*,>=2.10,<2.13",), ("2.10", "2.12"), ()),
        (("torch==2.13.*",), (), ("later than 2.12",)),
        (("torch==2.13.0.dev20260101",), (), ("2.13.0.dev20260101",)),
    ],
)
def test_the_releases_that_a_requirement_admits(lines, releases, beyond):
    found = _torch(*lines)
    assert (found.releases, found.unknown_releases, found.environments_without, found.mistakes) == (
        releases,
        beyond,
        (),
        (),
    )


@pytest.mark.parametrize(
    ("tag", "python", "versions"),
    [
        ("cp310-abi3-linux_x86_64", "<3.13", {"3.10", "3.11", "3.12"}),
        ("cp311-cp311-linux_x86_64", "", {"3.11"}),
        ("py311-none-any", "<3.14", {"3.11", "3.12", "3.13"}),
        ("py2.py3-none-any", "==3.11.9", {"3.11"}),
        ("cp311-cp311-linux_x86_64", ">=3.12", set()),
    ],
)
def test_the_pythons_that_a_tag_lets_in(tag, python, versions):
    assert {found["python_version"] for found in environments(_tags(tag), SpecifierSet(python))} == versions


def test_no_package_of_cuda_counts_in_two_ways():
    known = cuda_packages()
    assert not set(known.by_major) & set(known.first_of_13)


def test_the_requirements_for_the_python_of_a_test(tmp_path):
    requires = (
        "torch==2.11.*",
        "scipy>=1; python_version >= '3.12'",
        "tomli; python_version < '3.11'",
        "x @ https://example.org/x.whl ; extra == 'docs'",
        "pywin32; sys_platform == 'win32'",
        "arm; platform_machine == 'aarch64'",
        "fancy[more]<2",
    )
    wheel = make_wheel(tmp_path, "k", "1", requires=requires)
    assert active_requirements(wheel, "3.12", "x86_64") == ("torch==2.11.*", "scipy>=1", "fancy[more]<2")
    assert active_requirements(wheel, "3.10", "aarch64") == ("torch==2.11.*", "tomli", "arm", "fancy[more]<2")


@pytest.mark.parametrize(
    ("requirement", "words"),
    [("--index-url=http://x", "cannot be installed"), ("x @ https://example.org/x.whl", "requires x from a URL")],
)
def test_a_test_has_only_what_an_index_has(requirement, words, tmp_path):
    with pytest.raises(WheelError, match=words):
        active_requirements(make_wheel(tmp_path, "k", "1", requires=(requirement,)), "3.12", "x86_64")
