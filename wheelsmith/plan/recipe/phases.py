"""Split a compile step into phases: commands whose result depends only on the bytes of their inputs.

g++ has two phases: preprocess and compile. nvcc has those that ``--dryrun`` prints: preprocess and cudafe++ for the
host; preprocess, cicc and ptxas for each capability; then fatbinary, and g++ for the output of cudafe++.

A phase reads files of earlier phases, so the hashes of these files identify its result. A new capability therefore
costs only its own phases and the last two.
https://docs.nvidia.com/cuda/cuda-compiler-driver-nvcc/#the-cuda-compilation-trajectory
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath

from wheelsmith.base.json_dataclass import Record
from wheelsmith.model import Step, StepKind


class PhaseKind(StrEnum):
    """The program of a phase, for progress and cost estimates."""

    PREPROCESS = "preprocess"
    CUDAFE = "cudafe++"
    CICC = "cicc"
    PTXAS = "ptxas"
    FATBINARY = "fatbinary"
    HOST = "g++"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase(Record):
    """A command of a compile step. Paths are absolute in the sandbox or relative to its work folder.

    :param target: the capability that it compiles for, in nvcc's form: ``90a``; empty for the host.
    :param reads: file that it reads → file that an earlier phase wrote.
    :param writes: files that later phases read, or the object.
    """

    kind: PhaseKind
    target: str
    argv: tuple[str, ...]
    reads: dict[str, str]
    writes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The display name: ``cicc 90a``."""
        return f"{self.kind} {self.target}".strip()


class NotSplittableError(Exception):  # internal; callers run the step as one command instead
    """The step may depend on more than its declared inputs."""


# Options that neither run a program nor read a file that the kernel chooses. Steps with other options are not split.
_SAFE = re.compile(
    r"-O[0-3sg]?|-Ofast|-[DU][A-Za-z_]\w*(=.*)?|-I.+|-isystem|--?std=[a-z0-9+]+|-w|-pthread|-g[0-2]?|-pipe|-pedantic|-ansi"
    r"|-f(file|debug|macro|profile)-prefix-map=[^,\s\"'&;|<>()#]*|-Wp,-[DU][A-Za-z_]\w*(=\w*)?"
    r"|-f(?!plugin|input-charset|preprocessed|directives|module|dump|profile|auto-profile|branch-prob|test-cov|save|compare-debug|lto|sanitize-|instrument)[A-Za-z][A-Za-z0-9=+_.,-]*"
    r"|-m[a-z0-9][a-z0-9=+_.,-]*|-W(?![alp],)[a-z][a-z0-9=+_,-]*"
    r"|-use_fast_math|--use_fast_math|--expt-[a-z-]+|-lineinfo|--generate-line-info|--extra-device-vectorization"
    r"|-gencode=arch=compute_\w+,code=\w+|--ptxas-options=[\w=,-]+|--(ftz|fmad|prec-div|prec-sqrt)=\w+"
    r"|-maxrregcount=\d+|--maxrregcount=\d+|-diag-suppress=[\d,]+|--diag-suppress=[\d,]+"
    r"|-default-stream=[a-z-]+|--default-stream=[a-z-]+|-objtemp|-xc|-ftemplate-backtrace-limit=\d+"
    r"|--generate-code=arch=compute_\w+,code=(\w+|\[\w+(,\w+)*\])|--?forward-unknown-to-host-compiler"
    r"|(-t|--?threads)=\d+|--?allow-unsupported-compiler|--?extended-lambda|--?compress-mode=\w+|--?static-global-template-stub=\w+"
)
# These options only affect unsplit steps. wheelsmith runs phases in parallel itself.
_THREADS = ("-t", "-threads", "--threads")
# Options with the value as the next argument. It must not begin with @, because g++ replaces @file by the file's text.
_FOLDER, _MACRO = re.compile(r"[^@-].*"), re.compile(r"[A-Za-z_]\w*(=.*)?")
# Options for preprocessing only.
_PREPROCESSOR_OPTIONS = ("-I", "-isystem", "-iquote", "-idirafter", "-include", "-imacros")
_SAFE_VALUES = {
    **dict.fromkeys(_PREPROCESSOR_OPTIONS, _FOLDER),
    **dict.fromkeys(("-D", "-U"), _MACRO),
    "--diag_suppress": re.compile(r"[\w,]+"),
    "-Xptxas": re.compile(r"(-v|-O[0-4]|-dlcm=\w+|-dscm=\w+|--warn-on-\w[\w-]*|-warn-[\w-]+)(,-[\w=-]+)*"),
    "--ptxas-options": re.compile(r"(-v|-O[0-4])(,-[\w=-]+)*"),
    "-Xcudafe": re.compile(r"--(diag_suppress|display_error_number)(=\w+)?"),
    "-Xfatbin": re.compile(r"-compress-all"),
    "-x": re.compile(r"cu"),
    **dict.fromkeys(_THREADS, re.compile(r"\d+")),
    "-gencode": re.compile(r"arch=compute_\w+,code=\w+"),
}
# -march=native, also followed by a plus, or a file of options, which may contain it.
_NATIVE = re.compile(r"(.*=)?native(?![\w.-]).*|@.+|(--options-file|-optf)(=.*)?", re.DOTALL)
# nvcc's options that pass arguments to g++.
_HOST_OPTIONS, _HOST_OPTIONS_NEXT = "--compiler-options=", "-Xcompiler"
_SAFE_FOR_HOST = re.compile(r"-([fmOWwDU]|pthread)[\w=+.,/:@%~-]*")  # only characters that a shell passes on
_REPLACED = re.compile(r"[\\$`{\n]")  # by a shell, also in the double quotes that nvcc adds


