"""What is signed of a wheel: an in-toto statement with SLSA provenance, made from its plan and what the run knows.

The forms: https://github.com/in-toto/attestation, statement v1; https://slsa.dev/spec/v1.0/provenance. Of what is
fetched, digests that are no sha256 of a file have names of wheelsmith's own: docs/reference/provenance.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from wheelsmith.base.ci import Checkout
from wheelsmith.base.errors import AttestationError
from wheelsmith.base.json_dataclass import Record, canonical_json, in_one_line
from wheelsmith.model import SourceId
from wheelsmith.wheel.attestation.bundle import strict_json
from wheelsmith.wheel.attestation.dependencies import dependencies
from wheelsmith.wheel.recorded_plan import RecordedPlan

STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "https://slsa.dev/provenance/v1"
BUILD_TYPE = "urn:wheelsmith:build:1"
_LONGEST = 300  # characters of anything that is shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Made(Record):
    """How a wheel was made, beside what it records itself.

    :param cells: ids of those that it serves.
    :param wheelsmith: the version that made it.
    :param builder: a URI of who ran it.
    :param invocation: a URI of that run; None where it has none.
    :param checkout: what a CI system checked out for that run; None where there was none.
    :param matrix_sha256: of the matrix file; None where that is not known.
    :param image: of a container, by its digest; None where there was none.
    :param started_on: UTC, when the run began that built it; None where an earlier one did.
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
class Said:
    """What a statement says, as far as it is compared with something.

    :param filename: of the wheel.
    :param plan_digest: of the plan that the wheel records.
    :param source: where it was made from, as ``hub:org/name``.
    :param tree: the digest of the source's files.
    :param repository: that a CI system checked out.
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


def write_statement(filename: str, sha256: str, recorded: RecordedPlan, made: Made) -> bytes:
    """Return the statement of a wheel, as canonical JSON.

    :param recorded: the plan that the wheel records.
    :raises AttestationError: the plan is of another wheelsmith.
    """
    try:
        materials = dependencies(recorded, made.source, made.image, made.checkout)
    except (ValueError, LookupError, TypeError) as error:
        raise AttestationError(f"{filename}: its plan cannot be read: {in_one_line(error)}") from None
    source = {"origin": made.source.origin, "revision": made.source.revision, "commit": made.source.commit}
    parameters: dict[str, Any] = {"cells": list(made.cells), "source": _given(source)}
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
            },
            "resolvedDependencies": materials,
        },
        "runDetails": {
            "builder": {"id": made.builder, "version": {"wheelsmith": made.wheelsmith}},
            "metadata": _given(times),
        },
    }
    subject = [{"name": filename, "digest": {"sha256": sha256}}]
    return canonical_json({"_type": STATEMENT, "subject": subject, "predicateType": PREDICATE, "predicate": predicate})


def read_subject(data: bytes) -> tuple[str, str]:
    """Return the file name and the sha256 of the one file that a statement is of, whatever it says of that.

    :raises AttestationError: it is none, or of several.
    """
    try:
        statement = strict_json(data)
        (subject,) = statement["subject"]
        return _text(subject["name"]), _text(subject["digest"]["sha256"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise AttestationError(f"the statement cannot be read: {in_one_line(error)}") from None


def read_statement(data: bytes) -> Said:
    """Read a statement of one wheel that anybody may have written.

    :raises AttestationError: it is none.
    """
    try:
        return _said(strict_json(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise AttestationError(f"the statement cannot be read: {in_one_line(error)}") from None


def says_the_same(one: bytes, other: bytes) -> bool:
    """Say whether two statements differ in nothing but when, and by which run of a CI system, they were made."""
    try:
        return bool(_timeless(strict_json(one)) == _timeless(strict_json(other)))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return False


def _timeless(data: Any) -> Any:
    del data["predicate"]["runDetails"]["metadata"]
    return data


def _said(data: Any) -> Said:
    for key, known in (("_type", STATEMENT), ("predicateType", PREDICATE)):
        if data[key] != known:
            raise ValueError(f"its {key} is {str(data[key])[:_LONGEST]!r}, not {known}")
    definition = data["predicate"]["buildDefinition"]
    if definition["buildType"] != BUILD_TYPE:
        raise ValueError(f"it is of no build of wheelsmith's: {str(definition['buildType'])[:_LONGEST]!r}")
    (subject,) = data["subject"]
    parameters, inside = definition["externalParameters"], definition["internalParameters"]
    source = parameters["source"]
    return Said(
        filename=_text(subject["name"]),
        sha256=_text(subject["digest"]["sha256"]),
        builder=_text(data["predicate"]["runDetails"]["builder"]["id"]),
        source=_text(source["origin"]),
        revision=_text(source["revision"]) if "revision" in source else None,
        commit=_text(source["commit"]) if "commit" in source else None,
        tree=_text(inside["source"]["tree"]),
        plan_digest=_text(inside["plan"]["sha256"]),
        cells=tuple(_text(each) for each in parameters["cells"]),
        repository=_text(parameters["checkout"]["repository"]) if "checkout" in parameters else None,
    )


def _given(values: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{str(value)[:_LONGEST]!r} is no text")
    return value
