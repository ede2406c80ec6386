"""Find GPU code in a file, wherever it lies: no section's name is asked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.allowance import UnpackBudget
from wheelsmith.wheel.gpu.code import GpuCode, capability, joined
from wheelsmith.wheel.gpu.cubin import read_cubin
from wheelsmith.wheel.gpu.extent import FileSlice
from wheelsmith.wheel.gpu.fatbin import BEGINNING, REGISTRATION, REGISTRATION_VERSIONS, of_cubin, read_container
from wheelsmith.wheel.gpu.ptx import HEAD, QUOTED_HEAD, read_ptx

_CHUNK = 4 << 20  # bytes
_OVERLAP = 4096  # bytes of the next chunk that are looked at too, so that nothing is cut in two
_HEAD = 64 << 10  # bytes, in which PTX begins: a licence may stand before it
_ELF = b"\x7fELF"
_EM_AMDGPU = b"\xe0\0"
# https://clang.llvm.org/docs/ClangOffloadBundler.html, https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html
_BUNDLE, _SPIRV = b"__CLANG_OFFLOAD_BUNDLE__", b"\x03\x02\x23\x07"
# Code that looks for ELF files has the first four bytes as a number, and instructions after them. Of the class, the
# order of bytes and the version of ELF, which come next, even a cubin that was tampered with has one right.
_CUBIN = re.compile(rb"\x7fELF(?:\x02[\s\S]{2}|[\s\S]\x01[\s\S]|[\s\S]{2}\x01)[\s\S]{11}\xbe\0")
_LONGEST_MARK = 256  # bytes; PTX may have more white space between its directives, and then is no PTX of a compiler's
_VERSION = b".version"
# What cudaGetErrorString says of cudaErrorInsufficientDriver: only the runtime itself holds it.
_RUNTIME = b"CUDA driver version is insufficient for CUDA runtime version"
_POINTER = 8  # bytes, to which what holds a pointer is aligned
_COMMENTS = re.compile(rb"\s*+(?:(?://[^\n]*\n|/\*[^*]*+(?:\*(?!/)[^*]*+)*+\*/)\s*+)*+")
_KERNEL = re.compile(rb"\.(?:entry|func)\b")
_MOST_MISTAKES = 20
_LINKED = (b"\2\0", b"\3\0")  # e_type of programs and libraries
_ZIP = b"PK\x03\x04"
# Source code of any language, templates of it, and documentation.
_TEXTS = (
    *(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".ipynb", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh"),
    *(".hpp", ".hxx", ".inc", ".inl", ".ipp", ".def", ".td", ".mlir", ".ll", ".s", ".asm", ".rs", ".go", ".jl"),
    *(".js", ".ts", ".java", ".lua", ".sh", ".in", ".jinja", ".j2", ".mako", ".tmpl", ".tpl", ".template", ".cmake"),
    *(".md", ".rst", ".txt", ".html", ".htm", ".xml", ".tex", ".yaml", ".yml", ".toml", ".csv", ".patch", ".diff"),
)


class GpuCodeMarks:
    """Whether a file that is read once, piece by piece, may hold GPU code: then it is worth reading as a whole."""

    def __init__(self) -> None:
        self.found = False
        self._end = b""  # of the last piece: a mark may be cut in two

    def update(self, piece: bytes) -> None:
        """Look at the next piece."""
        if not self.found:
            data = self._end + piece
            self.found = BEGINNING in data or _CUBIN.search(data) is not None or QUOTED_HEAD.search(data) is not None
            self._end = data[-_LONGEST_MARK:]


def other_gpu_vendor(head: bytes) -> str | None:
    """Return for whose GPUs the code is that begins a file, where they are not NVIDIA's."""
    if head.startswith(_BUNDLE) or (head.startswith(_ELF) and head[18:20] == _EM_AMDGPU):
        return "AMD"
    return "Vulkan or OpenCL" if head.startswith(_SPIRV) and head[6:8] == b"\1\0" else None


def read_gpu_code(file: BinaryIO, size: int, allowance: UnpackBudget, name: str = "") -> GpuCode:
    """Read all the GPU code in a file: containers, cubins and PTX, at any place.

    :param file: seekable; it is read in pieces.
    :param size: of the file, in bytes.
    :param allowance: of the wheel that the file is from.
    :param name: of the file; source code and documentation speak of PTX, and hold none.
    """
    whole = FileSlice(file=file, start=0, size=size)
    codes: list[GpuCode] = []
    mistakes = 0
    for code in _found(whole, allowance, name):
        codes.append(code)
        mistakes += len(code.mistakes)
        if mistakes >= _MOST_MISTAKES:
            break
    return joined(codes)


