"""Builds for the ``kernels`` library in a Hub repo: ``build/<variant>/``, unpacked from a wheel.

Their format is defined by https://huggingface.co/docs/kernels/kernel-requirements and by the loader of kernels 0.17.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from packaging.metadata import RawMetadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_wheel_filename

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.frameworks import framework, frameworks, read_local_version
from wheelsmith.index.entries.entry import IndexEntry
from wheelsmith.index.entries.metadata import parse_headers
from wheelsmith.index.entries.state import Transition
from wheelsmith.index.publish.release import IndexRelease, WheelUpload
from wheelsmith.index.publish.writer import Index
from wheelsmith.index.storage.hub import kernel_branch
from wheelsmith.index.storage.protocol import Storage
from wheelsmith.plan.recipe.project_hints import dependencies
from wheelsmith.plan.recipe.static_setup_metadata import may_import
from wheelsmith.platforms import CPU, platform_name, platform_of, platforms
from wheelsmith.wheel.archive import open_wheel
from wheelsmith.wheel.reader import WheelReader

METADATA = "metadata.json"
# The loader's rule for names (kernels-data/src/config/name.rs), with underscores as in package names.
_MODULE = re.compile(r"[a-z][_a-z0-9]*[a-z0-9]")
_FLOOR = re.compile(r">=(\d+)\.(\d+)")
# recipe/generated.py writes this for a kernel without compiled code.
_NOARCH_OPS = re.compile(rb'f"_\w+?_\{get_backend\(\)\}_(?P<unique>[0-9a-z]+)"')
_IMPORT_FROM_PARENT = '''\
"""For versions of the kernels library that look here: the kernel is one folder up."""

import importlib.util
import sys
from pathlib import Path

_NAME = "{id}"

if _NAME not in sys.modules:
    _spec = importlib.util.spec_from_file_location(_NAME, Path(__file__).parent.parent / "__init__.py")
    sys.modules[_NAME] = importlib.util.module_from_spec(_spec)
    try:
        _spec.loader.exec_module(sys.modules[_NAME])
    except BaseException:
        del sys.modules[_NAME]
        raise

globals().update({{name: value for name, value in vars(sys.modules[_NAME]).items() if name[:2] != "__"}})
'''


class NoHubBuildError(PackageIndexError):
    """The wheel cannot be converted for the ``kernels`` library. The message is the reason."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HubBuild:
    """One variant of a kernel, for a folder under ``build/``.

    :param variant: name of the folder.
    :param filename: file name of the wheel. Its version decides between two builds of one variant.
    :param files: path in the variant's folder → path of the content, including metadata.json.
    """

    variant: str
    filename: str
    files: Mapping[str, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class HubBuilds:
    """The builds to publish with some wheels.

    :param left_out: file name of a wheel without a build → the reason.
    """

    builds: tuple[HubBuild, ...] = ()
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Variant:
    """One folder under ``build/``.

    :param backend: ``cpu`` or ``cuda``, as in kernel-builder.
    """

    name: str
    backend: str


@contextmanager
def hub_builds(uploads: Sequence[WheelUpload], target: str) -> Iterator[HubBuilds]:
    """Convert wheels to builds for the ``kernels`` library. The files exist until the block ends.

    :param target: address of the index. There are no builds unless it is a kernel repo on the Hub.
    :raises WheelError: a wheel cannot be read.
    """
    branch = kernel_branch(target)
    if branch is None:
        yield HubBuilds()
        return
    builds: list[HubBuild] = []
    left_out = {}
    with WheelReader() as reader:
        # A variant wheel has the same content as its plain wheel.
        for upload in (upload for upload in uploads if upload.entry.variant is None):
            request = {"path": str(upload.wheel.absolute()), "entry": upload.entry.to_json(), "branch": branch}
            name, size = upload.entry.filename, upload.entry.size
            answer = reader.call("wheelsmith.index.publish.kernels_layout:lay_out", request, subject=name, size=size)
            if reason := answer.get("left_out"):
                left_out[name] = reason
            for variant, files in answer.get("variants", {}).items():
                paths = {inside: reader.folder / path for inside, path in files.items()}
                builds.append(HubBuild(variant=variant, filename=name, files=paths))
        yield HubBuilds(builds=tuple(builds), left_out=left_out)


def lay_out(request: Mapping[str, Any]) -> dict[str, Any]:
    """Unpack a wheel. Return its files by variant, or the reason that it has no build. This runs in the worker."""
    entry = IndexEntry.from_json(request["entry"])
    try:
        _check_branch(request["branch"], entry)
        layout = build_layout(open_wheel(Path(request["path"])).files, entry)
    except NoHubBuildError as reason:
        return {"left_out": str(reason)}
    variants: dict[str, dict[str, str]] = {}
    for key, data in layout.items():
        path = Path(entry.filename) / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        _, variant, inside = key.split("/", 2)
        variants.setdefault(variant, {})[inside] = str(path)
    return {"variants": variants}


def _check_branch(branch: str, entry: IndexEntry) -> None:
    if branch[:1] == "v" and branch[1:].isdigit() and int(branch[1:]) != entry.version.major:
        raise NoHubBuildError(f"branch {branch} is for version {branch[1:]} of a kernel (branches are v1, v2, …)")


def add_release(
    storage: Storage,
    release: IndexRelease,
    builds: Iterable[HubBuild] = (),
    *,
    upload_time: str,
    revise: Mapping[str, Transition] | None = None,
) -> tuple[IndexEntry, ...]:
    """Add wheels like ``Index.add``, and their builds in the same transaction.

    :param storage: a Hub repo if there are builds, because other storages cannot change both atomically.
    :param builds: candidates. For each variant, the build of the newest wheel is used, and it replaces only older ones.
    :raises PackageIndexError: as for ``Index.add``.
    """

    def work(staged: Storage) -> tuple[IndexEntry, ...]:
        entries = Index(staged).add(
            release.uploads,
            upload_time=upload_time,
            answers=release.answers,
            planned=release.planned,
            revise=revise,
        )
        for build in newest.values():
            _put_build(staged, build)
        return entries

    # Two wheels may have the same version, e.g. for different glibcs. Either is suitable; the choice must be stable.
    ordered = sorted(builds, key=lambda build: (parse_wheel_filename(build.filename)[1], build.filename))
    newest = {build.variant: build for build in ordered}
    return storage.transaction(work) if newest else work(storage)


def _put_build(storage: Storage, build: HubBuild) -> None:
    folder = f"build/{build.variant}/"
    present = storage.read(folder + METADATA)
    if present and not is_superseded(present.data, build.files[METADATA].read_bytes()):
        return
    wanted = {folder + path: content for path, content in build.files.items()}
    for item in list(storage.listing(folder)):
        if item.key not in wanted:
            storage.delete(item.key)
    for key, content in wanted.items():
        # The key may already have other content, unlike in an index. The transaction prevents conflicts.
        storage.put(key, content)


def build_layout(files: Mapping[str, bytes], entry: IndexEntry) -> dict[str, bytes]:
    """Return the files of a wheel's builds: ``build/<variant>/…`` → bytes.

    The wheel's Python package becomes the variant's folder, because the loader imports it under another name.

    :param files: contents of the wheel, path → bytes.
    :raises NoHubBuildError: the ``kernels`` library cannot load the wheel's content.
    """
    module = _package_name(files)
    package = _package_files(files, module)
    _check_imports(module, package)
    headers = parse_headers(next(data for path, data in files.items() if path.endswith(".dist-info/METADATA")))
    layout: dict[str, bytes] = {}
    for variant in _variants(entry):
        unique = _import_name(module, package, variant)
        variant_files = dict(package)
        variant_files.setdefault(f"{module}/__init__.py", _IMPORT_FROM_PARENT.format(id=unique).encode())
        metadata = _metadata(module, unique, headers, entry, variant)
        metadata["digest"] = {
            "algorithm": "sha256",
            "files": {path: _digest(variant_files[path]) for path in sorted(variant_files)},
        }
        variant_files[METADATA] = json.dumps(metadata, indent=2).encode() + b"\n"
        layout |= {f"build/{variant.name}/{path}": variant_files[path] for path in sorted(variant_files)}
    return layout


def is_superseded(known: bytes, new: bytes) -> bool:
    """Return True if a published variant should be replaced: never by the build of an older wheel.

    A build of another program is also replaced if the version is the same.

    :param known: metadata.json of the published variant.
    :param new: metadata.json of the new variant.
    """
    following = json.loads(new)
    try:
        present = json.loads(known)
        if "wheelsmith" not in present:
            return bool(present["version"] <= following["version"])
        versions = [parse_wheel_filename(item["wheelsmith"]["wheel"])[1] for item in (present, following)]
    except (ValueError, KeyError, TypeError):
        return True
    return versions[0] < versions[1]


def _package_name(files: Mapping[str, bytes]) -> str:
    """Return the name of the wheel's only package.

    :raises NoHubBuildError: the wheel is not that of a Hub kernel.
    """
    tops = {path.split("/")[0] for path in files}
    kernels = {top for top in tops if f"{top}/_ops.py" in files and f"{top}/__init__.py" in files}
    if len(kernels) != 1:
        raise NoHubBuildError("it is not the wheel of a Hub kernel, which has one package with an _ops.py")
    module = kernels.pop()
    if others := sorted(top for top in tops - {module} if not top.endswith(".dist-info")):
        raise NoHubBuildError(f"it contains {others[0]} outside its package, which the Hub's layout does not allow")
    if not _MODULE.fullmatch(module):
        raise NoHubBuildError(f"{module} is not a valid name for a kernel on the Hub")
    return module


def _package_files(files: Mapping[str, bytes], module: str) -> dict[str, bytes]:
    """Return the files of the package without bytecode, which the loader does not download."""
    own = {path.removeprefix(f"{module}/"): data for path, data in files.items() if path.startswith(f"{module}/")}
    if METADATA in own:
        raise NoHubBuildError(f"{module}/{METADATA} is in the place of the Hub's own file")
    return {path: data for path, data in own.items() if not path.endswith(".pyc")}


def _check_imports(module: str, package: Mapping[str, bytes]) -> None:
    """Check that the package does not import itself by name, because its name differs on the Hub.

    :raises NoHubBuildError: a module does.
    """
    for path, data in sorted(package.items()):
        if path.endswith(".py") and may_import(data, module):
            raise NoHubBuildError(f"{module}/{path} imports {module} by name; on the Hub only relative imports work")


def _variants(entry: IndexEntry) -> tuple[_Variant, ...]:
    """Return the variants of a wheel. They are named after the cell that it was compiled for, not all cells it serves.

    :raises NoHubBuildError: no variant name describes the wheel.
    """
    _, version, _, tags = parse_wheel_filename(entry.filename)
    if not entry.cells:
        raise NoHubBuildError("its file name does not name a framework and a CUDA release")
    if any(cell.python for cell in entry.cells):
        raise NoHubBuildError("it is for one Python only, which variant names on the Hub cannot express")
    if version.local is None and {tag.platform for tag in tags} == {"any"}:
        backends = sorted({platform_name(cell.compute) or CPU for cell in entry.cells})
        return tuple(_Variant(name=f"torch-{backend}", backend=backend) for backend in backends)
    local = read_local_version(version.local)
    if not framework(local.framework).on_hub:
        raise NoHubBuildError(f"the Hub has no variants for {local.framework}")
    compute = local.compute
    if compute is None or not local.own:
        raise NoHubBuildError(f"its local version +{version.local} is not one of wheelsmith's")
    platform = platform_of(compute)
    cell = replace(entry.cells[0], toolkit=platform[1] if platform else None)
    if local.release:
        name = replace(cell, release=local.release).id
    elif floor := _FLOOR.fullmatch(entry.requires_torch or ""):
        name = f"torch-stable-abi{floor[1]}{floor[2]}-{compute.replace('.', '')}-{cell.arch}-{cell.os}"
    else:
        raise NoHubBuildError("it does not name a release of torch or tvm-ffi")
    return (_Variant(name=name, backend=platform_name(compute) or CPU),)


def _import_name(module: str, package: Mapping[str, bytes], variant: _Variant) -> str:
    """Return the name under which the loader imports the kernel. It is also the namespace of the operators."""
    libraries = [path for path in package if "/" not in path and path.endswith(".so")]
    if compiled := [path for path in libraries if path.endswith(".abi3.so")] or libraries:
        names = [path.removesuffix(".so").removesuffix(".abi3") for path in compiled]
        if len(names) != 1 or not names[0].startswith(f"_{module}_") or not names[0].isidentifier():
            raise NoHubBuildError("it does not have exactly one extension named after the kernel")
        return names[0]
    match = _NOARCH_OPS.search(package["_ops.py"])
    if not match:
        raise NoHubBuildError("its _ops.py does not contain the namespace of its operators")
    return f"_{module}_{variant.backend}_{match['unique'].decode()}"


def _metadata(module: str, unique: str, headers: RawMetadata, entry: IndexEntry, variant: _Variant) -> dict[str, Any]:
    urls = headers.get("project_urls", {})
    archs = {"archs": list(entry.gpu_archs)} if variant.backend in platforms() and entry.gpu_archs else {}
    return {
        "name": module.replace("_", "-"),
        "id": unique,
        "version": entry.version.major,
        # The field is required. The Hub uses this value if no licence is given.
        "license": headers.get("license_expression") or headers.get("license") or "unknown",
        **{key: urls[key.title()] for key in ("upstream", "source") if key.title() in urls},
        "python-depends": _python_depends(headers, variant.backend),
        "kernel-depends": [],
        "backend": {"type": variant.backend, **archs},
        # The loader ignores unknown keys.
        "wheelsmith": {"wheel": entry.filename, "sha256": entry.sha256},
    }


def _python_depends(headers: RawMetadata, backend: str) -> list[str]:
    """Return the requirements other than the framework, with the loader's names.

    :raises NoHubBuildError: the loader does not allow a requirement.
    """
    known = {canonicalize_name(item.requires): item.name for item in dependencies() if item.backend in {None, backend}}
    frameworks_projects = {each.project for each in frameworks().values()}
    found = []
    for requirement in map(Requirement, headers.get("requires_dist", [])):
        name = canonicalize_name(requirement.name)
        if name in frameworks_projects or (requirement.marker and not requirement.marker.evaluate({"extra": backend})):
            continue
        if name not in known:
            raise NoHubBuildError(f"it requires {requirement.name}, which the kernels library does not allow")
        found.append(known[name])
    return found


def _digest(data: bytes) -> str:
    return base64.b64encode(hashlib.sha256(data).digest()).decode()
