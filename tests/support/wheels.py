"""Small wheels, right down to their RECORD."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from dataclasses import replace
from pathlib import Path

from wheelsmith.index.publish.input_folders import read_external
from wheelsmith.index.publish.release import WheelUpload, parse_upload
from wheelsmith.model import Cell
from wheelsmith.model.run_record import RunRecord


def make_wheel(
    folder: Path,
    name: str,
    version: str,
    *,
    requires: tuple[str, ...] = (),
    files=None,
    tag: str = "py3-none-any",
    about: str = "",
) -> Path:
    """Write ``name-version-tag.whl`` and return its path.

    :param about: the end of METADATA: more headers, and after an empty line the description.
    """
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: >=3.9\n"
    contents = {
        f"{name}.py": f"VERSION = {version!r}\n".encode(),
        **(files or {}),
        f"{info}/METADATA": (metadata + "".join(f"Requires-Dist: {r}\n" for r in requires) + about).encode(),
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    rows = []
    for path, data in contents.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{path},sha256={digest},{len(data)}")
    contents[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    folder.mkdir(parents=True, exist_ok=True)
    wheel = folder / f"{name}-{version}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, data in contents.items():
            # Of no time: made again, it is the same wheel.
            member = zipfile.ZipInfo(path)
            member.external_attr = 0o600 << 16
            archive.writestr(member, data, zipfile.ZIP_DEFLATED)
    return wheel


def tell_results(out: Path, project: str, version: str) -> None:
    """Leave what a run tells of itself, beside the index that it made."""
    run = RunRecord(
        kernel=project, interrupted=False, cells={}, distribution=project, kernel_version=version, matrix_sha256=None
    )
    (out / "results.json").write_text(json.dumps(run.to_json()))


def offer(path: Path, *cells: Cell) -> WheelUpload:
    """Return a wheel as an index is offered it, for these cells; read in this process, since that is faster."""
    given = parse_upload(path, read_external({"path": str(path)}))
    return replace(given, entry=replace(given.entry, cells=cells)) if cells else given
