import json
import shlex
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename
from packaging.version import Version
from states import cell, entry, of_torch, project, unserved

from wheelsmith.base.units import numbers
from wheelsmith.frameworks import torch_releases
from wheelsmith.index.entries.catalogue import catalogue_of, dump_catalogue
from wheelsmith.index.entries.entry import NoWheel, ProjectStatus
from wheelsmith.index.entries.render import simple_pages
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import (
    Installer,
    Presence,
    fill_template,
    slot_values,
    template_for,
    torch_compute,
)
from wheelsmith.index.resolve.target import Choice, Refusal, Target
from wheelsmith.index.site.grid import GridStatus, catalogue_cells
from wheelsmith.index.site.human import human_pages
from wheelsmith.model import CellSettings
from wheelsmith.platforms.cuda import cuda_version_of

BASE = "https://wheels.example/index/"


def target(torch="2.11", compute="cu130", arch="x86_64", python="3.12", **known):
    return Target(release=torch, compute=compute, arch=arch, python=python, **known)


def choose(state, **wanted):
    return Chooser(catalogue_of(state)).choose(target(**wanted))


def command(choice, wanted, installer=Installer.PIP, torch=Presence.PRESENT):
    told = template_for(installer, torch, others=bool(choice.wheel.requires))
    return fill_template(told, {**slot_values(choice, wanted, torch), "base": BASE})


TWO = project(of_torch("2.11", "13.0"), of_torch("2.13", "13.0"), of_torch("2.11", None))


# --- what is chosen ---------------------------------------------------------------------------------------------


def test_the_wheel_of_the_cell():
    found = choose(TWO)
    assert isinstance(found, Choice)
    assert (str(found.wheel.version), found.root, found.notes) == ("1.0+cu130.torch2.11", "cu130", ())


def test_the_newest_version_that_is_not_yanked():
    newer, older = of_torch("2.11", "13.0", version="1.10"), of_torch("2.11", "13.0", version="1.9")
    assert str(choose(project(newer, older)).wheel.version) == "1.10+cu130.torch2.11"
    assert str(choose(project(replace(newer, yanked=""), older)).wheel.version) == "1.9+cu130.torch2.11"
    assert (
        str(choose(project(of_torch("2.11", "13.0", version="2.0rc1"), older)).wheel.version) == "1.9+cu130.torch2.11"
    )


def test_an_older_version_where_the_newest_has_none_and_why():
    state = project(
        of_torch("2.11", "13.0", version="1.0"),
        of_torch("2.13", "13.0", version="2.0"),
        answers=(unserved(cell("2.11", "13.0"), NoWheel.EXCLUDED, "too slow", version="2.0"),),
    )
    found = choose(state)
    assert str(found.wheel.version) == "1.0+cu130.torch2.11"
    assert found.notes == ("2.0 has no wheel for this (excluded: too slow); 1.0 is the newest that has one",)


def test_a_stable_abi_wheel_serves_its_cells_and_says_when_it_goes_by_its_metadata_alone():
    stable = entry("1.0+cu130", cell("2.11", "13.0"), cell("2.13", "13.0"), requires_torch=">=2.11")
    assert choose(project(stable), torch="2.13").notes == ()
    assert "accepts torch >=2.11" in choose(project(stable), torch="2.12").notes[0]
    refused = choose(project(stable), torch="2.10")
    assert (refused.code, refused.nearest[0].change) == ("torch", "torch 2.11")


@pytest.mark.parametrize(
    ("requires", "installs"),
    [
        ("==2.12.1", "torch==2.12.1+cu130"),
        ("==2.12.0", "torch==2.12.0+cu130"),
        ("==2.12.0+cu130", "torch==2.12.0+cu130"),
        ("==2.12.0+nv26.4", "torch==2.12.*"),
    ],
)
def test_a_wheel_for_one_patch_of_torch_serves_its_release(requires, installs):
    state = project(entry("1.0+cu130", cell("2.12", "13.0"), requires_torch=requires))
    found = choose(state, torch="2.12")
    assert (found.root, found.notes) == ("cu130", ())
    assert installs in " ".join(command(found, target(torch="2.12"), torch=Presence.ABSENT).lines[-1])
    refused = choose(state, torch="2.12", torch_version="2.12.2+cu130")
    assert refused.reason == f"k 1.0+cu130 does not fit: it requires torch {requires}, not 2.12.2+cu130"


