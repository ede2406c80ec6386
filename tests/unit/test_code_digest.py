"""The digest that names a kernel's operators: what is written about the code does not change it, and the code does."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.plan.recipe import Binding, KernelSpec, code_digest
from wheelsmith.plan.recipe.comments import without_c_comments, without_python_comments

SPEC = KernelSpec(
    name="tiny", edition=5, version=1, license=None, backends=("cpu",), binding=Binding(src=("torch-ext/b.cpp",))
)
FILES = {
    "build.toml": '[general]\nname = "tiny"\n',
    "README.md": "# tiny\n",
    "LICENSE": "any\n",
    "tests/test_tiny.py": "assert True\n",
    "torch-ext/b.cpp": '#include "b.h"\nint f() {\n  return 1;\n}\n',
    "torch-ext/b.h": "int f();\n",
    "torch-ext/tables.txt2": "1, // one\n",
    "torch-ext/tiny/__init__.py": "from ._ops import ops\n",
}


def digest(changed=None, spec=SPEC):
    files = {path: text for path, text in (FILES | (changed or {})).items() if text is not None}
    hashes = {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()}
    return code_digest(spec, hashes, lambda path: files[path].encode())


@pytest.mark.parametrize(
    "changed",
    [
        {"README.md": "# another\n"},
        {"README.md": None},
        {"README": "more"},
        {"CHANGELOG.txt": "more"},
        {"docs/x.bin": "more"},
        {"test/test_a.py": "more"},
        {"flake.lock": "{}"},
        {".github/workflows/x.yml": "more"},
        {"LICENSE": "another\n"},
        {"third_party/LICENSE": "another\n"},
        {"tests/test_tiny.py": "assert False\n"},
        {"build.toml": '# of tiny\n[general]\nname = "tiny"  # so it is called\n'},
        {"torch-ext/b.cpp": '#include "b.h"  // f\n\nint f() {\n  /* one */ return 1; // two\n}\n'},
        {"torch-ext/b.h": "/**\n * One.\n */\nint f();\n"},
        {"torch-ext/tiny/__init__.py": "# what it gives\nfrom ._ops import ops  # all\n\n"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_does_not_count(changed):
    assert digest(changed) == digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"build.toml": '[general]\nname = "tiny" \n[torch]\n'},
        {"build.toml": "[general\n"},
        {"torch-ext/b.cpp": '#include "b.h"\nint f() { return 2; }\n'},
        {"torch-ext/b.cpp": '// #include "b.h"\nint f() { return 1; }\n'},
        {"torch-ext/b.h": None},
        {"torch-ext/c.h": ""},
        {"torch-ext/tables.txt2": "1,\n"},  # nobody knows what a comment is there
        {"tests/x.cuh": ""},
        {".hidden/x.h": ""},
        {"NOTICE.h": ""},
        {"torch-ext/tiny/.hidden/x.py": ""},
        {"torch-ext/tiny/README.md": ""},
        {"torch-ext/tiny/__init__.py": "if 1:\n    from ._ops import ops\n"},
        {"torch-ext/tiny/data.bin": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_counts(changed):
    assert digest(changed) != digest()


def test_what_is_too_long_to_be_read_counts_as_it_is():
    def of(sha256, text):
        return code_digest(SPEC, {"a.h": sha256}, lambda path: text)

    for text in (None, bytes(2**20 + 1)):
        assert of("1", text) != of("2", text)
    assert of("1", bytes(2**20)) == of("2", bytes(2**20))


def test_only_so_much_is_gone_through():
    last = "torch-ext/z.h"
    for count, same in ((14, True), (20, False)):
        files = {f"torch-ext/{number:03}.h": "1" for number in range(count)}

        def of(sha256, files=files):
            return code_digest(SPEC, files | {last: sha256}, lambda path: bytes(2**20))

        assert (of("1") == of("2")) is same


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("a // b\nc", "a\nc"),
        ("a // b \\\n b\nc", "a\nc"),
        ("a // b \\ \n b\nc", "a\nc"),
        ("a // b\rc", "a\nc"),
        ("a /* b\n\n */ c", "a c"),
        ("a/**/b", "a b"),
        ("a  \n\n  b", "a\nb"),
        ('"// a" /* b */ "/* c */"', '"// a""/* c */"'),
        ('f("x" /* c */)', 'f("x")'),
        ('"a  b\t"', '"a  b\t"'),
        ('"\\" // a"', '"\\" // a"'),
        ("'\"' // a\n'\\'' // b", "'\"'\n'\\''"),
        ('case\'"\': return "//a";', 'case\'"\': return "//a";'.replace(": return ", ": return")),
        ('u8\'"\' "// a"', 'u8\'"\'"// a"'),
        ("1'000'000 // a\nb", "1'000'000\nb"),
        ("0xAB'CD // a\nb", "0xAB'CD\nb"),
        ('R"(// a "\n /* b */)" // c', 'R"(// a "\n /* b */)"'),
        ('R"a"b(// )" // )a"b" // c', 'R"a"b(// )" // )a"b"'),
        ('u8R"x(// )" // )x" // c', 'u8R"x(// )" // )x"'),
        ('LR"(a)" // c', 'LR"(a)"'),
        ('FOR"(a" // c', 'FOR"(a"'),
        ("#include <torch//all.h> // all", "#include <torch//all.h>"),
        ("/* nobody closes this", ""),
        ('"nobody closes this // a\nb // c', '"nobody closes this // a\nb'),
        ('R"(nobody // a', 'R"(nobody // a'),
        ("//", ""),
        ("", ""),
    ],
)
def test_c_comments(text, code):
    assert without_c_comments(text.encode()).decode() == code


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("#define A\nf();", "#define A f();"),
        ('"a b"', '"a  b"'),
        ("' '", "'\t'"),
        ('R"(a\nb)"', 'R"(a b)"'),
        ("a // b\rc();", "a // b"),
        ("1'0", "10"),
    ],
)
def test_code_that_means_something_else(one, other):
    assert without_c_comments(one.encode()) != without_c_comments(other.encode())


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a  # b\n\n# c\n  d\n", "a\n  d"),
        ("a # b\rc", "a\nc"),
        ("'# a'  # b", "'# a'"),
        ('"""\n# a  \n\n"""  # b', '"""\n# a  \n\n"""'),
        ("'''it's # a'''  # b", "'''it's # a'''"),
        ("'\\'# a'  # b", "'\\'# a'"),
        ('"" # a', '""'),
        ("'nobody closes this # a\nb # c", "'nobody closes this # a\nb"),
        ("#", ""),
    ],
)
def test_python_comments(text, lines):
    assert without_python_comments(text.encode()).decode() == lines


