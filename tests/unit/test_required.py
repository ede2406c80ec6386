"""What a wheel requires where it is tested, with nothing of its extras."""

import pytest
from wheels import make_wheel

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.required import required_in


def test_it_is_what_holds_for_the_python_of_the_cell(tmp_path):
    requires = (
        "torch==2.11.*",
        "scipy>=1; python_version >= '3.12'",
        "tomli; python_version < '3.11'",
        "pytest; extra == 'test'",
        "pywin32; sys_platform == 'win32'",
        "arm; platform_machine == 'aarch64'",
        "fancy[more]<2",
    )
    wheel = make_wheel(tmp_path, "k", "1", requires=requires)
    assert required_in(wheel, "3.12", "x86_64") == ("torch==2.11.*", "scipy>=1", "fancy[more]<2")
    assert required_in(wheel, "3.10", "aarch64") == ("torch==2.11.*", "tomli", "arm", "fancy[more]<2")


@pytest.mark.parametrize(
    ("requires", "words"),
    [
        (("--index-url=http://x",), "cannot be installed"),
        (("x @ https://example.org/x.whl",), "requires x at an address"),
        (("x; " + "(" * 5000,), "cannot be installed"),
        (tuple(f"p{number}" for number in range(501)), "more than 500 projects"),
    ],
)
def test_what_no_index_has_is_refused(requires, words, tmp_path):
    with pytest.raises(WheelError, match=words):
        required_in(make_wheel(tmp_path, "k", "1", requires=requires), "3.12", "x86_64")


def test_an_address_that_nobody_asks_for_is_no_mistake(tmp_path):
    wheel = make_wheel(tmp_path, "k", "1", requires=("x @ https://example.org/x.whl ; extra == 'docs'",))
    assert required_in(wheel, "3.12", "x86_64") == ()
