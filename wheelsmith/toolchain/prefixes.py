"""Prepare a prefix once, for every process and for ever."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event

from filelock import FileLock

from wheelsmith.base.beneath import make_read_only, remove_tree
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import mark_used, publish_tree, sha256_file
from wheelsmith.base.printable import some_of
from wheelsmith.base.record import canonical_digest
from wheelsmith.frameworks import framework
from wheelsmith.model import Listener, LockedWheel, Notice, PinnedFile, PinnedPackage, PinnedTree, PrefixId, Preparing
from wheelsmith.platforms import DEVELOPMENT, CudaToolkit, cuda_folder, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.platforms.header_libraries import KIND as LIBRARY
from wheelsmith.platforms.host_compilers import KIND as CXX
from wheelsmith.toolchain.build_tools import lay_out_tools, tools_digest
from wheelsmith.toolchain.complete_toolkit import HOME, LAYOUT, lay_out_toolkit
from wheelsmith.toolchain.cuda_compilers import lay_out_compilers
from wheelsmith.toolchain.cxx.programs import programs_of
from wheelsmith.toolchain.environment import LAYOUT as ENVIRONMENT_LAYOUT
from wheelsmith.toolchain.environment import forget_lock, install_environment, known_lock, lock_environment
from wheelsmith.toolchain.pip_settings import pip_settings
from wheelsmith.toolchain.proof import prove, why_changed, why_unproven
from wheelsmith.toolchain.unpack import unpack
from wheelsmith.toolchain.without_cuda import lay_out_without_cuda, twin_of

# nvcc calls these; cicc reads the last.
_COMPILERS = (
    *("bin/nvcc", "bin/cudafe++", "bin/ptxas", "bin/fatbinary"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)


class Toolchains:
    """Read-only folders under a cache, named by what they are made from.

    :param cache: one folder for all of a user's projects; several processes may use it at once.
    :param cancel: ends what takes long, once it is set.
    """

    def __init__(self, cache: Path, listen: Listener, cancel: Event | None = None) -> None:
        self._root = cache / "prefix"
        self._listen = listen
        self._cancel = cancel
        self._proven: set[Path] = set()

    def find(self, prefix: PrefixId) -> Path | None:
        """Return the prefix if it is here already."""
        path = self._path(prefix)
        return path if path.is_dir() else None

    def prepare(self, prefix: PrefixId) -> Path:
        """Return the prefix, making it from the network if it is not here.

        :raises ToolchainError: it cannot be made, and what fixes that.
        """
        makers = {"cuda": self._cuda, DEVELOPMENT: self._development, LIBRARY: self._library, CXX: self._cxx}
        make = makers.get(prefix.kind, self._framework)
        return self._once(self._path(prefix), lambda folder: make(prefix, folder))

    def programs(self, prefix: PrefixId) -> dict[str, str]:
        """Return the compilers of a prefix by the hash of their bytes, as they are now.

        The pins say what they should be; an object must be kept under what really made it. A toolkit in an image is
        named by its bytes already.
        """
        if prefix.kind not in {"cuda", CXX}:
            return {}
        root = self.prepare(prefix)
        names = _COMPILERS if prefix.kind == "cuda" else programs_of(root)
        return {name: _hash(root / name, _stamp(root / name)) for name in names}

    def tools(self) -> Path:
        """Return the folder with what runs a build inside a sandbox: build, ninja and the backend."""
        return self._once(self._root / f"tools-{tools_digest()[:16]}", lay_out_tools)

    def lock(
        self, requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...] = ()
    ) -> tuple[LockedWheel, ...] | str:
        """Return the exact wheels that these requirements come to, or why there are none.

        :param rather: what is asked for before the first of them, where an index has it.
        """
        folder = self._root.parent / "locks"
        if known := known_lock(requirements, python, arch, folder, rather=rather):
            return known
        with self._preparing(f"choosing wheels for Python {python}: {some_of(requirements)}"):
            return lock_environment(requirements, python, arch, folder, rather=rather)

    def lock_anew(
        self, requirements: tuple[str, ...], python: str, arch: str, rather: tuple[str, ...] = ()
    ) -> tuple[LockedWheel, ...] | str:
        """Return what ``lock`` does, whatever was chosen before."""
        forget_lock(requirements, python, arch, self._root.parent / "locks", rather=rather)
        return self.lock(requirements, python, arch, rather)

    def environment(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        """Return a folder with exactly these wheels installed for a Python, making it if it is not here."""
        final = self._environment_path(wheels, python, arch)

        def make(folder: Path) -> None:
            with self._preparing(f"installing {_some(wheels)} for Python {python}"):
                install_environment(wheels, python, arch, folder, self._cancel)

        return self._once(final, make)

    def environment_without_cuda(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        """Return the same for a cell for the CPU, where the torch among the wheels is a CUDA build."""
        whole = self._environment_path(wheels, python, arch)
        return self._once(
            twin_of(whole),
            lambda folder: lay_out_without_cuda(self.environment(wheels, python, arch), folder),
        )

    def _environment_path(self, wheels: tuple[LockedWheel, ...], python: str, arch: str) -> Path:
        return self._root / f"environment-{python}-{arch}-{_digest(wheels)[:16]}"

    def complete_toolkit(
        self, toolkit: PrefixId, headers: tuple[PrefixId, ...], wheels: tuple[LockedWheel, ...], python: str
    ) -> Path:
        """Return a toolkit with the libraries that an environment has, making it if it is not here.

        :param headers: that it has beside its own.
        """
        arch = toolkit.arch
        digests = [LAYOUT, *(each.digest for each in (toolkit, *headers)), python, _digest(wheels)]

        def make(folder: Path) -> None:
            own = {pin.project for pin in cuda_toolkits()[toolkit.version].packages[arch]}
            parts = [self.prepare(each) for each in (toolkit, *headers)]
            environment = self.environment(wheels, python, arch)
            with self._preparing(f"putting together CUDA {toolkit.version} with the libraries of {_some(wheels)}"):
                brought = [wheel for wheel in wheels if wheel.name in own]
                lay_out_toolkit(folder, parts[0], parts[1:], environment, brought, arch)

        name = f"toolkit-{toolkit.version}-{arch}-{canonical_digest(digests)[:16]}"
        return self._once(self._root / name, make) / HOME

    def _path(self, prefix: PrefixId) -> Path:
        return self._root / f"{prefix.kind}-{prefix.version}-{prefix.arch}-{prefix.digest[:16]}"

    def changed(self) -> dict[str, str | None]:
        """Compare every byte of every folder with what it was; return the folders by name, and what differs."""
        names = (path.name for path in sorted(self._root.glob("[!.]*-*")) if path.is_dir())
        return {name: _why(why_changed, self._root / name) for name in names}

    @contextmanager
    def _preparing(self, what: str) -> Iterator[None]:
        """Tell of what takes a while."""
        self._listen(Preparing(what=what))
        try:
            yield
        finally:
            self._listen(Preparing(what=what, done=True))

    def _once(self, final: Path, make: Callable[[Path], None]) -> Path:
        if not (final in self._proven and final.is_dir()):
            try:
                self._prove_or_make(final, make)
            except OSError as error:
                raise ToolchainError(
                    f"{final.name} cannot be written: {error.strerror or error} ({error.filename or self._root})",
                    remedy="free some disk or fix its permissions, or choose another place with WHEELSMITH_CACHE",
                ) from error
            self._proven.add(final)
        mark_used(final)
        return final

    def _prove_or_make(self, final: Path, make: Callable[[Path], None]) -> None:
        if final.is_dir() and _why(_why_unproven, final) is None:
            return
        self._root.mkdir(parents=True, exist_ok=True)
        with FileLock(self._root / f".{final.name}.lock"):
            if not final.is_dir():
                self._make(final, make)
            elif reason := _why(_why_unproven, final):
                self._fix(final, make, reason)

    def _fix(self, final: Path, make: Callable[[Path], None], reason: str) -> None:
        """Make a folder again that is not what it was.

        Running builds may have the old one mounted: it is put aside whole, for a prune to remove.
        """
        changed = f"{final.name} is not as it was made: {reason}"
        self._listen(Notice(level="warning", text=f"{changed}; it is made again"))
        try:
            self._make(final, make)
        except ToolchainError as error:
            raise ToolchainError(
                f"{changed}; and it cannot be made again: {error.message}", remedy=error.remedy
            ) from error

    def _make(self, final: Path, make: Callable[[Path], None]) -> None:
        # The lock is ours, so a folder that a killed process left is nobody's.
        for left in self._root.glob(f".{final.name}.part-*"):
            remove_tree(left)
        folder = Path(tempfile.mkdtemp(prefix=f".{final.name}.part-", dir=self._root))
        try:
            make(folder)
            make_read_only(folder)
            prove(folder, final)
            if final.is_dir():
                final.rename(self._root / f".{final.name}.changed-{secrets.token_hex(4)}")
            publish_tree(folder, final)
        finally:
            remove_tree(folder)

    def _cxx(self, prefix: PrefixId, folder: Path) -> None:
        from wheelsmith.toolchain.archives import fetch_package
        from wheelsmith.toolchain.cxx.lay_out import lay_out_cxx

        toolchain = next(each for each in cxx_toolchains() if each.prefix == prefix)
        with tempfile.TemporaryDirectory(dir=self._root) as scratch:
            settings, listen = pip_settings(), self._listen
            pins = toolchain.packages
            packages = {pin.filename: fetch_package(pin, Path(scratch), settings, listen) for pin in pins}
            with self._preparing(f"laying out {toolchain.compilers.title}"):
                lay_out_cxx(toolchain, packages, folder)

    def _framework(self, prefix: PrefixId, folder: Path) -> None:
        calls = framework(prefix.kind)
        release = next(known for known in calls.releases().values() if known.version == prefix.version)
        self._fetch_headers(release.wheels[prefix.arch], folder, calls.headers)

    def _library(self, prefix: PrefixId, folder: Path) -> None:
        library = header_library(prefix.version)
        if library.wheel:
            self._fetch_headers(library.wheel, folder, library.headers)
        if library.archive:
            self._fetch_tree(library.archive, folder / "include")

    def _cuda(self, prefix: PrefixId, folder: Path) -> None:
        toolkit = cuda_toolkits()[prefix.version]
        host, _, target = prefix.arch.partition("-")
        for pin in toolkit.packages[host]:
            self._fetch_all(pin, folder, cuda_folder(pin))
        for pin in toolkit.headers:
            self._fetch_headers(pin, folder, cuda_folder(pin))
        if compilers := toolkit.compilers.get(host):
            self._fetch_compilers(compilers, folder)
        if target:
            self._use_runtime_of(toolkit, target, folder)
        (folder / "lib64").symlink_to("lib")
        # The wheel has the library alone; build systems look for it by -lcudart.
        for library in (folder / "lib").glob("libcudart.so.*"):
            (folder / "lib" / "libcudart.so").symlink_to(library.name)

    def _development(self, prefix: PrefixId, folder: Path) -> None:
        for pin in cuda_toolkits()[prefix.version].development:
            self._fetch_headers(pin, folder, cuda_folder(pin))

    def _use_runtime_of(self, toolkit: CudaToolkit, target: str, folder: Path) -> None:
        remove_tree(folder / "lib")
        pin = toolkit.target_runtime[target]
        self._fetch_all(pin, folder, cuda_folder(pin))

    def _fetch_all(self, pin: PinnedFile, folder: Path, root: str) -> None:
        from wheelsmith.toolchain.locate import locate
        from wheelsmith.toolchain.remote import fetch_whole

        settings = pip_settings()
        with settings.client() as client, tempfile.TemporaryDirectory(dir=self._root) as scratch:
            location = locate(pin, settings)
            wheel = fetch_whole(pin, location, Path(scratch), client, self._listen)
            unpack(pin, wheel, folder, _placed(root, root))

    def _fetch_compilers(self, pin: PinnedPackage, folder: Path) -> None:
        from wheelsmith.toolchain.archives import fetch_package

        with tempfile.TemporaryDirectory(dir=self._root) as scratch:
            lay_out_compilers(fetch_package(pin, Path(scratch), pip_settings(), self._listen), folder)

    def _fetch_tree(self, tree: PinnedTree, folder: Path) -> None:
        from wheelsmith.toolchain.archives import fetch_tree

        with tempfile.TemporaryDirectory(dir=self._root) as scratch:
            fetch_tree(tree, folder, Path(scratch), pip_settings(), self._listen)

    def _fetch_headers(self, pin: PinnedFile, folder: Path, root: str) -> None:
        headers = root if root.endswith("include/") else root + "include/"
        keep = root.removesuffix("include/")

        def wanted(name: str) -> bool:
            return name.startswith(headers) or name.endswith(".dist-info/RECORD")

        from wheelsmith.toolchain.locate import locate
        from wheelsmith.toolchain.remote import fetch_part

        settings = pip_settings()
        with settings.client() as client, tempfile.TemporaryDirectory(dir=self._root) as scratch:
            location = locate(pin, settings)
            wheel = fetch_part(pin, location, Path(scratch), wanted, client, self._listen)
            unpack(pin, wheel, folder, _placed(headers, keep))


def _placed(wanted: str, root: str) -> Callable[[str], str | None]:
    """Take what a wheel has below ``wanted`` to where it is below ``root``, but for what makes packages of folders."""

    def place(name: str) -> str | None:
        taken = name.startswith(wanted) and not name.endswith("/__init__.py")
        return name.removeprefix(root) if taken else None

    return place


def _digest(wheels: tuple[LockedWheel, ...]) -> str:
    return canonical_digest([ENVIRONMENT_LAYOUT, *(wheel.to_json() for wheel in wheels)])


def _why_unproven(folder: Path) -> str | None:
    return why_unproven(folder, twin_of(folder))


def _why(ask: Callable[[Path], str | None], folder: Path) -> str | None:
    """Ask what of a folder differs; what cannot be read differs."""
    try:
        return ask(folder)
    except OSError as error:
        return f"{error.filename or folder} cannot be read: {error.strerror or error}"


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


@cache
def _hash(path: Path, stamp: tuple[int, int, int]) -> str:
    del stamp
    return sha256_file(path)


def _some(wheels: Iterable[LockedWheel]) -> str:
    """Name wheels for people, torch first."""
    named = sorted(wheels, key=lambda wheel: (wheel.name != "torch", wheel.name))
    return some_of([f"{wheel.name} {wheel.version}" for wheel in named])
