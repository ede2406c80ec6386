"""What a wheel is made from, as provenance lists it: the source, every pinned file, every wheel of an environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from packageurl import PackageURL
from packaging.utils import canonicalize_name

from wheelsmith.base.ci import Checkout
from wheelsmith.model import PinnedFile, PinnedPackage, PinnedTree, PrefixId, SourceId
from wheelsmith.toolchain.prefix_pins import made_from
from wheelsmith.wheel.recorded_plan import RecordedPlan

# Of several files together: the source's, those below a folder of an archive, and the pins of a prefix.
TREE, FOLDER, PINS = "wheelsmithTree", "wheelsmithFolder", "wheelsmithPins"
_SHA256 = "sha256:"
Descriptor = dict[str, Any]


def dependencies(
    recorded: RecordedPlan, source: SourceId, image: str | None, checkout: Checkout | None
) -> list[Descriptor]:
    """Return what a plan's wheel is made from, each by its digests.

    :param image: a container's, by its digest.
    :param checkout: what a CI system had there, the matrix perhaps in it.
    :raises ValueError: the plan is not as this wheelsmith writes plans.
    :raises LookupError: as above.
    """
    found = [_source(source), *_toolchain(recorded.data), *_environment(recorded.data)]
    if image:
        found.append({"name": "image", "digest": {"sha256": image.removeprefix(_SHA256)}})
    if checkout:
        uri = f"git+{checkout.repository}@{checkout.ref}"
        found.append({"name": "checkout", "uri": uri, "digest": {"gitCommit": checkout.commit}})
    return found


def _source(source: SourceId) -> Descriptor:
    kind, _, address = source.origin.partition(":")
    where, _, folder = address.partition("#subdirectory=")
    inside = {"annotations": {"subdirectory": folder}} if folder else {}
    digests = {TREE: source.tree}
    if kind in {"hub", "git"} and source.commit:
        digests["gitCommit"] = source.commit
    elif source.commit:
        digests["sha256"] = source.commit
    uri = _source_uri(kind, where, source.commit)
    return {"name": "source", **({"uri": uri} if uri else {}), "digest": digests, **inside}


def _source_uri(kind: str, where: str, commit: str | None) -> str | None:
    if kind == "hub":
        namespace, _, name = where.rpartition("/")
        return PackageURL(type="huggingface", namespace=namespace or None, name=name, version=commit).to_string()
    if kind == "git" and where != "local":
        return f"git+{where}" + (f"@{commit}" if commit else "")
    if kind == "sdist":
        project, _, version = where.partition("==")
        return _pypi(project, version)
    return None


def _toolchain(plan: dict[str, Any]) -> Iterator[Descriptor]:
    toolset = plan["toolset"]
    if toolset and not toolset["prefix"]:
        yield {"name": f"compilers: {toolset['version']}", "digest": {PINS: toolset["digest"]}}
    for given in filter(None, ((toolset or {}).get("prefix"), plan["toolkit"], plan["headers"], *plan["libraries"])):
        prefix = PrefixId.from_json(given)
        name = f"{prefix.kind} {prefix.version} for {prefix.arch}"
        pins = made_from(prefix)
        yield from (_pinned(pin, name) for pin in pins)
        if not pins:
            yield {"name": name, "digest": {PINS: prefix.digest}}


def _pinned(pin: PinnedFile | PinnedTree | PinnedPackage, part_of: str) -> Descriptor:
    digest = {FOLDER if isinstance(pin, PinnedTree) else "sha256": pin.sha256}
    uri = _pypi(pin.project, pin.version, pin.filename) if isinstance(pin, PinnedFile) else pin.url
    said = {"part_of": part_of, **({"folder": pin.folder} if isinstance(pin, PinnedTree) else {})}
    return {"name": pin.filename, "uri": uri, "digest": digest, "annotations": said}


def _environment(plan: dict[str, Any]) -> Iterator[Descriptor]:
    for each in (plan["project"] or {}).get("environment", ()):
        uri = _pypi(each["name"], each["version"])
        said = {"part_of": "build environment"}
        yield {"name": each["name"], "uri": uri, "digest": {"sha256": each["sha256"]}, "annotations": said}


def _pypi(project: str, version: str, filename: str | None = None) -> str:
    beside = {"file_name": filename} if filename else None
    return PackageURL(type="pypi", name=canonicalize_name(project), version=version, qualifiers=beside).to_string()
