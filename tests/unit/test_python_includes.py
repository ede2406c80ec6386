"""Only what includes CPython's headers is built with them: a kernel's sources are followed as its backends see them."""

from dataclasses import replace

import pytest

from wheelsmith.plan.recipe import Binding, KernelSpec, Section, python_backends, python_includes

SPEC = KernelSpec(
    name="tiny",
    edition=5,
    version=1,
    license=None,
    backends=("cpu", "cuda"),
    binding=Binding(src=("torch-ext/binding.cpp", "torch-ext/binding.h")),
    sections=(
        Section(name="host", backend="cpu", src=("host/a.cpp", "host/a.h"), include=("inc",)),
        Section(name="device", backend="cuda", src=("device/a.cu",)),
    ),
)
FILES = {
    "torch-ext/binding.cpp": '#include "registration.h"\n#include <torch/all.h>\n',
    "torch-ext/binding.h": "",
    "host/a.cpp": '#include "a.h"\n',
    "host/a.h": "",
    "device/a.cu": "",
}
BRANCHES = """\
#if defined(CUDA_KERNEL) || defined(ROCM_KERNEL)
#include "{cuda}"
#elif defined(XPU_KERNEL)
#include "{xpu}"
#elif defined(CPU_KERNEL) // what remains
#include "{cpu}"
#else
#include "{other}"
#endif
"""


def found(spec=SPEC, **files):
    there = FILES | files
    return python_backends(spec, tuple(there), lambda path: there[path].encode())


def branches(**names):
    return BRANCHES.format(**{name: names.get(name, "a.h") for name in ("cuda", "xpu", "cpu", "other")})


@pytest.mark.parametrize(
    ("files", "backends"),
    [
        ({}, ()),
        ({"torch-ext/binding.cpp": "#include <Python.h>\n"}, ("cpu", "cuda")),
        ({"torch-ext/binding.cpp": '  #  include "Python.h"\n'}, ("cpu", "cuda")),
        ({"torch-ext/binding.cpp": "// #include <Python.h>\n"}, ()),
        ({"torch-ext/binding.cpp": "#include <torch/extension.h>\n"}, ()),
        ({"device/a.cu": "#include <Python.h>\n"}, ("cuda",)),
        ({"host/a.h": "#include <Python.h>\n"}, ("cpu",)),
        ({"host/b.h": "#include <Python.h>\n"}, ()),
        ({"host/a.h": "#include <deep/b.h>\n", "inc/deep/b.h": "#include <Python.h>\n"}, ("cpu",)),
        ({"host/a.h": "#include <deep/b.h>\n", "csrc/deep/b.h": "#include <Python.h>\n"}, ("cpu",)),
        ({"host/a.h": '#include "../device/b.h"\n', "device/b.h": "#include <Python.h>\n"}, ("cpu",)),
        # A build writes its own over the first; the second is the one that is included.
        ({"torch-ext/registration.h": "#include <Python.h>\n"}, ()),
        ({"host/a.h": '#include "registration.h"\n', "host/registration.h": "#include <Python.h>\n"}, ("cpu",)),
        ({"host/a.h": "#include <Python.h>\n", "inc/Python.h": ""}, ()),
        ({"host/a.h": '#include "a.h"\n'}, ()),
        ({"host/a.h": '#include "../../../outside.h"\n'}, ()),
    ],
)
def test_includes_are_followed(files, backends):
    assert found(**files) == backends


@pytest.mark.parametrize(
    ("text", "backends"),
    [
        (branches(cpu="Python.h"), ("cpu",)),
        (branches(cuda="Python.h"), ("cuda",)),
        (branches(xpu="Python.h"), ()),
        (branches(other="Python.h"), ()),
        ("#ifdef CPU_KERNEL\n#include <Python.h>\n#endif\n", ("cpu",)),
        ("#ifndef CPU_KERNEL\n#include <Python.h>\n#endif\n", ("cuda",)),
        ("#if !defined(CPU_KERNEL)\n#else\n#include <Python.h>\n#endif\n", ("cpu",)),
        ("#if defined CUDA_KERNEL\n#if 1\n#include <Python.h>\n#endif\n#endif\n", ("cuda",)),
        ("#ifdef CUDA_KERNEL\n#endif\n#include <Python.h>\n", ("cpu", "cuda")),
        # What cannot be decided counts on both sides.
        ("#ifdef __CUDACC__\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#ifdef __CUDACC__\n#else\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#if defined(XPU_KERNEL) || WITH_PYTHON\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#if defined(XPU_KERNEL) || \\\n  1\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#if defined(XPU_KERNEL) && 1\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#if defined(MY_KERNEL)\n#include <Python.h>\n#endif\n", ("cpu", "cuda")),
        ("#endif\n#else\n#include <Python.h>\n", ("cpu", "cuda")),
    ],
)
def test_what_is_for_another_backend_does_not_count(text, backends):
    assert found(**{"torch-ext/binding.cpp": text}) == backends


def test_a_kernel_that_may_use_nothing_of_it_is_given_none():
    assert found(replace(SPEC, framework="tvm-ffi"), **{"torch-ext/binding.cpp": "#include <Python.h>\n"}) == ()
    assert found(replace(SPEC, binding=None)) == ()


def test_a_kernel_that_would_take_for_ever_counts_as_one_that_does(monkeypatch):
    monkeypatch.setattr(python_includes, "_MOST_LOOKS", 10_000)
    many = {f"host/{number}.h": f'#include "{number + 1}.h"\n' for number in range(100)}
    assert found(**{"host/a.h": '#include "0.h"\n', **many}) == ()
    assert found(**{"host/a.h": '#include "0.h"\n', **many, "host/99.h": "\n" * 1_000_000}) == ("cpu", "cuda")
    assert found(**{"host/a.h": "#include <x.h>\n" * 10_000}) == ("cpu", "cuda")
