"""What replaces or mismatches torch in other layouts, and what happens in this one; docs/how-to/install.md tells it."""

import re
from functools import partial

import pytest
from installers import reported, sources
from packaging.version import Version
from torches import PYPI, TORCHES, right_wheel
from wheels import make_wheel

from wheelsmith.base.errors import WheelError
from wheelsmith.index.publish.input_folders import external_wheels

pytestmark = [pytest.mark.network, pytest.mark.xdist_group("installers")]
AGES = ("pip 23.2", "newest pip")
REPORT = ("install", "--dry-run", "--quiet", "--report", "-")


@pytest.fixture(scope="module")
def older(tools, loopback):
    """An environment with a torch that is not the newest."""
    return tools.environment("older", "torch==2.9.0", index=f"{loopback.whl}/cu128/")


def resolve(tools, installer, python, where, *asked):
    """Return what an installer would put into an environment."""
    if installer != "uv":
        return reported(tools.pip(installer, "--python", python, *REPORT, *sources(installer, *where), *asked))
    answer = tools.uv("pip", "install", "--dry-run", "--python", python, *sources(installer, *where), *asked)
    assert answer.returncode == 0, answer.stderr
    return dict(re.findall(r"^ \+ (\S+)==(\S+)", answer.stderr, re.MULTILINE))


def both(loopback, compute):
    """Return our root of a compute platform, and torch's."""
    return f"{loopback.index}/{compute}/", f"{loopback.whl}/{compute}/"


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("installer", [*AGES, "uv"])
def test_torch_of_one_cuda_gets_the_kernel_of_that_cuda(installer, tools, loopback):
    empty = tools.environment("empty")
    found = resolve(tools, installer, empty, both(loopback, "cu128"), "kernel", "torch==2.9.0+cu128")
    assert found == {"kernel": "2+cu128.torch2.9", "torch": "2.9.0+cu128"}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("installer", ["newest pip", "uv"])
@pytest.mark.parametrize("compute", ["cpu", "cu128", "cu130"])
def test_who_names_no_torch_gets_the_newest_and_the_kernel_for_it(installer, compute, tools, loopback):
    found = resolve(tools, installer, tools.environment("empty"), both(loopback, compute), "kernel")
    newest = max((release for release, computes in TORCHES.items() if compute in computes), key=Version)
    assert found == {"kernel": right_wheel(newest, compute), "torch": f"{newest}.1+{compute}"}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("torch", PYPI)
def test_a_torch_from_pypi_which_names_no_cuda_is_enough(torch, tools, loopback):
    python = tools.environment(f"pypi {torch}", f"torch=={torch}.0", index=loopback.pypi)
    ours = (f"{loopback.index}/{PYPI[torch]}/",)
    for installer in ("newest pip", "uv"):
        assert resolve(tools, installer, python, ours, "kernel") == {"kernel": right_wheel(torch, PYPI[torch])}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("installer", [*AGES, "uv"])
def test_our_root_alone_leaves_torch_as_it_is(installer, tools, loopback, older):
    ours = (f"{loopback.index}/cu128/",)
    assert resolve(tools, installer, older, ours, "--upgrade", "kernel", "torch") == {"kernel": "2+cu128.torch2.9"}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize(
    ("elsewhere", "installer"), [("pypi", "newest pip"), ("its own", "pip 23.2"), ("pypi", "uv"), ("its own", "uv")]
)
def test_another_index_beside_ours_replaces_torch_unless_a_constraint_forbids_it(
    elsewhere, installer, tools, loopback, older, tmp_path
):
    ours, other = both(loopback, "cu128")
    where = (ours, loopback.pypi if elsewhere == "pypi" else other)
    replaced = resolve(tools, installer, older, where, "kernel")
    newest = {"pypi": "2.11.1", "its own": "2.11.1+cu128"}[elsewhere]
    assert replaced == {"kernel": "2+cu128.torch2.11", "torch": newest}
    frozen = tools.pip("newest pip", "--python", older, "freeze").stdout
    constraint = tmp_path / "torch.txt"
    constraint.write_text("".join(line for line in frozen.splitlines(keepends=True) if line.startswith("torch==")))
    kept = resolve(tools, installer, older, where, "--constraint", constraint, "kernel")
    assert kept == {"kernel": "2+cu128.torch2.9"}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("installer", ["newest pip", "uv"])
def test_the_root_says_which_cuda_so_a_wrong_root_is_a_wrong_cuda(installer, tools, loopback, older):
    ours = (f"{loopback.index}/cu130/",)
    assert resolve(tools, installer, older, ours, "kernel") == {"kernel": "2+cu130.torch2.9"}


@pytest.mark.release("every installer with every combination")
@pytest.mark.parametrize("installer", ["newest pip", "uv"])
def test_the_root_for_all_is_for_exact_pins(installer, tools, loopback, older):
    """The local version that sorts highest says nothing of anybody's GPU."""
    choose = partial(resolve, tools, installer, older, (f"{loopback.index}/simple/",))
    assert choose("kernel==2+cu128.torch2.9") == {"kernel": "2+cu128.torch2.9"}
    assert choose("kernel") == {"kernel": "2+cu130.torch2.9"}


def test_a_renamed_wheel_is_not_published(tmp_path):
    path = make_wheel(tmp_path, "kernel", "2", requires=("torch==2.9.*",))
    renamed = path.rename(tmp_path / "kernel-2+cu128.torch2.9-py3-none-any.whl")
    with pytest.raises(WheelError, match="METADATA says kernel 2"):
        external_wheels([renamed])


@pytest.mark.parametrize("requirement", ["torch==2.9.*", "torch~=2.9.0", "Torch>=2.9,<2.10", "torch==2.9.1"])
def test_a_wheel_is_judged_by_what_it_means(requirement, tmp_path):
    external_wheels([make_wheel(tmp_path, "kernel", "2024.1.2+cu128.torch2.9", requires=(requirement,))])


@pytest.mark.parametrize("requirement", ["torch", "torch>=2.9", "torch==2.10.*"])
def test_a_wheel_for_one_torch_that_asks_for_another_is_not_published(requirement, tmp_path):
    path = make_wheel(tmp_path, "kernel", "2+cu128.torch2.9", requires=(requirement,))
    with pytest.raises(WheelError, match=r"the version names torch 2\.9, but Requires-Dist has torch"):
        external_wheels([path])
