"""Which lines of a long log a failure shows."""

import pytest

from wheelsmith.pipeline.cell_log import TAIL_LINES, CellLog

TRACEBACK = [
    "Traceback (most recent call last):",
    *(line for n in range(TAIL_LINES) for line in (f'  File "/lib/setuptools/{n}.py", line {n}, in run', "    run()")),
    "distutils.errors.CompileError: command '/opt/wheelsmith/launch/g++' failed with exit code 1",
    "",
    "ERROR Backend subprocess exited when trying to invoke build_wheel",
]


def shown(lines, tmp_path):
    with CellLog("cell", tmp_path / "cell.log", [].append).command("build", ()) as output:
        for line in lines:
            output.read(line)
    return output.excerpt or output.tail


@pytest.mark.parametrize(
    "line",
    [
        "csrc/op.cpp:12:3: error: 'nonsense' was not declared in this scope",
        "csrc/op.cpp:1:10: fatal error: missing.h: No such file or directory",
        'csrc/op.cu(7): error: identifier "nonsense" is undefined',
        "nvcc fatal   : Unsupported gpu architecture 'compute_37'",
        "ptxas /tmp/op.ptx, line 31; error   : Unknown symbol 'x'",
        "ptxas fatal   : Unresolved extern function 'f'",
        "/opt/cxx/bin/g++: error: unrecognized command-line option '-fnonsense'",
        "cc1plus: error: argument to '-O' should be a non-negative integer",
        "/opt/cxx/bin/ld: cannot find -lnonsense: No such file or directory",
        "op.cpp:(.text+0x5): undefined reference to `nonsense()'",
        "CMake Error at CMakeLists.txt:5 (find_package):",
        '../meson.build:3:0: ERROR: Dependency "nonsense" not found, tried pkgconfig',
        "{standard input}:12: Error: no such instruction: `nonsense'",
    ],
)
def test_the_first_error_is_shown_and_not_a_traceback(line, tmp_path):
    lines = shown(
        ["running build_ext", "op.cpp:3:1: warning: an error?", line, "   12 |  nonsense", *TRACEBACK], tmp_path
    )
    assert lines[:2] == (line, "   12 |  nonsense")
    assert lines[2:] == (TRACEBACK[-3], TRACEBACK[-1])
    assert len(lines) < TAIL_LINES


def test_a_probe_that_failed_does_not_hide_how_the_build_ended(tmp_path):
    end = ['  File "setup.py", line 3', "RuntimeError: this machine has no GPU"]
    lines = shown(["g++: error: unrecognized command-line option '-fnew'", *["running on"] * 90, *end], tmp_path)
    assert lines[-1] == end[-1]


@pytest.mark.parametrize(
    "line", ["error: command 'g++' failed with exit code 1", "0 errors: all is well", "x: 3 error"]
)
def test_without_one_the_last_lines_are(line, tmp_path):
    lines = ["nothing", *TRACEBACK, line]
    assert shown(lines, tmp_path) == tuple(lines[-TAIL_LINES:])
