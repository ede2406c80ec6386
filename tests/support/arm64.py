"""An arm64 Python, run by qemu on a machine of another architecture.

Its files are Debian's packages, from the machine's own apt sources, and wheels from the index that pip is configured
for. Nothing changes outside the folders given here: apt keeps its state in a folder of its own, and dpkg only unpacks.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from once import made_once

PYTHON = "3.11"
DEBIAN = "bookworm"
# What pip on that Debian accepts; its glibc is 2.36.
PLATFORMS = tuple(f"manylinux_2_{minor}_aarch64" for minor in range(17, 37))
QEMU = "qemu-aarch64-static"
_PROGRAMS = {
    "aarch64-linux-gnu-g++": "g++-aarch64-linux-gnu",
    QEMU: "qemu-user-static",
    "apt-get": "apt",
    "dpkg": "dpkg",
}
# The machine's own settings first: a proxy stands there. Its hooks, and its architectures, are not for us.
_APT_CONFIG = """\
#include "/etc/apt/apt.conf.d/";
#clear APT::Update;
#clear APT::Architectures;
Dir::Etc::parts "/dev/null";
Dir::State "{folder}/state";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache";
APT::Architecture "arm64";
APT::Install-Recommends "false";
APT::Sandbox::User "root";
"""


def lacking(*programs: str) -> str | None:
    """Return what to install before these programs can be used, or None."""
    missing = [program for program in programs if shutil.which(program) is None]
    if not missing:
        return None
    return f"no {', '.join(missing)}: apt-get install {' '.join(_PROGRAMS[program] for program in missing)}"


def lacking_for_emulation() -> str | None:
    """Return why this machine cannot make and run an arm64 Python, or None."""
    if platform.freedesktop_os_release().get("VERSION_CODENAME") != DEBIAN:
        return f"not Debian {DEBIAN}, whose packages the arm64 Python is made of"
    return lacking(QEMU, "apt-get", "dpkg")


@dataclass(frozen=True)
class Arm64:
    """A root folder with Python, and folders of packages for it."""

    root: Path
    packages: tuple[Path, ...] = ()

    @classmethod
    def at(cls, root: Path) -> Arm64:
        """Make the root folder, or take the one that is there already."""
        return cls(root=made_once(root, _unpack_debian))

    def with_packages(self, folder: Path, *requirements: str) -> Arm64:
        """Install packages or wheels into a folder, once, and give a Python that sees them.

        What they depend on must be named too: pip judges a dependency's conditions, such as platform_machine, for the
        machine that it runs on itself, and would bring CUDA.
        """
        made_once(folder, lambda part: _install(part, requirements))
        return Arm64(root=self.root, packages=(*self.packages, folder))

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a Python script."""
        return subprocess.run(
            [QEMU, "-L", self.root, self.root / "usr" / "bin" / f"python{PYTHON}", "-c", script],
            env={"PYTHONPATH": ":".join(map(str, self.packages))},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=300,
        )


def _unpack_debian(root: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "state" / "lists" / "partial").mkdir(parents=True)
        (folder / "cache" / "archives" / "partial").mkdir(parents=True)
        (folder / "apt.conf").write_text(_APT_CONFIG.format(folder=folder))
        (folder / "status").touch()  # nothing is installed: apt brings all dependencies, down to libc
        env = {**os.environ, "APT_CONFIG": str(folder / "apt.conf")}
        wanted = [f"python{PYTHON}-minimal", f"libpython{PYTHON}-stdlib", "libstdc++6"]
        subprocess.run(["apt-get", "-qq", "update"], env=env, check=True)
        subprocess.run(["apt-get", "-qq", "-y", "--download-only", "install", *wanted], env=env, check=True)
        for package in sorted((folder / "cache" / "archives").glob("*.deb")):
            subprocess.run(["dpkg", "--extract", package, root], check=True)


def _install(folder: Path, requirements: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary", ":all:", "--python-version", PYTHON, *(f"--platform={name}" for name in PLATFORMS)]
    subprocess.run([*command, "--target", folder, *requirements], check=True)
