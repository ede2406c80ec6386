import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import MatrixError, MatrixMistakesError, SelectionError
from wheelsmith.frameworks import torch_releases
from wheelsmith.matrix.expand import cell_of, expand, project_settings, select, unused_rules
from wheelsmith.matrix.load import parse_matrix
from wheelsmith.matrix.types import Matrix, ProjectSettings
from wheelsmith.model import Cell, Excluded
from wheelsmith.platforms import cuda_toolkits

SMALL = """\
kernel: {path: kernel}
axes:
  torch: [2.10, 2.13]
  cuda: [cpu, 13.0]
  arch: [x86_64, aarch64]
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises((MatrixMistakesError, MatrixError)) as caught:
        parse_matrix(text)
    error = caught.value
    return [str(m) for m in (error.mistakes if isinstance(error, MatrixMistakesError) else [error])]


def test_an_unquoted_2_10_stays_2_10():
    assert parse_matrix(SMALL).releases == ("2.10", "2.13")


def test_every_combination_is_answered_in_order():
    answers = expand(parse_matrix(SMALL.replace("2.10", "2.8").replace(", aarch64", "")))
    assert [cell_of(a).id for a in answers] == [
        "torch28-cxx11-cpu-x86_64-linux",
        "torch28-cxx11-cu130-x86_64-linux",
        "torch213-cxx11-cpu-x86_64-linux",
        "torch213-cxx11-cu130-x86_64-linux",
    ]
    (excluded,) = (a for a in answers if isinstance(a, Excluded))
    assert excluded.cell.id == "torch28-cxx11-cu130-x86_64-linux"
    assert "torch 2.8 was built with CUDA 12.6, 12.8 and 12.9;" in excluded.reason


def test_rules_apply_in_order_and_the_last_wins():
    matrix = parse_matrix(
        SMALL
        + """\
gpu-archs: [7.5]
rules:
  - exclude: {arch: aarch64}
    reason: no machine to test on
  - set: {gpu-archs: [8.0, 9.0+PTX]}
    where: {cuda: "13.*"}
  - set: {advertise: false, gpu-archs: [9.0a]}
    where: {torch: ">=2.13", cuda: 13.0}
