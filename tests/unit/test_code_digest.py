"""The digest that names a kernel's operators: what is written about the code does not change it, and the code does."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.plan.recipe import Binding, KernelSpec, code_digest
from wheelsmith.plan.recipe.comments import without_c_comments, without_hash_comments

SPEC = KernelSpec(
    name="tiny", edition=5, version=1, license=None, backends=("cpu",), binding=Binding(src=("torch-ext/b.cpp",))
)
FILES = {
    "build.toml": '[general]\nname = "tiny"\n',
    "README.md": "# tiny\n",
    "LICENSE": "any\n",
    "tests/test_tiny.py": "assert True\n",
    "torch-ext/b.cpp": '#include "b.h"\nint f() { return 1; }\n',
    "torch-ext/b.h": "int f();\n",
    "torch-ext/tables.txt": "1, // one\n",
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
        {"docs/x.txt": "more"},
        {".github/workflows/x.yml": "more"},
        {"LICENSE": "another\n"},
        {"tests/test_tiny.py": "assert False\n"},
        {"build.toml": '# of tiny\n[general]\nname = "tiny"  # so it is called\n'},
        {"torch-ext/b.cpp": '#include "b.h"  // f\n\nint f() {\n  /* one */ return 1;\n}\n'},
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
        {"torch-ext/b.cpp": '#include "b.h"\nint f() { return 2; }\n'},
        {"torch-ext/b.cpp": '// #include "b.h"\nint f() { return 1; }\n'},
        {"torch-ext/b.h": None},
        {"torch-ext/c.h": ""},
        {"torch-ext/tables.txt": "1,\n"},  # nobody knows what a comment is there
        {"torch-ext/tiny/__init__.py": "if 1:\n    from ._ops import ops\n"},
        {"torch-ext/tiny/data.bin": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_counts(changed):
    assert digest(changed) != digest()


def test_a_source_counts_wherever_it_is():
    spec = KernelSpec(
        name="tiny", edition=5, version=1, license=None, backends=("cpu",), binding=Binding(src=("docs/b.cpp",))
    )
    assert digest({"docs/b.cpp": "int a;"}, spec) != digest({"docs/b.cpp": "int b;"}, spec)


def test_what_is_too_long_to_be_read_counts_as_it_is():
    def of(sha256, text):
        return code_digest(SPEC, {"a.h": sha256}, lambda path: text)

    for text in (None, bytes(2**20 + 1)):
        assert of("1", text) != of("2", text)
    assert of("1", bytes(2**20)) == of("2", bytes(2**20))


def test_only_so_much_is_gone_through():
    last = "torch-ext/z.h"
    for count, same in ((30, True), (40, False)):
        files = {f"torch-ext/{number:03}.h": "1" for number in range(count)}

        def of(sha256, files=files):
            return code_digest(SPEC, files | {last: sha256}, lambda path: bytes(2**20))

        assert (of("1") == of("2")) is same


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a // b\nc", "a c"),
        ("a // b \\\n b\nc", "a c"),
        ("a /* b\n\n */ c", "a c"),
        ("a/**/b", "a b"),
        ('"// a" /* b */ "/* c */"', '"// a" "/* c */"'),
        ('"\\" // a"', '"\\" // a"'),
        ("'\"' // a\n'\\'' // b", "'\"' '\\''"),
        ("1'000'000 // a\nb", "1'000'000 b"),
        ("0xAB'CD // a\nb", "0xAB'CD b"),
        ('R"(// a " /* b */)" // c', 'R"(// a " /* b */)"'),
        ('u8R"x(// )" // )x" // c', 'u8R"x(// )" // )x"'),
        ('LR"(a)" // c', 'LR"(a)"'),
        ('FOR"(a" // c', 'FOR"(a"'),
        ("/* nobody closes this", ""),
        ('"nobody closes this // a\nb // c', '"nobody closes this // a b'),
        ('R"(nobody // a', 'R"(nobody // a'),
        ("//", ""),
        ("", ""),
    ],
)
def test_c_comments(text, words):
    assert without_c_comments(text.encode()).decode() == words


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a  # b\n\n# c\n  d\n", "a\n  d"),
        ("'# a'  # b", "'# a'"),
        ('"""\n# a\n"""  # b', '"""\n# a\n"""'),
        ("'''it's # a'''  # b", "'''it's # a'''"),
        ("'\\'# a'  # b", "'\\'# a'"),
        ('"" # a', '""'),
        ("'nobody closes this # a\nb # c", "'nobody closes this # a\nb"),
        ("#", ""),
    ],
)
def test_hash_comments(text, lines):
    assert without_hash_comments(text.encode()).decode() == lines


C_CODE = st.sampled_from(
    ["x", "1'000", "'\"'", "'/'", '"// no"', '"\\\\"', 'R"d(/* )" */)d"', "{", "#define A \\\n 1\n", "a / b", "*", "<"]
)
C_COMMENT = st.text("ab'\"/* R(\\").map(lambda text: f"/*{text.replace('*/', '')} */") | st.text("ab'\"/* R(").map(
    lambda text: f"//{text}\n"
)


@given(st.lists(st.tuples(C_CODE, C_COMMENT)))
def test_c_comments_are_as_good_as_spaces(parts):
    told = "".join(f" {code} {comment}" for code, comment in parts)
    assert without_c_comments(told.encode()) == b" ".join(" ".join(code for code, _ in parts).encode().split())


@pytest.mark.parametrize("unit", ['R"(', "/*", '"', "'", "\\", '"\\', "//", "1'", '"""', "#", "'''\\"])
def test_a_hostile_text_is_gone_through_once(unit):
    text = (unit * 2**17).encode()
    assert len(without_c_comments(text)) <= len(text)
    assert len(without_hash_comments(text)) <= len(text)