def test_a_torch_without_a_local_version_is_not_the_build_that_a_wheel_pins():
    state = project(entry("1.0+cu130", cell("2.12", "13.0"), requires_torch="==2.12.1+cu130"))
    assert isinstance(choose(state, torch="2.12", torch_version="2.12.1+cu130"), Choice)
    assert "not 2.12.1" in choose(state, torch="2.12", torch_version="2.12.1").reason


def test_what_is_excluded_is_not_served_by_a_wheel_that_would_take_it():
    stable = entry("1.0+cu130", cell("2.11", "13.0"), requires_torch=">=2.11")
    answer = unserved(cell("2.12", "13.0"), NoWheel.EXCLUDED, "it crashes there")
    refused = choose(project(stable, answers=(answer,)), torch="2.12")
    assert (refused.code, refused.reason) == ("excluded", "there is no wheel of k 1.0 for this: it crashes there")


def test_a_wheel_with_nothing_compiled_serves_everything_its_metadata_takes():
    pure = entry("1.0", cell("2.11", "13.0"), tag="py3-none-any", requires_torch=">=2.9")
    for compute, root in (("cpu", "simple"), ("cu126", "simple"), ("cu130", "cu130")):
        found = choose(project(pure), torch="2.9", compute=compute, arch="aarch64")
        assert (str(found.wheel.version), found.root) == ("1.0", root)


def test_a_wheel_that_names_no_cell_is_chosen_only_without_a_local_version():
    assert isinstance(choose(project(entry("1.0"))), Choice)
    refused = choose(project(entry("1.0+cu13torch2.11cxx11abi")))
    assert (refused.code, refused.nearest) == ("empty", ())


def test_the_best_tag_as_pip_orders_them():
    old = entry("1.0+cu130.torch2.11", cell("2.11", "13.0"), tag="cp39-abi3-manylinux_2_28_x86_64")
    new = entry("1.0+cu130.torch2.11", cell("2.11", "13.0"), tag="cp39-abi3-manylinux_2_34_x86_64")
    assert choose(project(old, new)).wheel.filename == new.filename
    assert choose(project(old, new), glibc="2.31").wheel.filename == old.filename
    own = entry("1.0+cu130.torch2.11", cell("2.11", "13.0"), tag="cp312-cp312-manylinux_2_17_x86_64")
    assert choose(project(old, own)).wheel.filename == own.filename


def test_projects_have_a_wheel_for_each_python():
    made = [
        entry("1.0+cu130.torch2.11", cell("2.11", "13.0", python=f"3.{n}"), tag=f"cp3{n}-cp3{n}-manylinux_2_34_x86_64")
        for n in (11, 12)
    ]  # fmt: skip
    assert choose(project(*made), python="3.11.4").wheel.filename == made[0].filename
    refused = choose(project(*made), python="3.14")
    assert refused.reason == "Python 3.14 is not served; there are wheels for 3.11 and 3.12"
    assert [near.change for near in refused.nearest] == ["Python 3.12"]


# --- why there is none ------------------------------------------------------------------------------------------


NOT_FITTING = "k 1.0+cu130.torch2.11 does not fit: "
REASONS = [
    ({"torch": "2.12"}, "torch", "torch 2.12 is not served; there are wheels for torch 2.11 and 2.13", "torch 2.11"),
    ({"compute": "cu132"}, "compute", "CUDA 13.2 is not served; there are wheels for CPU and CUDA 13.0", "CUDA 13.0"),
    ({"arch": "aarch64"}, "arch", "aarch64 is not served; there are wheels for x86_64", "x86_64"),
    ({"torch": "2.13", "compute": "cpu"}, "combination", "torch 2.13 with CPU on x86_64 is not in the", "torch 2.11"),
    ({"python": "3.8"}, "python", f"{NOT_FITTING}it needs Python >=3.9, not 3.8", "Python 3.9"),
    ({"glibc": "2.31"}, "glibc", f"{NOT_FITTING}it needs glibc 2.34 or newer, this machine has 2.31", None),
    ({"glibc": "0.0"}, "glibc", "needs glibc 2.34 or newer, this machine has none", None),
    (
        {"free_threaded": True},
        "python",
        "cp39-abi3-manylinux_2_34_x86_64 is not for Python without the GIL",
        "Python 3.12",
    ),
    (
        {"driver": "12.8"},
        "driver",
        "CUDA 13.0, which needs driver 580 or newer; this driver supports CUDA up to 12.8",
        "CPU",
    ),
]


