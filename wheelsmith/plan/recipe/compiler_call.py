"""Parse compiler calls of a project's own build system, and turn each into a compile step.

Such calls have options that steps of kernels never have: files that list dependencies, nvcc's threads, other spellings.
The real compiler runs calls that this module does not understand.
https://gcc.gnu.org/onlinedocs/gcc/Preprocessor-Options.html
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#nvcc-command-options
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from posixpath import normpath, splitext

from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.model import Step, StepKind
from wheelsmith.plan.recipe.phases import NotSplittableError, Phase, check_splittable, split_by_nvcc

NVCC = "nvcc"
_HOST = ("gcc", "g++")
_C, _CXX, _DEVICE = {".c"}, {".cc", ".cpp", ".cxx", ".c++", ".C", ".cp"}, {".cu"}
# Option → its canonical spelling. The value is the next argument, or follows "=".
_DEPENDENCIES = {
    "-MF": "-MF",
    "--dependency-output": "-MF",
    "-MT": "-MT",
    "--dependency-target-name": "-MT",
    "-MQ": "-MQ",
}
_LISTS = {
    "-MD": "-MD",
    "-MMD": "-MMD",
    "--generate-dependencies-with-compile": "-MD",
    "--generate-nonsystem-dependencies-with-compile": "-MMD",
}
_THREADS = re.compile(r"(--threads|-t)=?\d*")
# Options for which the compiler needs the original source, or with which it writes more than an object. Preprocessed
# text has no comments and another layout, so false warnings are possible, and -Werror would make them fatal.
_NEEDS_SOURCE = re.compile(
    r"(^|[,=])(-f(help|version|target-help|syntax-only|callgraph-info|stack-usage|opt-info|sanitize|self-test|debug-cpp"
    r"|diagnostics-(format|add|set)|deps-|condition-coverage|path-coverage|wpa|ltrans|pch-)|-Werror(=misleading-indentation)?$|-xc$)"
)
_DEBUG = re.compile(r"-g[12]?")
_NAME = re.compile(r"[^A-Za-z0-9_.+-]")
_LONGEST_NAME = 80
# Options with the value as the next argument, which may begin with any character.
_WITH_VALUE = ("-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros", "-D", "-U", "-gencode", "-x")
_NVCC_WITH_VALUE = ("-Xptxas", "--ptxas-options", "-Xcudafe", "-Xfatbin", "--diag_suppress")
_SPELLINGS = {"--define-macro": "-D", "--include-path": "-I"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CompilerCall:
    """A call that compiles one source.

    :param step: a step that produces the same object, with names that do not depend on the build folder.
    :param output: the path of the object, as in the call.
    :param dependency_options: the preprocessor's options for listing dependencies; empty if the call has none.
    """

    step: Step
    output: str
    dependency_options: tuple[str, ...]

    @property
    def source(self) -> str:
        """The source file, as in the call."""
        return self.step.argv[-3]


def compiler_call(program: str, arguments: tuple[str, ...], *, nvcc: str | None) -> CompilerCall:
    """Parse a compiler call.

    :param program: ``gcc``, ``g++`` or ``nvcc``.
    :param arguments: the arguments.
    :param nvcc: the path of nvcc in the sandbox, or None.
    :raises NotSplittableError: it does not compile one source, or has options that may read more than the preprocessed
        text.
    """
    if program not in (*_HOST, *((NVCC,) if nvcc else ())):
        raise NotSplittableError(program)
    # Bytes that are not UTF-8 are lone surrogates here, which are not printable. No cache key can contain them.
    if not all(map(str.isprintable, arguments)):
        raise NotSplittableError("an argument is not text")
    parsed = _Arguments(is_nvcc=program == NVCC)
    parsed.parse(iter(arguments))
    for option in parsed.options:
        if _NEEDS_SOURCE.search(option):
            raise NotSplittableError(option)
    step = _step(program, parsed, nvcc or "")
    check_splittable(step)
    return CompilerCall(
        step=step, output=parsed.only(parsed.outputs, "outputs"), dependency_options=parsed.dependency_options()
    )


def without_debug_information(call: CompilerCall) -> CompilerCall:
    """Return the call of gcc or g++ without ``-g``, for an extension that is stripped when it is linked.

    Debug information does not change the code, but needs a third more time and memory: 56 instead of 42 seconds and 2.1
    instead of 1.6 GiB for a source that includes torch/extension.h of torch 2.13.
    https://gcc.gnu.org/onlinedocs/gcc/Developer-Options.html#index-fcompare-debug
    """
    if call.step.kind is StepKind.NVCC:
        return call
    argv = tuple(word for word in call.step.argv if not _DEBUG.fullmatch(word))
    return replace(call, step=replace(call.step, argv=argv))


def with_source_path(phases: tuple[Phase, ...], source: str, path: str) -> tuple[Phase, ...]:
    """Return the phases with the source's real path, from which nvcc derives the names of file-local symbols.

    :param path: the path of the source, with links resolved.
    """
    named = ("--orig_src_path_name", source)
    found = []
    for phase in phases:
        argv = list(phase.argv)
        for at in range(1, len(argv)):
            if (argv[at - 1], argv[at]) == named:
                argv[at] = path
        found.append(replace(phase, argv=tuple(argv)))
    return tuple(found)


def _step(program: str, parsed: _Arguments, nvcc: str) -> Step:
    source, output = parsed.only(parsed.sources, "sources"), parsed.only(parsed.outputs, "outputs")
    suffix = PurePosixPath(source).suffix
    if normpath(source) == normpath(output):
        raise NotSplittableError("it would overwrite its source")
    if not parsed.compiles or output.startswith(("/dev/", "-", "@")) or source.startswith("@"):
        raise NotSplittableError(f"it does not compile {source} to a file")
    if program == NVCC:
        if suffix not in _DEVICE:
            raise NotSplittableError(f"nvcc itself must compile {suffix or source}")
        kind, head, last = StepKind.NVCC, [nvcc, "-ccbin", parsed.host], ["-objtemp"]
    else:
        if suffix not in _C | _CXX:
            raise NotSplittableError(f"{program} itself must compile {suffix or source}")
        kind, head, last = StepKind.CXX, [program], ["-xc"] if suffix in _C and program == "gcc" else []
    own = f"build/obj/{_safe_name(source)}.o"
    return Step(
        kind=kind, output=own, inputs=(), source=source, argv=(*head, *parsed.options, *last, "-c", source, "-o", own)
    )


def _safe_name(source: str) -> str:
    """Return a file name with safe characters, which depends only on the source's name."""
    name = PurePosixPath(source).name
    safe = _NAME.sub("_", name)[-_LONGEST_NAME:]
    return safe if safe == name else f"{canonical_digest(name)[:12]}-{safe}"


