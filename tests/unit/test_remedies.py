"""What is said of a project whose build fails, or would, for a cause that many had before."""

import json
import subprocess
from dataclasses import replace

import plans
import pytest

from wheelsmith.model import Cell, LockedWheel, Project
from wheelsmith.plan.recipe.remedies import (
    failure_remedy,
    missing_sources,
    plan_remedies,
    read_project_code,
)
from wheelsmith.plan.recipe.setup_code import read_setup_code

SETUP = "from setuptools import setup\n"
ENVIRONMENT = tuple(LockedWheel(name=name, version="1", sha256="x") for name in ("torch", "setuptools", "pyyaml"))


def cell_plan(*, cuda="13.0", torch="2.14", archs=("8.0",), before_build=None, **variables):
    made = plans.plan(0)
    project = Project(python="3.12", environment=ENVIRONMENT, variables=variables, before_build=before_build)
    cell = Cell(release=torch, toolkit=cuda, arch="x86_64", python="3.12")
    return replace(made, cell=cell, project=project, wheel=replace(made.wheel, gpu_archs=archs))


def code(setup, **files):
    given = {
        **({"setup.py": SETUP + setup} if setup is not None else {}),
        **{name.replace("__", "."): text for name, text in files.items()},
    }
    return read_project_code(tuple(sorted(given)), lambda path: given[path].encode())


def planned(setup, plan=None, **files):
    return list(plan_remedies(code(setup, **files), [plan or cell_plan()]))


@pytest.mark.parametrize(
    ("reads", "value"),
    [
        ('os.getenv("ODD_FORCE_BUILD", "FALSE") == "TRUE"', "TRUE"),
        ('os.environ.get("ODD_FORCE_BUILD") in ("yes", "y")', "yes"),
        ('"ODD_FORCE_BUILD" in os.environ', "1"),
        ('int(os.environ["ODD_FORCE_BUILD"])', "1"),
        ('os.getenv("ODD_FORCE_BUILD", "False")', "True"),
        ('os.getenv("ODD_FORCE_BUILD", "0") != "0"', "1"),
        ('os.getenv(f"{NAME}_FORCE_BUILD", "OFF")', "ON"),
        ('flag("ODD_FORCE_BUILD", False)', "1"),
    ],
)
def test_a_setup_py_that_looks_for_a_ready_wheel_is_told_not_to(reads, value):
    setup = 'NAME = "ODD"\ndef flag(name, default):\n    return os.environ.get(name, default)\n'
    setup = f'import os\n{setup}if not ({reads}):\n    urllib.request.urlretrieve(URL, "x.whl")\n'
    line = "setup.py looks for a ready wheel, but a build has no network; add to matrix.yaml: "
    line += f'env: {{"ODD_FORCE_BUILD": "{value}"}}'
    assert planned(setup) == [line]
    assert failure_remedy(code(setup), cell_plan(), "the build ended", ["urlopen error [Errno -3]"]) == line
    assert planned(setup, cell_plan(ODD_FORCE_BUILD="x")) == []


def test_one_without_such_a_variable_names_those_that_it_reads():
    (line,) = planned('import os\nif os.getenv("HOW"):\n    urllib.request.urlretrieve(f"{U}.whl")\n')
    assert line.startswith("setup.py:4 downloads a wheel, but a build has no network; ")
    assert 'env: {"HOW": "1"}' in line


ASKS = [
    "import torch\nif torch.cuda.is_available():\n    build()\n",
    'import subprocess\nsubprocess.check_output("nvidia-smi -L")\n',
    "import torch\nmajor, minor = torch.cuda.get_device_capability()\n",
]


