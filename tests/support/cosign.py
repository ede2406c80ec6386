"""cosign, as Debian has it: another program that verifies what wheelsmith signs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import wants

from wheelsmith.base.errors import ToolchainError
from wheelsmith.model import PinnedPackage, ignore
from wheelsmith.toolchain.downloads import fetch_package
from wheelsmith.toolchain.pip import pip_settings

_POOL = "https://deb.debian.org/debian/pool/main/c/cosign"
STABLE = PinnedPackage(
    filename="cosign_2.5.0-2+b5_amd64.deb",
    url=f"{_POOL}/cosign_2.5.0-2+b5_amd64.deb",
    sha256="3b6eadd27f3c4c00bfa7eab5c2397a6a15a763630c7a1d40d06ff60d24799eef",
    size=14892716,
)
# An archive has of its newest part one version alone: this one goes when the next comes.
UNSTABLE = PinnedPackage(
    filename="cosign_3.1.1-2_amd64.deb",
    url=f"{_POOL}/cosign_3.1.1-2_amd64.deb",
    sha256="d8622ebffce1d69197288fc030ff06a4c247af5507107f85c5a878870b686b23",
    size=17676136,
    mirrors=(
        "https://snapshot.debian.org/archive/debian/20261124T000000Z/pool/main/c/cosign/cosign_3.1.1-2_amd64.deb",
    ),
)


def cosign(package: PinnedPackage, folder: Path) -> Path:
    """Lay cosign out in a folder, and return its program."""
    wants.program("dpkg")
    try:
        path = fetch_package(package, folder, pip_settings(), ignore)
    except ToolchainError as error:
        pytest.skip(f"{package.filename} is not to be had: {error}")
    subprocess.run(["dpkg", "--extract", path, folder / "cosign"], check=True)
    return folder / "cosign/usr/bin/cosign"
