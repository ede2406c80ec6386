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


def test_no_project_counts_in_two_ways():
    known = cuda_packages()
    assert not set(known.by_major) & set(known.first_of_13)
    assert list(known.by_major) == sorted(known.by_major)


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
