"""Read policies: the accepted signers, and the sources, repositories and builders that statements may name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from wheelsmith.base.errors import MatrixError, Place, PolicyError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.matrix.load import SCHEMA_HINT, read_yaml
from wheelsmith.wheel.attestation.certificate import GITHUB, GITLAB, CertificateClaims
from wheelsmith.wheel.attestation.keys import VerifyingKey, verifying_key
from wheelsmith.wheel.attestation.statement import StatementClaims

# Start of a workflow's or repository's URL → token issuer.
_ISSUERS = {"https://github.com/": GITHUB, "https://gitlab.com/": GITLAB}
_MAX_SIZE = 1 << 16  # bytes
_MAX_SHOWN = 4  # identities in one message
# The part of a source before the path of its repository. An @ in it follows a user name.
_BEFORE_PATH = re.compile(r"hub:|git:([A-Za-z+]+://[^/]*/|[^/:]*:)?")
_ARCHIVE = re.compile(r"(?P<place>.+)@(?P<revision>[0-9a-f]{64})", re.DOTALL)
_EXAMPLE = "keys: [release.pub], and optionally sources: ['hub:org/name'] and builders: ['https://…']"


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A workflow or a person that may sign without a key. All given fields must match.

    ``*`` matches any text without a slash, but has no special meaning in ``issuer`` and ``repository``. Without a
    repository, the workflow must run in its own repository, because others can call it.

    :param issuer: issuer of the token.
    :param subject: subject of the certificate: URL of a workflow with its revision, or e-mail address.
    :param repository: URL of the repository.
    :param workflow: path of a workflow or pipeline file in the repository.
    :param ref: e.g. ``refs/tags/*``.
    """

    issuer: str
    subject: str | None = None
    repository: str | None = None
    workflow: str | None = None
    ref: str | None = None

    def violations(self, claims: CertificateClaims) -> Iterator[str]:
        """Yield the claims of a certificate that do not match."""
        if claims.issuer != self.issuer:
            yield f"the issuer is {claims.issuer}, not {self.issuer}"
        if self.repository is not None and claims.repository != self.repository:
            yield f"the repository is {_or_unknown(claims.repository)}, not {self.repository}"
        if self.repository is None and claims.caller is not None:
            yield f"the repository {claims.caller} called the workflow, but the identity does not name it"
        for field, found, shown, pattern in (
            ("subject", claims.subject, claims.subject, self.subject),
            ("workflow", claims.workflow_file, claims.workflow, self.workflow),
            ("ref", claims.ref, claims.ref, self.ref),
        ):
            if pattern is not None and not (found is not None and _matches(found, pattern)):
                yield f"the {field} is {_or_unknown(shown)}, not {pattern}"


def known_issuer(address: str) -> str | None:
    """Return the token issuer of a repository's workflows, or None if it is unknown."""
    return next((issuer for start, issuer in _ISSUERS.items() if address.startswith(start)), None)


def identity_violation(claims: CertificateClaims, identities: tuple[Identity, ...]) -> str | None:
    """Return why a certificate matches none of the identities, or None if it matches one."""
    violations = [list(each.violations(claims)) for each in identities]
    if not all(violations):
        return None
    more = f"; and {len(violations) - _MAX_SHOWN} more" if len(violations) > _MAX_SHOWN else ""
    reasons = "; or ".join(" and ".join(each) for each in violations[:_MAX_SHOWN])
    return f"its certificate matches no accepted identity: {reasons}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SignaturePolicy:
    """The accepted signers and statements. Empty sources, repositories or builders allow any value.

    :param keys: keys of which any may sign.
    :param identities: identities of which any may sign with a certificate.
    :param trust: accepted certificate authorities and logs, same as for ``verifier``.
    :param sources: sources of wheels: ``hub:org/name`` or ``hub:org/name@revision``.
    :param repositories: repositories that a CI system checked out; empty also allows builds outside CI systems.
    :param builders: builders; ``*`` matches any text without a slash.
    """

    keys: tuple[VerifyingKey, ...] = ()
    identities: tuple[Identity, ...] = ()
    trust: Path | None = None
    sources: tuple[str, ...] = ()
    repositories: tuple[str, ...] = ()
    builders: tuple[str, ...] = ()

    def violations(self, claims: StatementClaims) -> Iterator[str]:
        """Yield the claims of a statement that the policy does not allow."""
        if self.sources and not any(_has_source(claims, each) for each in self.sources):
            revision = claims.commit or claims.revision
            found = f"{claims.source}@{revision}" if revision else claims.source
            yield f"its source is {found}, not {' or '.join(self.sources)}"
        if self.repositories and claims.repository not in self.repositories:
            yield f"its repository is {_or_unknown(claims.repository)}, not {' or '.join(self.repositories)}"
        if self.builders and not any(_matches(claims.builder, each) for each in self.builders):
            yield f"its builder is {claims.builder}, not {' or '.join(self.builders)}"

    def with_overrides(self, **rules: tuple[str, ...]) -> SignaturePolicy:
        """Return a copy with the given fields replaced. Empty ones are ignored."""
        return replace(self, **{name: values for name, values in rules.items() if values})  # type: ignore[arg-type]  # only fields with texts


