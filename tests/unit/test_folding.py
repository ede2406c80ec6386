"""Which cells share a wheel, why, and that each of them is served by it."""

import io
import json
from dataclasses import replace
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from packaging.metadata import parse_email
from packaging.requirements import Requirement
from packaging.version import Version
from rich.console import Console

from wheelsmith.frameworks import torch_releases
from wheelsmith.matrix.expand import cell_of, expand
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.matrix.types import CudaCompatibility
from wheelsmith.model import BuildPlan, Cell, Excluded, SourceId
from wheelsmith.model.build_host import BuildHost, ImageId, ToolkitHome, Toolset
from wheelsmith.plan.cuda_minor_compat import older_minors, plan_by_oldest_minor, with_toolkit
from wheelsmith.plan.kernel import plan_kernel
from wheelsmith.plan.planned_run import fold, folded
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.recipe import KernelSource
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.report import kernel_table, plan_table, sharing_reasons, totals

GENERAL = """\
[general]
name = "shelf"
version = 1
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda"]
"""
COMPILED = (
    GENERAL
    + """\
[torch]
src = ["b.cpp"]
{torch}
[kernel.host]
backend = "cpu"
depends = []
src = ["a.cpp"]

[kernel.device]
backend = "cuda"
depends = []
src = ["a.cu"]
{device}
"""
)
NEWER = '[kernel.newer]\nbackend = "cuda"\ndepends = []\nsrc = ["n.cu"]\ncuda-minver = "13.1"\n'
STABLE = 'stable-abi = "2.10"'
KERNELS = {
    "plain": COMPILED.format(torch="", device=""),
    "stable": COMPILED.format(torch=STABLE, device=""),
    "stable on CUDA": COMPILED.format(torch='stable-abi = {cuda = "2.11"}', device=""),
    "stable with a newest torch": COMPILED.format(torch=STABLE + '\nmaxver = "2.13"', device=""),
    "more from CUDA 13.1 on": COMPILED.format(torch=STABLE, device=NEWER),
    "more from CUDA 12.6 on": COMPILED.format(torch="", device=NEWER.replace("13.1", "12.6")),
    "capabilities of its own": COMPILED.format(torch="", device='cuda-capabilities = ["8.0", "9.0a", "10.7+PTX"]'),
    "noarch": GENERAL + "[torch-noarch]\n",
}
SOURCE = KernelSource(
    id=SourceId(origin="path", revision=None, commit=None, tree="0" * 16),
    paths=("a.cpp", "a.cu", "b.cpp", "n.cu", "torch-ext/shelf/__init__.py"),
    readme=None,
)


def build_host(image):
    """What there is to build with: each image has compilers of its own, and perhaps a toolkit."""
    compilers = tuple(
        Toolset(arch=arch, cxx=f"{arch}-g++", version="g++ 12", digest=f"{image}{arch}")
        for arch in ("x86_64", "aarch64")
    )
    found = image.removeprefix("cuda-") if image and image.startswith("cuda-") else None
    return BuildHost(
        image=ImageId(name=image, digest=f"sha256:{image}") if image else None,
        machine="x86_64",
        python="3.11",
        toolsets=compilers,
        pythons={},
        toolkits={"cuda": ToolkitHome(home="/usr/local/cuda", version=found, release=found + ".1", digest=found)}
        if found
        else {},
    )


def alone(matrix, spec, cell, offered=lambda host, _: host):
    """Plan one cell by its own CUDA."""
    where = offered(build_host(cell.settings.image or matrix.engine.image), cell)
    return plan_kernel(cell, spec=spec, source=SOURCE, distribution=None, version=None, build_host=where)


def planned(text, kernel="plain"):
    """Plan every cell of a matrix as prepare does: plans, exclusions, and why cells are not_folded."""
    matrix, spec = parse_matrix(f"kernel: {{path: k}}\n{text}"), parse_build_toml(KERNELS[kernel])
    answers = expand(matrix)
    oldest = matrix.cuda_compatibility is CudaCompatibility.OLDEST_MINOR
    older = older_minors(answer for answer in answers if isinstance(answer, Cell)) if oldest else {}

    by_itself = partial(alone, matrix, spec)
    as_if = partial(by_itself, offered=with_toolkit)

    plans, excluded, not_folded = [], [], {}
    for answer in answers:
        made, why = answer, None
        if isinstance(answer, Cell):
            made, why = plan_by_oldest_minor(answer, older.get(answer.id, ()), by_itself, as_if)
        (excluded if isinstance(made, Excluded) else plans).append(made)
        if why:
            not_folded[answer.id] = why
    return plans, excluded, not_folded