def check_splittable(step: Step) -> None:
    """Reject a step with options that could run a program or read files that are not preprocessed.

    :raises NotSplittableError: the message is the option.
    """
    if step.kind is StepKind.HIP:
        raise NotSplittableError(step.kind)
    if any(word.startswith("@") for word in _split_words(step)):
        raise NotSplittableError("@file")
    # nvcc -ccbin g++ … -c source -o output
    words = iter(step.argv[3 if step.kind is StepKind.NVCC else 1 : -4])
    for word in words:
        if word == _HOST_OPTIONS_NEXT or word.startswith(_HOST_OPTIONS):
            value = next(words, "") if word == _HOST_OPTIONS_NEXT else word.removeprefix(_HOST_OPTIONS)
            parts = split_by_nvcc(value)
            if not parts or not all(_SAFE_FOR_HOST.fullmatch(part) and _SAFE.fullmatch(part) for part in parts):
                raise NotSplittableError(f"{word} {value}")
        elif shape := _SAFE_VALUES.get(word):
            value = next(words, "")
            if not shape.fullmatch(value):
                raise NotSplittableError(f"{word} {value}")
        elif not _SAFE.fullmatch(word):
            raise NotSplittableError(word)


def depends_on_machine(step: Step) -> bool:
    """Return True if a step may compile for the machine that it runs on, which no hash of its inputs contains."""
    with suppress(NotSplittableError):
        return any(_NATIVE.fullmatch(word) for word in _split_words(step))
    return True


def _split_words(step: Step) -> Iterator[str]:
    """Yield the arguments of a step as its compilers split them. g++ splits those of -Wp, -Wa and -Wl."""
    for word in step.argv:
        yield from split_by_nvcc(word) if step.kind is StepKind.NVCC else word.split(",")


def split_by_nvcc(value: str) -> list[str]:
    """Split an argument as nvcc does at commas, and then as the shell does that runs nvcc's commands.

    :raises NotSplittableError: the shell could replace a part of it.
    """
    if _REPLACED.search(value):
        raise NotSplittableError(value)
    lexer = shlex.shlex(value, posix=True)
    lexer.commenters, lexer.whitespace, lexer.whitespace_split = "", ", \t\r", True
    try:
        return list(lexer)
    except ValueError:  # a quote is not closed
        raise NotSplittableError(value) from None


def single_phase(step: Step) -> tuple[Phase, ...]:
    """Return a step as a single phase."""
    return (Phase(kind=PhaseKind.WHOLE, target="", argv=step.argv, reads={}, writes=(step.output,)),)


def host_phases(step: Step) -> tuple[Phase, ...]:
    """Return the two phases of a g++ step."""
    c = "-xc" in step.argv
    text = f"{step.output}.{'i' if c else 'ii'}"
    source = step.argv[-3]
    options = tuple(_without_preprocessor(step.argv[:-4]))
    return (
        Phase(
            kind=PhaseKind.PREPROCESS,
            target="",
            argv=(*step.argv[:-4], "-E", source, "-o", text),
            reads={},
            writes=(text,),
        ),
        Phase(
            kind=PhaseKind.HOST,
            target="",
            argv=(*options, *(("-xcpp-output",) if c else ()), "-c", text, "-o", step.output),
            reads={text: text},
            writes=(step.output,),
        ),
    )


