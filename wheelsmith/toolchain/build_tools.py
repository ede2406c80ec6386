"""Copy the tools that run a build inside a sandbox from wheelsmith's own environment."""

from __future__ import annotations

import compileall
import py_compile
import shutil
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from importlib.resources import files
from pathlib import Path, PurePosixPath

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import ToolchainError
from wheelsmith.base.files import sha256_file
from wheelsmith.base.json_dataclass import canonical_digest

# These are pure Python, so that any Python in the sandbox can run them.
_DISTRIBUTIONS = ("build", "pyproject_hooks", "packaging")
_LAUNCH = PurePosixPath(sandbox_paths.LAUNCH).name
_COMPILERS = ("gcc", "g++")


@cache
def tools_digest() -> str:
    """Return the digest of all files that ``lay_out_tools`` writes."""
    return canonical_digest([[name, sha256_file(path)] for name, path in sorted(_tool_files())])


def install_tools(folder: Path) -> None:
    """Write ``site/`` for PYTHONPATH, ``bin/ninja``, and the compiler proxies in ``launch/``."""
    for name, path in _tool_files():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, target)
    # The folder is read-only, so each build would compile all of it again. The times of the files will change.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(folder / "site", quiet=1, stripdir=folder, prependdir="/", invalidation_mode=mode)
    for program in ("bin/ninja", *(f"{_LAUNCH}/{name}" for name in _COMPILERS)):
        (folder / program).chmod(0o755)


def compiler_proxy_script() -> Path:
    """Return the script that intercepts compiler calls. It is installed under the name of a compiler."""
    return Path(str(files("wheelsmith"))) / "engine" / "backend" / "compiler.sh"


def _tool_files() -> Iterator[tuple[str, Path]]:
    for name in _DISTRIBUTIONS:
        for file in distribution(name).files or ():
            if file.suffix == ".py" or file.name == "METADATA":
                yield f"site/{file.as_posix()}", Path(str(file.locate()))
    own = Path(str(files("wheelsmith")))
    yield "site/wheelsmith/__init__.py", own / "__init__.py"
    for path in (own / "engine" / "backend").glob("*.py"):
        yield f"site/wheelsmith/engine/backend/{path.name}", path
    # Only in the sandbox: in wheelsmith's own environment, setuptools would load the plugin in every build.
    yield "site/wheelsmith_backend-0.dist-info/entry_points.txt", own / "engine" / "backend" / "entry_points.txt"
    for name in _COMPILERS:
        yield f"{_LAUNCH}/{name}", compiler_proxy_script()
    yield "bin/ninja", _find_ninja()


def _find_ninja() -> Path:
    try:
        for file in distribution("ninja").files or ():
            if file.name == "ninja" and (path := Path(str(file.locate()))).is_file():
                return path
    except PackageNotFoundError:
        pass
    if program := shutil.which("ninja"):
        return Path(program)
    raise ToolchainError("ninja is not installed", remedy="python3 -m pip install ninja")