@pytest.mark.parametrize(("wanted", "code", "reason", "nearest"), REASONS)
def test_reasons(wanted, code, reason, nearest):
    refused = choose(TWO, **wanted)
    assert isinstance(refused, Refusal)
    assert refused.code == code
    assert reason in refused.reason
    assert (refused.nearest[0].change if refused.nearest else None) == nearest
    for near in refused.nearest:
        assert isinstance(Chooser(catalogue_of(TWO)).choose(near.target), Choice)


def test_two_changes_where_one_is_not_enough():
    refused = choose(TWO, torch="2.12", arch="aarch64")
    assert [near.change for near in refused.nearest] == ["torch 2.11 and x86_64"]


def test_an_older_minor_of_the_same_cuda_runs_too():
    refused = choose(TWO, compute="cu132")
    assert [(near.change, near.fits) for near in refused.nearest] == [("CUDA 13.0", True)]
    newer = choose(project(of_torch("2.13", "13.2")), torch="2.13", compute="cu130")
    assert [(near.change, near.fits) for near in newer.nearest] == [("CUDA 13.2", False)]


def test_a_failed_build_answers_with_its_log():
    answer = unserved(cell("2.12", "13.0"), NoWheel.FAILED, "compile: exit code 2", tail=("error: no", "stopped"))
    refused = choose(project(of_torch("2.11", "13.0"), answers=(answer,)), torch="2.12")
    assert (refused.code, refused.reason) == ("failed", "the build of k 1.0 failed: compile: exit code 2")
    assert refused.tail == ("error: no", "stopped")


def test_a_project_in_quarantine_offers_nothing_and_others_warn():
    state = replace(TWO, status=ProjectStatus.QUARANTINED, status_reason="stolen key")
    refused = choose(state)
    assert (refused.code, refused.nearest) == ("quarantined", ())
    assert "stolen key" in refused.reason
    assert Chooser(catalogue_of(TWO)).warning is None
    for status in (ProjectStatus.ARCHIVED, ProjectStatus.DEPRECATED):
        warned = Chooser(catalogue_of(replace(TWO, status=status, status_reason="use j")))
        assert warned.warning == f"k is {status}: use j"
        assert isinstance(warned.choose(target()), Choice)


def test_hidden_cells_are_not_there():
    state = project(of_torch("2.11", "13.0"), entry("1.0+cu130.torch2.13", cell("2.13", "13.0", hidden=True)))
    assert choose(state, torch="2.13").code == "torch"
    assert "2.13" not in dump_catalogue(catalogue_of(state)).decode()


@pytest.mark.parametrize(
    ("archs", "gpu", "driver", "runs"),
    [
        (("8.0", "9.0"), "8.6", None, True),
        (("8.0",), "9.0", None, False),
        (("10.0f",), "10.3", None, True),
        (("8.0+PTX",), "12.0", None, True),
        (("9.0a+PTX",), "10.0", None, False),
        # A driver compiles no PTX that is newer than itself.
        (("8.0+PTX",), "12.0", "13.0", True),
    ],
)
def test_gpu_code(archs, gpu, driver, runs):
    made = of_torch("2.13", "13.0", gpu_archs=archs)
    found = choose(project(made), torch="2.13", capabilities=(gpu,), driver=driver)
    assert isinstance(found, Choice) is runs
    assert runs or found.code == "gpu"


def test_ptx_needs_a_driver_that_knows_it():
    made = of_torch("2.13", "13.2", gpu_archs=("9.0+PTX",))
    asked = {"torch": "2.13", "compute": "cu132", "driver": "13.0"}
    assert isinstance(choose(project(made), capabilities=("9.0",), **asked), Choice)
    refused = choose(project(made), capabilities=("12.0",), **asked)
    assert (refused.code, "supports only CUDA up to 13.0" in refused.reason) == ("driver", True)


