"""Build folders of Hub repos, as kernel-builder and its elders laid them out."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from pathlib import Path

# What kernel-builder writes beside the package, for loaders that look there.
SHIM = """\
import importlib.util
import sys
from pathlib import Path


def _import_from_path(file_path):
    module_name = "{:x}".format(hash(file_path.absolute()))
    spec = importlib.util.spec_from_file_location(module_name, file_path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    spec.loader.exec_module(module)
    return module


globals().update(vars(_import_from_path(Path(__file__).parent.parent / "__init__.py")))
"""


def package_of(wheel: Path) -> tuple[str, dict[str, bytes]]:
    """Return the one package that a wheel has, and its files."""
    with zipfile.ZipFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    (module,) = {name.split("/")[0] for name in files}
    return module, {name.partition("/")[2]: data for name, data in files.items()}


def digests(files: dict[str, bytes]) -> dict[str, object]:
    hashed = {path: base64.b64encode(hashlib.sha256(data).digest()).decode() for path, data in files.items()}
    return {"algorithm": "sha256", "files": hashed}


def said(module: str, files: dict[str, bytes], backend: str, **more: object) -> dict[str, object]:
    """Return what kernel-builder's metadata.json says."""
    return {
        "name": module.replace("_", "-"),
        "id": f"_{module}_{backend}_0123456",
        "version": 1,
        "license": "Apache-2.0",
        "python-depends": [],
        "kernel-depends": [],
        "backend": {"type": backend},
        "digest": digests(files),
        **more,
    }


def lay_out(repo: Path, variant: str, module: str, files: dict[str, bytes], **more: object) -> Path:
    """Write a build folder as kernel-builder does: the package is the folder.

    :param more: what metadata.json says beside or instead.
    """
    backend = "cuda" if "cu1" in variant or variant.endswith("cuda") else "cpu"
    whole = {**files, f"{module}/__init__.py": SHIM.encode()}
    metadata = json.dumps(said(module, whole, backend, **more), indent=2).encode()
    return write(repo / "build" / variant, {**whole, "metadata.json": metadata})


def lay_out_old(repo: Path, variant: str, module: str, files: dict[str, bytes]) -> Path:
    """Write a build folder as it was before there was metadata.json: the package is within the folder."""
    return write(repo / "build" / variant, {f"{module}/{path}": data for path, data in files.items()})


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    return folder


def pure(module: str = "pure_thing", code: str = "def twice(x):\n    return x + x\n") -> dict[str, bytes]:
    """Return a package with nothing compiled."""
    return {"__init__.py": code.encode(), "_ops.py": f'_NAMESPACE = "_{module}"\n'.encode()}
