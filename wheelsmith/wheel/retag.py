"""Write into a project's wheel for which torch and compute platform it is."""

from __future__ import annotations

import re
from dataclasses import replace
from email.generator import BytesGenerator
from email.message import EmailMessage
from io import BytesIO

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from wheelsmith.base.errors import WheelError
from wheelsmith.frameworks import patches_of, read_local_version
from wheelsmith.model import WheelSpec, read_wheel_name, same_version, wheel_stem
from wheelsmith.wheel.archive import WheelContents, read_headers
from wheelsmith.wheel.manylinux import is_no_older
from wheelsmith.wheel.requirements import read_requirements

_ABI3 = re.compile(r"cp3(\d+)")


def relabel(contents: WheelContents, spec: WheelSpec) -> WheelContents:
    """Return the wheel with the planned version and torch requirement; everything else stays as the project has it.

    :raises WheelError: it is not the wheel that was planned.
    """
    _check_tags(contents, spec)
    requirements = _requirements(contents)
    metadata = contents.metadata
    _check_name(metadata, spec)
    metadata.replace_header("Version", spec.version)
    _pin_torch(metadata, requirements, spec)
    return renamed(contents, f"{wheel_stem(spec.distribution)}-{spec.version}", _bytes(metadata))


def renamed(contents: WheelContents, stem: str, metadata: bytes) -> WheelContents:
    """Return the wheel with another name and version; RECORD is left as it is, to be made anew.

    :param stem: name and version as they begin a file name, e.g. ``k-1+cu130``.
    """
    tags = contents.filename.removesuffix(".whl").split("-", 2)[2]
    old = contents.info.removesuffix(".dist-info")
    files = {_moved(name, old, stem): data for name, data in contents.files.items()}
    files[f"{stem}.dist-info/METADATA"] = metadata
    return replace(contents, filename=f"{stem}-{tags}.whl", info=f"{stem}.dist-info", files=files)


def for_platform(contents: WheelContents, platform: str) -> WheelContents:
    """Return the wheel for the machines of a platform tag, which have all that it needs.

    :raises WheelError: some of them lack what it needs.
    """
    tags = read_wheel_name(contents.filename).tags
    for tag in tags:
        if not is_no_older(platform, tag.platform):
            raise WheelError(
                f"it needs what {tag.platform} has, and was built for {platform}",
                remedy="see what it links with: auditwheel show; what lies ready in the project was made elsewhere",
            )
    headers = contents.wheel
    del headers["Tag"]
    for name in sorted({f"{tag.interpreter}-{tag.abi}" for tag in tags}):
        headers["Tag"] = f"{name}-{platform}"
    filename = f"{contents.filename.rpartition('-')[0]}-{platform}.whl"
    return replace(contents, filename=filename, files={**contents.files, f"{contents.info}/WHEEL": _bytes(headers)})


def _check_tags(contents: WheelContents, spec: WheelSpec) -> None:
    name = read_wheel_name(contents.filename)
    if name.build:
        raise WheelError(f"the build left a wheel with a build tag, {contents.filename}")
    for tag in name.tags:
        if tag.platform != spec.platform:
            raise WheelError(f"the build left a wheel for platform {tag.platform}, not {spec.platform}")
        since = _ABI3.fullmatch(tag.interpreter)
        stable = tag.abi == "abi3" and since and int(since[1]) <= int(spec.python_tag[3:])
        if not stable and (tag.interpreter, tag.abi) != (spec.python_tag, spec.abi_tag):
            raise WheelError(f"the build left a wheel for {tag.interpreter}-{tag.abi}, not {spec.python_tag}")


def _check_name(metadata: EmailMessage, spec: WheelSpec) -> None:
    name, version = str(metadata.get("Name", "")), str(metadata.get("Version", ""))
    if canonicalize_name(name) != canonicalize_name(spec.distribution):
        raise WheelError(
            f"the build calls the project {name!r}, the matrix {spec.distribution!r}",
            remedy="make kernel.distribution in matrix.yaml the project's own name",
        )
    planned, _, cell = spec.version.partition("+")
    public, _, own = version.partition("+")
    if not same_version(public, Version(planned)) or not _agrees(own, cell):
        raise WheelError(
            f"the build says version {version[:100]!r}, the matrix {planned!r}",
            remedy="make version in matrix.yaml the project's own, or fix the project's",
        )


def _agrees(own: str, cell: str) -> bool:
    """Return True if the project's own local version names the same torch and CUDA as the cell's."""
    try:
        said = read_local_version(Version(f"0+{own}").local if own else None)
    except ValueError:  # also of InvalidVersion
        return False
    planned = read_local_version(cell)
    same_compute = said.compute is None or (planned.compute or "").startswith(said.compute)
    return same_compute and said.release in {None, planned.release}


def _requirements(contents: WheelContents) -> dict[str, Requirement]:
    """Return what the project requires, by the line that says it.

    :raises WheelError: it cannot be read.
    """
    headers = read_headers(contents.files[f"{contents.info}/METADATA"])
    lines = headers.get_all("Requires-Dist", [])
    requirements = read_requirements(lines)
    foreign = [f"Requires-Dist {line[:80]!r} is not ASCII" for line in lines if not line.isascii()]
    ending = ["its headers end at a line that is no header"] if headers.defects else []
    if wrong := [*ending, *requirements.wrong, *foreign]:
        raise WheelError(f"the build left a METADATA that cannot be read: {wrong[0]}")
    return dict(zip(lines, requirements.lines, strict=True))


def _pin_torch(metadata: EmailMessage, requirements: dict[str, Requirement], spec: WheelSpec) -> None:
    """Require the torch that it was built against, and of its patches those that the project itself takes."""
    others, pinned, extras = [], SpecifierSet(f"=={spec.release}.*"), set[str]()
    patches = patches_of(str(spec.release))
    for line, need in requirements.items():
        if canonicalize_name(need.name) != "torch" or need.marker:
            others.append(line)
            continue
        extras |= need.extras
        if len(taken := list((pinned & need.specifier).filter(patches))) < len(patches):
            pinned &= need.specifier
            if not taken:
                raise WheelError(f"the project requires {line}, which torch {spec.release} is not")
    del metadata["Requires-Dist"]
    torch = f"torch[{','.join(sorted(extras))}]" if extras else "torch"
    for line in (f"{torch}{pinned}", *others):
        metadata["Requires-Dist"] = line


def _moved(name: str, old: str, stem: str) -> str:
    for suffix in (".dist-info/", ".data/"):
        if name.startswith(old + suffix):
            return stem + name[len(old) :]
    return name


def _bytes(metadata: EmailMessage) -> bytes:
    out = BytesIO()
    BytesGenerator(out, mangle_from_=False, maxheaderlen=0).flatten(metadata)
    return out.getvalue()