# --- examples -----------------------------------------------------------------------------------------------


def test_the_oldest_minor_is_built_and_the_newer_ones_are_folded_wherever_they_stand():
    axes = "axes: {torch: [2.13], cuda: [13.2, cpu, 13.0, 13.1]}\ncuda-compatibility: oldest-minor\n"
    plans, _, not_folded = planned(axes)
    cuda, cpu = fold(plans)
    assert [plan.cell.toolkit for plan in cuda.plans] == ["13.0", "13.2", "13.1"]
    assert [plan.cell.toolkit for plan in cpu.plans] == [None]
    assert {plan.wheel.version for plan in cuda.plans} == {"1+cu130.torch2.13"}
    assert {plan.toolkit.version for plan in cuda.plans} == {"13.0"}
    whose = folded([cuda, cpu])
    assert whose.keys() == {"torch213-cxx11-cu131-x86_64-linux", "torch213-cxx11-cu132-x86_64-linux"}
    assert {(f.cell, f.reason) for f in whose.values()} == {
        ("torch213-cxx11-cu130-x86_64-linux", "CUDA minor-version compatibility")
    }
    assert not_folded == {}


@pytest.mark.parametrize(
    ("kernel", "rules", "newer", "why"),
    [
        (
            "plain",
            "set: {gpu-archs: [9.0]}\n    where: {cuda: 13.2}",
            "13.2",
            "a rule sets different gpu-archs for CUDA 13.0",
        ),
        ("more from CUDA 13.1 on", None, "13.2", "the wheel for CUDA 13.0 does not contain n.cu"),
        ("capabilities of its own", None, "13.5", "CUDA 13.0 cannot compile for 10.7+PTX"),
        (
            "plain",
            "set: {gpu-archs: [10.7]}\n    where: {cuda: '*'}",
            "13.5",
            "CUDA 13.0 has no wheel: gpu-archs in matrix.yaml contains 10.7",
        ),
    ],
)
def test_what_is_not_folded_and_why(kernel, rules, newer, why):
    text = f"axes: {{torch: [2.13], cuda: [13.0, {newer}]}}\ncuda-compatibility: oldest-minor\n"
    plans, _, not_folded = planned(text + (f"rules:\n  - {rules}\n" if rules else ""), kernel)
    torch = "stable" if "stable-abi" in KERNELS[kernel] else "2.13"
    assert plans[-1].wheel.version == f"1+cu{newer.replace('.', '')}.torch{torch}"
    assert not_folded[plans[-1].cell.id].startswith(why)
    assert folded(fold(plans)) == {}


def test_an_older_minor_of_cuda_12_answers_for_newer_ones_where_it_can():
    text = "axes: {torch: [2.9], cuda: [12.4, 12.6, 12.8]}\ncuda-compatibility: oldest-minor\n"
    plans, excluded, not_folded = planned(text)
    assert [plan.wheel.version for plan in plans] == ["1+cu124.torch2.9", "1+cu124.torch2.9", "1+cu128.torch2.9"]
    assert list(not_folded.values()) == ["CUDA 12.4 cannot compile for 10.0, 10.1, 12.0+PTX"]
    plans, *_ = planned(f"{text}gpu-archs: [8.0, 9.0+PTX]\n")
    assert [plan.wheel.version for plan in plans] == ["1+cu124.torch2.9"] * 3
    plans, _, not_folded = planned(f"{text}gpu-archs: [8.0]\n", "more from CUDA 12.6 on")
    assert [plan.cell.toolkit for plan in plans] == ["12.4", "12.6", "12.8"]
    assert all(why.endswith("the wheel for CUDA 12.4 does not contain n.cu") for why in not_folded.values())
    assert not excluded


