"""Read the parts of a wheel that the rules check, once and on demand."""

from __future__ import annotations

import configparser
import itertools
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from configparser import ConfigParser
from contextlib import contextmanager
from dataclasses import dataclass
from email.message import Message
from functools import cached_property, reduce
from importlib.metadata import EntryPoint
from operator import and_
from pathlib import Path
from typing import BinaryIO, Self, cast

from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from wheelsmith.base.errors import WheelError
from wheelsmith.base.units import is_prerelease
from wheelsmith.base.zip_archive import Archive, Member
from wheelsmith.frameworks import LocalVersion, framework, frameworks, read_local_version, read_prerelease_facts
from wheelsmith.model import TORCH, WheelName, WheelSpec, read_wheel_name
from wheelsmith.wheel.archive import Digest, Hasher, RecordFile, info_folder, open_archive, read_headers, read_record
from wheelsmith.wheel.elf import Extension, is_cpu_elf, read_extension
from wheelsmith.wheel.gpu import GpuCode, read_gpu_code
from wheelsmith.wheel.python_code import CALLS, LibraryLoad, read_loads
from wheelsmith.wheel.recorded_plan import RecordedPlan, read_recorded_plan
from wheelsmith.wheel.requirements import (
    Environment,
    FrameworkRequirement,
    WheelRequirements,
    applies,
    environments,
    framework_requirement,
    parse_requires_python,
    read_requirements,
    requirements_for,
)
from wheelsmith.wheel.symbol_resolution import SymbolResolver
from wheelsmith.wheel.variant_format import NULL

_PROGRAM_GROUPS = ("console_scripts", "gui_scripts")
_ELF = b"\x7fELF"
_GPU_FILES = (".ptx", ".cubin", ".fatbin")
_MAX_IN_MEMORY = 8 << 20  # bytes; a larger file is written to a temporary one