@pytest.mark.parametrize("setup", ASKS)
def test_one_that_asks_the_gpu_is_patched(setup):
    (line,) = planned(setup)
    assert line.startswith("setup.py:3 asks for a GPU (")
    assert 'patch it, such as before-build: "sed -i -E ' in line
    assert planned(setup, cell_plan(cuda=None, archs=())) == []
    assert planned(setup, cell_plan(before_build="true")) == []
    # It goes by what every build has.
    assert planned(setup + 'import os\nos.getenv("FORCE_CUDA")\n') == []
    for message, lines in (
        ("the wheel check failed: the version is for cu130, but the wheel does not use CUDA", ()),
        ("the build made a wheel for platform any, not linux_x86_64", ()),
        ("the build ended with exit code 1", ("RuntimeError: No GPU found",)),
    ):
        assert failure_remedy(code(setup), cell_plan(), message, lines).startswith("no build sees a GPU: setup.py must")


def command(line):
    return json.loads(line.partition("before-build: ")[2])


def test_the_patch_is_a_command_that_works(tmp_path):
    lines = [
        "if torch.cuda.is_available(): n = torch.cuda.device_count()",
        "a, b = torch.cuda.get_device_capability(0)",
        'flags.append("-gencode")',
        "flags.append('arch=compute_70,code=sm_70')",
        'more = [f"-gencode=arch=compute_{c},code=sm_{c}", "-O3"]',
        '    os.environ["TORCH_CUDA_ARCH_LIST"] = "3.7+PTX;5.0"',
    ]
    (tmp_path / "setup.py").write_text("\n".join(lines))
    (line,) = planned("\n".join(line.strip() for line in lines), cell_plan(archs=("9.0a", "9.0+PTX")))
    subprocess.run(["sh", "-ec", command(line)], cwd=tmp_path, check=True)
    assert (tmp_path / "setup.py").read_text().splitlines() == [
        "if True: n = 1",
        "a, b = (9, 0)",
        'flags.append("-DNDEBUG")',
        'flags.append("-DNDEBUG")',
        'more = [f"-DNDEBUG", "-O3"]',
        '    _ = "3.7+PTX;5.0"',
    ]


@pytest.mark.parametrize(
    "setup",
    [
        'flags = ["-gencode=arch=compute_37,code=sm_37", "-gencode", "arch=compute_50,code=compute_50"]',
        'import os\nos.environ["TORCH_CUDA_ARCH_LIST"] = "3.7+PTX;5.0"\n',
    ],
)
def test_one_that_names_capabilities_itself_is_patched(setup):
    (line,) = planned(setup)
    assert line.startswith('setup.py compiles for 3.7, 5.0, not for gpu-archs (8.0); patch it, such as before-build: "')
    assert planned(setup, cell_plan(archs=("3.7", "5.0+PTX"))) == []
    assert planned(setup, cell_plan(cuda=None, archs=())) == []
    fatal = ["nvcc fatal   : Unsupported gpu architecture 'compute_37'"]
    assert failure_remedy(code(setup), cell_plan(), "the build ended", fatal) == line


def test_of_a_pure_wheel_the_settings_that_setup_py_reads_are_named():
    setup = """
import os, sys
if "--with_cpp" in sys.argv:
    sys.argv.remove("--with_cpp")
if int(os.environ.get("ODD_EXT", "0")) or os.getenv("MAX_JOBS") or os.getenv("GIVEN"):
    pass
"""
    message = "the build made a wheel for platform any, not linux_x86_64"
    assert failure_remedy(code(setup), cell_plan(GIVEN="1"), message, ()) == (
        'nothing was compiled; settings that setup.py reads, for matrix.yaml: env: {"ODD_EXT": "1"} and '
        'config-settings: {"--build-option": ["--with_cpp"]}'
    )
    assert "reads no variables" in failure_remedy(code(""), cell_plan(), message, ())
    assert planned(setup) == []


@pytest.mark.parametrize(
    ("module", "wanted"),
    [
        ("psutil", "psutil"),
        ("yaml", "pyyaml"),
        ("pkg_resources", "setuptools<81"),
        ("setuptools_scm", "setuptools-scm"),
    ],
)
def test_a_module_that_is_missing_is_required(module, wanted):
    lines = ("Traceback:", f"ModuleNotFoundError: No module named '{module}.inner'")
    remedy = failure_remedy(code(""), cell_plan(), "the build ended with exit code 1", lines)
    assert remedy == f'add to matrix.yaml: build-requires: ["{wanted}"]'


