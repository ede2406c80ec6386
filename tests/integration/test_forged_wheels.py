"""Wheels that lie, and wheels that are odd and right: each is made from nothing, by one small change of a legal wheel.

``tests/support/forge.py`` makes them; a sibling of a lie is a line in one of the ``family_*.py`` beside it.
"""

from __future__ import annotations

from collections import Counter

import family_archive
import family_elf
import family_gpu
import family_loading
import family_names
import family_operators
import family_requirements
import family_symbols
import family_tvm_ffi
import family_variants
import pytest
from forge import ARCHES, BASES, LEGAL, LIES, Forgery

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.check import check_wheel

FAMILIES = (
    family_archive,
    family_elf,
    family_gpu,
    family_loading,
    family_names,
    family_operators,
    family_requirements,
    family_symbols,
    family_tvm_ffi,
    family_variants,
)
# A finding is read by a person: no words of the libraries and of the language that it was found with.
_INNER = (
    "Traceback",
    "elftools",
    "object has no attribute",
    "<class",
    "NoneType",
    "Error(",
    "struct.error",
    "codec can't",
)
_LONGEST = 2000  # characters of a finding's message


OTHER = pytest.mark.release("the same of the other architecture")


def _cases(register: dict[str, Forgery]) -> list[object]:
    """Every forgery for each of its architectures; in the quick tier for one, by turns the one and the other."""
    return [
        pytest.param(forgery, arch, id=ascii(f"{forgery.name} {arch}"), marks=() if arch == quick else OTHER)
        for number, forgery in enumerate(register.values())
        for quick in [forgery.arches[number % len(forgery.arches)]]
        for arch in forgery.arches
    ]


def _wrong(path) -> dict[str, str]:
    """Return what the check finds wrong: rule → message."""
    try:
        report = check_wheel(path)
    except WheelError as error:
        return {"readable": error.message}
    return {finding.rule: finding.message for finding in report.findings if not finding.ok}


@pytest.mark.parametrize(("forgery", "arch"), _cases(LIES))
def test_a_lie_is_refused(forgery, arch, tmp_path):
    wrong = _wrong(forgery.build(arch, tmp_path))
    assert wrong, f"it passes: {forgery.says}"
    assert wrong.keys() & forgery.rules, f"{forgery.says}: {wrong}"
    for message in wrong.values():
        assert 3 < len(message) < _LONGEST
        assert not any(word in message for word in _INNER), message


@pytest.mark.parametrize(("forgery", "arch"), _cases(LEGAL))
def test_an_oddity_is_accepted(forgery, arch, tmp_path):
    assert _wrong(forgery.build(arch, tmp_path)) == {}, forgery.says


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("base", BASES)
def test_what_lies_are_made_of_is_right(base, arch, tmp_path):
    assert _wrong(BASES[base](arch).build_file(tmp_path)) == {}


def test_every_family_has_lies_and_oddities():
    names = {module.__name__.removeprefix("family_") for module in FAMILIES}
    lies = Counter(forgery.family for forgery in LIES.values())
    assert names == lies.keys() == {forgery.family for forgery in LEGAL.values()}
    assert all(sum(arch in forgery.arches for forgery in LIES.values()) >= 150 for arch in ARCHES)
    assert all(sum(arch in forgery.arches for forgery in LEGAL.values()) >= 40 for arch in ARCHES)
