"""Which compilers a cell is built with: the machine's, or pinned ones, which are another plan."""

import json
from dataclasses import replace
from importlib.resources import files

import pytest
from packaging.version import Version
from plans import plan

from wheelsmith.base.errors import WheelError
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.model import HOST, PINNED, BuildHost, Cell, CellSettings, PinnedPackage, PrefixId, Toolset
from wheelsmith.model.pinned import pinned_prefix
from wheelsmith.plan.feasibility import NotBuildableError, find_compilers
from wheelsmith.platforms import cxx_toolchain, cxx_toolchains
from wheelsmith.platforms.host_compilers import KIND
from wheelsmith.toolchain.cxx.libraries import is_newer
from wheelsmith.wheel.archive import WheelContents
from wheelsmith.wheel.repair import retag

GXX = Toolset(arch="x86_64", cxx="g++", version="g++ 13", digest="machine's")
HERE = BuildHost(image=None, machine="x86_64", python="3.11", toolsets=(GXX,), pythons={}, toolkits={})
MATRIX = "kernel: {path: k}\naxes: {torch: [2.11], cuda: [cpu]}\n"


def cell(arch="x86_64", **settings):
    return Cell(release="2.11", toolkit=None, arch=arch, settings=CellSettings(**settings))


def test_pinned_ones_are_used_unless_the_machines_are_asked_for():
    assert find_compilers(cell(), HERE) == find_compilers(cell(toolchain=PINNED), HERE)
    assert find_compilers(cell(toolchain=HOST), HERE) == GXX


def test_where_nobody_pinned_any_it_is_the_machines():
    arm = replace(HERE, machine="aarch64", toolsets=(replace(GXX, arch="aarch64"),))
    assert find_compilers(cell("aarch64"), arm) == arm.toolsets[0]


@pytest.mark.parametrize("name", [PINNED, "gcc-12.2.0"])
def test_pinned_ones_need_none_of_the_machine(name):
    found = find_compilers(cell(toolchain=name), replace(HERE, toolsets=()))
    assert found.cxx == "/opt/cxx/bin/g++"
    assert found.prefix == cxx_toolchain(name, "2_28", "x86_64", "x86_64").prefix
    assert found.prefix.kind == KIND
    assert found.digest == found.prefix.digest


@pytest.mark.parametrize("more", [{"manylinux": "2_5"}, {"toolchain": "gcc-1"}])
def test_what_nobody_pinned_is_named(more):
    with pytest.raises(NotBuildableError, match=r"no pinned compilers on x86_64 for x86_64 .* toolchain: host"):
        find_compilers(cell(**{"toolchain": PINNED, **more}), HERE)


def test_others_make_code_for_other_machines():
    found = find_compilers(cell("aarch64", toolchain=PINNED), HERE)
    assert found.cxx == "/opt/cxx/bin/aarch64-linux-gnu-g++"
    assert found.prefix.arch == "x86_64-aarch64"
    with pytest.raises(NotBuildableError, match="no pinned compilers on aarch64 for x86_64"):
        find_compilers(cell(toolchain=PINNED), replace(HERE, machine="aarch64"))


def test_a_plan_with_others_than_the_machines_is_another_one():
    made = replace(plan(1), toolset=GXX)
    other = replace(GXX, prefix=cxx_toolchains()[0].prefix)
    assert replace(made, toolset=other).build_digest != made.build_digest


@pytest.mark.parametrize("text", ["pinned", "host", "gcc-12.2.0"])
def test_a_matrix_says_which(text):
    rule = f"rules: [{{where: {{cuda: cpu}}, set: {{toolchain: {text}}}}}]\n"
    assert parse_matrix(f"{MATRIX}toolchain: {text}\n").settings.toolchain == text
    assert parse_matrix(MATRIX + rule).rules[0].settings.toolchain == text


def test_every_policy_allows_no_more_than_auditwheels_of_that_name():
    known = json.loads(files("auditwheel").joinpath("policy/manylinux-policy.json").read_text())
    theirs = {policy["name"].removeprefix("manylinux_"): policy["symbol_versions"] for policy in known}
    for each in cxx_toolchains():
        for prefix, newest in each.policy.newest.items():
            assert newest in theirs[each.policy.name][each.compilers.arch][prefix]


def test_another_way_to_lay_them_out_is_another_prefix():
    pins = [PinnedPackage(filename="a.deb", url="u", sha256="s", size=1)]
    first, second = (pinned_prefix(KIND, "1", "x86_64", pins, layout=number) for number in (1, 2))
    assert first != second
    assert isinstance(first, PrefixId)


@pytest.mark.parametrize(
    ("version", "newer"),
    [
        ("GLIBC_2.28", False),
        ("GLIBC_2.29", True),
        ("GLIBC_2.100", True),
        ("GLIBC_PRIVATE", False),
        ("GLIBCXX_3.4.25", True),
    ],
)
def test_versions_are_compared_number_by_number(version, newer):
    newest = {"GLIBC": "2.28", "GLIBCXX": "3.4.24"}
    assert is_newer(version, newest) is newer
    prefix, _, number = version.partition("_")
    if prefix in newest and number[0].isdigit():
        assert (Version(number) > Version(newest[prefix])) is newer


def wheel_for(*platforms):
    tags = "".join(f"Tag: cp311-abi3-{platform}\n" for platform in platforms)
    return WheelContents(
        filename=f"k-1-cp311-abi3-{'.'.join(platforms)}.whl",
        info="k-1.dist-info",
        files={"k-1.dist-info/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: false\n{tags}".encode(), "k.so": b""},
    )


@pytest.mark.parametrize("own", [("manylinux_2_17_x86_64",), ("manylinux_2_17_x86_64", "manylinux2014_x86_64")])
def test_a_wheel_that_needs_less_is_for_what_it_was_built_for(own):
    made = retag(wheel_for(*own), "manylinux_2_28_x86_64")
    assert made.filename == "k-1-cp311-abi3-manylinux_2_28_x86_64.whl"
    assert made.wheel.get_all("Tag") == ["cp311-abi3-manylinux_2_28_x86_64"]
    assert made.wheel["Root-Is-Purelib"] == "false"
    assert set(made.files) == {"k-1.dist-info/WHEEL", "k.so"}


@pytest.mark.parametrize("own", ["manylinux_2_34_x86_64", "manylinux_2_17_aarch64", "linux_x86_64"])
def test_a_wheel_that_needs_more_is_refused(own):
    with pytest.raises(WheelError, match=f"it was built for manylinux_2_28_x86_64, but needs {own}"):
        retag(wheel_for(own), "manylinux_2_28_x86_64")
