"""What a file of Python costs to parse is known before it is parsed."""

import pytest

from wheelsmith.base.parse_cost import parsing_cost
from wheelsmith.plan.recipe.static_setup_metadata import SetupWords, read_setup_py

LONG = b"a" * 200_000
MUCH = 120_000  # more is parsed nowhere


PLAIN = (
    *("", "import os\n", "# coding: utf-8\n", "# -*- coding: UTF8 -*-\n", "#!/x\n# vim: fileencoding=latin-1\n"),
    *("# coding=iso-8859-15\n", "# coding: cp1252\r\n", "\n\n\n\n# coding: utf-7\n"),
)
ODD = (
    *("# coding: punycode\n-", "# coding:\tutf-7\n", "#!/x\n# -*- coding=U7 -*-\n", "\r# coding: utf_7\r"),
    *("# coding: utf-8 coding: utf-7\n", "# coding: utf-8-sig-7\n", "\r\n# coding: cp037\r\n"),
)


@pytest.mark.parametrize("head", PLAIN)
def test_letters_cost_nothing(head):
    signs = sum(not (letter.isalnum() or letter in " _\t\r") for letter in head)
    assert parsing_cost(head.encode() + LONG) == signs


@pytest.mark.parametrize("head", ODD)
def test_in_an_odd_encoding_every_byte_may_cost(head):
    assert parsing_cost(head.encode() + LONG) > MUCH
    assert parsing_cost(head.encode() + b"pass") == len(head) + 4


def test_signs_cost_what_they_are():
    assert parsing_cost(b"f(x, 'a')\n") == 6


def test_a_setup_that_hides_its_signs_is_not_parsed():
    code = "setup(name='thing', keywords=[" + "[]," * MUCH + "])"
    assert read_setup_py(code.encode()) == SetupWords()
    assert read_setup_py(b"# coding: utf-7\n" + code.encode("utf-7")) == SetupWords()
    assert read_setup_py(b"# coding: utf-7\n" + "setup(name='thing')".encode("utf-7")).name == "thing"