def _found(whole: FileSlice, allowance: UnpackBudget, name: str) -> Iterator[GpuCode]:
    head = whole.read(0, min(_HEAD, whole.size))
    if _begins_as_ptx(head):
        yield _placed(_whole_ptx(whole, allowance), 0)
        return
    if maker := other_gpu_vendor(head):
        yield GpuCode(others=frozenset({maker}))
    text_counts = _is_held(name, head)
    within = containers = registered = 0
    contained: list[GpuCode] = []
    known: set[int] = set()  # what begins within the last container
    for at, what in _marks(whole):
        rest = whole.part(at, whole.size - at)
        if at >= within:  # the end of the last container or cubin
            known.clear()
        if what == BEGINNING:
            container = read_container(rest, allowance)
            containers += 1
            known.update(at + offset for offset in container.contents)
            within = max(within, at + container.size)
            contained += container.codes
            yield from (_placed(code, at) for code in container.codes)
        elif what == _ELF and at not in known:
            code, size = _bare_cubin(rest, allowance)
            within = max(within, at + size)
            yield _placed(code, at)
        elif what == _VERSION and at >= within and text_counts:
            yield _text(rest, allowance)
        elif what == _RUNTIME:
            yield GpuCode(runtime=True)
        registered += what == REGISTRATION and at >= within and at % _POINTER == 0
    if registered and head.startswith(_ELF):
        yield from _registered(registered, containers, joined(contained), linked=head[16:18] in _LINKED)


def _registered(registered: int, containers: int, code: GpuCode, *, linked: bool) -> Iterator[GpuCode]:
    """Compare what an ELF file registers with CUDA's runtime with the containers in it.

    :param code: what these hold together.
    :param linked: whether it is a program or a library; what lies in object files comes to be linked.
    """
    if registered > containers:
        yield GpuCode(mistakes=(f"it registers {registered} fatbins, and {containers} can be found in it",))
    if linked and (code.intermediate or code.relocatable) and not (code.machine_code or code.ptx):
        yield GpuCode(mistakes=("it registers fatbins, and all that they hold has yet to be linked: no GPU runs that",))


def _marks(whole: FileSlice) -> Iterator[tuple[int, bytes]]:
    """Find what may be the beginning of GPU code, in the order in which it lies there."""
    for start in range(0, whole.size, _CHUNK):
        chunk = whole.read(start, min(_CHUNK + _OVERLAP, whole.size - start))
        marks = [(at, BEGINNING) for at in _places(chunk, BEGINNING)]
        marks += [
            (at, REGISTRATION) for at in _places(chunk, REGISTRATION) if chunk[at + 4 : at + 8] in REGISTRATION_VERSIONS
        ]
        marks += [(at, _RUNTIME) for at in _places(chunk, _RUNTIME)]
        marks += [(at, _ELF) for at in _places(chunk, _ELF) if _CUBIN.match(chunk, at)]
        marks += [(at, _VERSION) for at in _places(chunk, _VERSION) if QUOTED_HEAD.match(chunk, at)]
        yield from ((start + at, what) for at, what in sorted(marks))


def _places(chunk: bytes, mark: bytes) -> Iterator[int]:
    at = chunk.find(mark)
    while 0 <= at < _CHUNK:
        yield at
        at = chunk.find(mark, at + 1)


def _bare_cubin(rest: FileSlice, allowance: UnpackBudget) -> tuple[GpuCode, int]:
    try:
        cubin = read_cubin(rest)
        allowance.take(cubin.size)
    except WheelError as error:
        return GpuCode(mistakes=(f"a cubin: {error.message}",)), len(_ELF)
    return of_cubin(cubin, cubin.capability), cubin.size


def _is_held(name: str, head: bytes) -> bool:
    """Say whether PTX in a file is held by it, and not what a text is about."""
    # What a zip archive has as it is comes under its own name, too.
    return not (name.lower().endswith(_TEXTS) or ".dist-info/" in name or head.startswith(_ZIP))


def _begins_as_ptx(head: bytes) -> bool:
    comments = _COMMENTS.match(head)
    return comments is not None and HEAD.match(head, comments.end()) is not None


def _whole_ptx(whole: FileSlice, allowance: UnpackBudget) -> GpuCode:
    try:
        allowance.take_text(whole.size)
        ptx = read_ptx(whole.read(0, whole.size))
    except WheelError as error:
        return GpuCode(mistakes=(f"PTX: {error.message}",))
    return GpuCode(ptx=frozenset({ptx.capability}), ptx_versions=frozenset({ptx.version}))


def _text(rest: FileSlice, allowance: UnpackBudget) -> GpuCode:
    """Read PTX that is a string of a program; how much of it is PTX, the program may decide."""
    try:
        allowance.take(_OVERLAP)
    except WheelError as error:
        return GpuCode(mistakes=(f"PTX: {error.message}",))
    text = rest.read(0, min(_OVERLAP, rest.size)).partition(b"\0")[0]
    head = QUOTED_HEAD.match(text)
    if head is None or not _KERNEL.search(text):
        return GpuCode()
    return GpuCode(
        ptx=frozenset({capability(int(head[2]), head[3].decode())}), ptx_versions=frozenset({head[1].decode()})
    )


def _placed(code: GpuCode, at: int) -> GpuCode:
    return replace(code, mistakes=tuple(f"at byte {at:#x}: {mistake}" for mistake in code.mistakes))
