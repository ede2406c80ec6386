"""Make the wheel that people install from the wheel that a build left."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.model import RECORDED_PLAN, WheelSpec, read_wheel_name, wheel_stem
from wheelsmith.wheel import auditwheel
from wheelsmith.wheel.archive import WheelContents, open_wheel, record_mistakes
from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.elf import is_for_the_cpu, read_extension
from wheelsmith.wheel.manylinux import policies
from wheelsmith.wheel.repair_request import RepairRequest
from wheelsmith.wheel.retag import for_platform, relabel
from wheelsmith.wheel.rpath import without_host_folders

SBOMS = "sboms"  # in the .dist-info folder, PEP 770


def repair(raw: Path, order: RepairRequest, work: Path) -> Path:
    """Give the wheel the platform tag that its symbols allow, and bytes that depend on its content only.

    :param raw: what the build left; nothing about it is believed.
    :param work: an empty folder for this.
    :raises WheelError: the build left something else than the plan promised.
    """
    contents, spec = open_wheel(raw), order.spec
    work.mkdir(parents=True, exist_ok=True)
    if spec.metadata is not None:
        _check_promised(contents, spec)
    _check_wheel_file(contents)
    if wrong := record_mistakes(contents):
        raise WheelError(f"the build left a RECORD that lies: {wrong[0]}")
    if spec.metadata is None:
        contents = without_host_folders(relabel(contents, spec), work)
        raw = pack(contents, work / "relabelled")
    if order.members is not None:
        _check_members(contents, frozenset(order.members))
    if spec.platform != "any":
        tagged = work / "tagged"
        tagged.mkdir()
        left_out = [] if order.grafts else [name for name in sorted(_needed(contents)) if not _is_everywhere(name)]
        contents = open_wheel(auditwheel.repair(raw, tagged, left_out=left_out))
        if order.policy:
            # The check compares that with the symbols.
            contents = for_platform(contents, f"{order.policy}_{spec.arch}")
    return pack(_with_records(contents, order.plan) if order.plan is not None else contents, work)


def _with_records(contents: WheelContents, plan: str) -> WheelContents:
    """Return the wheel with its plan and its bill of materials. auditwheel adds one for the libraries it copied."""
    from wheelsmith.wheel.sbom import sbom, sbom_name

    materials = f"{contents.info}/{SBOMS}/{sbom_name(contents.info.partition('-')[0])}"
    own = {f"{contents.info}/{RECORDED_PLAN}": plan.encode(), materials: sbom(plan, _needed(contents))}
    for name in contents.files:
        if name == f"{contents.info}/{SBOMS}" or any(f"{name}/".startswith(f"{each}/") for each in own):
            raise WheelError(f"the build put {name} into the wheel, which is for wheelsmith to write")
    return replace(contents, files={**contents.files, **own})


def _needed(contents: WheelContents) -> set[str]:
    """Return the libraries that the wheel's files need."""
    files = contents.files.items()
    read = (read_extension(name, io.BytesIO(data)) for name, data in files if is_for_the_cpu(data))
    return {library for extension in read for library in extension.needed}


def _is_everywhere(library: str) -> bool:
    return every_process_has(library) or library in policies("manylinux")[-1].libraries


def _check_promised(contents: WheelContents, spec: WheelSpec) -> None:
    assert spec.metadata is not None  # noqa: S101  # a project's wheel goes another way
    expected = f"{wheel_stem(spec.distribution)}-{spec.version}-{spec.python_tag}-{spec.abi_tag}-{spec.platform}.whl"
    if contents.filename != expected:
        raise WheelError(f"the build left {contents.filename}, not {expected}")
    if contents.files[f"{contents.info}/METADATA"] != spec.metadata.encode():
        raise WheelError("the build changed METADATA")


def _check_members(contents: WheelContents, members: frozenset[str]) -> None:
    """Refuse files that are not planned, and missing ones."""
    records = {f"{contents.info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    found = frozenset(contents.files) - records
    if added := sorted(found - members):
        raise WheelError(f"the build put {added[0]!r} into the wheel, which is not the kernel's")
    if missing := sorted(members - found):
        raise WheelError(f"the build left {missing[0]!r} out of the wheel")


def _check_wheel_file(contents: WheelContents) -> None:
    """Compare WHEEL with the file name: ``wheel pack`` makes a file name of WHEEL, where a tag may hold slashes."""
    headers = contents.wheel
    tags = {str(tag) for tag in read_wheel_name(contents.filename).tags}
    if {str(value) for value in headers.get_all("Tag", [])} != tags or "Build" in headers:
        raise WheelError(f"the build left a WHEEL file that says something else than {contents.filename}")


def pack(contents: WheelContents, work: Path) -> Path:
    """Write the files in order, with one date and plain modes, through the ``wheel`` command; RECORD is made anew."""
    folder, target = work / "unpacked", work / "packed"
    target.mkdir(parents=True)
    for name, data in contents.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # wheel pack copies modes, which would otherwise follow the umask of whoever builds.
        path.chmod(0o755 if data[:4] == b"\x7fELF" else 0o644)
    answer = subprocess.run(
        [sys.executable, "-P", "-m", "wheel", "pack", str(folder), "-d", str(target)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH},
    )
    found = list(target.glob("*.whl"))
    if answer.returncode or len(found) != 1:
        raise WheelError(f"{contents.filename} could not be packed: {answer.stderr.strip()}")
    return found[0]
