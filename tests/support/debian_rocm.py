"""ROCm from Debian's packages, in the layout of AMD's: its own are on no machine of the tests."""

from __future__ import annotations

import lzma
import shutil
import subprocess
import urllib.request
from functools import cache
from pathlib import Path

import pytest

from wheelsmith.toolchain.downloads import debian_mirrors

LLVM = "22"  # the one that the device libraries are made for
MACHINE = (f"clang-{LLVM}", f"lld-{LLVM}", f"clang-tools-{LLVM}")
# Headers of torch's builds include those of these libraries.
LIBRARIES = ("hipblas", "hipblas-common", "hipblaslt", "hipsparse", "hipsolver", "rocblas", "rocsparse", "rocsolver")
PACKAGES = (
    *("libamdhip64-dev", "libamdhip64-7", f"rocm-device-libs-{LLVM}", "librocprim-dev", "libhipcub-dev"),
    *("librocthrust-dev", "libhsa-runtime-dev"),
    *(f"lib{name}-dev" for name in LIBRARIES),
)
SUITES = ("experimental", "sid")


@cache
def rocm_home(folder: Path) -> Path:
    """Lay out ROCm in a folder: Debian's LLVM of this machine, and the rest from Debian's newest suites."""
    llvm = Path(f"/usr/lib/llvm-{LLVM}")
    if not (llvm / "bin/clang++").exists():
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *MACHINE], check=False)
    if not (llvm / "bin/clang-offload-bundler").exists():
        pytest.skip(f"Debian's LLVM {LLVM} is not installed and cannot be")
    unpacked, home = folder / "unpacked", folder / "rocm"
    for package in _fetch(folder / "packages"):
        subprocess.run(["dpkg", "-x", package, unpacked], check=True)
    (home / "lib").mkdir(parents=True)
    (home / "lib/llvm").symlink_to(llvm)
    shutil.move(unpacked / "usr/include", home / "include")
    shutil.move(next(unpacked.glob("usr/lib/llvm-*/lib/clang/*/amdgcn")), home / "amdgcn")
    shutil.move(unpacked / "usr/share", home / "share")
    for library in (unpacked / "usr/lib/x86_64-linux-gnu").glob("libamdhip64.so*"):
        shutil.move(library, home / "lib" / library.name)
    return home


def release_of(home: Path) -> str:
    """Return the release as on the axis of a matrix."""
    text = (home / "include/hip/hip_version.h").read_text()
    words = dict(line.split()[1:3] for line in text.splitlines() if line.startswith("#define HIP_VERSION_M"))
    return f"{words['HIP_VERSION_MAJOR']}.{words['HIP_VERSION_MINOR']}"


def _fetch(folder: Path) -> list[Path]:
    folder.mkdir(parents=True)
    if not (mirrors := debian_mirrors()):
        pytest.skip("this machine has no Debian archive")
    found: dict[str, str] = {}
    for suite in SUITES:
        listing = f"{mirrors[0]}/dists/{suite}/main/binary-amd64/Packages.xz"
        with urllib.request.urlopen(listing, timeout=120) as answer:
            text = lzma.decompress(answer.read()).decode()
        for paragraph in text.split("\n\n"):
            fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line)
            if fields.get("Package") in PACKAGES and fields["Version"].startswith(("7.", "7:7.")):
                found.setdefault(fields["Package"], fields["Filename"])
    if missing := [name for name in PACKAGES if name not in found]:
        pytest.skip(f"Debian has no {', '.join(missing)} of ROCm 7")
    for name in found.values():
        with urllib.request.urlopen(f"{mirrors[0]}/{name}", timeout=120) as answer:
            (folder / Path(name).name).write_bytes(answer.read())
    return sorted(folder.iterdir())
