"""What is picked of several projects: one torch for all of them, or who is in the way."""

import pytest
from machines import machine
from states import entry, named, of_torch, stable

from wheelsmith.index.entries.catalogue import catalogue_of
from wheelsmith.index.pick.decide import Overrides
from wheelsmith.index.pick.together import decide_together
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer
from wheelsmith.model import Cell

BASE = "https://example.org/"
A = named("a", *(of_torch(torch, cuda) for torch in ("2.11", "2.13") for cuda in (None, "13.0")))
B = named("b", of_torch("2.11", None), of_torch("2.11", "13.0"))
NEW = named("new", of_torch("2.13", "13.0"))
EINOPS = named("needs", of_torch("2.11", "13.0", requires=("einops>=0.8",)))
BARE = named(
    "bare",
    entry(
        "1.0+cu130",
        Cell(framework="none", release="", toolkit="13.0", arch="x86_64", cxx11_abi=None),
        tag="py3-none-manylinux_2_28_x86_64",
    ),
)


def picked(*states, torch=None, driver="13.3", **asked):
    choosers = [Chooser(catalogue_of(state)) for state in states]
    return decide_together(choosers, machine(torch=torch, driver=driver), Overrides(**asked))


def command(group, installer=Installer.PIP):
    return group.commands(installer, BASE).text()


def test_without_torch_all_get_the_newest_that_they_have_in_common():
    assert command(picked(A, B)) == (
        "pip install a==1.0+cu130.torch2.11 b==1.0+cu130.torch2.11 torch==2.11.0+cu130 "
        f"--index-url {BASE}cu130/ --extra-index-url https://download.pytorch.org/whl/cu130"
    )
    assert "a==1.0+cu130.torch2.13 new==" in command(picked(A, NEW))
    assert "a==1.0+cpu.torch2.11 b==1.0+cpu.torch2.11 torch==2.11.0+cpu" in command(picked(A, B, driver=None))
    assert "a==1.0+cpu.torch2.11" in command(picked(A, B, compute="cpu"))
    assert "a==1.0+cu130.torch2.13 stable==0.3+cu130.torchstable torch==2.13.0+cu130" in command(
        picked(A, stable(), torch=None, compute="13.0")
    )


def test_an_installed_torch_stays():
    group = picked(A, B, torch="2.11.0+cu130")
    assert command(group, Installer.UV) == (
        f"uv pip install a==1.0+cu130.torch2.11 b==1.0+cu130.torch2.11 torch==2.11.0+cu130 --default-index {BASE}cu130/"
    )


def test_who_is_in_the_way_is_named_with_the_nearest_combination_in_common():
    group = picked(A, B, torch="2.13.0+cu130")
    assert group.reason.startswith("a has a wheel for torch 2.13, CUDA 13.0, but b not: torch 2.13 is not served")
    assert [near.change for near in group.nearest] == ["torch 2.11"]
    group = picked(A, B, NEW)
    assert list(group.refused) == ["b"]
    assert group.nearest == ()
    group = picked(B, NEW, torch="2.12.0+cu130")
    assert group.reason.startswith("there is no wheel of b and new for torch 2.12, CUDA 13.0: ")


def test_wheels_of_several_cudas_come_from_the_root_of_all():
    newer = named("c", of_torch("2.13", "13.2"))
    text = command(picked(NEW, newer, torch="2.13.0+cu132"))
    assert (
        text
        == f"pip install new==1.0+cu130.torch2.13 c==1.0+cu132.torch2.13 torch==2.13.0+cu132 --index-url {BASE}simple/"
    )


def test_other_requirements_come_from_the_usual_index_before_the_wheels():
    first, second = command(picked(B, EINOPS)).split(" && ")
    torch = "torch==2.11.0+cu130"
    assert first == f"pip install 'einops>=0.8' {torch} --extra-index-url https://download.pytorch.org/whl/cu130"
    assert second == f"pip install b==1.0+cu130.torch2.11 needs==1.0+cu130.torch2.11 {torch} --index-url {BASE}cu130/"


def test_a_project_without_a_framework_takes_the_compute_platform_of_the_others():
    assert command(picked(BARE, B)).startswith(
        "pip install bare==1.0+cu130 b==1.0+cu130.torch2.11 torch==2.11.0+cu130 "
    )
    other = named("other", entry("2.0+cu130", *BARE.entries[0].cells, tag="py3-none-manylinux_2_28_x86_64"))
    assert command(picked(BARE, other)) == f"pip install bare==1.0+cu130 other==2.0+cu130 --index-url {BASE}cu130/"


@pytest.mark.parametrize(
    ("installer", "lines"),
    [
        (Installer.PROJECT, ['dependencies = ["a==1.0+cu130.torch2.11", "b==1.0+cu130.torch2.11", "torch==2.11.*"]',
                             'a = { index = "a-cu130" }', 'b = { index = "a-cu130" }', 'name = "a-cu130"']),
        (Installer.REQUIREMENTS, ["torch==2.11.0+cu130", "a @ https", "b @ https"]),
        (Installer.DOCKERFILE, ["RUN pip install --no-cache-dir a==1.0+cu130.torch2.11 b=="]),
    ],
)  # fmt: skip
def test_files_name_each_project_once(installer, lines):
    text = command(picked(A, B), installer).splitlines()
    for line in lines:
        assert len([each for each in text if each.startswith(line)]) == 1, line


def test_torch_satisfies_all_of_them():
    exact = named("exact", of_torch("2.12", "13.0", requires_torch="==2.12.0"))
    both = named("both", of_torch("2.12", "13.0"))
    assert " torch==2.12.0+cu130 " in command(picked(both, exact))
    assert " torch==2.12.1+cu130 " in command(picked(both, named("other", of_torch("2.12", "13.0"))))


def test_a_machine_without_a_driver_is_told_so():
    assert "this machine has no NVIDIA driver" in picked(NEW, named("c", of_torch("2.13", "13.0")), driver=None).reason
