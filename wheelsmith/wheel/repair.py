"""From the wheel that a build left to the wheel that people install."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.model import RECORDED_PLAN, WheelSpec, wheel_stem
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
    """Return the wheel the platform tag it has earned, and bytes that depend on its content alone.

    :param raw: what the build left; nothing about it is believed.
    :param work: an empty folder for this.
    :raises WheelError: the build left something else than the plan promised.
    """
    contents, spec = open_wheel(raw), order.spec
    work.mkdir(parents=True, exist_ok=True)
    if spec.metadata is None:
        contents = without_host_folders(relabel(contents, spec), work)
        raw = pack(contents, work / "relabelled")
    else:
        _check_promised(contents, spec)
    if order.members is not None:
        _check_members(contents, frozenset(order.members))
    if spec.platform != "any":
        tagged = work / "tagged"
        tagged.mkdir()
        needed = _needed(contents)
        left_out = [] if order.grafts else [name for name in sorted(needed) if not _is_everywhere(name)]
        contents = open_wheel(auditwheel.repair(raw, tagged, left_out=left_out))
        if order.policy:
            # Whether it keeps to that, the check says.
            contents = for_platform(contents, f"{order.policy}_{spec.arch}")
    if order.plan is not None:
        own = {RECORDED_PLAN: order.plan.encode(), **_materials(contents, spec, order.plan)}
        contents = _with_own(contents, own)
    return pack(contents, work)


def _materials(contents: WheelContents, spec: WheelSpec, plan: str) -> dict[str, bytes]:
    """Return the file that tells what is in a wheel; auditwheel has told of what it put there, if anything."""
    from wheelsmith.wheel.sbom import sbom, sbom_name

    return {f"{SBOMS}/{sbom_name(spec.distribution)}": sbom(plan, _needed(contents))}


def _with_own(contents: WheelContents, own: dict[str, bytes]) -> WheelContents:
    files = {f"{contents.info}/{name}": data for name, data in own.items()}
    # Also as a folder, in the place of one, or where case does not count.
    own_names = {name.casefold() for name in files}
    folders = {f"{contents.info}/{SBOMS}".casefold()}
    for name in contents.files:
        path = name.casefold()
        if path in own_names | folders or path.startswith(tuple(f"{each}/" for each in own_names)):
            raise WheelError(f"the build put {name} into the wheel, which is for wheelsmith to write")
    return replace(contents, files={**contents.files, **files})


def _needed(contents: WheelContents) -> set[str]:
    """Return the libraries that its files need: auditwheel is shown only what our own bounded reader could read."""
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
    _check_wheel_file(contents, f"{spec.python_tag}-{spec.abi_tag}-{spec.platform}")
    if wrong := record_mistakes(contents):
        raise WheelError(f"the build left a RECORD that lies: {wrong[0]}")


def _check_members(contents: WheelContents, members: frozenset[str]) -> None:
    """Refuse files that nobody planned: one with a .pth would run whenever its user's Python starts."""
    records = {f"{contents.info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    found = frozenset(contents.files) - records
    if added := sorted(found - members):
        raise WheelError(f"the build put {added[0]!r} into the wheel, which is not the kernel's")
    if missing := sorted(members - found):
        raise WheelError(f"the build left {missing[0]!r} out of the wheel")


def _check_wheel_file(contents: WheelContents, tag: str) -> None:
    """Check what ``wheel pack`` makes a file name of: a tag or a build number may hold slashes."""
    headers = contents.wheel
    if [str(value) for value in headers.get_all("Tag", [])] != [tag] or "Build" in headers:
        raise WheelError(f"the build left a WHEEL file that says something else than {tag}")


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
