"""Make one prefix from the files that it is pinned to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from wheelsmith.base.beneath import remove_tree
from wheelsmith.frameworks import framework
from wheelsmith.model import PinnedFile, PrefixId
from wheelsmith.platforms import DEVELOPMENT, CudaToolkit, cuda_folder, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.platforms.header_libraries import KIND as LIBRARY
from wheelsmith.platforms.host_compilers import KIND as CXX
from wheelsmith.toolchain.debian_package import lay_out_compilers
from wheelsmith.toolchain.downloads import Supply
from wheelsmith.toolchain.progress import preparing
from wheelsmith.toolchain.unpack import unpack


def make_prefix(prefix: PrefixId, folder: Path, supply: Supply) -> None:
    """Lay out a prefix in an empty folder.

    :raises ToolchainError: what it is made from cannot be had, or is not what was pinned.
    """
    maker = _PrefixMaker(supply=supply, folder=folder)
    makers = {"cuda": maker.cuda, DEVELOPMENT: maker.development, LIBRARY: maker.library, CXX: maker.cxx}
    makers.get(prefix.kind, maker.framework)(prefix)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PrefixMaker:
    supply: Supply
    folder: Path

    def cxx(self, prefix: PrefixId) -> None:
        from wheelsmith.toolchain.cxx.install import lay_out_cxx

        toolchain = next(each for each in cxx_toolchains() if each.prefix == prefix)
        packages = {pin.filename: self.supply.package(pin) for pin in toolchain.packages}
        with preparing(f"laying out {toolchain.compilers.title}", self.supply.listen):
            lay_out_cxx(toolchain, packages, self.folder)

    def framework(self, prefix: PrefixId) -> None:
        calls = framework(prefix.kind)
        release = next(known for known in calls.releases().values() if known.version == prefix.version)
        self._headers(release.wheels[prefix.arch], calls.headers)

    def library(self, prefix: PrefixId) -> None:
        library = header_library(prefix.version)
        if library.wheel:
            self._headers(library.wheel, library.headers)
        if library.archive:
            self.supply.tree(library.archive, self.folder / "include")

    def cuda(self, prefix: PrefixId) -> None:
        toolkit, folder = cuda_toolkits()[prefix.version], self.folder
        host, _, target = prefix.arch.partition("-")
        for pin in toolkit.packages[host]:
            self._all(pin)
        for pin in toolkit.headers:
            self._headers(pin, cuda_folder(pin))
        if compilers := toolkit.compilers.get(host):
            lay_out_compilers(self.supply.package(compilers), folder)
        if target:
            self._use_runtime_of(toolkit, target)
        (folder / "lib64").symlink_to("lib")
        # The wheel has the library alone; build systems look for it by -lcudart.
        for library in (folder / "lib").glob("libcudart.so.*"):
            (folder / "lib" / "libcudart.so").symlink_to(library.name)

    def development(self, prefix: PrefixId) -> None:
        for pin in cuda_toolkits()[prefix.version].development:
            self._headers(pin, cuda_folder(pin))

    def _use_runtime_of(self, toolkit: CudaToolkit, target: str) -> None:
        remove_tree(self.folder / "lib")
        self._all(toolkit.target_runtime[target])

    def _all(self, pin: PinnedFile) -> None:
        root = cuda_folder(pin)
        unpack(pin, self.supply.whole(pin), self.folder, _placed(root, root))

    def _headers(self, pin: PinnedFile, root: str) -> None:
        headers = root if root.endswith("include/") else root + "include/"
        keep = root.removesuffix("include/")

        def wanted(name: str) -> bool:
            return name.startswith(headers) or name.endswith(".dist-info/RECORD")

        self.supply.part(pin, wanted, lambda wheel: unpack(pin, wheel, self.folder, _placed(headers, keep)))


def _placed(wanted: str, root: str) -> Callable[[str], str | None]:
    """Take what a wheel has below ``wanted`` to where it is below ``root``, but for what makes packages of folders."""

    def place(name: str) -> str | None:
        taken = name.startswith(wanted) and not name.endswith("/__init__.py")
        return name.removeprefix(root) if taken else None

    return place