"""
    )
    answers = {cell_of(a).id: a for a in expand(matrix)}
    assert "no machine to test on (matrix.yaml:8)" in answers["torch213-cxx11-cpu-aarch64-linux"].reason
    assert answers["torch213-cxx11-cpu-x86_64-linux"].settings.gpu_archs == ("7.5",)
    last = answers["torch213-cxx11-cu130-x86_64-linux"].settings
    assert (last.gpu_archs, last.advertise) == (("9.0a",), False)


def test_a_rule_that_selects_nothing_is_told():
    matrix = parse_matrix(SMALL + "rules:\n  - exclude: {torch: '2.9'}\n    reason: old\n")
    assert [rule.place for rule in unused_rules(matrix)] == ["matrix.yaml:7"]


def test_any_minor_of_the_same_major_when_allowed():
    text = "kernel: {path: k}\naxes: {torch: [2.14], cuda: [13.5]}\n"
    assert isinstance(expand(parse_matrix(text))[0], Excluded)
    assert isinstance(expand(parse_matrix(text + "cuda-compatibility: minor\n"))[0], Cell)


def test_an_unknown_release_is_a_mistake_with_its_place():
    """A slip such as 2.20 would otherwise pass in a pipeline, as an excluded combination beside others."""
    newest = list(torch_releases())[-1]
    torch, old, cuda = mistakes("kernel: {path: k}\naxes: {torch: [2.99, 2.8, 2.1], cuda: [12.8, 12.1]}\n")
    assert torch.startswith("matrix.yaml:2:16: 2.99 is not known: this wheelsmith knows 2.6, ")
    assert torch.endswith(f" and {newest}; did you mean {newest}?")
    assert old.endswith("did you mean 2.6?")
    assert cuda.startswith("matrix.yaml:2:")
    assert "12.1 is not known" in cuda
    (tvm_ffi,) = mistakes("kernel: {path: k}\naxes: {tvm-ffi: [0.99], cuda: [cpu]}\n")
    assert "0.99 is not known" in tvm_ffi


def test_a_torch_without_a_build_for_a_cuda_is_answered():
    old, new = expand(parse_matrix("kernel: {path: k}\naxes: {torch: [2.8], cuda: [13.0, 12.8]}\n"))
    assert "needs a torch with the same CUDA major" in old.reason
    assert isinstance(new, Cell)


def test_the_toolkits_of_cuda_12():
    matrix = parse_matrix("kernel: {path: k}\naxes: {torch: [2.6], cuda: [12.4], arch: [x86_64, aarch64]}\n")
    x86, arm = expand(matrix)
    # PyPI's torch 2.6 has the old C++ ABI on one architecture and the new one on the other, where it is a CPU build.
    assert (x86.id, arm.cell.id) == ("torch26-cxx98-cu124-x86_64-linux", "torch26-cxx11-cu124-aarch64-linux")
    assert "torch 2.6 for aarch64 is a CPU build" in arm.reason
    assert [cell_of(a).arch for a in select({"": expand(matrix)}, only=["torch26-cxx98-*"])[""]] == ["x86_64"]


def test_a_torch_whose_libraries_are_not_known_is_left_out():
    """The x86_64 build of torch 2.6 for CUDA 12.6 has another C++ ABI than the one whose libraries are known."""
    matrix = parse_matrix("kernel: {path: k}\naxes: {torch: [2.6], cuda: [12.6], arch: [x86_64, aarch64]}\n")
    x86, arm = expand(replace(matrix, settings=replace(matrix.settings, image="some/image")))
    assert isinstance(x86, Excluded)
    assert "torch 2.6 for CUDA 12.6 has the C++11 ABI" in x86.reason
    assert "is a CPU build" in arm.reason


def test_all_mistakes_come_at_once_with_their_places():
    found = mistakes(
        """\
kernel:
  hubb: a/b
  path: x
axes:
  torch: [2.13.0]
  cuda: [cpu, 13]
  arch: [x86-64]
rules:
  - exclude: {torsh: "<2.11"}