def test_an_import_that_is_not_declared_is_seen_before_the_build():
    setup = "import os, yaml, packaging, psutil, tools\ntry:\n    import maybe\nexcept ImportError:\n    pass\n"
    assert planned(setup, tools__py="") == [
        'setup.py imports psutil, which its build requirements lack; add to matrix.yaml: build-requires: ["psutil"]'
    ]
    warning = "UserWarning: Failed to initialize NumPy: No module named 'numpy' (Triggered internally)"
    assert failure_remedy(code(setup), cell_plan(), "the build ended with exit code 1", [warning]) is None
    own = failure_remedy(code(setup, tools__py=""), cell_plan(), "", ["No module named 'tools'"])
    assert own.startswith("tools is the project's own")
    assert command(own).startswith("sed -i '1i import")


def test_sources_that_are_not_there_are_named():
    setup = 'import os\nOps = CUDAExtension("x", ["csrc/op.cpp", os.path.join(here, "csrc", "op.cu"), "csrc/b.cu"])\n'
    lacking = missing_sources(code(setup, **{"csrc/op__cpp": "", "csrc/op__cu": ""}))
    assert lacking == "setup.py names csrc/b.cu; the source lacks csrc/b.cu: add it, or name it in kernel.include"
    released = code(setup, **{"PKG-INFO": ""})
    ninja = ["ninja: error: '/work/src/csrc/op.cpp', needed by '/work/x.o', missing and no known rule to make it"]
    remedy = "the source lacks csrc/op.cpp: take it from git (kernel.git)"
    assert failure_remedy(released, cell_plan(), "the build ended", ninja) == remedy
    gcc = ["cc1plus: fatal error: csrc/op.cpp: No such file or directory"]
    assert failure_remedy(released, cell_plan(), "the build ended", gcc) == remedy
    # Only a header of its own is missing from the source.
    gcc = ["op.cpp:2:10: fatal error: own.h: No such file or directory", '    2 | #include "own.h"']
    assert "the source lacks own.h" in failure_remedy(released, cell_plan(), "the build ended", gcc)
    gcc[1] = "    2 | #include <own.h>"
    assert failure_remedy(released, cell_plan(), "the build ended", gcc) is None


@pytest.mark.parametrize(
    ("file", "text", "line"),
    [
        ("setup.py", 'flags = [\n"-O3",\n"-std=c++17"]', "setup.py:4"),
        ("CMakeLists.txt", "project(x)\nset(CMAKE_CXX_STANDARD 17)\n", "CMakeLists.txt:2"),
        ("csrc/CMakeLists.txt", "target_compile_features(x PRIVATE cxx_std_17)\n", "csrc/CMakeLists.txt:1"),
        ("meson.build", "project('x', default_options: ['cpp_std=gnu++17'])\n", "meson.build:1"),
    ],
)
def test_an_older_standard_than_torchs_headers_need_is_said(file, text, line):
    files = {"setup": text} if file == "setup.py" else {"setup": None, file: text}
    said = f"{line} names C++17, but torch 2.14 needs C++20; add to matrix.yaml: cxx-standard: torch"
    assert planned(**files) == [said]
    assert planned(**files, plan=cell_plan(torch="2.13")) == []
    assert planned(**files, plan=cell_plan(WHEELSMITH_CXX_STANDARD="20")) == []
    raised = ["ATen.h:4:2: error: #error C++20 or later compatible compiler is required to use ATen."]
    assert failure_remedy(code(**files), cell_plan(), "the build ended", raised) == said


def test_a_standard_that_depends_on_torch_is_let_be():
    lists = {"CMakeLists__txt": "set(CMAKE_CXX_STANDARD 14)"}
    assert planned("CppExtension()", **lists) == []
    assert len(planned('run(["cmake", "."])', **lists)) == 1
    assert planned('flags = ["-std=c++20" if new else "-std=c++17"]') == []
    assert planned('# flags = ["-std=c++17"]') == []