def test_an_older_minor_from_an_image_answers_for_none_that_is_assembled():
    text = "axes: {torch: [2.9], cuda: [12.4, 12.6]}\ncuda-compatibility: oldest-minor\ngpu-archs: [8.0]\n"
    plans, *_ = planned(f"{text}engine: {{image: cuda-12.4}}\n")
    assert [plan.toolkit.kind for plan in plans] == ["image-cuda", "cuda"]
    plans, *_ = planned(f"{text}engine: {{image: deb}}\n")
    assert [plan.toolkit.kind for plan in plans] == ["cuda", "cuda"]
    _, excluded, not_folded = planned(f"{text}rules: [{{where: {{cuda: 12.6}}, set: {{image: cuda-12.8}}}}]\n")
    assert list(not_folded.values()) == ["a rule sets a different image for CUDA 12.4"]
    assert not excluded


def test_code_is_compared_source_by_source():
    """All that the newer toolkit makes is in the older one's list, but not for every source."""
    older, newer = (planned(f"axes: {{torch: [2.13], cuda: [{c}]}}\n")[0][0] for c in ("13.0", "13.2"))
    less = [
        step if step.output != "build/obj/a.cu.o" else type(step)(**{**_fields(step), "argv": step.argv[:-1]})
        for step in older.recipe.steps
    ]
    changed = BuildPlan.from_json(
        {**older.to_json(), "recipe": {**older.recipe.to_json(), "steps": [s.to_json() for s in less]}}
    )
    made, why = plan_by_oldest_minor(newer.cell, (older.cell,), {newer.cell: newer, older.cell: changed}.get, None)
    assert (made, why) == (newer, "the commands for CUDA 13.0 are different")


def _fields(record):
    return {name: getattr(record, name) for name in record.__dataclass_fields__}


# --- CPU cells ----------------------------------------------------------------------------------------------

cudas = st.lists(st.sampled_from([c for c in cuda_toolkits() if c.startswith("13")]), unique=True)


@pytest.mark.parametrize("kernel", KERNELS)
def test_nothing_of_cuda_is_in_a_cpu_plan(kernel):
    (plan,), _, _ = planned("axes: {torch: [2.13], cuda: [cpu]}\ngpu-archs: [9.0]\n", kernel)
    text = json.dumps({**plan.to_json(), "cell": None}).lower()
    # The operators' names and the package's files may say cuda; commands, toolkits and versions must not.
    assert plan.toolkit is None
    assert plan.wheel.toolkit is None
    assert plan.wheel.gpu_archs == ()
    assert "cudart" not in text
    assert "nvcc" not in text
    assert "torch_cuda" not in text


@given(one=cudas, other=cudas, archs=st.sampled_from(["", "gpu-archs: [8.0]\n", "gpu-archs: [9.0, 10.0+PTX]\n"]))
def test_a_cpu_wheel_does_not_know_the_matrixs_cudas(one, other, archs):
    def cpu(cuda, more=""):
        axes = f"axes: {{torch: [2.11, 2.13], cuda: [{', '.join(['cpu', *cuda])}]}}\n"
        return {p.cell.id: p.build_digest for p in planned(axes + more)[0] if p.cell.toolkit is None}

    assert cpu(one) == cpu(other, archs + "cuda-compatibility: oldest-minor\n")
    assert len(cpu(one)) == 2


# --- every matrix -------------------------------------------------------------------------------------------

torches = st.lists(st.sampled_from(["2.6", "2.10", "2.11", "2.13", "2.15"]), min_size=1, max_size=4, unique=True)
axis = st.sampled_from(["cpu", "12.4", "12.6", "12.8", "13.0", "13.1", "13.2", "13.5"])
computes = st.lists(axis, min_size=2, unique=True)
archs = st.lists(st.sampled_from(["x86_64", "aarch64"]), min_size=1, unique=True)
selectors = st.sampled_from(
    ["cuda: 13.2", "cuda: '>=13.1'", "torch: 2.13", "arch: aarch64", "cuda: '12.*'", "cuda: '*'"]
)
changes = st.sampled_from(
    ["gpu-archs: [9.0]", "gpu-archs: [8.0, 10.7]", "advertise: false", "image: deb", "image: cuda-12.8"]
)
rules = st.lists(
    st.one_of(
        st.builds("  - set: {{{}}}\n    where: {{{}}}\n".format, changes, selectors),
        st.builds("  - exclude: {{{}}}\n    reason: no\n".format, selectors),
    ),
    max_size=3,
)


