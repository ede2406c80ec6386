"""Which files of a build folder are its Python package, and what that is called.

Newer folders are the package themselves, with a module of its name in them that leads back to it; in older ones the
package is the one folder within.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable
from pathlib import PurePosixPath

from wheelsmith.base.errors import SourceError
from wheelsmith.base.sanitize import visible
from wheelsmith.plan.repack.metadata_json import METADATA
from wheelsmith.plan.repack.types import BuiltPackage

_INIT = "__init__.py"
# Beside the package: what the Hub's loader reads, and a signature of it.
_BESIDE = {METADATA, f"{METADATA}.sigstore"}
# As kernel-builder calls an extension; older ones leave out the backend.
_EXTENSION = re.compile(r"_(?P<name>[a-z]\w*?)(?:_(?:cpu|cuda))?_[0-9a-z]+(?:_dirty)?(?:\.abi3)?\.so")
_MODULE = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,99}")
# What the module that leads back to the package above does to find it.
_LEADS_BACK = b".parent.parent"


def built_package(
    paths: Iterable[str], *, name: str | None, fallback: str, read: Callable[[str], bytes]
) -> BuiltPackage:
    """Return the package of a build folder.

    :param paths: every file, relative to the folder.
    :param name: of the kernel, where metadata.json says it.
    :param fallback: what it is called where nothing in the folder says it.
    :param read: gives the content of a small file.
    :raises SourceError: there is none, or something beside it.
    """
    shipped = [path for path in paths if path not in _BESIDE and not _is_bytecode(path)]
    if _INIT in shipped:
        return _flat(shipped, name, fallback, read)
    tops = {path.partition("/")[0] for path in shipped}
    packages = sorted(top for top in tops if f"{top}/{_INIT}" in shipped)
    if len(packages) != 1:
        found = f"several packages: {visible(', '.join(packages[:3]))}" if packages else "no package to import"
        raise SourceError(f"it has {found}, and no {_INIT} at its top or in one folder alone")
    (module,) = packages
    if beside := sorted(tops - {module}):
        raise SourceError(f"it holds {visible(beside[0])} beside its package {visible(module)}")
    if name is not None and _as_module(name) != module:
        raise SourceError(f"{METADATA} calls the kernel {name}, and its package is {visible(module)}")
    return BuiltPackage(module=_checked(module), files={path.partition("/")[2]: path for path in shipped})


def _flat(shipped: list[str], name: str | None, fallback: str, read: Callable[[str], bytes]) -> BuiltPackage:
    inner = [path for path in shipped if path.endswith(f"/{_INIT}") and path.count("/") == 1]
    leads_back = {path for path in inner if _is_alone(path, shipped) and _LEADS_BACK in read(path)}
    named = [path.partition("/")[0] for path in sorted(leads_back)]
    extensions = (found["name"] for path in shipped if (found := _EXTENSION.fullmatch(path)))
    module = _as_module(name or next(iter((*named, *extensions)), fallback))
    left_out = {path for path in leads_back if path == f"{module}/{_INIT}"}
    return BuiltPackage(module=_checked(module), files={path: path for path in shipped if path not in left_out})


def _is_alone(path: str, shipped: list[str]) -> bool:
    folder = path.rpartition("/")[0]
    return sum(other.startswith(f"{folder}/") for other in shipped) == 1


def _is_bytecode(path: str) -> bool:
    return path.endswith(".pyc") or "__pycache__" in PurePosixPath(path).parts


def _as_module(name: str) -> str:
    return name.replace("-", "_")


def _checked(module: str) -> str:
    if not _MODULE.fullmatch(module) or keyword.iskeyword(module):
        raise SourceError(f"{visible(module[:80])!r} is no name that can be imported")
    return module
