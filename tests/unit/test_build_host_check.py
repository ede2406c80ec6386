"""A plan is built only by a machine with the compilers, Python and image that it names."""

from dataclasses import dataclass, replace

import pytest
from plans import plan

from wheelsmith.base.errors import EngineError
from wheelsmith.model import BuildHost, ImageId, PrefixId, Project, Toolset
from wheelsmith.model.build_host import ToolkitHome
from wheelsmith.pipeline.build_host import check_build_host

GCC = Toolset(arch="x86_64", cxx="g++", version="g++ 12.2.0", digest="a" * 64)
IMAGE = ImageId(name="debian", digest="sha256:" + "1" * 64)
CUDA = ToolkitHome(home="/usr/local/cuda", version="12.4", release="12.4.131", digest="c" * 64)
HOST = BuildHost(
    image=None,
    machine="x86_64",
    python="3.11",
    toolsets=(GCC,),
    pythons={},
    toolkits={},
    python_digests={"3.12": "b" * 64},
)
PROJECT = Project(python="3.12", environment=(), variables={}, python_digest="b" * 64)
TOOLKIT = PrefixId(kind="image-cuda", version="12.4.131", arch="x86_64", digest="c" * 64)


@dataclass
class Machine:
    """An engine that only answers which compilers it has."""

    host: BuildHost

    def build_host(self, image):
        return self.host


def refusal(made, host):
    with pytest.raises(EngineError) as caught:
        check_build_host(made, Machine(host))
    assert "plan again on this machine" in caught.value.remedy
    return caught.value.message.removeprefix("the plan was made for another machine: ")


def test_the_same_machine_builds_everything():
    own = replace(plan(1), toolset=GCC, project=PROJECT)
    check_build_host(own, Machine(HOST))
    inside = replace(own, image=IMAGE, toolkit=TOOLKIT, project=replace(PROJECT, python_digest=None))
    check_build_host(inside, Machine(replace(HOST, image=IMAGE, toolkits={"cuda": CUDA})))


def test_pinned_compilers_are_not_those_of_the_machine():
    prefix = PrefixId(kind="cxx", version="gcc-12.2.0", arch="x86_64", digest="d" * 64)
    pinned = replace(plan(1), toolset=replace(GCC, digest="e" * 64, prefix=prefix), image=IMAGE)
    check_build_host(pinned, Machine(replace(HOST, toolsets=())))


@pytest.mark.parametrize(
    ("changed", "host", "message"),
    [
        (
            {"toolset": replace(GCC, digest="0" * 64)},
            HOST,
            "g++ is g++ 12.2.0 (aaaaaaaaaaaa), not g++ 12.2.0 (000000000000)",
        ),
        (
            {"toolset": replace(GCC, arch="s390x", cxx="s390x-linux-gnu-g++")},
            HOST,
            "s390x-linux-gnu-g++ is missing, not g++ 12.2.0 (aaaaaaaaaaaa)",
        ),
        (
            {"project": PROJECT},
            replace(HOST, python_digests={"3.12": "f" * 64}),
            "Python 3.12 is ffffffffffff, not bbbbbbbbbbbb",
        ),
        ({"project": PROJECT}, replace(HOST, python_digests={}), "Python 3.12 is missing, not bbbbbbbbbbbb"),
        (
            {"project": PROJECT},
            replace(HOST, image=IMAGE),
            "builds run in debian (111111111111), not in no image",
        ),
        (
            {"project": replace(PROJECT, python_digest=None), "image": IMAGE},
            replace(HOST, image=replace(IMAGE, digest="sha256:" + "2" * 64)),
            "builds run in debian (222222222222), not in debian (111111111111)",
        ),
        (
            {"toolkit": TOOLKIT, "image": IMAGE},
            replace(HOST, image=IMAGE, toolkits={"cuda": replace(CUDA, digest="9" * 64)}),
            "the image's toolkit is 999999999999, not 12.4.131 (cccccccccccc)",
        ),
    ],
)
def test_another_machine_is_refused_with_what_differs(changed, host, message):
    assert refusal(replace(plan(1), **changed), host) == message
