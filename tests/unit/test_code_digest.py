"""The digest that names a kernel's operators, and which kernels get CPython's headers."""

import hashlib
from dataclasses import replace

import pytest

from wheelsmith.plan.recipe.recipe import code_digest, includes_python
from wheelsmith.plan.recipe.spec import Binding, KernelSpec

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
    "torch-ext/tiny/__init__.py": "from ._ops import ops\n",
}


def digest(changed=None):
    files = {path: text for path, text in (FILES | (changed or {})).items() if text is not None}
    return code_digest(SPEC, {path: hashlib.sha256(text.encode()).hexdigest() for path, text in files.items()})


@pytest.mark.parametrize(
    "changed",
    [
        {"README.md": "# another\n"},
        {"third_party/LICENSE": "another\n"},
        {"tests/test_tiny.py": "assert False\n"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_documentation_and_tests_are_left_out(changed):
    assert digest(changed) == digest()


@pytest.mark.parametrize(
    "changed",
    [
        {"build.toml": '[general]\nname = "tiny" \n[torch]\n'},
        {"torch-ext/b.cpp": '#include "b.h"\nint f() {\n  return 1;  // one\n}\n'},
        {"torch-ext/b.h": None},
        {"torch-ext/tiny/README.md": ""},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_may_be_compiled_included_or_shipped_counts(changed):
    assert digest(changed) != digest()


@pytest.mark.parametrize(
    ("path", "text", "found"),
    [
        ("torch-ext/b.cpp", "#include <Python.h>\n", True),
        ("torch-ext/b.h", 'x\n  #  include "Python.h"\n', True),
        ("torch-ext/b.cpp", "// #include <Python.h>\n", False),
        # A build writes its own over this one.
        ("torch-ext/registration.h", "#include <Python.h>\n", False),
    ],
)
def test_which_kernels_include_python(path, text, found):
    files = {path: text.encode()}
    assert includes_python(SPEC, files, files.__getitem__) is found
    assert not includes_python(replace(SPEC, framework="tvm-ffi"), files, files.__getitem__)
    assert not includes_python(replace(SPEC, binding=None), files, files.__getitem__)
