"""Intercept a compiler call in the sandbox and follow wheelsmith's instructions.

This program runs inside containers: ``launcher.py PROGRAM [ARGUMENT…]``, where PROGRAM is the path that was called.
It communicates through files in a new folder below WHEELSMITH_LAUNCH: first ``request``, and then ``answer-N`` and
``done-N`` for N = 0, 1, …. An answer is one of three: run the original call, run other commands that preprocess the
source, or exit with the object file that wheelsmith wrote.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

_FOLDER_VARIABLE, _NESTED_VARIABLE = "WHEELSMITH_LAUNCH", "WHEELSMITH_LAUNCHED"
# The real nvcc, in the same folder as its proxy, because nvcc searches its own folder for its other programs.
_NVCC = "nvcc.bin"
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.05  # seconds
_DEEPEST = 8  # levels of nested option files
_LONGEST_FILE = 1 << 20  # characters
_LONGEST_REQUEST = 1 << 16  # bytes
# Variables that change how a compiler works or make it write more files.
_ALTERING_VARIABLES = {
    "gcc": ("COMPILER_PATH", "GCC_EXEC_PREFIX", "GCC_COMPARE_DEBUG", "DEPENDENCIES_OUTPUT", "SUNPRO_DEPENDENCIES"),
    "nvcc": ("NVCC_CCBIN", "INCLUDES", "SYSTEM_INCLUDES", "CUDAFE_FLAGS", "PTXAS_FLAGS"),
}
_HEADERS = "/opt/python/include"
_NVCC_VARIABLES = ("NVCC_PREPEND_FLAGS", "NVCC_APPEND_FLAGS")
# C++ standards as compilers name them, as an option, within the value of -Xcompiler, or as the value of "-std".
_OPTION = re.compile(r"(?P<name>(?<![^\s,=\"'])--?std=(c|gnu)\+\+)(?P<year>\w+)")
_VALUE = re.compile(r"(?P<name>^(c|gnu)\+\+)(?P<year>\w+)$")
_STANDARDS = {"98": 3, "03": 3, "0x": 11, "11": 11, "1y": 14, "14": 14, "1z": 17, "17": 17, "2a": 20, "20": 20}
_CXX_SOURCES = {".cc", ".cpp", ".cxx", ".c++", ".C", ".cp", ".cu"}
# Characters in option files that compilers do not parse as a shell does.
_SPECIAL_CHARACTERS = {"gcc": set("\\\v\f\0"), "nvcc": set("\\\v\f\0'\"#,")}


def launch(called: str, words: list[str]) -> int:
    """Handle a compiler call and return its exit code. A call that compiles nothing runs immediately.

    :param called: the path that was called.
    :param words: its arguments.
    """
    program = Path(called).name
    real = _real_compiler(Path(called))
    if standard := os.environ.get("WHEELSMITH_CXX_STANDARD"):
        for name in _NVCC_VARIABLES:
            if name in os.environ:
                os.environ[name] = _OPTION.sub(partial(_raised, standard), os.environ[name])
        words = _with_standard(program, standard, _expanded(program, words, 0))
    expanded = _with_variables(program, _expanded(program, words, 0))
    folder = os.environ.get(_FOLDER_VARIABLE)
    if folder is None or _NESTED_VARIABLE in os.environ or not _compiles_or_links(expanded):
        os.execv(real, [real, *words])  # noqa: S606  # the original call
    headers = _header_options(program)
    expanded, words = [*headers, *expanded], [*headers, *words]
    os.environ[_NESTED_VARIABLE] = "1"
    # Exit through `finally`, which removes the request.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    own = Path(folder, f"{os.getpid()}-{os.urandom(6).hex()}")
    own.mkdir()
    try:
        _write_json(own / "request", _request(called, expanded))
        return _follow_answers(own, real, words)
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _with_standard(program: str, standard: str, words: list[str]) -> list[str]:
    """Raise older C++ standards among the arguments. A call that names none gets the new one.

    CMake leaves out a standard that is the compiler's default.
    """
    found: list[str] = []
    for word in words:
        shape = _VALUE if found and found[-1] in {"-std", "--std"} else _OPTION
        found.append(word if word.startswith("-D") else shape.sub(partial(_raised, standard), word))
    new = f"-std={'c' if program == 'nvcc' else 'gnu'}++{standard}"
    names_one = any(word in {"-std", "--std"} or _OPTION.search(word) for word in found)
    is_cxx = any(Path(word).suffix in _CXX_SOURCES for word in found)
    return found if names_one or not is_cxx or not _compiles_or_links(found) else [new, *found]


def _raised(standard: str, option: re.Match[str]) -> str:
    older = option["year"] in _STANDARDS and _STANDARDS[option["year"]] < int(standard)
    return f"{option['name']}{standard}" if older else option[0]


def _header_options(program: str) -> list[str]:
    """Return options that replace the path of Python's headers in the output with the same path on every machine."""
    headers = os.environ.get("WHEELSMITH_PYTHON_HEADERS")
    named = [f"-ffile-prefix-map={headers}={_HEADERS}"] if headers else []
    return ["-Xcompiler", *named] if named and program == "nvcc" else named