class Inspection:
    """One wheel and its plan. Close it to remove the unpacked files.

    :param path: path of the wheel.
    :param expected: the planned wheel; None without a plan.
    :param declared: patterns of files that are intended, although they are outside of its import packages.
    :raises WheelError: the file cannot be read as a wheel.
    """

    def __init__(self, path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()) -> None:
        self.path = path
        self.expected = expected
        self.declared = declared
        self.archive = open_archive(path)
        self._unpacked: tempfile.TemporaryDirectory[str] | None = None
        try:
            self.info: str = info_folder(self.archive)
            self.name: WheelName = read_wheel_name(path.name)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the wheel and remove the unpacked files."""
        self.archive.close()
        if self._unpacked:
            self._unpacked.cleanup()

    @property
    def files(self) -> tuple[str, ...]:
        """Every file, by its path in the wheel."""
        return tuple(self.archive.files)

    @property
    def digests(self) -> dict[str, Digest]:
        """Path in the wheel → size and hash; the hash has the algorithm that RECORD uses."""
        return self._scan.digests

    @property
    def binaries(self) -> tuple[str, ...]:
        """Every file that may contain machine code: ELF files, and files with GPU code or with a suffix for it."""
        return (*self._scan.elf, *self._scan.gpu_files)

    @property
    def elf_files(self) -> tuple[str, ...]:
        """Every ELF file for a CPU."""
        return tuple(self._scan.elf)

    def open_elf_file(self, name: str) -> BinaryIO:
        """Open one of ``elf_files``. The caller must close it."""
        return self._scan.elf[name].open("rb")

    def info_file(self, name: str) -> bytes | None:
        """Return the content of a file in the ``.dist-info`` folder, or None if there is no such file."""
        path = f"{self.info}/{name}"
        return self.archive.read(path) if path in self.archive.members else None

    @cached_property
    def metadata_file(self) -> bytes:
        """The bytes of METADATA."""
        return self.archive.read(f"{self.info}/METADATA")

    @cached_property
    def record(self) -> RecordFile:
        """The RECORD, parsed."""
        return read_record(self.archive.read(f"{self.info}/RECORD"))

    @cached_property
    def metadata(self) -> Message[str, str]:
        """The headers of METADATA."""
        return read_headers(self.metadata_file)

    @cached_property
    def wheel_headers(self) -> Message[str, str]:
        """The headers of WHEEL."""
        return read_headers(self.archive.read(f"{self.info}/WHEEL"))

    @cached_property
    def programs(self) -> tuple[EntryPoint, ...]:
        """The entry points of the groups ``console_scripts`` and ``gui_scripts``.

        :raises WheelError: ``entry_points.txt`` cannot be read.
        """
        parser = ConfigParser(delimiters=("=",), interpolation=None)
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        try:
            parser.read_string((self.info_file("entry_points.txt") or b"").decode())
        except (configparser.Error, ValueError) as error:
            raise WheelError(f"entry_points.txt cannot be read: {str(error).splitlines()[0][:200]}") from None
        groups = [group for group in _PROGRAM_GROUPS if parser.has_section(group)]
        return tuple(EntryPoint(name, value, group) for group in groups for name, value in parser.items(group))

    @cached_property
    def recorded_plan(self) -> RecordedPlan | None:
        """The plan that the wheel records, or None.

        :raises WheelError: it cannot be read.
        """
        return read_recorded_plan(self.archive, self.info)

    @property
    def extensions(self) -> dict[str, Extension]:
        """Path in the wheel → ELF file, for each one that can be read."""
        return self._read_elf_files[0]

    @property
    def broken_extensions(self) -> dict[str, str]:
        """Path in the wheel → error, for each ELF file that cannot be read."""
        return self._read_elf_files[1]

    @cached_property
    def _read_elf_files(self) -> tuple[dict[str, Extension], dict[str, str]]:
        read, broken = {}, {}
        for name in self.elf_files:
            try:
                with self.open_elf_file(name) as file:
                    read[name] = read_extension(name, file)
            except WheelError as error:
                broken[name] = error.message
        return read, broken

    @cached_property
    def resolver(self) -> SymbolResolver:
        """The resolver of libraries and symbols that the ELF files need."""
        platforms = frozenset(tag.platform for tag in self.name.tags)
        torch = self.torch_requirement
        required = frozenset(canonicalize_name(line.name) for line in self.requirements.lines)
        releases = torch.releases if torch else None
        named, build = self._required_frameworks, self.torch_prerelease
        return SymbolResolver(self.extensions, platforms, self.compute, releases, named, required, build)

    @cached_property
    def _required_frameworks(self) -> dict[str, SpecifierSet]:
        """Framework → allowed versions, for each framework that every environment requires."""
        found = {}
        for project in [each.project for each in frameworks().values() if each.exports()]:
            lines = requirements_for(project, self.requirements.lines)
            if lines and all(any(applies(line, where) for line in lines) for where in self.environments):
                # A line with a marker does not apply to all environments.
                specifiers = (line.specifier for line in lines if line.marker is None)
                found[project] = reduce(and_, specifiers, SpecifierSet())
        return found

    def python_files_with(self, *words: bytes) -> dict[str, bytes]:
        """Return the Python files that contain one of these words: path → source."""
        sources = ((name, self.archive.read(name)) for name in self.files if name.endswith(".py"))
        return {name: source for name, source in sources if any(word in source for word in words)}

    @cached_property
    def library_loads(self) -> frozenset[LibraryLoad]:
        """The calls in the wheel's Python code that load libraries."""
        words = (*(name.encode() for name in CALLS), b"setdlopenflags")
        return frozenset[LibraryLoad]().union(*map(read_loads, self.python_files_with(*words).values()))

    @cached_property
    def gpu_code(self) -> dict[str, GpuCode]:
        """Path in the wheel → GPU code, for each file that contains some or the CUDA runtime."""
        found = dict(self._scan.gpu_files)
        for name in self.elf_files:
            with self.open_elf_file(name) as file:
                found[name] = read_gpu_code(file, file.seek(0, os.SEEK_END), name)
        return {name: code for name in self.binaries if (code := found[name]).present or code.runtime}

    @cached_property
    def local_version(self) -> LocalVersion:
        """The parsed local version."""
        return read_local_version(self.name.version.local)

    @cached_property
    def variant_label(self) -> LocalVersion:
        """The parsed label of a variant wheel. The null variant counts as ``cpu``."""
        label = self.name.label
        return LocalVersion(compute="cpu") if label == NULL else read_local_version((label or "").replace("_", "."))

    @property
    def compute(self) -> str | None:
        """The compute platform in the version or variant label, e.g. ``cpu``, ``cu130`` or ``cu13``; or None."""
        return self.local_version.compute or self.variant_label.compute

    @property
    def torch_release(self) -> str | None:
        """The torch release in the local version, or None."""
        return self.local_version.torch

    @property
    def torch_prerelease(self) -> str | None:
        """The build of torch that a wheel for a pre-release needs, ``2.16.0rc2+cu130``; None for other wheels."""
        release = self.torch_release
        return f"{release}+{self.compute}" if release and is_prerelease(release) else None

    @property
    def archs(self) -> frozenset[str]:
        """The CPU architectures of the ELF files."""
        return frozenset(extension.arch for extension in self.extensions.values())

    @cached_property
    def requirements(self) -> WheelRequirements:
        """The parsed Requires-Dist lines."""
        return read_requirements(self.metadata.get_all("Requires-Dist", []))

    @cached_property
    def environments(self) -> list[Environment]:
        """The environments that the tags and Requires-Python allow."""
        return environments(
            self.name.tags, parse_requires_python(self.metadata.get("Requires-Python")) or SpecifierSet()
        )

    @cached_property
    def torch_requirement(self) -> FrameworkRequirement | None:
        """The combined requirement for torch, or None if the wheel does not require it."""
        return self.framework_requirement(TORCH)

    def framework_requirement(self, name: str) -> FrameworkRequirement | None:
        """Return the combined requirement for a framework, or None if the wheel does not require it."""
        known = framework(name)
        build, named = self.torch_prerelease, self.torch_release
        is_known = name == TORCH and build and any(read_prerelease_facts(build, arch) for arch in self.archs)
        prereleases = [str(named)] if is_known else []
        lines, allowed = self.requirements.lines, self.environments
        return framework_requirement(known.project, lines, allowed, tuple(known.releases()), prereleases)

    @cached_property
    def _scan(self) -> ContentScan:
        return scan_contents(self.archive, self.record, self._folder)

    def _folder(self) -> Path:
        if self._unpacked is None:
            self._unpacked = tempfile.TemporaryDirectory(prefix="wheelsmith-check-")
        return Path(self._unpacked.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentScan:
    """The result of reading every file of a wheel once.

    :param digests: file → size and hash, with the algorithm that RECORD uses.
    :param elf: ELF file for a CPU → path of the unpacked copy, which several rules read.
    :param gpu_files: other file → its GPU code. These files are not unpacked.
    """

    digests: dict[str, Digest]
    elf: dict[str, Path]
    gpu_files: dict[str, GpuCode]


def scan_contents(archive: Archive, record: RecordFile, folder: Callable[[], Path]) -> ContentScan:
    """Read every file once, in chunks.

    :param folder: returns the folder to unpack to. It is called only if a file must be unpacked.
    :raises WheelError: a file differs from the archive's directory, or there is no disk space to unpack it.
    """
    digests, elf, gpu_files = {}, {}, {}
    for number, (name, member) in enumerate(archive.files.items()):
        hasher = Hasher(record.algorithm(name))
        chunks = hasher.hash_chunks(archive.chunks(name))
        first = next(chunks, b"")
        content = itertools.chain((first,), chunks)
        with _report_full_disk(name):
            if is_cpu_elf(first):
                elf[name] = folder() / str(number)
                with elf[name].open("wb") as file:
                    file.writelines(content)
            else:
                code = _gpu_code(content, member)
                if code.present or first.startswith(_ELF) or name.lower().endswith(_GPU_FILES):
                    gpu_files[name] = code
        digests[name] = hasher.digest()
    return ContentScan(digests=digests, elf=elf, gpu_files=gpu_files)


def _gpu_code(chunks: Iterable[bytes], member: Member) -> GpuCode:
    # A wheel may hold thousands of cubins, each of a few dozen kB.
    with tempfile.SpooledTemporaryFile(_MAX_IN_MEMORY) as spooled:
        spooled.writelines(chunks)
        # It has all methods that are used here, but its type is not BinaryIO.
        return read_gpu_code(cast("BinaryIO", spooled), member.size, member.name)


@contextmanager
def _report_full_disk(name: str) -> Iterator[None]:
    """Raise WheelError with a remedy if a file cannot be written."""
    try:
        yield
    except OSError as error:
        raise WheelError(
            f"{name} cannot be unpacked: {error.strerror or error}",
            remedy="set TMPDIR to a folder with more space",
        ) from None
