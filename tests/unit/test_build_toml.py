import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.base.errors import BuildTomlError, MatrixMistakesError
from wheelsmith.plan.recipe.build_toml import parse_build_toml
from wheelsmith.plan.recipe.spec import KernelSpec

V5 = """\
[general]
name = "my-kernel"
version = 3
edition = 5
license = "Apache-2.0"
backends = ["cpu", "cuda", "rocm"]
upstream = "https://example.org/up"
python-depends = ["einops"]
kernel-depends = [{repo-id = "a/b", version = 1}]

[general.cuda]
minver = "12.6"
maxver = "13.2"
python-depends = ["nvidia-cutlass-dsl"]

[general.hub]
repo-id = "a/my-kernel"

[torch]
src = ["torch-ext/binding.cpp"]
include = ["."]
pyext = ["json"]
minver = "2.8"
maxver = "2.14"
cxx-flags = ["-Wall"]

[torch.stable-abi]
cuda = "2.11"
rocm = "2.11"

[kernel.host]
backend = "cpu"
depends = []
src = ["a.cpp"]

[kernel.device]
backend = "cuda"
depends = ["torch"]
src = ["a.cu"]
cuda-capabilities = ["8.0", "9.0a"]
cuda-flags = ["-lineinfo"]
cuda-minver = "12.8"

[kernel.other]
backend = "rocm"
depends = ["torch"]
src = ["a.hip"]
rocm-archs = ["gfx942"]
"""


def mistakes(text: str) -> list[str]:
    with pytest.raises((MatrixMistakesError, BuildTomlError)) as caught:
        parse_build_toml(text)
    error = caught.value
    return [str(m) for m in (error.mistakes if isinstance(error, MatrixMistakesError) else [error])]


def test_edition_5_whole():
    spec = parse_build_toml(V5)
    assert (spec.name, spec.module, spec.version, spec.edition) == ("my-kernel", "my_kernel", 3, 5)
    assert spec.binding.stable_abi == {"cuda": "2.11", "rocm": "2.11"}
    assert [s.name for s in spec.sections] == ["host", "device", "other"]
    assert spec.sections[2].capabilities == ("gfx942",)
    assert spec.sections[1].capabilities == ("8.0", "9.0a")
    assert spec.python_depends[""] == ("einops",)
    assert spec.kernel_depends[""] == ("a/b",)
    assert spec.toolkit_bounds == {"cuda": ("12.6", "13.2")}
    assert KernelSpec.from_json(spec.to_json()) == spec


def test_edition_4_has_no_number_and_one_stable_abi_for_all():
    text = V5.replace("edition = 5\n", "").replace('[torch.stable-abi]\ncuda = "2.11"\nrocm = "2.11"\n', "")
    spec = parse_build_toml(text.replace('maxver = "2.14"', 'maxver = "2.14"\nstable-abi = "2.10"'))
    assert spec.edition == 4
    assert spec.binding.stable_abi == {"cpu": "2.10", "cuda": "2.10", "rocm": "2.10", "xpu": "2.10"}


def test_edition_3_without_framework_compiles_nothing():
    spec = parse_build_toml('[general]\nname = "triton-thing"\nbackends = ["cuda"]\n')
    assert (spec.edition, spec.binding, spec.version) == (3, None, None)


def test_noarch_keys_of_edition_5():
    head = V5.split("[torch]", maxsplit=1)[0]
    spec = parse_build_toml(head + '[torch-noarch]\npyext = ["txt"]\ncuda_capabilities = ["9.0"]\n')
    assert spec.binding is None
    assert spec.pyext == ("txt",)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "my-kernel"', 'name = "My_Kernel"', "build.toml:2:1: 'My_Kernel' is not a kernel name"),
        ('name = "my-kernel"\n', "", "name is missing"),
        ("version = 3", "version = -1", "build.toml:3:1: version must be a whole number"),
        ("version = 3\n", "", "version is missing"),
        ("edition = 5", "edition = 6", "edition = 6 is not supported"),
        ("edition = 5", "edition = 4", "edition = 4 is not supported: only edition 5 has this key"),
        ('"rocm"]', '"rocmm"]', "unknown backend 'rocmm'"),
        ('minver = "2.8"', 'minver = "two"', "minver must be a release"),
        ("[torch]", "[torchh]", "unknown key 'torchh'"),
        ('depends = []\nsrc = ["a.cpp"]', 'src = ["a.cpp"]', "depends is missing in [kernel.host]"),
        ('src = ["a.cpp"]', 'src = ["../a.cpp"]', "is not a path inside"),
        ('"9.0a"', '"99999.0"', "is not a compute capability"),
        ("cuda-flags", "cuda-flag", "unknown key 'cuda-flag'"),
        ('cuda = "2.11"', 'cuda = "new"', "stable-abi must be a release"),
        ("version = 1}", "tag = 1}", "one of version and revision"),
        ("[torch]", "[tvm-ffi]", "use only one framework: [torch] or [tvm-ffi]"),
    ],
)
def test_every_mistake_has_a_place(old, new, message):
    found = mistakes(V5.replace(old, new, 1))
    assert any(message in line for line in found), found


@given(st.text(max_size=300))
def test_any_text_gives_a_spec_or_an_error_of_ours(text):
    try:
        parse_build_toml(text)
    except (MatrixMistakesError, BuildTomlError):
        pass


@given(st.sampled_from(V5.splitlines(keepends=True)), st.sampled_from(["", "= 1\n", '"x"\n', "[]\n", "[x]\n"]))
def test_any_line_changed_gives_a_spec_or_an_error_of_ours(line, other):
    try:
        parse_build_toml(V5.replace(line, other, 1))
    except (MatrixMistakesError, BuildTomlError):
        pass


@pytest.mark.parametrize(
    ("old", "new", "meant"),
    [
        ('"rocm"]', '"rocmm"]', "rocm"),
        ('backend = "cuda"', 'backend = "CUDA"', "cuda"),
        ("depends = []", "depend = []", "depends"),
        ("depends = []", 'depends = ["troch"]', "torch"),
        ("depends = []", 'depends = ["cutlas_3_9"]', "cutlass_3_9"),
    ],
)
def test_a_similar_word_is_suggested(old, new, meant):
    with pytest.raises(MatrixMistakesError) as caught:
        parse_build_toml(V5.replace(old, new, 1))
    assert f"did you mean {meant!r}?" in [mistake.remedy for mistake in caught.value.mistakes]


@pytest.mark.parametrize("name", ["cutlass_9_0", "cutlass_sycl", "unheard-of"])
def test_an_unknown_dependency_is_left_to_the_plan(name):
    spec = parse_build_toml(V5.replace("depends = []", f'depends = ["{name}"]', 1))
    assert any(name in section.depends for section in spec.sections)
