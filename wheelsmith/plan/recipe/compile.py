"""The compile and link commands, equivalent to those of kernel-builder's CMake files.

All paths are fixed paths inside the sandbox, because compilers embed them in their output.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from posixpath import splitext

from wheelsmith.base import sandbox_paths
from wheelsmith.frameworks import HIPIFY, Framework
from wheelsmith.model import Step, StepKind
from wheelsmith.platforms import CPU, DeviceCompile, Platform, platforms

_HOST_SUFFIXES = {".cpp", ".cc", ".cxx", ".c"}
HEADER_SUFFIXES = {".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc"}
# Folder below the kernel's source for generated headers.
OWN_HEADERS = "wheelsmith-headers"
_STUBS = "build/stubs"
_TRANSLATOR = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/translate.py"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTarget:
    """The settings that all sources of an extension share.

    :param framework: the framework that loads the extension.
    :param cxx: the C++ compiler.
    :param gcc: the folder of GCC's libraries if the compiler is pinned; None otherwise.
    :param cxx_std: the C++ standard, e.g. 17.
    :param platform: the platform of the toolkit; None for a CPU build.
    :param toolkit: the toolkit's ``major.minor``.
    :param home: the toolkit's folder in the sandbox.
    :param release: the framework's release whose headers are used.
    :param stable_abi: the framework's release whose stable ABI is the target, or None.
    :param cxx11_abi: False compiles for a framework that was built without the C++11 ABI.
    :param light_headers: replace torch/all.h by a shorter header.
    :param libraries: names of header libraries that every source can include.
    :param python: ``libraries`` contains CPython's headers.
    :param functions: C functions that the extension must define.
    """

    framework: Framework
    cxx: str
    gcc: str | None
    cxx_std: int
    platform: Platform | None
    toolkit: str | None
    home: str
    namespace: str
    release: str
    stable_abi: str | None
    cxx11_abi: bool | None = True
    light_headers: bool = False
    libraries: tuple[str, ...] = ()
    python: bool = False
    functions: tuple[str, ...] = ()

    @property
    def defines(self) -> tuple[str, ...]:
        """The macros that kernel sources expect, as compiler arguments."""
        abi = ("-D_GLIBCXX_USE_CXX11_ABI=0",) if self.cxx11_abi is False else ()
        return (*self.framework.defines(self.namespace, self.backend, self.stable_abi), *abi)

    @property
    def backend(self) -> str:
        """kernel-builder's name of the compute platform."""
        return self.platform.name if self.platform else CPU

    @property
    def includes(self) -> tuple[str, ...]:
        """The compiler arguments for the header folders of every source."""
        own = ["-isystem", f"{sandbox_paths.SOURCE}/{OWN_HEADERS}"] if self.light_headers or self.python else []
        found = ["-I", f"{sandbox_paths.SOURCE}/csrc", *own]
        for folder in self.framework.include:
            found += ["-isystem", f"{self.framework.mount_point}/{folder}"]
        for library in self.libraries:
            found += ["-isystem", f"{sandbox_paths.LIBRARIES}/{library}/include"]
        # nvcc finds its own headers, but g++ needs their folder.
        return (*found, *(("-isystem", f"{self.home}/include") if self.platform else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGroup:
    """Sources with the same flags: the binding, or a kernel section."""

    src: tuple[str, ...]
    include: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    device_flags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


def compile_steps(groups: tuple[SourceGroup, ...], target: CompileTarget) -> Iterator[Step]:
    """Yield a step for each source to compile; headers have none.

    A source in several sections is compiled once, with the flags and capabilities of all of them. CMake's source
    properties have the same effect.
    """
    for source in dict.fromkeys(path for group in groups for path in group.src):
        group = _merged(source, tuple(group for group in groups if source in group.src))
        suffix = splitext(source)[1]
        if platform := _compiles(suffix, target.platform):
            yield _translated(_device(source, group, target, platform), target)
        elif suffix in _HOST_SUFFIXES:
            yield _translated(_host(source, group, target), target)


def _merged(source: str, groups: tuple[SourceGroup, ...]) -> SourceGroup:
    wanted = dict.fromkeys(text for group in groups for text in group.capabilities)
    return SourceGroup(
        src=(source,),
        include=tuple(dict.fromkeys(folder for group in groups for folder in group.include)),
        cxx_flags=tuple(flag for group in groups for flag in group.cxx_flags),
        device_flags=tuple(flag for group in groups for flag in group.device_flags),
        capabilities=tuple(text for text in wanted if f"{text}+PTX" not in wanted),
    )


def is_known_source(path: str) -> bool:
    """Return True if a file in ``src`` can be compiled or included."""
    suffix = splitext(path)[1]
    return suffix in _HOST_SUFFIXES or suffix in HEADER_SUFFIXES or _compiles(suffix) is not None


def is_device_source(path: str) -> bool:
    """Return True if a file is compiled for GPUs."""
    return _compiles(splitext(path)[1]) is not None


def _compiles(suffix: str, preferred: Platform | None = None) -> Platform | None:
    """Return the platform whose compiler compiles sources with a suffix, or None."""
    candidates = (*((preferred,) if preferred else ()), *platforms().values())
    return next((each for each in candidates if suffix in each.device_suffixes), None)


def _translated(step: Step, target: CompileTarget) -> Step:
    """Return a step that translates its source from CUDA first, if the platform requires it."""
    if not (target.platform and target.platform.translates_cuda):
        return step
    hipify = f"{target.framework.mount_point}/{HIPIFY}"
    command = ("python3", _TRANSLATOR, hipify, sandbox_paths.SOURCE, str(step.source), *step.argv)
    return replace(step, kind=target.platform.step_kind, argv=command)


def stub_steps(target: CompileTarget) -> tuple[Step, ...]:
    """Return the steps that build empty libraries with the names of the framework's.

    Python loads the framework's libraries privately, so the extension must link them by name. Linking the stubs avoids
    a download of 500 MB of torch. The wheel check verifies that the real libraries export the symbols that are used.
    """
    return tuple(
        Step(
            kind=StepKind.STUB,
            output=f"{_STUBS}/{name}",
            inputs=(),
            argv=(
                *(target.cxx, "-shared", "-nostdlib", "-x", "c++", "/dev/null"),
                *(f"-Wl,-soname,{name}", "-Wl,--build-id=none", "-o", f"{_STUBS}/{name}"),
            ),
        )
        for name in target.framework.libraries(target.backend)
    )


def link_step(objects: tuple[str, ...], stubs: tuple[str, ...], output: str, target: CompileTarget) -> Step:
    """Return the step that links the extension module."""
    libraries = ["-Wl,--no-as-needed", *stubs]
    if target.platform and target.toolkit:
        preloaded = target.framework.loads_cuda
        libraries += target.platform.runtime(target.toolkit, target.home, preloaded=preloaded)
    libraries.append("-Wl,--as-needed")
    return Step(
        kind=StepKind.LINK,
        output=output,
        inputs=(*objects, *stubs),
        argv=(
            *(target.cxx, "-shared", "-o", output, *objects, *libraries),
            *(f"-Wl,--require-defined={name}" for name in target.functions),
            *("-Wl,-s", "-Wl,--build-id=none", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
        ),
    )


def check_step(command: tuple[str, ...], library: str, output: str) -> Step:
    """Return the step that checks the extension module.

    :param command: a Python script with its arguments.
    """
    return Step(kind=StepKind.CHECK, output=output, inputs=(library,), argv=command)


def _object(source: str) -> str:
    return f"build/obj/{source}.o"


def _host(source: str, group: SourceGroup, target: CompileTarget) -> Step:
    output = _object(source)
    return Step(
        kind=StepKind.CXX,
        output=output,
        inputs=(f"src/{source}",),
        source=source,
        argv=(
            *(
                target.cxx,
                f"-std=c++{target.cxx_std}" if not source.endswith(".c") else "-xc",
                "-O3",
                "-DNDEBUG",
            ),
            *("-fPIC", "-fno-gnu-unique", *target.defines),
            *(f"-I{sandbox_paths.SOURCE}/{folder}" for folder in group.include),
            *(*target.includes, *group.cxx_flags, "-c", f"{sandbox_paths.SOURCE}/{source}", "-o", output),
        ),
    )


def _device(source: str, group: SourceGroup, target: CompileTarget, platform: Platform) -> Step:
    step = DeviceCompile(
        home=target.home if target.platform is platform else platform.mount_point,
        cxx=target.cxx,
        gcc=target.gcc,
        cxx_std=target.cxx_std,
        defines=target.defines,
        capabilities=group.capabilities,
        own_include=tuple(f"-I{sandbox_paths.SOURCE}/{folder}" for folder in group.include),
        include=target.includes,
        flags=group.device_flags,
        source=f"{sandbox_paths.SOURCE}/{source}",
        output=_object(source),
    )
    return Step(
        kind=platform.step_kind,
        output=step.output,
        inputs=(f"src/{source}",),
        source=source,
        gpu_archs=group.capabilities,
        argv=platform.command(step),
    )
