"""A file with several kernels: what each of them takes from the common settings, and its mistakes with their places."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import MatrixError, MatrixMistakesError
from wheelsmith.matrix.load import load_matrices, load_matrix, parse_matrix

COMMON = """\
axes: {torch: [2.11, 2.13], cuda: [cpu, 13.0]}
gpu-archs: [9.0]
env: {A: common, B: common}
build-requires: [ninja]
rules:
  - exclude: {torch: 2.11, cuda: cpu}
    reason: nobody needs it
"""


@pytest.fixture
def read(tmp_path):
    """Write files and return the matrix of each kernel, by name."""

    def read(text, **files):
        for name, content in {"matrix.yaml": text, **files}.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return {each.name: each for each in load_matrices(tmp_path / "matrix.yaml")}

    return read


def test_a_kernel_has_the_common_settings_and_its_own(read):
    found = read(f"""{COMMON}kernels:
  plain: {{path: a}}
  own:
    hub: org/name
    revision: v1
    axes: {{torch: [2.13]}}
    gpu-archs: [8.0]
    env: {{B: own, C: own}}
    build-requires: [pybind11]
    rules:
      - exclude: {{cuda: cpu}}
        reason: it has none
""")
    plain, own = found["plain"], found["own"]
    assert (plain.releases, plain.computes, plain.settings.gpu_archs) == (("2.11", "2.13"), ("cpu", "cu130"), ("9.0",))
    assert (own.releases, own.computes, own.settings.gpu_archs) == (("2.13",), ("cpu", "cu130"), ("8.0",))
    assert own.project.env == {"A": "common", "B": "own", "C": "own"}
    assert own.project.build_requires == ("ninja", "pybind11")
    assert [rule.place for rule in own.rules] == ["matrix.yaml:6", "matrix.yaml:18"]
    assert (own.kernel.hub, plain.kernel.path) == ("org/name", "a")
    assert plain.sha256 == own.sha256


def test_another_framework_takes_the_place_of_the_common_one(read):
    axes = "axes: {torch: [2.13], cuda: [cpu]}\n"
    found = read(
        f"{axes}kernels:\n  ffi: {{path: a, axes: {{tvm-ffi: [0.1]}}}}\n  none: {{path: b, framework: none}}\n"
    )
    assert (found["ffi"].framework, found["ffi"].releases) == ("tvm-ffi", ("0.1",))
    assert (found["none"].framework, found["none"].computes) == ("none", ("cpu",))


def test_an_included_file_keeps_its_kernel_and_may_name_its_folder(read):
    found = read(
        "axes: {torch: [2.13], cuda: [cpu]}\noutput: {path: out}\ninclude: [kernels/relu/matrix.yaml, more.yaml]\n",
        **{
            "kernels/relu/matrix.yaml": "kernel: {path: .}\naxes: {torch: [2.11]}\noutput: {path: elsewhere}\n",
            "more.yaml": "kernels: {silu: {path: s}, gelu: {path: /g}}\ngpu-archs: [8.0]\n",
        },
    )
    assert {name: each.kernel.path for name, each in found.items()} == {
        "relu": "kernels/relu",
        "silu": "s",
        "gelu": "/g",
    }
    assert [each.output.path for each in found.values()] == ["out"] * 3
    assert (found["relu"].releases, found["silu"].releases) == (("2.11",), ("2.13",))
    assert found["gelu"].settings.gpu_archs == ("8.0",)


def test_a_file_with_one_kernel_is_as_before(read):
    (found,) = read("kernel: {path: a}\naxes: {torch: [2.13], cuda: [cpu]}\n").values()
    assert found.name is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel: {path: a}\nkernels: {b: {path: b}}\n", "matrix.yaml:1:1: kernel and kernels cannot be used together"),
        ("kernels: [a]\n", "matrix.yaml:1:10: kernels must be a mapping"),
        ("kernels: {a: b}\n", "matrix.yaml:1:14: a must be a mapping"),
        ("kernels: {}\n", "matrix.yaml:1:1: there is no kernel"),
        ("kernels: {a/b: {path: b}}\n", "matrix.yaml:1:11: 'a/b' is not a name for a kernel"),
        ("kernels: {a: {path: a, engine: {name: local}}}\n", "matrix.yaml:1:24: engine is the same for all kernels"),
        ("kernels: {a: {path: a}, A: {path: b}}\n", "matrix.yaml:1:28: two kernels are named A"),
        ("include: matrix.yaml\n", "matrix.yaml:1:10: include must be a list of files"),
        ("include: [none.yaml]\n", "matrix.yaml:1:11: there is no "),
        ("include: [.]\n", "matrix.yaml:1:11: "),
        ("include: [matrix.yaml]\n", "matrix.yaml:1:1: an included file has kernel or kernels, and no include"),
    ],
)
def test_what_is_no_set_is_told_at_its_place(text, message, read):
    with pytest.raises(MatrixError) as raised:
        read(text)
    assert str(raised.value).startswith(message)


def test_all_mistakes_are_told_once_with_their_places(read):
    with pytest.raises(MatrixMistakesError) as raised:
        read(
            "axes: {torch: [x], cuda: [cpu]}\nkernels:\n"
            "  a: {path: a, gpu-arch: [9.0]}\n  b: {}\ninclude: [c/matrix.yaml]\n",
            **{"c/matrix.yaml": "kernel: {path: a}\naxes: {cuda: [99]}\n"},
        )
    found = [str(each) for each in raised.value.mistakes]
    assert [each.split(" ")[0] for each in found] == [
        "matrix.yaml:1:16:",
        "matrix.yaml:3:16:",
        "matrix.yaml:4:6:",
        "c/matrix.yaml:2:15:",
    ]
    assert "unknown key 'gpu-arch'" in found[1]
    assert raised.value.mistakes[1].remedy == "did you mean 'gpu-archs'?"
    assert "give exactly one of hub, git, path and sdist" in found[2]


def test_a_wrong_key_of_a_source_is_compared_with_those_of_an_entry(read):
    with pytest.raises(MatrixMistakesError) as raised:
        read("axes: {torch: [2.13], cuda: [cpu]}\nkernels:\n  a: {pth: a}\n  b: {path: b, zzzzzzz: 1}\n")
    remedies = [each.remedy or "" for each in raised.value.mistakes if "unknown" in str(each)]
    assert remedies[0] == "did you mean 'path'?"
    assert remedies[1].startswith("choose one of: hub, git, path")


def test_a_kernel_knows_the_place_of_its_source(read):
    common = "axes: {torch: [2.13], cuda: [cpu]}\n"
    several = read(f"{common}kernels:\n  a: {{path: a}}\n  b:\n    git: b\n    revision: v1\n")
    assert [each.place for each in several.values()] == ["matrix.yaml:3:13", "matrix.yaml:5:10"]
    assert read(f"{common}kernel: {{path: a}}\n")[None].place == "matrix.yaml:2:16"


def test_a_command_for_one_kernel_says_so(read, tmp_path):
    read("axes: {torch: [2.13], cuda: [cpu]}\nkernels: {a: {path: a}}\n")
    with pytest.raises(MatrixError, match="this command takes one kernel"):
        load_matrix(tmp_path / "matrix.yaml")


settings = st.dictionaries(
    st.sampled_from(["gpu-archs", "toolchain", "manylinux", "torch-headers"]),
    st.just(None),
).map(
    lambda names: {
        name: {"gpu-archs": "[8.0]", "toolchain": "host", "manylinux": "2_28", "torch-headers": "light"}[name]
        for name in names
    }
)


@given(common=settings, own=settings)
def test_a_set_of_one_is_what_its_kernel_would_be_alone(common, own, tmp_path_factory):
    axes = "axes: {torch: [2.13], cuda: [13.0]}\n"
    top, inner = ("".join(f"{key}: {value}\n" for key, value in each.items()) for each in (common, own))
    entry = "".join(f"    {line}\n" for line in ("path: a", *inner.splitlines()))
    folder = tmp_path_factory.mktemp("set")
    (folder / "matrix.yaml").write_text(f"{axes}{top}kernels:\n  only:\n{entry}")
    (found,) = load_matrices(folder / "matrix.yaml")
    alone = "".join(f"{key}: {value}\n" for key, value in {**common, **own}.items())
    expected = parse_matrix(f"kernel: {{path: a}}\n{axes}{alone}")
    assert (found.kernel, found.settings, found.computes) == (expected.kernel, expected.settings, expected.computes)
