"""Install the compilers of CUDA 12, which are not on the package index, into a toolkit.

Those of 12.4 are in a Debian package, those of later releases in NVIDIA's redistributable archives.
"""

from __future__ import annotations

from pathlib import Path

from wheelsmith.base.errors import ToolchainError
from wheelsmith.toolchain.debian_package import package_members, write_member

_NVIDIA_FOLDER = "./usr/lib/nvidia-cuda-toolkit"
# Path in the Debian package → path in a toolkit. NVIDIA's archives have the toolkit's paths.
_DEBIAN_PATHS = {
    f"{_NVIDIA_FOLDER}/bin/nvcc": "bin/nvcc",
    f"{_NVIDIA_FOLDER}/bin/crt/link.stub": "bin/crt/link.stub",
    f"{_NVIDIA_FOLDER}/bin/crt/prelink.stub": "bin/crt/prelink.stub",
    f"{_NVIDIA_FOLDER}/bin/cicc": "nvvm/bin/cicc",
    f"{_NVIDIA_FOLDER}/libdevice/libdevice.10.bc": "nvvm/libdevice/libdevice.10.bc",
    **{f"./usr/bin/{name}": f"bin/{name}" for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")},
}
_NEEDED = (
    *("bin/nvcc", "bin/cudafe++", "bin/fatbinary", "bin/ptxas"),
    *("nvvm/bin/cicc", "nvvm/libdevice/libdevice.10.bc"),
)
# Replaces Debian's nvcc.profile, which names Debian's folders, and NVIDIA's, which names a folder per target.
_NVCC_PROFILE = """
TOP              = $(_HERE_)/..

CICC_PATH        = $(TOP)/nvvm/bin
NVVMIR_LIBRARY_DIR = $(TOP)/nvvm/libdevice

LD_LIBRARY_PATH += $(TOP)/lib:
PATH            += $(CICC_PATH):$(_HERE_):

INCLUDES        +=  "-I$(TOP)/include" $(_SPACE_)

LIBRARIES        =+ $(_SPACE_) "-L$(TOP)/lib64/stubs" "-L$(TOP)/lib64"

CUDAFE_FLAGS    +=
PTXAS_FLAGS     +=
"""


def install_compilers(package: Path, folder: Path) -> None:
    """Write the compilers of a verified package or archive into a toolkit.

    :raises ToolchainError: the package lacks one of them.
    """
    missing = set(_NEEDED)
    for member, content in package_members(package):
        path = _place(package, member.name) if member.isreg() else None
        if path:
            write_member(member, content, folder / path)
            missing.discard(path)
    if missing:
        raise ToolchainError(f"{package.name} lacks {', '.join(sorted(missing))}")
    (folder / "bin" / "nvcc.profile").write_text(_NVCC_PROFILE)


def _place(package: Path, member: str) -> str | None:
    """Return the path of a member in a toolkit, or None to leave it out."""
    if package.suffix == ".deb":
        return _DEBIAN_PATHS.get(member)
    path = member.removeprefix(f"{package.name.removesuffix('.tar.xz')}/")
    return path if path.startswith(("bin/", "nvvm/bin/", "nvvm/libdevice/")) else None