def test_some_of_several_gpus_are_told_of():
    made = of_torch("2.11", "13.0", gpu_archs=("9.0",))
    assert choose(project(made), capabilities=("7.5", "9.0")).notes == ("it has no code for GPUs of capability 7.5",)


# --- every cell that is served, and the command for it ------------------------------------------------------------

TORCHES = ("2.9", "2.10", "2.11", "2.16")
CUDAS = (None, "12.8", "13.0", "13.2")


@st.composite
def entries(draw):
    public = draw(st.sampled_from(["1.0", "1.1", "1.10", "2.0rc1"]))
    arch, torch, cuda = (
        draw(st.sampled_from(["x86_64", "aarch64"])),
        draw(st.sampled_from(TORCHES)),
        draw(st.sampled_from(CUDAS)),
    )
    kind = draw(st.sampled_from(["torch", "stable", "pure", "python"]))
    hidden = draw(st.booleans())
    first = cell(torch, cuda, arch, hidden=hidden, python="3.12" if kind == "python" else None)
    more = [cell(t, cuda, arch) for t in TORCHES if TORCHES.index(t) > TORCHES.index(torch)]
    fields = {
        "yanked": draw(st.sampled_from([None, None, "bad"])),
        "requires_python": draw(st.sampled_from([">=3.9", ">=3.11"])),
    }
    if draw(st.booleans()):
        fields["requires"] = ("einops>=0.8",)
    if kind == "torch":
        folded = [cell(torch, "13.2", arch)] if cuda == "13.0" else []
        glibc = draw(st.sampled_from(["2_28", "2_34"]))
        return entry(
            f"{public}+{first.compute}.torch{torch}",
            first,
            *folded,
            tag=f"cp39-abi3-manylinux_{glibc}_{arch}",
            **fields,
        )
    if kind == "python":
        return entry(
            f"{public}+{first.compute}.torch{torch}", first, tag=f"cp312-cp312-manylinux_2_34_{arch}", **fields
        )
    if kind == "stable":
        tag = f"cp39-abi3-manylinux_2_34_{arch}"
        return entry(f"{public}+{first.compute}", first, *more, tag=tag, **{**fields, "requires_torch": f">={torch}"})
    return entry(public, first, *more, tag="py3-none-any", **{**fields, "requires_torch": f">={torch}"})


def states():
    return st.lists(entries(), min_size=1, max_size=8, unique_by=lambda item: item.filename).map(
        lambda made: project(*made)
    )


@cache
def tags_of(arch):
    platforms = [f"manylinux_2_{n}_{arch}" for n in range(40, 16, -1)]
    tags = [*cpython_tags((3, 12), ["cp312"], platforms), *compatible_tags((3, 12), "cp312", platforms)]
    return {tag: place for place, tag in enumerate(tags)}


@cache
def listed_files(state, root):
    return json.loads(simple_pages(state)[f"{root}/k/index.json"])["files"]


def as_pip_sees(state, root, requirement, arch):
    """Return the file that pip 26 takes from a root for a requirement (its sort key, simple-index.md §5)."""
    ranks, found = tags_of(arch), []
    for file in listed_files(state, root):
        _, version, build, own = parse_wheel_filename(file["filename"])
        rank = min((ranks[tag] for tag in own if tag in ranks), default=None)
        takes = SpecifierSet(file.get("requires-python") or "").contains("3.12.1")
        if rank is not None and takes and requirement.specifier.contains(version, prereleases=True):
            found.append(((file["yanked"] is False, version, -rank, build), file["filename"]))
    return max(found)[1]


@given(states())
@settings(max_examples=30, deadline=None)
def test_every_cell_that_is_served_is_chosen_and_its_command_means_that_wheel(state):
    chooser = Chooser(catalogue_of(state))
    for served in {each for item in state.entries if item.yanked is None for each in item.cells}:
        if not served.settings.advertise:
            continue
        wanted = target(torch=served.release, compute=served.compute, arch=served.arch)
        choice = chooser.choose(wanted)
        known = torch_releases().get(served.release)
        if known and served.toolkit and not known.compatible_cuda(served.toolkit) and not isinstance(choice, Choice):
            assert choice.code == "torch"
            continue
        assert isinstance(choice, Choice), choice
        if known and served.toolkit and not known.compatible_cuda(served.toolkit):
            continue  # what serves it was made for another cell
        same = [(each.release, each.compute, each.arch, each.python or "3.12") for each in choice.wheel.cells]
        assert (served.release, served.compute, served.arch, "3.12") in same
        assert choice.wheel.yanked is None
        made = next(item for item in state.entries if item.filename == choice.wheel.filename)
        assert choice.root == served.compute
        for installer in (Installer.PIP, Installer.UV, Installer.DOCKERFILE):
            for torch in Presence:
                check_pins(state, choice, made, wanted, installer, torch)