@st.composite
def matrices(draw):
    axes = ", ".join(
        f"{name}: [{', '.join(draw(values))}]"
        for name, values in (("torch", torches), ("cuda", computes), ("arch", archs))
    )
    chosen = "".join(draw(rules))
    compatibility = draw(st.sampled_from(["hub", "minor", "oldest-minor", "oldest-minor", "oldest-minor"]))
    image = draw(st.sampled_from(["", "engine: {image: cuda-12.8}\n"]))
    return f"axes: {{{axes}}}\ncuda-compatibility: {compatibility}\n{image}" + (f"rules:\n{chosen}" if chosen else "")


@settings(max_examples=3 * settings.default.max_examples)
@given(text=matrices(), kernel=st.sampled_from(sorted(KERNELS)))
def test_every_cell_is_answered_once_and_its_wheel_serves_it(text, kernel):
    plans, excluded, not_folded = planned(text, kernel)
    matrix, spec = parse_matrix(f"kernel: {{path: k}}\n{text}"), parse_build_toml(KERNELS[kernel])
    cells = [cell_of(answer).id for answer in expand(matrix)]
    builds = fold(plans)
    whose = folded(builds)
    answered = [plan.cell.id for build in builds for plan in build.plans] + [item.cell.id for item in excluded]
    assert sorted(answered) == sorted(cells)
    # What each cell would get by its own CUDA.
    own = {plan.cell.id: plan for plan in planned(text.replace("oldest-minor", "minor"), kernel)[0]}
    assert own.keys() <= {plan.cell.id for plan in plans}
    for plan in plans:
        if plan.cell.id not in own:
            assert not cuda_toolkits()[plan.cell.toolkit].static_runtime
            own[plan.cell.id] = replace(alone(matrix, spec, plan.cell, with_toolkit), image=plan.image)
    for build in builds:
        for plan in build.plans:
            assert plan.wheel == build.plan.wheel
            assert_serves(plan, own[plan.cell.id])
            assert_of_one_kind(plan, own[plan.cell.id], build.plan)
            assert (plan.cell.id in whose) == (plan is not build.plan)
    assert all(f.reason and f.cell not in whose for f in whose.values())
    for plan in plans:
        if plan.cell.id in not_folded:
            assert plan == own[plan.cell.id]
            assert any(older_minor(other.cell, plan.cell) for other in (*plans, *excluded))


def assert_serves(plan, own):
    """A plan's wheel, by what it will say of itself, is right for the cell, and lacks nothing of the cell's own."""
    wheel, cell = plan.wheel, plan.cell
    needs = [Requirement(text) for text in parse_email(wheel.metadata)[0]["requires_dist"]]
    torch = next(need for need in needs if need.name == "torch")
    assert torch.specifier.contains(torch_releases()[cell.release].version)
    if wheel.release is None:
        assert wheel.platform == "any"
        return
    assert wheel.arch == cell.arch
    assert Version(wheel.version).local.split(".")[0] == compute(wheel.toolkit)
    assert (wheel.toolkit is None) == (cell.toolkit is None)
    if cell.toolkit:
        made, runs = Version(wheel.toolkit), Version(cell.toolkit)
        assert made.major == runs.major
        assert made <= runs
        known = cuda_toolkits()[wheel.toolkit].capabilities
        assert all(text.removesuffix("+PTX") in known for text in wheel.gpu_archs)
    assert set(own.wheel.gpu_archs) <= set(wheel.gpu_archs)
    assert [step.output for step in own.recipe.steps] == [step.output for step in plan.recipe.steps]


def older_minor(other, cell):
    if other.toolkit is None or (other.release, other.arch) != (cell.release, cell.arch):
        return False
    return other.toolkit.split(".")[0] == cell.toolkit.split(".")[0] and Version(other.toolkit) < Version(cell.toolkit)


def compute(cuda):
    return "cpu" if cuda is None else "cu" + cuda.replace(".", "")


