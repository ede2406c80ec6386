"""Inspect the machine and environment for a wheel, and run the install command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path

from wheelsmith.base.errors import MachineError, PackageIndexError
from wheelsmith.base.files import run_for_json
from wheelsmith.base.json_dataclass import Record
from wheelsmith.frameworks import frameworks
from wheelsmith.index.resolve.install_commands import Installer, Template
from wheelsmith.model import CUDA, TORCH
from wheelsmith.platforms import Gpu, compute_shape, machine_features, platforms

# Remove the current folder from sys.path. It is not part of the environment and may contain an untrusted json.py.
_RUN_ISOLATED = "import sys; sys.path = [folder for folder in sys.path if folder]; exec(sys.argv[1])"


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine(Record):
    """A Python environment and its machine.

    :param python: path or name of the interpreter.
    :param platform: Python's ``sys.platform``.
    :param glibc: version of glibc, or ``0.0`` if there is none.
    :param pip: True if the environment has pip.
    :param ensurepip: True if the environment can install pip with ensurepip.
    :param torch: complete version of torch, e.g. ``2.11.0+cu130``; None if it is not installed.
    :param torch_compute: compute platform of torch, e.g. ``cpu``, ``cu130``, ``rocm7.2``; None if unknown.
    :param frameworks: name → version of the other installed frameworks.
    :param packages: project → version of their installed packages, with substitutes and plugins.
    :param cpu_features: the CPU's features, e.g. ``avx2``; None if they are unknown.
    :param gpu_platform: the platform of the driver and the GPUs, e.g. ``cuda``; None without a driver.
    :param driver: the newest CUDA that the NVIDIA driver supports, or the version of AMD's driver; None without one.
    """

    python: str
    python_version: str
    implementation: str
    free_threaded: bool
    platform: str
    arch: str
    glibc: str
    pip: bool
    ensurepip: bool = False
    torch: str | None
    torch_compute: str | None
    frameworks: dict[str, str] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    cpu_features: tuple[str, ...] | None = None
    gpu_platform: str | None = None
    driver: str | None
    gpus: tuple[Gpu, ...]

    @property
    def minor(self) -> str:
        """Return the release of its Python, e.g. ``3.12``; ``3.14t`` if it is free-threaded."""
        return ".".join(self.python_version.split(".")[:2]) + ("t" if self.free_threaded else "")

    @property
    def driver_text(self) -> str:
        """Return the driver for display."""
        return platforms()[self.gpu_platform or CUDA].devices.describe_driver(self.driver)

    @property
    def installer(self) -> str:
        """Return the installer for the environment: uv if pip is missing and uv is available, otherwise pip."""
        return "uv" if not self.pip and shutil.which("uv") else "pip"


def probe_machine(python: str | None, variables: Mapping[str, str] | None = None) -> Machine:
    """Inspect an environment without importing its packages.

    :param python: an interpreter or the folder of a virtual environment; None selects the ``python`` on PATH.
    :param variables: environment variables for the interpreter; None inherits those of this process.
    :raises MachineError: there is no such Python, or it does not work.
    """
    interpreter = _interpreter(python)
    others = [each for name, each in frameworks().items() if name != TORCH]
    projects = [name for each in others for name in (each.project, *each.substitutes, *each.plugins)]
    found = run_for_json([interpreter, "-c", _RUN_ISOLATED, _script("look_python.py"), *projects], variables)
    if found is None:
        mistake = f"{interpreter} is not a working Python 3.8 or newer"
        raise MachineError(mistake, remedy=f"run it: {interpreter} --version")
    drivers = ((each.name, there) for each in platforms().values() if (there := each.devices.driver(variables)))
    gpu_platform, driver = next(drivers, (None, None))
    torch = found["torch"] or {}
    return Machine(
        python=interpreter,
        python_version=found["python"],
        implementation=found["implementation"],
        free_threaded=found["free_threaded"],
        platform=found["platform"],
        arch=found["arch"],
        glibc=found["glibc"],
        pip=found["pip"],
        ensurepip=found["ensurepip"],
        torch=torch.get("version"),
        torch_compute=_torch_compute(torch) if torch else None,
        frameworks={
            each.name: found["installed"][name]
            for each in others
            for name in (*each.substitutes, each.project)
            if name in found["installed"]
        },
        packages=found["installed"],
        cpu_features=machine_features(),
        gpu_platform=gpu_platform,
        driver=driver.version if driver else None,
        gpus=driver.gpus if driver else (),
    )


def _interpreter(python: str | None) -> str:
    if python is None:
        return next((name for name in ("python", "python3") if shutil.which(name)), sys.executable)
    inside = Path(python) / "bin" / "python"
    chosen = str(inside) if inside.is_file() else python
    if shutil.which(chosen) is None:
        raise MachineError(
            f"{python} is not an executable Python", remedy="name an interpreter or a virtual environment"
        )
    return chosen


def _torch_compute(torch: dict[str, str]) -> str | None:
    """Return the compute platform of torch, from torch/version.py or from the local part of the version."""
    if (hip := torch.get("hip", "none")) != "none":
        return "rocm" + ".".join(hip.split(".")[:2])
    if (xpu := torch.get("xpu", "none")) != "none":
        return f"xpu{xpu[:4]}.{int(xpu[4:6] or 0)}" if xpu[:6].isdecimal() else "xpu"
    if "cuda" in torch:
        return "cpu" if torch["cuda"] == "none" else "cu" + "".join(torch["cuda"].split(".")[:2])
    match = re.search(rf"\+({compute_shape()})\b", torch["version"])
    return match[1] if match else None


def _script(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


_STDERR = 2  # the descriptor
_GET_UV = "install uv (https://docs.astral.sh/uv/)"
_INTO_ENVIRONMENT = {Installer.PIP, Installer.UV}


def use_environment(commands: Template, installer: Installer, machine: Machine) -> Template:
    """Make commands install into the machine's environment.

    pip is run by the environment's Python, after ensurepip if it is missing. uv gets the option ``--python``.

    :raises MachineError: uv is missing, or pip is missing and ensurepip cannot install it.
    """
    if installer not in _INTO_ENVIRONMENT:
        return commands
    lines = tuple(_use_python(line, machine.python) for line in commands.lines)
    if installer is Installer.UV and shutil.which("uv") is None:
        raise MachineError("uv is not installed", remedy=f"--installer pip, or {_GET_UV}")
    if installer is Installer.PIP and not machine.pip:
        if not machine.ensurepip:
            remedy = f"apt-get install python3-pip python3-venv, or {_GET_UV}, then --installer uv"
            raise MachineError(f"{machine.python} has neither pip nor ensurepip", remedy=remedy)
        lines = ((machine.python, "-m", "ensurepip"), *lines)
    return replace(commands, lines=lines)


def run_install(commands: Template) -> None:
    """Run the commands in order. Their output goes to stderr, because stdout contains the command itself.

    :raises PackageIndexError: a command failed.
    """
    # Otherwise Python would import from the current folder, which may contain an untrusted pip.py.
    environment = {**os.environ, "PYTHONSAFEPATH": "1"}
    for argv in commands.lines:
        try:
            ended = subprocess.run(argv, stdout=_STDERR, check=False, env=environment).returncode
        except OSError as error:
            raise PackageIndexError(f"{argv[0]} cannot be run: {error.strerror}") from None
        if ended:
            raise PackageIndexError(f"{' '.join(argv[:3])} failed with exit code {ended}; see its output above")


def _use_python(line: tuple[str, ...], python: str) -> tuple[str, ...]:
    if line[0] == "pip":
        return (python, "-m", *line)
    return (*line[:3], "--python", python, *line[3:])