engine: {memory: 8}
"""
    )
    assert [line.split(" ")[0] for line in found] == [
        "matrix.yaml:2:3:",
        "matrix.yaml:5:11:",
        "matrix.yaml:6:15:",
        "matrix.yaml:7:10:",
        "matrix.yaml:9:15:",
        "matrix.yaml:10:18:",
    ]


GIT = "kernel: {{{}}}\naxes: {{torch: [2.13], cuda: [cpu]}}"
ONE = "kernel: {path: k}\naxes: {torch: [2.13], cuda: [cpu]}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "must be a mapping"),
        ("kernel: {path: k}\naxes: {torch: [], cuda: [cpu]}", "torch is empty"),
        ("kernel: {path: k}\naxes: {torch: [2.13, 2.13], cuda: [cpu]}", "2.13 is a duplicate"),
        (f"{ONE}env: {{PATH: x}}", "3:7: PATH cannot be set"),
        (f"{ONE}env: {{A B: x}}", "'A B' is not the name of a variable"),
        (f"{ONE}env: {{A: '{{nope}}'}}", "3:10: {nope} is not one of {torch}"),
        (f"{ONE}env: {{A: '{{'}}", "has a single brace"),
        (f'{ONE}env: {{A: "\\uD800"}}', "3:10: the text has characters that programs cannot receive"),
        (f"{ONE}build-requires: [Torch>=2]", "torch cannot be a build requirement"),
        (f"{ONE}build-requires: ['x @ https://example.org/x.whl']", "is not a requirement"),
        (f"{ONE}build-requires: [a, a]", "a is a duplicate"),
        (f"{ONE}config-settings: {{-x: y}}", "'-x' is not the name of a setting"),
        (f"{ONE}config-settings: {{a: [b, '{{nope}}']}}", "{nope} is not one of {torch}"),
        (f"{ONE}before-build: ' '", "the command is empty"),
        (f'{ONE}before-build: "\\0"', "the text has characters that programs cannot receive"),
        ("kernel: {path: k}\naxes: {torch: 2.13, cuda: [cpu]}", "torch must be a list"),
        ("kernel: {path: k}\naxes: {torch: [21.1], cuda: [cpu]}", "'21.1' is not a release"),
        ("kernel: {path: k}", "axes is missing"),
        ("kernel: {path: k, hub: a/b}\naxes: {torch: [2.13], cuda: [cpu]}", "exactly one of hub, git, path and sdist"),
        ("kernel: {hub: a/b}\naxes: {torch: [2.13], cuda: [cpu]}", "needs a revision"),
        (GIT.format("git: x"), "a git repository needs a revision"),
        (GIT.format("git: 'ext::sh -c x', revision: v1"), "1:15: git would run a program"),
        (GIT.format("path: x, submodules: [a]"), "subdirectory and submodules require git"),
        ("kernel: {hub: ../b, revision: v1}\naxes: {torch: [2.13], cuda: [cpu]}", "is not a Hub repo"),
        ("kernel: {path: k, declare: ['**/*']}\naxes: {torch: [2.13], cuda: [cpu]}", "1:29: '**/*' is not a file"),
        (SMALL + "version: 1+cu130", "has a local version"),
        (SMALL + "gpu-archs: [sm_90]", "is not a compute capability"),
        (SMALL + "engine: {name: dokcer}", "is not one of"),
        (SMALL + "engine: {timeout: 5}", "is not a duration"),
        (SMALL + "rules: [{exclude: {cuda: cpu}}]", "an exclusion needs a reason"),
        (SMALL + "rules: [{set: {advertise: false}}]", "set requires where"),
    ],
)
def test_mistakes(text, message):
    assert any(message in line for line in mistakes(text)), mistakes(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("axes: {torch: [2.13], cuda: [cu130, 13]}", "2:30: 'cu130' is not a release: write 13.0"),
        ("axes: {torch: [2.13], cuda: [cu130, 13]}", "2:37: '13' is not a release: write 13.0"),
        ("axes: {torch: [v2.13], cuda: [cpu]}", "'v2.13' is not a release: write 2.13"),
        ("axes: {torch: [211], cuda: [cpu]}", "'211' is not a release: write 2.11"),
        ("axes: {torch: [2], cuda: [cpu]}", f"'2' is not a release: write {list(torch_releases())[-1]}"),
        ("axes: {torch: [3], cuda: [cpu]}", "'3' is not a release such as"),
        ("axes: {torch: [2.13], cuda: [cpu], python: [cp312]}", "'cp312' is not a release: write 3.12"),
        ("axes: {torch: 2.13, cuda: [cpu]}", "torch must be a list: write [2.13]"),
        ("axes: {torch: [2.13], cuda: [cpu], arch: [arm64]}", "'arm64' is not one of x86_64, aarch64: write aarch64"),
        ("gpu-archs: [sm_90]", "'sm_90' is not a compute capability: write 9.0"),
        ("gpu-archs: [90A+ptx]", "write 9.0a+PTX"),
        ("gpu-archs: [12]", "write 12.0"),
        ("gpu-archs: [hopper]", "'hopper' is not a compute capability such as"),
        ("output: {variants: yes}", "'yes' is neither true nor false: write true"),
        ("engine: {memory: 8G}", "'8G' is not a size: write 8GiB"),
        ("engine: {memory: 8 gb}", "'8 gb' is not a size: write 8GB"),
        ("engine: {timeout: 45 min}", "'45 min' is not a duration: write 45m"),
        ("env: {A: '{touch}'}", "did you mean {torch}?"),
    ],
)
def test_another_spelling_is_answered_with_the_right_one(text, message):
    axes = "" if text.startswith("axes") else "axes: {torch: [2.13], cuda: [cpu]}\n"
    found = mistakes(f"kernel: {{path: k}}\n{axes}{text}\n")
    assert any(message in line for line in found), found


def test_a_git_repository():
    read = {
        said: parse_matrix(GIT.format(f"git: https://h/x, revision: v1{said}")).kernel
        for said in ("", ", submodules: true", ", submodules: false", ", submodules: [a/b, c]", ", subdirectory: ./k/")
    }
    assert [kernel.submodules for kernel in read.values()] == [None, None, (), ("a/b", "c"), None]
    assert read[", subdirectory: ./k/"].subdirectory == "k"
    assert {(kernel.git, kernel.revision) for kernel in read.values()} == {("https://h/x", "v1")}


def test_select_with_braces_and_suggestions():
    answers = {"": expand(parse_matrix(SMALL))}
    kept = select(answers, only=["torch2{10,13}-*-cpu-*"], skip=["*aarch64*"])[""]
    assert [cell_of(a).release for a in kept] == ["2.10", "2.13"]
    with pytest.raises(SelectionError) as caught:
        select(answers, only=["torch213-cxx11-cu13-x86_64-linux"])
    assert "did you mean 'torch213-cxx11-cu130-x86_64-linux'" in caught.value.remedy
    with pytest.raises(SelectionError):
        select(answers, skip=["*"])


versions = st.sampled_from(sorted(torch_releases()))
cudas = st.sampled_from(["cpu", *cuda_toolkits(), "12.8"])


@given(
    torch=st.lists(versions, min_size=1, unique=True),
    cuda=st.lists(cudas, min_size=1, unique=True),
    arch=st.lists(st.sampled_from(["x86_64", "aarch64"]), min_size=1, unique=True),
)
def test_expansion_is_complete_and_repeatable(torch, cuda, arch):
    lines = f"torch: {torch}, cuda: {cuda}, arch: {arch}".replace("'", "")
    matrix = parse_matrix(f"kernel: {{path: k}}\naxes: {{{lines}}}\n")
    answers = expand(matrix)
    ids = [cell_of(a).id for a in answers]
    assert len(ids) == len(set(ids)) == len(torch) * len(cuda) * len(arch)
    assert answers == expand(matrix)
    assert all(a.reason for a in answers if isinstance(a, Excluded))
    assert Matrix.from_json(matrix.to_json()) == matrix


def test_a_rule_adds_to_what_a_build_system_is_given():
    matrix = parse_matrix(
        "kernel: {path: k}\naxes: {torch: [2.13], cuda: [cpu, 13.0], python: [3.12]}\n"
        "env: {A: '1', B: '1'}\nbuild-requires: [ninja]\ntest-requires: [pytest]\n"
        "config-settings: {a: x, --b: [y, z]}\nbefore-build: make\n"
        "rules:\n"
        "  - {where: {cuda: cpu}, set: {env: {B: '2', C: '2'}, build-requires: [psutil, ninja]}}\n"
        "  - {where: {cuda: cpu}, set: {test-requires: [numpy, pytest]}}\n"
        "  - {where: {cuda: cpu}, set: {env: {C: '3'}, config-settings: {a: [v, w]}, before-build: make cpu}}\n"
        "  - {exclude: {cuda: 13.0}, reason: no}\n"
    )
    cpu = next(cell for cell in expand(matrix) if isinstance(cell, Cell))
    assert project_settings(matrix, cpu) == ProjectSettings(
        env={"A": "1", "B": "2", "C": "3"},
        build_requires=("ninja", "psutil"),
        test_requires=("pytest", "numpy"),
        config_settings={"a": ("v", "w"), "--b": ("y", "z")},
        before_build="make cpu",
    )
    assert project_settings(matrix, replace(cpu, toolkit="13.0")) == matrix.project
    # What may be a secret of somebody's is in no cell, for cells are published.
    assert "env" not in json.dumps(cpu.to_json())