_Text = Annotated[str, Field(min_length=1)]
_OneOrMore = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
_Texts = Annotated[tuple[_Text, ...], Field(min_length=1), _OneOrMore]


class _IdentityModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    issuer: _Text
    subject: _Text | None = None
    repository: _Text | None = None
    workflow: _Text | None = None
    ref: _Text | None = None

    @model_validator(mode="after")
    def _require_subject_or_repository(self) -> Self:
        if not (self.subject or self.repository):
            raise ValueError("an identity needs a subject or a repository")
        return self


class _PolicyModel(BaseModel):
    model_config = ConfigDict(extra="forbid")
    keys: _Texts = ()
    identities: Annotated[tuple[_IdentityModel, ...], Field(min_length=1)] = ()
    trust_config: _Text | None = Field(None, alias="trust-config")
    # An empty list would allow everything, so one is an error.
    sources: _Texts = ()
    repositories: _Texts = ()
    builders: _Texts = ()

    @model_validator(mode="after")
    def _require_signer(self) -> Self:
        if not (self.keys or self.identities):
            raise ValueError("it names no key and no identity, so it accepts no signature")
        return self


def read_policy(path: Path) -> SignaturePolicy:
    """Read a policy. Paths in it are relative to its folder.

    :raises PolicyError: it cannot be read, or names no signer.
    :raises SigningKeyError: a key cannot be read.
    """
    try:
        policy = read_yaml(read_bounded(path, _MAX_SIZE).decode(), str(path), _PolicyModel)
    except MatrixError as error:
        remedy = error.remedy if error.remedy != SCHEMA_HINT else None
        raise PolicyError(error.message, where=error.where, remedy=remedy or f"write {_EXAMPLE}") from None
    except (OSError, ValueError, RecursionError) as error:
        why = f"it cannot be read: {in_one_line(error)}"
        raise PolicyError(why, where=Place(file=str(path)), remedy=f"write {_EXAMPLE}") from None
    return SignaturePolicy(
        keys=tuple(verifying_key(path.parent / name) for name in policy.keys),
        identities=tuple(Identity(**each.model_dump()) for each in policy.identities),
        trust=path.parent / policy.trust_config if policy.trust_config else None,
        sources=policy.sources,
        repositories=policy.repositories,
        builders=policy.builders,
    )


def _has_source(claims: StatementClaims, source: str) -> bool:
    """Return True if a statement has the source, and the revision if the policy names one."""
    place, revision = _split_revision(source)
    places = {claims.source, claims.source.partition("#subdirectory=")[0]}
    return place in places and (revision is None or revision in {claims.revision, claims.commit})


def _split_revision(source: str) -> tuple[str, str | None]:
    """Split a source at the @ before its revision, not at an @ in its name."""
    if before := _BEFORE_PATH.match(source):
        path, at, revision = source[before.end() :].partition("@")
        return before[0] + path, revision if at else None
    archive = _ARCHIVE.fullmatch(source)
    return (archive["place"], archive["revision"]) if archive else (source, None)


def _matches(text: str, pattern: str) -> bool:
    """Return True if a text matches a pattern, in which ``*`` matches any text without a slash."""
    return re.fullmatch("[^/]*".join(map(re.escape, pattern.split("*"))), text) is not None


def _or_unknown(text: str | None) -> str:
    return text or "unknown"