def check_pins(state, choice, made, wanted, installer, torch):
    told = command(choice, wanted, installer, torch)
    words = [word for line in told.lines for word in line]
    assert [word for line in shlex.split(told.text().removeprefix("RUN ")) for word in [line] if word != "&&"] == words
    pins = {}
    for word in words:
        try:
            pins[Requirement(word).name] = Requirement(word)
        except InvalidRequirement:
            continue
    mine, torches = pins["k"], pins["torch"]
    _, version, _, _ = parse_wheel_filename(made.filename)
    if mine.url:
        assert mine.url == f"{BASE}{made.path.replace('+', '%2B')}#sha256={made.sha256}"
    else:
        assert mine.specifier.contains(version, prereleases=True)
        assert as_pip_sees(state, choice.root, mine, wanted.arch) == made.filename
    asked = SpecifierSet(made.requires_torch or "")
    exact = str(torches.specifier).removeprefix("==")
    if exact.endswith(".*"):
        assert asked.contains(exact.replace("*", "0"))
    else:
        assert torch is Presence.ABSENT
        assert asked.contains(Version(exact))
        assert_no_older_cuda(wanted, made, Version(exact).local)
    # Where torch is there already, the wheel comes from a root that has no torch, and from no other index.
    last = told.lines[-1]
    indexes = [word for word in last if "://" in word and "@" not in word]
    assert indexes[0] == f"{BASE}{choice.root}/" or mine.url
    if torch is Presence.PRESENT:
        assert indexes == [f"{BASE}{choice.root}/"]
        assert not {"--extra-index-url", "--index"} & set(last)


def assert_no_older_cuda(wanted, made, build):
    """The torch that a command names is one that was published, and its CUDA is not older than the kernel's."""
    toolkit = cuda_version_of((parse_wheel_filename(made.filename)[1].local or "").partition(".")[0])
    if wanted.compute == "cpu" or wanted.release not in torch_releases():
        assert build == wanted.compute
        return
    toolkit = toolkit or f"{cuda_version_of(wanted.compute).partition('.')[0]}.0"
    assert cuda_version_of(build) in torch_releases()[wanted.release].cuda
    assert cuda_version_of(build).split(".")[0] == toolkit.split(".")[0]
    assert numbers(cuda_version_of(build)) >= numbers(toolkit)


@given(
    states(),
    st.sampled_from(TORCHES),
    st.sampled_from(["cpu", "cu128", "cu130", "cu132"]),
    st.sampled_from(["3.8", "3.10", "3.12"]),
)
@settings(max_examples=30, deadline=None)
def test_every_target_has_an_answer_and_what_is_nearest_works(state, torch, compute, python):
    chooser = Chooser(catalogue_of(state))
    answer = chooser.choose(target(torch=torch, compute=compute, python=python))
    if isinstance(answer, Choice):
        assert answer.wheel.filename in {file["filename"] for file in listed_files(state, answer.root)}
        return
    assert answer.reason
    assert all(isinstance(chooser.choose(near.target), Choice) for near in answer.nearest)


def test_the_exact_version_where_equals_would_take_another():
    pure, local = entry("1.0", cell("2.11", None), tag="py3-none-any"), of_torch("2.11", "13.0")
    choice = choose(project(pure, local), compute="cpu")
    assert command(choice, target(compute="cpu")).lines[0][2] == "k===1.0"
    assert command(choose(project(pure), compute="cpu"), target(compute="cpu")).lines[0][2] == "k==1.0"


@pytest.mark.parametrize(
    ("torch", "compute", "own"),
    [
        ("2.13", "cu130", "cu130"),
        ("2.13", "cu131", "cu132"),
        ("2.11", "cpu", "cpu"),
        ("2.99", "cu140", "cu140"),
    ],
)
def test_torch_comes_from_its_own_build_for_that_cuda(torch, compute, own):
    assert torch_compute(target(torch=torch, compute=compute)) == own


