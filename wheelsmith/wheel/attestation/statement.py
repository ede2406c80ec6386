"""Write and read in-toto statements about wheels, with SLSA provenance from their plans and the record of the run.

The formats are statement v1 of https://github.com/in-toto/attestation, and https://slsa.dev/spec/v1.0/provenance.
Digests other than the sha256 of a file have names that wheelsmith defines: docs/reference/provenance.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from packageurl import PackageURL
from packaging.utils import canonicalize_name

from wheelsmith.base.ci import Checkout
from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import Record, canonical_json, in_one_line, parse_json
from wheelsmith.frameworks import HIPIFIED, frameworks
from wheelsmith.model import TORCH, UPSTREAM, PinnedFile, PinnedPackage, PinnedTree, PrefixId, SourceId
from wheelsmith.platforms import DEVELOPMENT, cuda_prefix, cuda_toolkits, cxx_toolchains, header_library
from wheelsmith.platforms.cuda import cuda_development, cuda_pins
from wheelsmith.platforms.header_libraries import KIND as LIBRARY
from wheelsmith.platforms.host_compilers import KIND as CXX
from wheelsmith.wheel.attestation.bundle import report_unreadable
from wheelsmith.wheel.recorded_plan import RecordedPlan

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:wheelsmith:build:1"
# Digests of several files: the source, a folder of an archive, and the pins of a prefix.
TREE, FOLDER, PINS = "wheelsmithTree", "wheelsmithFolder", "wheelsmithPins"
_SHA256 = "sha256:"
Descriptor = dict[str, Any]
Pins = tuple[PinnedFile | PinnedTree | PinnedPackage, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildProvenance(Record):
    """The provenance of a wheel, in addition to its recorded plan.

    :param cells: ids of the cells that it serves.
    :param wheelsmith: version of wheelsmith that built it.
    :param builder: URI of the builder.
    :param invocation: URI of the run, or None.
    :param checkout: checkout of a CI system for the run, or None.
    :param matrix_sha256: sha256 of the matrix file, or None.
    :param image: digest of the container image, or None.
    :param started_on: start of the run that built it, in UTC; None if an earlier run built it.
    :param finished_on: end of the build, in UTC, or None.
    """

    cells: tuple[str, ...]
    source: SourceId
    wheelsmith: str
    builder: str
    invocation: str | None = None
    checkout: Checkout | None = None
    matrix_sha256: str | None = None
    image: str | None = None
    started_on: str | None = None
    finished_on: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementClaims:
    """The claims of a statement that verification compares.

    :param filename: file name of the wheel.
    :param plan_digest: digest of the plan that the wheel records.
    :param source: e.g. ``hub:org/name``.
    :param tree: digest of the source's files.
    :param repository: URL of the repository that a CI system checked out, or None.
    """

    filename: str
    sha256: str
    builder: str
    source: str
    revision: str | None
    commit: str | None
    tree: str
    plan_digest: str
    cells: tuple[str, ...]
    repository: str | None


def write_statement(filename: str, sha256: str, recorded: RecordedPlan, made: BuildProvenance) -> bytes:
    """Return the statement of a wheel, as canonical JSON.

    :param recorded: the plan that the wheel records.
    :raises AttestationError: another version of wheelsmith wrote the plan in a format that cannot be read.
    """
    try:
        materials = dependencies(recorded, made.source, made.image, made.checkout)
    except (ValueError, LookupError, TypeError) as error:
        raise AttestationError(f"{filename}: its plan cannot be read: {in_one_line(error)}") from None
    source = {"origin": made.source.origin, "revision": made.source.revision, "commit": made.source.commit}
    parameters: dict[str, Any] = {"cells": list(made.cells), "source": _without_none(source)}
    if made.matrix_sha256:
        parameters["matrix"] = {"sha256": made.matrix_sha256}
    if made.checkout:
        parameters["checkout"] = made.checkout.to_json()
    times = {"invocationId": made.invocation, "startedOn": made.started_on, "finishedOn": made.finished_on}
    predicate = {
        "buildDefinition": {
            "buildType": BUILD_TYPE,
            "externalParameters": parameters,
            "internalParameters": {
                "plan": {"sha256": recorded.digest},
                "source": {"tree": made.source.tree},
                "recipe_version": recorded.data["recipe_version"],
                **({"compiled_by": UPSTREAM} if recorded.data.get("repacked") else {}),
            },
            "resolvedDependencies": materials,
        },
        "runDetails": {
            "builder": {"id": made.builder, "version": {"wheelsmith": made.wheelsmith}},
            "metadata": _without_none(times),
        },
    }
    subject = [{"name": filename, "digest": {"sha256": sha256}}]
    return canonical_json({"_type": STATEMENT, "subject": subject, "predicateType": PREDICATE, "predicate": predicate})


def read_subject(data: bytes) -> tuple[str, str]:
    """Return the file name and the sha256 of the only subject of a statement.

    :raises AttestationError: it is not a statement, or has several subjects.
    """
    with report_unreadable("the statement"):
        return _parse_subject(parse_json(data.decode()))


def read_statement(data: bytes) -> StatementClaims:
    """Parse an untrusted statement about one wheel.

    :raises AttestationError: it is not such a statement.
    """
    with report_unreadable("the statement"):
        return _parse_claims(parse_json(data.decode()))


def is_same_build(one: bytes, other: bytes) -> bool:
    """Return True if two statements differ only in their times and in the CI run."""
    try:
        return bool(_without_run(parse_json(one.decode())) == _without_run(parse_json(other.decode())))
    except (ValueError, TypeError, LookupError, AttributeError):
        return False


def _without_run(data: Any) -> Any:
    del data["predicate"]["runDetails"]["metadata"]
    return data


def _parse_claims(data: Any) -> StatementClaims:
    definition = data["predicate"]["buildDefinition"]
    for key, found, known in (
        ("_type", data["_type"], STATEMENT),
        ("predicateType", data["predicateType"], PREDICATE),
        ("buildType", definition["buildType"], BUILD_TYPE),
    ):
        if found != known:
            raise ValueError(f"its {key} is {found!r}, not {known}")
    filename, sha256 = _parse_subject(data)
    parameters, inside = definition["externalParameters"], definition["internalParameters"]
    source = parameters["source"]
    return StatementClaims(
        filename=filename,
        sha256=sha256,
        builder=_require_string(data["predicate"]["runDetails"]["builder"]["id"]),
        source=_require_string(source["origin"]),
        revision=_require_string(source["revision"]) if "revision" in source else None,
        commit=_require_string(source["commit"]) if "commit" in source else None,
        tree=_require_string(inside["source"]["tree"]),
        plan_digest=_require_string(inside["plan"]["sha256"]),
        cells=tuple(_require_string(each) for each in parameters["cells"]),
        repository=_require_string(parameters["checkout"]["repository"]) if "checkout" in parameters else None,
    )


def _parse_subject(data: Any) -> tuple[str, str]:
    (subject,) = data["subject"]
    return _require_string(subject["name"]), _require_string(subject["digest"]["sha256"])


def _without_none(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _require_string(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a string")
    return value


def dependencies(
    recorded: RecordedPlan, source: SourceId, image: str | None, checkout: Checkout | None
) -> list[Descriptor]:
    """Return the inputs of a wheel's build, with their digests.

    :param image: digest of the container image, or None.
    :param checkout: checkout of a CI system, which may contain the matrix file; or None.
    :raises ValueError: the plan is not in the format of this version of wheelsmith.
    :raises LookupError: the same.
    """
    found = [
        _source_descriptor(source),
        *_toolchain_descriptors(recorded.data),
        *_environment_descriptors(recorded.data),
    ]
    if image:
        found.append({"name": "image", "digest": {"sha256": image.removeprefix(_SHA256)}})
    if checkout:
        uri = f"git+{checkout.repository}@{checkout.ref}"
        found.append({"name": "checkout", "uri": uri, "digest": {"gitCommit": checkout.commit}})
    return found


def _source_descriptor(source: SourceId) -> Descriptor:
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
        return _pypi_purl(project, version)
    return None


def _toolchain_descriptors(plan: dict[str, Any]) -> Iterator[Descriptor]:
    toolset = plan["toolset"]
    if toolset and not toolset["prefix"]:
        yield {"name": f"compilers: {toolset['version']}", "digest": {PINS: toolset["digest"]}}
    for given in filter(None, ((toolset or {}).get("prefix"), plan["toolkit"], plan["headers"], *plan["libraries"])):
        prefix = PrefixId.from_json(given)
        name = f"{prefix.kind} {prefix.version} for {prefix.arch}"
        pins = prefix_pins(prefix)
        yield from (_pin_descriptor(pin, name) for pin in pins)
        if not pins:
            yield {"name": name, "digest": {PINS: prefix.digest}}


def _pin_descriptor(pin: PinnedFile | PinnedTree | PinnedPackage, part_of: str) -> Descriptor:
    digest = {FOLDER if isinstance(pin, PinnedTree) else "sha256": pin.sha256}
    uri = _pypi_purl(pin.project, pin.version, pin.filename) if isinstance(pin, PinnedFile) else pin.url
    annotations = {"part_of": part_of, **({"folder": pin.folder} if isinstance(pin, PinnedTree) else {})}
    return {"name": pin.filename, "uri": uri, "digest": digest, "annotations": annotations}


def _environment_descriptors(plan: dict[str, Any]) -> Iterator[Descriptor]:
    for each in (plan["project"] or {}).get("environment", ()):
        uri = _pypi_purl(each["name"], each["version"])
        annotations = {"part_of": "build environment"}
        yield {"name": each["name"], "uri": uri, "digest": {"sha256": each["sha256"]}, "annotations": annotations}


def _pypi_purl(project: str, version: str, filename: str | None = None) -> str:
    qualifiers = {"file_name": filename} if filename else None
    return PackageURL(type="pypi", name=canonicalize_name(project), version=version, qualifiers=qualifiers).to_string()


def prefix_pins(prefix: PrefixId) -> Pins:
    """Return the pinned files of a prefix; none if this version of wheelsmith has no prefix with its digest."""
    try:
        return next((pins for known, pins in _known_prefixes(prefix) if known == prefix), ())
    except KeyError:
        return ()


def _known_prefixes(prefix: PrefixId) -> Iterator[tuple[PrefixId, Pins]]:
    """Yield the known prefixes with the same kind, version and architecture, and any digest.

    :raises KeyError: there is none.
    """
    if prefix.kind == CXX:
        yield from ((each.prefix, each.packages) for each in cxx_toolchains())
    elif prefix.kind == LIBRARY:
        library = header_library(prefix.version)
        yield library.prefix, tuple(pin for pin in (library.wheel, library.archive) if pin)
    elif prefix.kind == DEVELOPMENT:
        toolkit = cuda_toolkits()[prefix.version]
        yield cuda_development(toolkit), toolkit.development
    elif prefix.kind == HIPIFIED or prefix.kind in frameworks():
        framework = frameworks()[TORCH if prefix.kind == HIPIFIED else prefix.kind]
        release = framework.find_version(prefix.version, prefix.arch)
        if release and prefix.arch in release.wheels:
            known = framework.prefix(release, prefix.arch)
            yield replace(known, kind=prefix.kind), (release.wheels[prefix.arch],)
    else:
        toolkit, (machine, _, target) = cuda_toolkits()[prefix.version], prefix.arch.partition("-")
        found = toolkit, machine, target or machine
        yield cuda_prefix(*found), cuda_pins(*found)