RULE = 'add to matrix.yaml: rules: [{"where": {"cuda": "*.*"}, "set": {"env": {"CMAKE_ARGS": "%s"}}}]'
SKBUILD = '[build-system]\nrequires = ["scikit-build-core"]\nbuild-backend = "scikit_build_core.build"\n'


@pytest.mark.parametrize(
    ("text", "default", "argument"),
    [
        ('set(BACKEND "cpu" CACHE STRING "The backend (cpu, cuda, hip)")', "BACKEND to cpu", "-DBACKEND=cuda"),
        (
            'set(DEVICE CPU CACHE STRING "" FORCE)\nset_property(CACHE DEVICE PROPERTY STRINGS CPU CUDA)',
            "DEVICE to CPU",
            "-DDEVICE=CUDA",
        ),
        ('option(GGML_CUDA "ggml: use CUDA" OFF)', "GGML_CUDA to OFF", "-DGGML_CUDA=ON"),
        ('OPTION ( USE_CUDA "(with nvcc)" )', "USE_CUDA to OFF", "-DUSE_CUDA=ON"),
        ('set(WITH_GPU 0 CACHE BOOL "compile for CUDA")', "WITH_GPU to 0", "-DWITH_GPU=ON"),
        ('cmake_dependent_option(WITH_CUDA "" no "NOT APPLE" OFF)', "WITH_CUDA to no", "-DWITH_CUDA=ON"),
    ],
)
def test_a_build_by_cmake_that_leaves_cuda_out_by_default_is_told_to_use_it(text, default, argument):
    files = {"setup": None, "pyproject__toml": SKBUILD, "CMakeLists__txt": f"project(x) # option(A_CUDA)\n{text}\n"}
    line = f"CMakeLists.txt:2 sets {default}; {RULE % argument}"
    assert planned(**files) == [line]
    assert planned(**files, plan=cell_plan(cuda=None, archs=())) == []
    assert planned(**files, plan=cell_plan(CMAKE_ARGS=argument)) == []
    for message in (
        "the wheel check failed: gpu-code: no machine code for 9.0",
        "the wheel check failed: the version is for cu130, but the wheel does not use CUDA",
        "the build made a wheel for platform any, not linux_x86_64",
    ):
        assert failure_remedy(code(**files), cell_plan(), message, ()) == line
    files["pyproject__toml"] += f"cmake.define.{default.partition(' ')[0]} = true\n"
    assert planned(**files) == []


@pytest.mark.parametrize(
    "text",
    [
        'option(USE_CUDA "" ON)',
        'option(NO_CUDA "" OFF)',
        'option(GGML_CUDA_GRAPHS "use CUDA graphs" OFF)',
        'option(BUILD_TESTS_CUDA "" OFF)',
        'option(USE_GPU "OpenCL" OFF)',
        'set(BACKEND "auto" CACHE STRING "auto, cpu or cuda")',
        'set(BACKEND "cpu" CACHE STRING "cpu or hip")',
        'set(CUDA_VERSION "13.0" CACHE STRING "CUDA version")',
        "set(USE_CUDA OFF)",
        "option()\nset(\noption(USE_CUDA",
    ],
)
def test_other_variables_of_cmake_are_let_be(text):
    assert planned(None, pyproject__toml=SKBUILD, CMakeLists__txt=text) == []


def test_the_folders_that_cmakelists_adds_are_read():
    lists = {
        "CMakeLists__txt": "add_subdirectory(vendor/engine out)\nadd_subdirectory(gone)",
        "vendor/engine/CMakeLists__txt": "add_subdirectory(core)\nadd_subdirectory(../..)",
        "vendor/engine/core/CMakeLists__txt": 'option(E_CUDA "" OFF)',
        "other/CMakeLists__txt": 'option(O_CUDA "" OFF)',
    }
    (line,) = planned('os.environ["CMAKE_ARGS"]', **lists)
    assert line.endswith(RULE % "-DE_CUDA=ON")
    assert planned('run(["cmake", "."])', **lists) == []  # it reads no CMAKE_ARGS


def test_what_is_not_python_says_nothing():
    assert read_setup_code(b"setup(") == read_setup_code(b"")
