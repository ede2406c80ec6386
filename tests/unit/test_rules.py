"""What single rules say of small wheels: CUDA's packages, requirements together, exceptions."""

import pytest
from wheels import make_wheel

from wheelsmith.platforms import cuda_packages
from wheelsmith.wheel.check import check_wheel
from wheelsmith.wheel.manylinux import promised_kernel
from wheelsmith.wheel.rules import RULES


def said(tmp_path, rule, *, version="1", tag="py3-none-any", requires=(), files=None):
    """Return what one rule says of a wheel: whether it is well, and in which words; None where it says nothing."""
    contents = {path: data.encode() if isinstance(data, str) else data for path, data in (files or {}).items()}
    made = make_wheel(tmp_path, "kernel", version, requires=requires, files=contents, tag=tag)
    found = [(finding.ok, finding.message) for finding in check_wheel(made).findings if finding.rule == rule]
    assert len(found) <= 1
    return found[0] if found else None


# --- CUDA's packages --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("compute", "requirement", "words"),
    [
        ("cu130", "nvidia-cublas-cu12", "is for CUDA 12"),
        ("cu130", "nvidia-cublas-cu13", None),
        ("cu130", "cupy-cuda12x", "is for CUDA 12"),
        ("cu130", "cuda-core[cu12]", "is for CUDA 12"),
        ("cu130", "nvidia-cufft<12", "is for CUDA 11, 12"),
        ("cu130", "nvidia-cufft<12.0.0.15", "is for CUDA 11, 12"),
        ("cu130", "nvidia-cufft<=12.0.0.15", None),
        ("cu130", "nvidia-curand<10.4", "is for CUDA 11, 12"),
        ("cu130", "nvidia-nvtx<13", "is for CUDA 11, 12"),
        ("cu130", "nvidia-nvtx==99", "is for no CUDA that is known"),
        ("cu128", "nvidia-cufft>=12.0.0.15", "is for CUDA 13, 14"),
        ("cu128", "nvidia-cufft", None),
        ("cu128", "nvidia-nvtx>=12,<14", None),
        ("cpu", "nvidia-npp", "requires nvidia-npp, which is for CUDA"),
    ],
)
def test_the_cuda_of_packages(compute, requirement, words, tmp_path):
    answer = said(tmp_path, "cuda-requirement", version=f"1+{compute}", requires=(requirement,))
    assert (answer is None or answer[0]) == (words is None)
    assert words is None or words in answer[1]


def test_clauses_of_two_lines_are_read_together(tmp_path):
    answer = said(tmp_path, "cuda-requirement", version="1+cu130", requires=("nvidia-nvtx>=12", "nvidia-nvtx<13"))
    assert answer == (
        False,
        (
            "the version says cu130, and it requires nvidia-nvtx<13, which is for CUDA 11, 12; the version says cu130, "
            "and it requires nvidia-nvtx>=12 and nvidia-nvtx<13, which is for CUDA 12"
        ),
    )


def test_no_project_counts_in_two_ways():
    known = cuda_packages()
    assert not set(known.by_major) & set(known.first_of_13)
    assert list(known.by_major) == sorted(known.by_major)


# --- requirements together --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        (("numpy<1,>2",), "Requires-Dist says numpy<1,>2: no version is all of that"),
        (("numpy<1", "scipy", "NumPy>2"), "Requires-Dist says numpy<1 and NumPy>2: no version is all of that"),
        (("numpy===latest",), "that is no version, and installers know no other"),
        (("a @ https://x.org/a.zip", "a @ https://x.org/b.zip"), "it comes from one place"),
        (("numpy<1; python_version < '3.12'", "numpy>2; python_version >= '3.12'"), None),
        (("numpy<1; extra == 'a'", "numpy>2; extra == 'b'"), None),
        (("numpy<1; extra == 'a'", "numpy>2"), "numpy<1 and numpy>2: no version is all of that"),
        (("numpy<1,>2; python_version < '3'",), None),
        (("numpy>1,<1.0.0.1",), None),
    ],
)
def test_requirements_together(requires, words, tmp_path):
    answer = said(tmp_path, "requirements", requires=requires)
    assert answer is not None
    assert answer[0] == (words is None)
    assert (words or "it requires") in answer[1]


def test_what_would_take_long_is_refused(tmp_path):
    many = tuple(f"p{n}" + ",".join(f"!={minor}.{n}" for minor in range(190)) for n in range(20))
    assert said(tmp_path, "requirements", requires=many) == (False, "what it requires has too many clauses to follow")
    few = ",".join(f"!={minor}.0" for minor in range(201))
    answer = said(tmp_path, "requirements", requires=(f"numpy{few}",))
    assert answer == (False, "Requires-Dist has 201 clauses on numpy: more than 200 are not followed")


@pytest.mark.parametrize(
    ("requirement", "ok"),
    [("===2.11", False), ("===2.11.0", True), ("===2.11.0+cpu", True), ("===2.11,>=2.11", False), ("==2.11", True)],
)
def test_torch_to_the_letter(requirement, ok, tmp_path):
    answer = said(tmp_path, "torch-requirement", version="1+cpu.torch2.11", requires=(f"torch{requirement}",))
    assert answer is not None
    assert answer[0] == ok


# --- the platform and the loader --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "x86_64", "aarch64"),
    [
        ("manylinux1", (2, 6, 18), (3, 7, 0)),
        ("manylinux2010", (2, 6, 32), (3, 7, 0)),
        ("manylinux2014", (3, 2, 0), (3, 7, 0)),
        ("manylinux_2_28", (3, 2, 0), (3, 7, 0)),
        ("manylinux_2_35", (3, 2, 0), (3, 7, 0)),
        ("manylinux_2_36", None, None),
        ("musllinux_1_2", None, None),
        ("linux", None, None),
    ],
)
def test_the_linux_that_a_platform_promises(platform, x86_64, aarch64):
    assert promised_kernel(f"{platform}_x86_64", "x86_64") == x86_64
    assert promised_kernel(f"{platform}_aarch64", "aarch64") == aarch64


def test_every_rule_is_named_once():
    assert len({rule.name for rule in RULES}) == len(RULES)