def _without_preprocessor(argv: tuple[str, ...]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        if word in {*_PREPROCESSOR_OPTIONS, "-D", "-U"}:
            next(words)
        elif word != "-xc" and not word.startswith(("-I", "-D", "-U", "-Wp,")):
            yield word


def dry_run(step: Step) -> tuple[str, ...]:
    """Return the command that prints the phases of an nvcc step, in sequence."""
    return (step.argv[0], "--dryrun", *_without_threads(step.argv[1:]))


def _without_threads(argv: tuple[str, ...]) -> Iterator[str]:
    words = iter(argv)
    for word in words:
        if word in _THREADS:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in _THREADS)):
            yield word


def device_phases(step: Step, printed: str) -> tuple[Phase, ...]:
    """Parse the phases that nvcc printed.

    :param printed: the output of the command of ``dry_run``.
    :raises NotSplittableError: the output contains something unknown.
    """
    if step.kind is not StepKind.NVCC:
        raise NotSplittableError(step.kind)
    reader = _DryRun(step)
    try:
        for line in printed.splitlines():
            reader.read(line)
    except (ValueError, LookupError, StopIteration) as error:
        raise NotSplittableError(f"unknown line: {error}") from error
    return reader.phases()


class _DryRun:
    """Parses a dry run line by line. It renames files so that names do not depend on the other capabilities."""

    def __init__(self, step: Step) -> None:
        self._output = step.output
        self._home = step.argv[0].removesuffix("/bin/nvcc")
        self._cxx = step.argv[step.argv.index("-ccbin") + 1]
        self._names: dict[str, str] = {step.output: step.output}
        self._stub = ""
        self._found: list[Phase] = []

    def read(self, line: str) -> None:
        """Parse one line."""
        if not line.startswith("#$ "):
            raise NotSplittableError(line)
        text = line[3:].strip()
        if re.match(r"[A-Z_]+=", text) or text.startswith("rm "):
            return
        argv = shlex.split(text)
        readers = {"cudafe++": self._cudafe, "ptxas": self._ptxas, "fatbinary": self._fatbinary}
        program = argv[0]
        if program == self._cxx:
            (self._preprocess if "-E" in argv else self._host)(argv)
        elif program in {"$CICC_PATH/cicc", "cicc"}:
            self._cicc(argv)
        elif program in readers:
            readers[program](argv)
        else:
            raise NotSplittableError(text)

    def phases(self) -> tuple[Phase, ...]:
        """Return all phases.

        :raises NotSplittableError: a phase reads a file that no phase writes, or the last one does not write the
            object.
        """
        made: set[str] = set()
        for phase in self._found:
            if not made.issuperset(phase.reads.values()):
                raise NotSplittableError(f"{phase.name} reads a file that no phase writes")
            made.update(phase.writes)
        if not self._found or self._found[-1].writes != (self._output,):
            raise NotSplittableError("no phase writes the object")
        return tuple(self._found)

    def _preprocess(self, argv: list[str]) -> None:
        old = _value(argv, "-o")
        feature = next((w for w in argv if w.startswith("-D__CUDA_ARCH__=")), None)
        if feature is None:
            self._add(PhaseKind.PREPROCESS, "", argv, {old: ".cpp4.ii"}, ())
            return
        # Only the file name distinguishes sm_90 from sm_90a. With a single capability, the macros do.
        match = re.fullmatch(r".*\.compute_(\w+)\.cpp1\.ii", old)
        target = match[1] if match else feature.removeprefix("-D__CUDA_ARCH__=").removesuffix("0") + _suffix(argv)
        self._add(PhaseKind.PREPROCESS, target, argv, {old: f".compute_{target}.cpp1.ii"}, ())

    def _cudafe(self, argv: list[str]) -> None:
        argv[0] = f"{self._home}/bin/cudafe++"
        writes = {
            _value(argv, "--gen_c_file_name"): ".cudafe1.cpp",
            _value(argv, "--module_id_file_name"): ".module_id",
        }
        # cudafe++ only includes this file. cicc writes it.
        argv[argv.index("--stub_file_name") + 1] = f"{PurePosixPath(self._output).name}.cudafe1.stub.c"
        self._add(PhaseKind.CUDAFE, "", argv, writes, (_only(argv, ".cpp4.ii"),))

    def _cicc(self, argv: list[str]) -> None:
        argv[0] = f"{self._home}/nvvm/bin/cicc"
        target = _value(argv, "-arch").removeprefix("compute_")
        # Rename unused by-products too.
        for option, suffix in (("--gen_c_file_name", "c"), ("--gen_device_file_name", "gpu")):
            self._rename(_value(argv, option), f".compute_{target}.cudafe1.{suffix}")
        stub = f".compute_{target}.cudafe1.stub.c"
        writes = {_value(argv, "-o"): f".compute_{target}.ptx", _value(argv, "--stub_file_name"): stub}
        reads = (_only(argv, ".cpp1.ii"), _value(argv, "--module_id_file_name"))
        self._add(PhaseKind.CICC, target, argv, writes, reads)
        # nvcc may use one stub name for all capabilities. g++ compiles the last one.
        self._stub = self._output + stub

    def _ptxas(self, argv: list[str]) -> None:
        argv[0] = f"{self._home}/bin/ptxas"
        target = next(word for word in argv if word.startswith("-arch=")).removeprefix("-arch=sm_")
        reads = tuple(word for word in argv if word.endswith(".ptx"))
        self._add(PhaseKind.PTXAS, target, argv, {_value(argv, "-o"): f".sm_{target}.cubin"}, reads)

    def _fatbinary(self, argv: list[str]) -> None:
        argv[0] = f"{self._home}/bin/fatbinary"
        reads = tuple(word.rpartition("file=")[2] for word in argv if word.startswith("--image3="))
        made = next(word for word in argv if word.startswith("--embedded-fatbin=")).partition("=")[2]
        self._rename(next(word for word in argv if word.startswith("--create=")).partition("=")[2], ".fatbin")
        self._add(PhaseKind.FATBINARY, "", argv, {made: ".fatbin.c"}, reads)

    def _host(self, argv: list[str]) -> None:
        reads = [word for word in argv if word.endswith(".cudafe1.cpp")]
        if len(reads) != 1 or "-c" not in argv:
            raise NotSplittableError("unknown call of g++")
        self._add(PhaseKind.HOST, "", argv, {_value(argv, "-o"): ""}, (reads[0],))
        # The output of cudafe++ includes these two files.
        included = {f"{self._output}.cudafe1.stub.c": self._stub}
        included[f"{self._output}.fatbin.c"] = f"{self._output}.fatbin.c"
        last = self._found[-1]
        self._found[-1] = replace(last, reads={**last.reads, **included})

    def _add(
        self, kind: PhaseKind, target: str, argv: list[str], writes: dict[str, str], reads: tuple[str, ...]
    ) -> None:
        if not re.fullmatch(r"\w*", target):  # it becomes part of file names
            raise NotSplittableError(f"unexpected name of a capability: {target}")
        for old, suffix in writes.items():
            self._rename(old, suffix)
        made = (self._names.get(name, name) for name in reads)
        phase = Phase(
            kind=kind,
            target=target,
            argv=tuple(self._renamed(word) for word in argv),
            reads={name: name for name in made},
            writes=tuple(self._output + suffix for suffix in writes.values()),
        )
        self._found.append(phase)

    def _rename(self, old: str, suffix: str) -> None:
        if not old.startswith(self._output):
            raise NotSplittableError(f"unexpected name of a temporary file: {old}")
        self._names[old] = self._output + suffix

    def _renamed(self, word: str) -> str:
        if word in self._names:
            return self._names[word]
        # All these names begin with the name of the object.
        option, equals, rest = word.partition(f"={self._output}")
        new = self._names.get(self._output + rest) if equals else None
        return f"{option}={new}" if new else word


def _value(argv: list[str], option: str) -> str:
    try:
        return argv[argv.index(option) + 1]
    except (ValueError, IndexError):
        raise NotSplittableError(f"{option} is missing") from None


def _only(argv: list[str], suffix: str) -> str:
    found = [word for word in argv if word.endswith(suffix)]
    if len(found) != 1:
        raise NotSplittableError(f"{len(found)} files end in {suffix}")
    return found[0]


def _suffix(argv: list[str]) -> str:
    features = [word for word in argv if word.startswith("-D__CUDA_ARCH_FEAT_SM")]
    families = [word for word in argv if word.startswith("-D__CUDA_ARCH_FAMILY_SPECIFIC__")]
    return "a" if features else "f" if families else ""


def needs_source(phase: Phase) -> bool:
    """Return True if a phase reads the kernel's source and torch's headers."""
    return phase.kind in {PhaseKind.PREPROCESS, PhaseKind.WHOLE}
