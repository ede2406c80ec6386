"""Build a project with its own build system, after a check that its name and version match the plan.

This program runs inside containers: ``project.py PLAN SOURCE TARGET``. It needs the packages build and packaging.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tempfile
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import Any

from build import BuildBackendException, BuildException, ProjectBuilder
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

_RPATHS = {f"-Wl,{dashes}{name}" for dashes in ("-", "--") for name in ("rpath", "rpath-link")} | {"-Wl,-R"}


def build_project(plan: dict[str, Any], source: str, target: str) -> int:
    """Build a wheel and return the exit code of the first command that fails, or 0.

    :param plan: the build plan in JSON form.
    :param source: folder of the project.
    :param target: folder for the wheel.
    """
    project, wheel = plan["project"], plan["wheel"]
    # Assertions in headers put the path of the header into the output. The compiler proxy replaces this folder.
    os.environ["WHEELSMITH_PYTHON_HEADERS"] = sysconfig.get_path("include")
    os.environ.update(_linker_variables())
    if (plan["toolset"] or {}).get("prefix"):
        _expose_python_headers()
    settings: dict[str, list[str]] = project["config_settings"]
    if command := project["before_build"]:
        _print(f"before-build: {command}")
        if code := subprocess.run(["/bin/sh", "-c", command], cwd=source, check=False).returncode:
            return _fail(f"before-build ended with exit code {code}")
    if refusal := _find_problem(source, settings, wheel["distribution"], wheel["version"].partition("+")[0]):
        return _fail(refusal)
    words = [f"-C{name}={value}" for name, values in settings.items() for value in values]
    # _find_problem has checked the requirements. For setuptools, another check would run setup.py again.
    options = ("--wheel", "--no-isolation", "--skip-dependency-check")
    command = [sys.executable, "-m", "build", *options, *words, "--outdir", target, source]
    return subprocess.run(command, check=False).returncode


def _linker_variables() -> dict[str, str]:
    """Return LDSHARED and LDCXXSHARED without an RPATH to this Python's library folder.

    A Python with a shared libpython, for example of pyenv or conda, links itself and all extensions with this RPATH,
    which is a path of the build machine. setuptools reads these variables like CC.
    """
    prefix, found = str(sysconfig.get_config_var("prefix")), {}
    for name, compiler in (("LDSHARED", "CC"), ("LDCXXSHARED", "CXX")):
        configured = str(sysconfig.get_config_var(name) or "")
        words = [word for word in configured.split() if not _is_rpath(word, prefix)]
        if name in os.environ or words == configured.split():
            continue
        text, own = " ".join(words), str(sysconfig.get_config_var(compiler) or "")
        given = os.environ.get(compiler)
        found[name] = given + text.removeprefix(own) if given and own and text.startswith(own) else text
    return found


def _is_rpath(word: str, prefix: str) -> bool:
    option, path, rest = word.replace("=", ",").partition(f",{prefix}")
    return bool(path) and option in _RPATHS and "," not in rest


def _expose_python_headers() -> None:
    """Let compilers without /usr/include find the architecture-dependent headers that Debian's Python.h includes."""
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    include = Path(sysconfig.get_path("include"))
    dependent = include.parent / multiarch / include.name
    if not multiarch or not dependent.is_dir():
        return
    headers = Path(tempfile.gettempdir(), "python-headers")
    (headers / multiarch).mkdir(parents=True, exist_ok=True)
    (headers / multiarch / include.name).symlink_to(dependent)
    for name in ("C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH"):
        os.environ[name] = os.pathsep.join(filter(None, [os.environ.get(name), str(headers)]))


def _find_problem(source: str, settings: dict[str, list[str]], name: str, version: str) -> str | None:
    """Return why the project differs from the plan or lacks requirements; None if all is well or unknown."""
    builder = ProjectBuilder(source, python_executable=sys.executable)
    options: dict[str, str | list[str]] = {
        key: values[0] if len(values) == 1 else values for key, values in settings.items()
    }
    try:
        if missing := sorted({chain[-1] for chain in builder.check_dependencies("wheel", options)}):
            return (
                f"the build environment lacks requirements of the project: {', '.join(missing)}; "
                f"add to matrix.yaml: build-requires: {json.dumps(missing)}"
            )
        with tempfile.TemporaryDirectory() as folder:
            # None if the backend cannot prepare metadata without a build.
            info = builder.prepare("wheel", folder, options)
            metadata = BytesHeaderParser().parsebytes((Path(info) / "METADATA").read_bytes()) if info else None
    except (BuildException, BuildBackendException) as error:
        return f"the project's build system failed: {error}"
    return _difference(str(metadata["Name"]), str(metadata["Version"]), name, version) if metadata else None


def _difference(name: str, version: str, planned_name: str, planned_version: str) -> str | None:
    """Return how the names or versions differ, or None. Names are normalized, and local versions are ignored."""
    if canonicalize_name(name) != canonicalize_name(planned_name):
        return f"the project's name is {name!r}; add to matrix.yaml, under kernel: distribution: {name}"
    try:
        public = Version(version).public
    except (InvalidVersion, ValueError):
        return f"the project's version {version!r} is not a valid version"
    if Version(public) != Version(planned_version):
        return f"the project's version is {public}, the plan's {planned_version}; add to matrix.yaml: version: {public}"
    return None


def _fail(why: str) -> int:
    _print(why)
    return 1


def _print(text: str) -> None:
    sys.stdout.write(f"wheelsmith: {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(build_project(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), sys.argv[2], sys.argv[3]))
