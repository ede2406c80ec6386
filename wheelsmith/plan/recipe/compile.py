"""The compile and link commands, as kernel-builder's CMake files would give them.

Paths are those inside the sandbox, fixed, so that what compilers embed of them never differs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from wheelsmith.base import sandbox_paths
from wheelsmith.frameworks import Framework
from wheelsmith.model import Step, StepKind
from wheelsmith.platforms import CPU, DeviceCompile, Platform, platforms

_HOST_SUFFIXES = {".cpp", ".cc", ".cxx", ".c"}
HEADER_SUFFIXES = {".h", ".hpp", ".hh", ".hxx", ".cuh", ".inl", ".inc"}
# Where headers of our own are written, under the kernel's source.
OWN_HEADERS = "wheelsmith-headers"
_STUBS = "build/stubs"


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileTarget:
    """What all sources of one extension have in common.

    :param framework: what calls the extension.
    :param cxx: the C++ compiler to call.
    :param cxx_std: the C++ standard's year, e.g. 17.
    :param platform: whose toolkit it is compiled with; None is a CPU build.
    :param toolkit: as ``major.minor``.
    :param home: where the toolkit lies inside the sandbox.
    :param stable_abi: the torch release of the stable ABI to target, or None.
    :param cxx11_abi: False compiles for a framework that was built without the C++11 ABI.
    :param light_headers: True lets torch/all.h be our own short one.
    :param libraries: names of libraries of headers that every source sees.
    :param python: CPython's headers are among them.
    """

    framework: Framework
    cxx: str
    cxx_std: int
    platform: Platform | None
    toolkit: str | None
    home: str
    namespace: str
    stable_abi: str | None
    cxx11_abi: bool | None = True
    light_headers: bool = False
    libraries: tuple[str, ...] = ()
    python: bool = False

    @property
    def defines(self) -> tuple[str, ...]:
        """Return the macros that kernel sources rely on."""
        abi = ("-D_GLIBCXX_USE_CXX11_ABI=0",) if self.cxx11_abi is False else ()
        return (*self.framework.defines(self.namespace, self.backend, self.stable_abi), *abi)

    @property
    def backend(self) -> str:
        """Return kernel-builder's name for the compute platform."""
        return self.platform.name if self.platform else CPU

    @property
    def includes(self) -> tuple[str, ...]:
        """Return the header folders that every source sees."""
        own = ["-isystem", f"{sandbox_paths.SOURCE}/{OWN_HEADERS}"] if self.light_headers or self.python else []
        found = ["-I", f"{sandbox_paths.SOURCE}/csrc", *own]
        for folder in self.framework.include:
            found += ["-isystem", f"{self.framework.place}/{folder}"]
        for library in self.libraries:
            found += ["-isystem", f"{sandbox_paths.LIBRARIES}/{library}/include"]
        # nvcc finds its own headers; sources for the host compiler need to be told.
        return (*found, *(("-isystem", f"{self.home}/include") if self.platform else ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceGroup:
    """Sources that share their flags: the binding, or one kernel section."""

    src: tuple[str, ...]
    include: tuple[str, ...] = ()
    cxx_flags: tuple[str, ...] = ()
    device_flags: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()


def compile_steps(groups: tuple[SourceGroup, ...], target: CompileTarget) -> Iterator[Step]:
    """Yield one step for each source that is compiled; headers are none.

    A source that several sections name is compiled once, with the flags and capabilities of all of them: that is
    what CMake's source properties come to.
    """
    for source in dict.fromkeys(path for group in groups for path in group.src):
        group = _merged(source, tuple(group for group in groups if source in group.src))
        suffix = PurePosixPath(source).suffix
        if platform := _compiles(suffix):
            yield _device(source, group, target, platform)
        elif suffix in _HOST_SUFFIXES:
            yield _host(source, group, target)


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
    """Say whether a file in ``src`` is one that can be compiled or included."""
    suffix = PurePosixPath(path).suffix
    return suffix in _HOST_SUFFIXES | HEADER_SUFFIXES or _compiles(suffix) is not None


def is_device_source(path: str) -> bool:
    """Say whether a file is compiled for GPUs."""
    return _compiles(PurePosixPath(path).suffix) is not None


def _compiles(suffix: str) -> Platform | None:
    return next((each for each in platforms().values() if each.device_suffix == suffix), None)


def stub_steps(target: CompileTarget) -> tuple[Step, ...]:
    """Return the steps that make empty libraries with the names of the framework's own.

    The extension must name them, because Python loads them privately; linking against stand-ins saves fetching
    500 MB of torch. That they really export what is used is what the wheel's check proves.
    """
    return tuple(
        Step(
            kind=StepKind.STUB,
            output=f"{_STUBS}/{name}.so",
            inputs=(),
            argv=(
                *(target.cxx, "-shared", "-nostdlib", "-x", "c++", "/dev/null"),
                *(f"-Wl,-soname,{name}.so", "-Wl,--build-id=none", "-o", f"{_STUBS}/{name}.so"),
            ),
        )
        for name in target.framework.libraries(target.backend)
    )


def link_step(objects: tuple[str, ...], stubs: tuple[str, ...], output: str, target: CompileTarget) -> Step:
    """Return the step that makes the extension module."""
    libraries = ["-Wl,--no-as-needed", *stubs]
    if target.platform and target.toolkit:
        brought = target.framework.brings_cuda
        libraries += target.platform.runtime(target.toolkit, target.home, brought=brought)
    libraries.append("-Wl,--as-needed")
    return Step(
        kind=StepKind.LINK,
        output=output,
        inputs=(*objects, *stubs),
        argv=(
            *(target.cxx, "-shared", "-o", output, *objects, *libraries),
            *("-Wl,-s", "-Wl,--build-id=none", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"),
        ),
    )


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
        home=target.home if target.platform is platform else platform.place,
        cxx=target.cxx,
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
        kind=StepKind.NVCC,
        output=step.output,
        inputs=(f"src/{source}",),
        source=source,
        gpu_archs=group.capabilities,
        argv=platform.command(step),
    )