@dataclass(slots=True, kw_only=True)
class _Arguments:
    """The arguments of a compiler, sorted by their meaning."""

    is_nvcc: bool
    options: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)
    host: str = "g++"
    compiles: bool = False
    _lists: str = ""
    _listed: list[str] = field(default_factory=list)

    def parse(self, arguments: Iterator[str]) -> None:
        """Read all arguments."""
        for given in arguments:
            if self._parse_file_option(given, arguments) or (
                self.is_nvcc and self._parse_nvcc_option(given, arguments)
            ):
                continue
            argument = _SPELLINGS.get(given, given)
            if argument in _WITH_VALUE or (self.is_nvcc and argument in _NVCC_WITH_VALUE):
                self.options += (argument, _next_value(arguments, given))
            elif given.startswith("-"):
                self.options.append(given)
            else:
                self.sources.append(given)

    def _parse_file_option(self, argument: str, arguments: Iterator[str]) -> bool:
        """Read an option for the output or for listing dependencies."""
        name, equals, joined = argument.partition("=") if argument.startswith("--") else (argument, "", "")
        if argument in {"-c", "--compile"}:
            self.compiles = True
        elif name in {"-o", "--output-file"}:
            self.outputs.append(joined if equals else _next_value(arguments, argument))
        elif argument in _LISTS:
            self._lists = _LISTS[argument]
        elif name in _DEPENDENCIES:
            self._listed += (_DEPENDENCIES[name], joined if equals else _next_value(arguments, argument))
        elif argument == "-MP":
            self._listed.append(argument)
        else:
            return False
        return True

    def _parse_nvcc_option(self, argument: str, arguments: Iterator[str]) -> bool:
        """Read an option of nvcc for the host compiler, or one that does not affect the output."""
        name, equals, joined = argument.partition("=")
        if name in {"-ccbin", "--compiler-bindir"}:
            self.host = joined if equals else _next_value(arguments, argument)
            if self.host not in _HOST:  # another compiler, or a path
                raise NotSplittableError(argument)
        elif name in {"-Xcompiler", "--compiler-options"}:
            value = joined if equals else _next_value(arguments, argument)
            self.options += (word for part in split_by_nvcc(value) for word in ("-Xcompiler", part))
        elif _THREADS.fullmatch(argument):
            if not argument[-1].isdigit():
                _next_value(arguments, argument)
        elif argument != "-objtemp":
            return False
        return True

    def only(self, found: list[str], what: str) -> str:
        """Return the only item.

        :raises NotSplittableError: there is none or more than one.
        """
        if len(found) != 1:
            raise NotSplittableError(f"{len(found)} {what}")
        return found[0]

    def dependency_options(self) -> tuple[str, ...]:
        """Return the preprocessor's options for listing dependencies, with explicit file and target names.

        Without an object as its output, the preprocessor cannot derive these names itself.
        """
        if not self._lists:
            return ()
        output = self.only(self.outputs, "outputs")
        file = () if "-MF" in self._listed else ("-MF", f"{splitext(output)[0]}.d")
        target = () if {"-MT", "-MQ"} & set(self._listed) else ("-MQ", output)
        return (self._lists, *self._listed, *file, *target)


def _next_value(arguments: Iterator[str], option: str) -> str:
    value = next(arguments, None)
    if value is None:
        raise NotSplittableError(f"{option} has no value")
    return value