def assert_of_one_kind(plan, own, first):
    """Nothing but a wheel without compiled code is shared across these."""
    if plan.wheel.release is None:
        return
    for name in ("arch", "python", "cxx11_abi", "os"):
        assert getattr(plan.cell, name) == getattr(first.cell, name)
    # Compilers of wheelsmith's own are the same in all of them.
    assert own.image == first.image or own.pinned_compilers
    if plan.cell.toolkit != first.cell.toolkit:
        assert plan.cell.settings.gpu_archs == first.cell.settings.gpu_archs


# --- what people see ----------------------------------------------------------------------------------------

TABLE = """\
combination                        status    wheel or reason
torch212-cxx11-cpu-x86_64-linux    build     shelf 1+cpu.torch2.12
torch212-cxx11-cu130-x86_64-linux  cached    shelf 1+cu130.torchstable
torch212-cxx11-cu132-x86_64-linux  folded    torch212-cxx11-cu130-x86_64-linux:
                                             CUDA minor-version compatibility
torch213-cxx11-cpu-x86_64-linux    build     shelf 1+cpu.torch2.13
torch213-cxx11-cu130-x86_64-linux  folded    torch212-cxx11-cu130-x86_64-linux:
                                             torch's stable ABI from 2.11 on
torch213-cxx11-cu132-x86_64-linux  build     shelf 1+cu132.torchstable; no
                                             shared wheel: a rule sets different
                                             gpu-archs for CUDA 13.0
torch28-cxx11-cpu-x86_64-linux     build     shelf 1+cpu.torch2.8
torch28-cxx11-cu130-x86_64-linux   excluded  torch 2.8 was built with CUDA 12.6,
                                             12.8 and 12.9; a kernel built with
                                             CUDA 13.0 needs a torch with the
                                             same CUDA major and the same or a
                                             newer minor
"""


SET_TABLE = """\
kernel  build  cached  folded  excluded
shelf       1       1       1         1
drawer      1               1
"""


def test_the_plan_of_a_large_set_has_a_row_for_each_kernel():
    text = "axes: {torch: [2.12, 2.13], cuda: [cpu, 13.0]}\nrules:\n"
    text += "  - exclude: {torch: 2.13, cuda: cpu}\n    reason: no\n"
    plans, excluded, _ = planned(text, "stable on CUDA")
    shelf = tuple(plan.of_cell(replace(plan.cell, kernel="shelf")) for plan in plans)
    drawer = tuple(plan.of_cell(replace(plan.cell, kernel="drawer")) for plan in plans if plan.cell.toolkit)
    shared = folded(fold(shelf)) | folded(fold(drawer))
    cached = frozenset({plans[0].build_digest})
    lost = (replace(excluded[0], cell=replace(excluded[0].cell, kernel="shelf")),)
    written = io.StringIO()
    Console(file=written, width=80).print(kernel_table((*shelf, *drawer), lost, shared, cached=cached))
    assert [line.rstrip() for line in written.getvalue().splitlines()] == SET_TABLE.splitlines()


def test_the_plan_at_a_narrow_terminal():
    text = "axes: {torch: [2.12, 2.13, 2.8], cuda: [cpu, 13.0, 13.2]}\ncuda-compatibility: oldest-minor\nrules:\n"
    text += "  - set: {gpu-archs: [9.0]}\n    where: {torch: 2.13, cuda: 13.2}\n"
    text += "  - exclude: {torch: 2.8, cuda: 13.2}\n    reason: no\n"
    plans, excluded, not_folded = planned(text, "stable on CUDA")
    cached, shared = frozenset({plans[1].build_digest}), folded(fold(plans))
    written = io.StringIO()
    Console(file=written, width=80).print(
        plan_table(plans, excluded[:1], shared, cached=cached, not_folded=not_folded, not_upstream={})
    )
    assert "\n".join(line.rstrip() for line in written.getvalue().splitlines()) + "\n" == TABLE
    assert totals(plans, shared) == "7 combinations → 5 builds"
    assert sharing_reasons(shared) == [
        "1 combination shares a wheel: torch's stable ABI from 2.11 on",
        "1 combination shares a wheel: CUDA minor-version compatibility",
    ]
