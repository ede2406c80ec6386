"""Wheels that look like those of Hub kernels, for all that their extension is a few bytes."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from dataclasses import replace
from pathlib import Path

from wheelsmith.index.publish.input_folders import external_wheels
from wheelsmith.index.publish.release import WheelUpload
from wheelsmith.model import Cell

OPS = "import torch\nfrom . import {id}\nops = torch.ops.{id}\n"
NOARCH_OPS = 'def get_backend(): ...\n_NAMESPACE = f"_{module}_{{get_backend()}}_0123456789"\n'


def contents(module: str, version: str, *, requires: tuple[str, ...] = (), more=None, fields: str = "") -> dict:
    """Return what such a wheel holds, but for its RECORD: path → bytes."""
    info = f"{module}-{version}.dist-info"
    backend = "cpu" if "+cpu" in version else "cuda"
    name = f"_{module}_{backend}_0123456789"
    compiled = "+" in version
    metadata = f"Metadata-Version: 2.4\nName: {module}\nVersion: {version}\n{fields}Requires-Python: >=3.9\n"
    files = {
        f"{module}/__init__.py": b"from ._ops import ops\n",
        f"{module}/_ops.py": (OPS.format(id=name) if compiled else NOARCH_OPS.format(module=module)).encode(),
        **({f"{module}/{name}.abi3.so": b"\x7fELF\0" + version.encode()} if compiled else {}),
        f"{info}/METADATA": (metadata + "".join(f"Requires-Dist: {r}\n" for r in requires)).encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: false\nTag: cp39-abi3-any\n",
        **(more or {}),
    }
    return {path: data for path, data in files.items() if data is not None}


def kernel_wheel(
    folder: Path, module: str, version: str, *cells: Cell, platform="manylinux_2_28_x86_64", **more
) -> WheelUpload:
    """Write such a wheel, and give it as an index is offered it."""
    tags = f"cp39-abi3-{platform}" if "+" in version else "py3-none-any"
    files = contents(module, version, **more)
    rows = []
    for path, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    record = f"{module}-{version}.dist-info/RECORD"
    files[record] = "\n".join([*rows, f"{record},,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{module}-{version}-{tags}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in files.items():
            # Dates would make each writing another file.
            archive.writestr(zipfile.ZipInfo(path), data)
    (offer,) = external_wheels([wheel])
    return replace(offer, entry=replace(offer.entry, cells=cells)) if cells else offer