@pytest.mark.parametrize("text", ["# -*- coding: latin-1 -*-\n", "#!/bin/python\n# coding=latin-1\n"])
def test_a_file_that_says_its_encoding_counts_as_it_is(text):
    assert without_python_comments(text.encode()) is None
    assert without_python_comments(b"a\n\n# coding: utf-8") == b"a"


C_CODE = st.sampled_from(
    ["x", "1'000", "'\"'", "'/'", '"// no"', '"\\\\"', 'R"d(/* )" */)d"', "{", "#define A \\\n 1\n", "a / b", "*", "<"]
)
C_COMMENT = st.text("ab'\"/* R(\\").map(lambda text: f"/*{text.replace('*/', '')} */") | st.text("ab'\"/* R(").map(
    lambda text: f"//{text}\n"
)


@given(st.lists(st.tuples(C_CODE, C_COMMENT)))
def test_c_comments_are_as_good_as_spaces(parts):
    told = "".join(f" {code} {comment}" for code, comment in parts)
    plain = "".join(f" {code} {' ' if comment.startswith('/*') else chr(10)}" for code, comment in parts)
    assert without_c_comments(told.encode()) == without_c_comments(plain.encode())


@pytest.mark.parametrize(
    "unit", ['R"(', "/*", '"', "'", "\\", '"\\', "//", "1'", '"""', "#", "'''\\", " \n", "#include<"]
)
def test_a_hostile_text_is_gone_through_once(unit):
    text = (unit * 2**17).encode()
    for cut in (without_c_comments, without_python_comments):
        found = cut(text)
        assert found is None or len(found) <= len(text)