def test_a_wheel_is_never_offered_with_a_torch_of_an_older_cuda():
    """A matrix may build for a CUDA that no torch of that release has: cuda-compatibility: minor."""
    made = of_torch("2.11", "13.1")
    refused = choose(project(made), compute="cu131")
    said = "it needs torch 2.11 for CUDA 13.1 or a newer minor; torch has builds for CUDA 12.6, 12.8, 12.9 and "
    assert (refused.code, refused.reason) == ("torch", f"k 1.0+cu131.torch2.11 does not fit: {said}13.0 only")
    # Somebody has a torch of their own with it.
    assert str(choose(project(made), compute="cu131", torch_version="2.11.0a0+nv26.4").wheel.version) == str(
        made_version(made)
    )
    # What CUDA 13.0 made for it goes with the torch of CUDA 13.0; what has no CUDA code goes with any.
    older = entry("1.0+cu130.torch2.11", cell("2.11", "13.0"), cell("2.11", "13.1"))
    pure = entry("1.0", cell("2.11", "13.1"), tag="py3-none-any")
    for served in (older, pure):
        choice = choose(project(served), compute="cu131")
        assert "torch==2.11.0+cu130" in command(choice, target(compute="cu131"), torch=Presence.ABSENT).lines[-1]
    assert choose(project(pure), torch="2.15", compute="cu128").code == "torch"


def made_version(made):
    return str(parse_wheel_filename(made.filename)[1])


def test_a_torch_of_another_c_abi_does_not_run_an_older_cudas_kernel():
    """The x86_64 builds of torch 2.6 have the old ABI, but for the one for CUDA 12.6."""
    for arch, fits in (("x86_64", False), ("aarch64", True)):
        old = entry("1.0+cu124.torch2.6", cell("2.6", "12.4", arch=arch), tag=f"cp39-abi3-manylinux_2_28_{arch}")
        refused = choose(project(old), torch="2.6", compute="cu126", arch=arch)
        assert [(near.change, near.fits) for near in refused.nearest] == [("CUDA 12.4", fits)]


def test_settings_of_a_build_are_not_told():
    image = CellSettings(image="registry.example/secret:1")
    state = project(replace(of_torch("2.11", "13.0"), cells=(replace(cell("2.11", "13.0"), settings=image),)))
    assert "secret" not in dump_catalogue(catalogue_of(state)).decode()


def test_a_yanks_reason_is_told_wherever_the_yanked_wheel_would_have_been_chosen():
    """By the choice, and so by pick and the picker; by the matrix; and where nothing else is left."""
    old, new = of_torch("2.12", None, version="1.0"), of_torch("2.12", None, version="2.0", yanked="wrong <sums>")
    wanted = target(torch="2.12", compute="cpu")
    catalogue = catalogue_of(project(old, new))
    choice = Chooser(catalogue).choose(wanted)
    assert str(choice.wheel.version) == "1.0+cpu.torch2.12"
    assert choice.notes == ("k 2.0+cpu.torch2.12 was yanked: wrong <sums>",)
    (shown,) = catalogue_cells(catalogue).values()
    assert shown.yank == ("2.0+cpu.torch2.12", "wrong <sums>")
    alone = catalogue_of(project(new))
    assert Chooser(alone).choose(wanted).reason == "k 2.0+cpu.torch2.12 was yanked: wrong <sums>"
    (shown,) = catalogue_cells(alone).values()
    assert (shown.status, shown.yank) == (GridStatus.YANKED, ("2.0+cpu.torch2.12", "wrong <sums>"))
    page = human_pages(project(old, new))["projects/k/index.html"].decode()
    assert page.count("was yanked: wrong \\u003csums\\u003e") == 1  # what the picker's script shows
    assert "Yanked: wrong &lt;sums&gt; <small>(2.0+cpu.torch2.12)</small>" in page
    # An older wheel that is yanked is nobody's concern.
    assert (
        Chooser(catalogue_of(project(replace(old, yanked="x"), replace(new, yanked=None)))).choose(wanted).notes == ()
    )
