"""The compilers of a CUDA toolkit out of Debian's package, laid out as in NVIDIA's own toolkits."""

from __future__ import annotations

from pathlib import Path

from wheelsmith.base.errors import ToolchainError
from wheelsmith.toolchain.debian_package import package_members, write_member

_OWN = "./usr/lib/nvidia-cuda-toolkit"
# Where the package has them → where a toolkit does. Debian's nvcc.profile names folders of its own.
_PLACES = {
    f"{_OWN}/bin/nvcc": "bin/nvcc",
    f"{_OWN}/bin/crt/link.stub": "bin/crt/link.stub",
    f"{_OWN}/bin/crt/prelink.stub": "bin/crt/prelink.stub",
    f"{_OWN}/bin/cicc": "nvvm/bin/cicc",
    f"{_OWN}/libdevice/libdevice.10.bc": "nvvm/libdevice/libdevice.10.bc",
    **{f"./usr/bin/{name}": f"bin/{name}" for name in ("bin2c", "cudafe++", "fatbinary", "nvlink", "ptxas")},
}
_PROFILE = """
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


def lay_out_compilers(package: Path, folder: Path) -> None:
    """Write the compilers of a package, which is the one that was pinned, into a toolkit.

    :raises ToolchainError: it lacks one.
    """
    lacking = dict(_PLACES)
    for member, content in package_members(package):
        if member.isreg() and member.name in lacking:
            write_member(member, content, folder / lacking.pop(member.name))
    if lacking:
        raise ToolchainError(f"{package.name} lacks {', '.join(sorted(lacking))}")
    (folder / "bin" / "nvcc.profile").write_text(_PROFILE)