def _request(called: str, words: list[str]) -> dict[str, Any]:
    """Return the request.

    If the call is too long or its environment changes the compiler, the request leads to the answer to run the original
    call.
    """
    program = Path(called).name
    altering = (*_ALTERING_VARIABLES["gcc"], *_ALTERING_VARIABLES.get(program, ()))
    # nvcc includes the path of the source in the names of its local symbols.
    places = {word: os.path.realpath(word) for word in words if word.endswith(".cu")}
    request = {
        "program": called if any(map(os.environ.get, altering)) else program,
        "words": words,
        "places": places,
    }
    if len(json.dumps(request)) <= _LONGEST_REQUEST:
        return request
    return {"program": called, "words": [word for word in words if word == "-c"], "places": {}}


def _follow_answers(own: Path, real: str, words: list[str]) -> int:
    number = 0
    while True:
        answer = _read_json(own / f"answer-{number}")
        if "lines" in answer:
            return _finish(own, answer, [real, *words])
        commands = answer.get("commands") or [[real, *words]]
        code = 0
        for argv in commands:
            code = code or _run(argv)
        _write_json(own / f"done-{number}", {"code": code})
        number += 1


def _finish(own: Path, answer: dict[str, Any], argv: list[str]) -> int:
    if output := answer["output"]:
        try:
            _copy_object(own / "object", Path(output))
        except OSError:
            return _run(argv)  # for the compiler's own error message
    for line in answer["lines"]:
        sys.stderr.write(f"{line}\n")
    return int(answer["code"])


def _copy_object(made: Path, output: Path) -> None:
    """Copy an object to its place as an assembler does: remove an existing file first, which may have other links."""
    if output.exists() and output.stat().st_size and (output.is_symlink() or output.is_file()):
        output.unlink()
    shutil.copyfile(made, output)


def _run(argv: list[str]) -> int:
    sys.stdout.flush()
    code = os.spawnvp(os.P_WAIT, argv[0], argv)  # noqa: S606  # the original call or one from wheelsmith
    return code if code >= 0 else 128 - code


def _real_compiler(called: Path) -> str:
    """Return the path of the real compiler: ``nvcc.bin`` in the same folder, or the next one on PATH."""
    real = called.with_name(_NVCC)
    if called.name == "nvcc" and real.exists():
        return str(real)
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = Path(folder, called.name)
        if path.parent.resolve() != called.parent.resolve() and os.access(path, os.X_OK):
            return str(path)
    sys.exit(f"wheelsmith: {called.name} is not on PATH")


def _compiles_or_links(words: list[str]) -> bool:
    """Return True if a call compiles or links, and not only prints something."""
    queries = {"-E", "-M", "-MM", "--preprocess", "--dryrun", "-dryrun", "-###"}
    return ("-c" in words or "-o" in words or "--compile" in words) and not queries & set(words)


def _with_variables(program: str, words: list[str]) -> list[str]:
    """Add the arguments that nvcc takes from NVCC_PREPEND_FLAGS and NVCC_APPEND_FLAGS."""
    if program != "nvcc":
        return words
    first, last = (_split(program, os.environ.get(name, "")) for name in _NVCC_VARIABLES)
    return [*(["@"] if first is None else first), *words, *(["@"] if last is None else last)]


def _expanded(program: str, words: list[str], depth: int) -> list[str]:
    """Replace option files with their content, if all compilers split it in the same way."""
    found: list[str] = []
    rest = iter(words)
    for word in rest:
        if program == "nvcc":
            named = next(rest, "") if word in {"--options-file", "-optf"} else ""
            original = [word, named] if named else [word]
        else:
            named, original = word[1:] if word.startswith("@") else "", [word]
        inner = _split(program, _read_text(named)) if named and depth < _DEEPEST else None
        found += original if inner is None else _expanded(program, inner, depth + 1)
    return found


def _split(program: str, text: str | None) -> list[str] | None:
    """Split the text of an option file, or return None if the compiler may split it differently."""
    if text is None or _SPECIAL_CHARACTERS[program if program == "nvcc" else "gcc"] & set(text):
        return None
    try:
        return shlex.split(text)
    except ValueError:
        return None


def _read_text(name: str) -> str | None:
    """Return the content of a text file, or None if it cannot be read or is too long."""
    try:
        with Path(name).open(encoding="utf-8") as file:
            text = file.read(_LONGEST_FILE + 1)
    except (OSError, UnicodeError):
        return None
    return text if len(text) <= _LONGEST_FILE else None


def _write_json(path: Path, data: dict[str, Any]) -> None:
    # Rename, so that the reader never sees an incomplete file.
    half = path.with_name(f"{path.name}~")
    half.write_text(json.dumps(data), encoding="utf-8")
    half.rename(path)


def _read_json(path: Path) -> dict[str, Any]:
    wait = _FIRST_WAIT
    while not path.exists():
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return data


if __name__ == "__main__":
    sys.exit(launch(sys.argv[1], sys.argv[2:]))
