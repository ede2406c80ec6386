"""Make each prefix once, share it among processes, and detect later changes."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING

from filelock import FileLock

from wheelsmith.base.beneath import make_read_only, remove_tree
from wheelsmith.base.errors import NoEnvironmentError, ToolchainError
from wheelsmith.base.files import mark_used, publish_tree
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.base.sandbox_paths import SOURCE_DATE_EPOCH
from wheelsmith.base.sanitize import join_truncated
from wheelsmith.model import Listener, LockedWheel, Notice, PrefixId
from wheelsmith.plan.lock import EnvironmentRequest
from wheelsmith.platforms import cuda_toolkits
from wheelsmith.platforms.host_compilers import KIND as CXX
from wheelsmith.toolchain.build_tools import install_tools, tools_digest
from wheelsmith.toolchain.environment import LAYOUT as ENVIRONMENT_LAYOUT
from wheelsmith.toolchain.environment import install_wheel, link_wheels, locate_wheels, make_cpu_environment
from wheelsmith.toolchain.integrity import content_hash, find_change, find_change_by_content, write_manifest
from wheelsmith.toolchain.pip import PipSettings, pip_settings
from wheelsmith.toolchain.program import run_in_parallel
from wheelsmith.toolchain.progress import report_preparation
from wheelsmith.toolchain.project_toolkit import HOME, LAYOUT, assemble_toolkit
from wheelsmith.toolchain.resolve import FoundWheel, find_wheels, lock_environment, read_lock
from wheelsmith.toolchain.uv import Uv

if TYPE_CHECKING:
    from wheelsmith.toolchain.downloads import SharedFiles

# nvcc, the programs that it calls, and the bitcode library that cicc reads.
_COMPILERS = (
    *("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)

Answer = tuple[LockedWheel, ...] | NoEnvironmentError


class Toolchains:
    """The read-only folders in a cache, named by the digests of their contents.

    :param cache: a folder for all projects of a user. Several processes may use it at the same time.
    :param cancel: stops long installations when it is set.
    :param shared: files that machines share.
    :param indexes: addresses of package indexes before those of pip.
    """

    def __init__(
        self,
        cache: Path,
        listen: Listener,
        cancel: Event | None = None,
        shared: SharedFiles | None = None,
        indexes: tuple[str, ...] = (),
    ) -> None:
        self._root = cache / "prefix"
        self._listen = listen
        self._cancel = cancel or Event()
        self._shared = shared
        self._indexes = indexes
        self._verified: set[Path] = set()

    def find(self, prefix: PrefixId) -> Path | None:
        """Return the prefix if it is in the cache."""
        path = self._path(prefix)
        return path if path.is_dir() else None

    def prepare(self, prefix: PrefixId) -> Path:
        """Return the prefix. Fetch and make it if it is not in the cache.

        :raises ToolchainError: it cannot be made.
        """
        from wheelsmith.toolchain.downloads import PrefixFiles
        from wheelsmith.toolchain.prefix_builder import make_prefix

        final = self._path(prefix)

        def make(folder: Path) -> None:
            with tempfile.TemporaryDirectory(dir=self._root) as scratch:
                files = PrefixFiles(name=final.name, scratch=Path(scratch), listen=self._listen, shared=self._shared)
                make_prefix(prefix, folder, files)

        return self._get_or_make(final, make)

    def programs(self, prefix: PrefixId) -> dict[str, str]:
        """Return the current hash of each compiler in a prefix: path below the prefix → sha256 (hex).

        The cache stores an object under the actual compiler, not the pinned one. The result is empty for prefixes
        without compilers. A toolkit in an image is identified by its bytes already.
        """
        if prefix.kind not in {"cuda", CXX}:
            return {}
        from wheelsmith.toolchain.cxx.install import find_programs

        root = self.prepare(prefix)
        names = _COMPILERS if prefix.kind == "cuda" else find_programs(root)
        return {name: content_hash(root, name) for name in names}

    def tools(self) -> Path:
        """Return the folder with the tools that run a build inside a sandbox: build, ninja and the backend."""
        return self._get_or_make(self._root / f"tools-{tools_digest()[:16]}", install_tools)

    def lock(
        self, requirements: tuple[str, ...], python: str, arch: str, preferred: tuple[str, ...] = ()
    ) -> tuple[LockedWheel, ...]:
        """Return the exact wheels that these requirements resolve to.

        :param preferred: alternatives to the first requirement, if an index has them.
        :raises NoEnvironmentError: the requirements cannot be resolved.
        """
        request = EnvironmentRequest(requirements=requirements, rather=preferred, python=python, arch=arch)
        (answer,) = self.lock_all([request])
        if isinstance(answer, NoEnvironmentError):
            raise answer
        return answer

    def lock_all(self, requests: Sequence[EnvironmentRequest], *, refresh: bool = False) -> list[Answer]:
        """Return the exact wheels for each request, or why there are none.

        :param refresh: resolve again, even if the cache has a result.
        """
        found: dict[EnvironmentRequest, Answer | None]
        found = {each: None if refresh else read_lock(self._lock_path(each)) for each in requests}
        if missing := [each for each, wheels in found.items() if not wheels]:
            title = f"resolving {len(missing)} build environments"
            if len(missing) == 1:
                requirements = join_truncated(missing[0].requirements)
                title = f"resolving requirements for Python {missing[0].python}: {requirements}"
            with report_preparation(title, self._listen):
                tasks = [partial(self._resolve, each, self._uv(each.python, each.arch)) for each in missing]
                found |= zip(missing, run_in_parallel(tasks, self._cancel), strict=True)
        return [answer for each in requests if (answer := found[each]) is not None]

    def _resolve(self, request: EnvironmentRequest, uv: Uv) -> Answer:
        try:
            return lock_environment(request.requirements, uv, self._lock_path(request), preferred=request.rather)
        except NoEnvironmentError as error:
            return error

    def _lock_path(self, request: EnvironmentRequest) -> Path:
        key = [request.requirements, request.python, request.arch, *([request.rather] if request.rather else [])]
        return self._root.parent / "locks" / f"{canonical_digest(key)[:32]}.json"

    def look_up(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> tuple[FoundWheel, ...]:
        """Return exactly these wheels as the user's indexes have them.

        :raises NoEnvironmentError: one of them is not available.
        """
        return find_wheels(wheels, self._uv(python, arch))

    def _uv(self, python: str, arch: str) -> Uv:
        cache = self._root.parent / "uv"
        return Uv(settings=self._settings, python=python, arch=arch, cache=cache, cancel=self._cancel)

    @cached_property
    def _settings(self) -> PipSettings:
        """The settings of pip. Reading them starts pip, so this waits until they are needed."""
        settings = pip_settings()
        return replace(settings, indexes=(*self._indexes, *settings.indexes))

    def environment(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        """Return a folder with exactly these wheels installed for a Python. Make it if it is not in the cache."""
        final = self._environment_path(wheels, python, arch)

        def make(folder: Path) -> None:
            with report_preparation(f"installing {_show_wheels(wheels)} for Python {python}", self._listen):
                link_wheels(self._unpack(wheels, python, arch), folder, python)

        return self._get_or_make(final, make)

    def _unpack(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> list[Path]:
        """Return a folder with the content of each wheel. All environments share it."""
        uv = self._uv(python, arch)
        places = {wheel: self._root / f"wheel-{wheel.name}-{_digest((wheel,))[:16]}" for wheel in wheels}
        located = locate_wheels((wheel for wheel, place in places.items() if not place.is_dir()), uv)

        def make(wheel: LockedWheel, folder: Path) -> None:
            install_wheel(located.get(wheel) or locate_wheels([wheel], uv)[wheel], uv, folder)

        tasks = [partial(self._get_or_make, place, partial(make, wheel)) for wheel, place in places.items()]
        return run_in_parallel(tasks, self._cancel)

    def environment_without_cuda(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        """Return the environment for a CPU cell if the torch among the wheels is a CUDA build."""
        whole = self._environment_path(wheels, python, arch)
        return self._get_or_make(
            whole.with_name(f"{whole.name}-cpu"),
            lambda folder: make_cpu_environment(self.environment(wheels, python, arch), folder),
        )

    def _environment_path(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        return self._root / f"environment-{python}-{arch}-{_digest(wheels)[:16]}"

    def complete_toolkit(
        self, toolkit: PrefixId, headers: tuple[PrefixId, ...], wheels: tuple[LockedWheel, ...], python: str
    ) -> Path:
        """Return a toolkit with the CUDA libraries of an environment. Make it if it is not in the cache.

        :param headers: prefixes with further headers.
        """
        arch = toolkit.arch
        digests = [LAYOUT, *(each.digest for each in (toolkit, *headers)), python, _digest(wheels)]

        def make(folder: Path) -> None:
            toolkit_projects = {pin.project for pin in cuda_toolkits()[toolkit.version].packages[arch]}
            parts = [self.prepare(each) for each in (toolkit, *headers)]
            environment = self.environment(wheels, python, arch)
            title = f"assembling CUDA {toolkit.version} with the libraries of {_show_wheels(wheels)}"
            with report_preparation(title, self._listen):
                packages = [wheel for wheel in wheels if wheel.name in toolkit_projects]
                assemble_toolkit(folder, parts[0], parts[1:], environment, packages, arch)

        name = f"toolkit-{toolkit.version}-{arch}-{canonical_digest(digests)[:16]}"
        return self._get_or_make(self._root / name, make) / HOME

    def _path(self, prefix: PrefixId) -> Path:
        return self._root / prefix.name

    def find_changes(self) -> dict[str, str | None]:
        """Compare every byte of every folder with its manifest. Return folder name → change, or None if unchanged."""
        names = (path.name for path in sorted(self._root.glob("[!.]*-*")) if path.is_dir())
        return {name: _describe_change(find_change_by_content, self._root / name) for name in names}

    def _get_or_make(self, final: Path, make: Callable[[Path], None]) -> Path:
        if not (final in self._verified and final.is_dir()):
            try:
                self._verify_or_make(final, make)
            except OSError as error:
                raise ToolchainError(
                    f"{final.name} cannot be written: {error.strerror or error} ({error.filename or self._root})",
                    remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
                ) from error
            self._verified.add(final)
        mark_used(final)
        return final

    def _verify_or_make(self, final: Path, make: Callable[[Path], None]) -> None:
        if final.is_dir() and _describe_change(find_change, final) is None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / f".{final.name}.lock"):
            if not final.is_dir():
                self._make(final, make)
            elif reason := _describe_change(find_change, final):
                self._remake(final, make, reason)

    def _remake(self, final: Path, make: Callable[[Path], None], reason: str) -> None:
        """Make a changed folder again.

        Running builds may have the old folder mounted, so it is renamed, and a later prune removes it.
        """
        message = f"{final.name} has changed since it was made: {reason}"
        self._listen(Notice(level="warning", text=f"{message}; making it again"))
        try:
            self._make(final, make)
        except ToolchainError as error:
            raise ToolchainError(
                f"{message}; and it cannot be made again: {error.message}", remedy=error.remedy
            ) from error

    def _make(self, final: Path, make: Callable[[Path], None]) -> None:
        # This process holds the lock, so such a folder is left over from a killed process.
        for abandoned in self._root.glob(f".{final.name}.part-*"):
            remove_tree(abandoned)
        folder = Path(tempfile.mkdtemp(prefix=f".{final.name}.part-", dir=self._root))
        try:
            make(folder)
            # Line information in GPU code contains the modification time of every header.
            make_read_only(folder, mtime=int(SOURCE_DATE_EPOCH))
            write_manifest(folder, final)
            if final.is_dir():
                final.rename(self._root / f".{final.name}.changed-{secrets.token_hex(4)}")
            publish_tree(folder, final)
        finally:
            remove_tree(folder)


def _digest(wheels: tuple[LockedWheel, ...]) -> str:
    return canonical_digest([ENVIRONMENT_LAYOUT, *(wheel.to_json() for wheel in wheels)])


def _describe_change(check: Callable[[Path], str | None], folder: Path) -> str | None:
    """Return a change of a folder, or None. An unreadable file counts as a change."""
    try:
        return check(folder)
    except OSError as error:
        return f"{error.filename or folder} cannot be read: {error.strerror or error}"


def _show_wheels(wheels: Iterable[LockedWheel]) -> str:
    """Format the names and versions of wheels, torch first."""
    named = sorted(wheels, key=lambda wheel: (wheel.name != "torch", wheel.name))
    return join_truncated([f"{wheel.name} {wheel.version}" for wheel in named])
