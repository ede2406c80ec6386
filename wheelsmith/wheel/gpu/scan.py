"""Find GPU code anywhere in a file, independent of section names."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO

from wheelsmith.base.errors import WheelError
from wheelsmith.wheel.gpu.code import FileSlice, GpuCode, combine_gpu_code
from wheelsmith.wheel.gpu.fatbin import CONTAINER_MARK, PTX_HEAD, ptx_from_head, read_container, read_cubin, read_ptx
from wheelsmith.wheel.gpu.offload_bundle import (
    BUNDLE_MARK,
    COMPRESSED_MARK,
    EM_AMDGPU,
    read_bundle,
    read_compressed_bundle,
    read_processor,
)

_CHUNK = 4 << 20  # bytes
_OVERLAP = 4096  # bytes of the next chunk that are also searched, for code at the boundary of two chunks
_HEAD = 64 << 10  # bytes; a PTX file may begin with a licence, and its first directives must be in this range
_ELF = b"\x7fELF"
_CUBIN, _EM_CUDA = b"\x7fELF\x02\x01\x01", b"\xbe\0"
_EM_AMDGPU = struct.pack("<H", EM_AMDGPU)
_LINKED = (b"\2\0", b"\3\0")  # e_type of programs and libraries
_SPIRV = b"\x03\x02\x23\x07"  # https://registry.khronos.org/SPIR-V/specs/unified1/SPIRV.html
_VERSION = b".version"
_KERNEL = re.compile(rb"\.(?:entry|func)\b")
# A program registers one such record for each container at its start: magic, version (2 after nvlink), pointers.
_REGISTRATION = struct.pack("<I", 0x466243B1)
_REGISTRATION_VERSIONS = (struct.pack("<I", 1), struct.pack("<I", 2))
_POINTER = 8  # bytes; alignment of records with pointers
_BUNDLES = {BUNDLE_MARK: read_bundle, COMPRESSED_MARK: read_compressed_bundle}
_COMPRESSED_FORMS = {struct.pack("<HH", version, method) for version in (1, 2, 3) for method in (0, 1)}
# The message of cudaErrorInsufficientDriver, which only the CUDA runtime contains.
_RUNTIME = b"CUDA driver version is insufficient for CUDA runtime version"
# Suffixes of source code, templates and documentation. PTX in such files is an example or a template.
_TEXT_SUFFIXES = (
    *(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".ipynb", ".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh"),
    *(".hpp", ".hxx", ".inc", ".inl", ".ipp", ".def", ".td", ".mlir", ".ll", ".s", ".asm", ".rs", ".go", ".jl"),
    *(".js", ".ts", ".java", ".lua", ".sh", ".in", ".jinja", ".j2", ".mako", ".tmpl", ".tpl", ".template", ".cmake"),
    *(".md", ".rst", ".txt", ".html", ".htm", ".xml", ".tex", ".yaml", ".yml", ".toml", ".csv", ".patch", ".diff"),
)


def read_gpu_code(file: BinaryIO, size: int, name: str = "") -> GpuCode:
    """Read all GPU code in a file: containers, cubins and PTX.

    :param file: seekable; it is read in chunks.
    :param size: size of the file, in bytes.
    :param name: name of the file, to recognize source code and documentation.
    """
    content = FileSlice(file=file, start=0, size=size)
    head = content.read(0, min(_HEAD, size))
    if ptx := read_ptx(head):
        return ptx
    scan = _Scan(content, is_text=name.lower().endswith(_TEXT_SUFFIXES) or ".dist-info/" in name)
    scan.run()
    codes = scan.codes
    if head[18:20] == _EM_AMDGPU and head.startswith(_ELF):
        codes.append(_read_code_object(content))
    if head.startswith(_SPIRV) and head[6:8] == b"\1\0":
        codes.append(GpuCode(other_vendors=frozenset({"Vulkan or OpenCL"})))
    if scan.registered and head.startswith(_ELF):
        codes += scan.registration_mistakes(linked=head[16:18] in _LINKED)
    return combine_gpu_code(codes)


def _read_code_object(content: FileSlice) -> GpuCode:
    try:
        return GpuCode(machine_code=frozenset({read_processor(content)}))
    except WheelError as error:
        return GpuCode(mistakes=(error.message,))


class _Scan:
    """Searches a file once for marks, and reads the GPU code at each.

    :param is_text: True if the file is source code or documentation, so that PTX in it does not count.
    """

    def __init__(self, content: FileSlice, *, is_text: bool) -> None:
        self.codes: list[GpuCode] = []
        self.registered = 0
        self._content = content
        self._is_text = is_text
        self._contained: list[GpuCode] = []
        self._containers = 0
        self._end = 0  # of the last container or cubin

    def run(self) -> None:
        at = 0
        while at < self._content.size:
            chunk = self._content.read(at, min(_CHUNK + _OVERLAP, self._content.size - at))
            for offset, mark in sorted(_find_marks(chunk)):
                if at + offset >= self._end:
                    self._read_mark(mark, at + offset)
            at = max(at + _CHUNK, self._end)

    def _read_mark(self, mark: bytes, at: int) -> None:
        rest = self._content.part(at, self._content.size - at)
        if mark == CONTAINER_MARK:
            container = read_container(rest)
            self._end = at + container.size
            self._containers += 1
            self._contained += container.codes
            self.codes += (_with_offset(code, at) for code in container.codes)
        elif mark in _BUNDLES:
            if bundle := _BUNDLES[mark](rest):
                self._end = at + bundle.size
                self.codes += (_with_offset(code, at) for code in bundle.codes)
            elif mark == BUNDLE_MARK and at == 0:  # elsewhere it may be a text in a program that reads bundles
                self.codes.append(GpuCode(mistakes=("it is an offload bundle that cannot be read",)))
        elif mark == _CUBIN:
            self._read_cubin(rest)
        elif mark == _VERSION and not self._is_text:
            # The program decides how much of the string it compiles.
            text = rest.read(0, min(_OVERLAP, rest.size)).partition(b"\0")[0]
            if (head := PTX_HEAD.match(text)) and _KERNEL.search(text):
                self.codes.append(ptx_from_head(head))
        elif mark == _RUNTIME:
            self.codes.append(GpuCode(runtime=True))
        elif mark == _REGISTRATION and at % _POINTER == 0:
            self.registered += 1

    def _read_cubin(self, rest: FileSlice) -> None:
        try:
            cubin = read_cubin(rest)
        except WheelError as error:
            self.codes.append(_with_offset(GpuCode(mistakes=(f"a cubin: {error.message}",)), rest.start))
        else:
            self._end = rest.start + cubin.size
            self.codes.append(cubin.code(cubin.capability))

    def registration_mistakes(self, *, linked: bool) -> Iterator[GpuCode]:
        """Compare the containers that an ELF file registers with the CUDA runtime with those found in it.

        :param linked: True for programs and libraries. The code of object files is linked later.
        """
        code = combine_gpu_code(self._contained)
        if self.registered > self._containers:
            mistake = f"it registers {self.registered} fatbins, but contains only {self._containers}"
            yield GpuCode(mistakes=(mistake,))
        if linked and (code.intermediate or code.relocatable) and not (code.machine_code or code.ptx):
            mistake = "it registers fatbins, but all their code still has to be linked, so no GPU can run it"
            yield GpuCode(mistakes=(mistake,))


def _find_marks(chunk: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the offset of each possible start of GPU code, with its mark."""
    for mark in (CONTAINER_MARK, _CUBIN, _VERSION, _REGISTRATION, _RUNTIME, *_BUNDLES):
        at = chunk.find(mark)
        while 0 <= at < _CHUNK:
            if _is_mark(mark, chunk, at):
                yield at, mark
            at = chunk.find(mark, at + 1)


def _is_mark(mark: bytes, chunk: bytes, at: int) -> bool:
    if mark == _CUBIN:
        return chunk[at + 18 : at + 20] == _EM_CUDA
    if mark == _VERSION:
        return PTX_HEAD.match(chunk, at) is not None
    if mark == COMPRESSED_MARK:  # the mark is short, so look at the version and the method, too
        return chunk[at + 4 : at + 8] in _COMPRESSED_FORMS
    return mark != _REGISTRATION or chunk[at + 4 : at + 8] in _REGISTRATION_VERSIONS


def _with_offset(code: GpuCode, at: int) -> GpuCode:
    return replace(code, mistakes=tuple(f"at byte {at:#x}: {mistake}" for mistake in code.mistakes))
