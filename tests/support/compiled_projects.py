"""Projects that are compiled without torch, by a build system without requirements, so that nothing is resolved."""

from __future__ import annotations

from pathlib import Path

from kernels import write

BACKEND = """\
import base64, hashlib, os, subprocess, sysconfig, zipfile
from about import NAME, VERSION, REQUIRES, sources

TAG = "cp311-cp311-linux_x86_64"


def build_wheel(directory, config_settings=None, metadata_directory=None):
    code, flags, files = sources()
    with open("code.c", "w") as file:
        file.write(code)
    library = f"_{NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-c", "code.c", "-o", "code.o", *flags], check=True)
    subprocess.run(["gcc", "-shared", "code.o", "-o", library], check=True)
    info = f"{NAME}-{VERSION}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {NAME}", f"Version: {VERSION}"]
    lines += [f"Requires-Dist: {line}" for line in REQUIRES]
    wheel = f"Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: false\\nTag: {TAG}\\n"
    with open(library, "rb") as file:
        content = {f"{NAME}/{name}": text.encode() for name, text in files.items()} | {f"{NAME}/{library}": file.read()}
    content |= {f"{info}/METADATA": ("\\n".join(lines) + "\\n").encode(), f"{info}/WHEEL": wheel.encode()}
    rows = []
    for name, data in content.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}\\n")
    content[f"{info}/RECORD"] = "".join([*rows, f"{info}/RECORD,,\\n"]).encode()
    filename = f"{NAME}-{VERSION}-{TAG}.whl"
    with zipfile.ZipFile(os.path.join(directory, filename), "w") as archive:
        for name, data in content.items():
            archive.writestr(name, data)
    return filename
"""
CODE = "#include <stdio.h>\\nvoid *PyInit__{name}(void) {{ puts(TEXT); return 0; }}\\n"
BASE = f"""\
NAME, VERSION, REQUIRES = "base", "2", []


def sources():
    return "#define TEXT \\"base\\"\\n{CODE.format(name="base")}", [], {{
        "__init__.py": "VALUE = 7\\n",
        "base.h": "#define TEXT \\"from base.h\\"\\n",
    }}
"""
PYPROJECT = """\
[build-system]
requires = [{requires}]
build-backend = "backend"
backend-path = ["."]
[project]
name = "{name}"
version = "{version}"
dependencies = [{requires}]
"""


def write_project(folder: Path, about: str, *, name: str, version: str, requires: str = "") -> None:
    """Write a project.

    :param about: the module with its name, version, requirements and sources.
    :param requires: the requirement of its build, in quotes; empty for none.
    """
    project = PYPROJECT.format(name=name, version=version, requires=requires)
    write(folder, {"backend.py": BACKEND, "about.py": about, "pyproject.toml": project})
