"""Who may sign without a key: a workflow of a repository, or a person, as a certificate names them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields

from wheelsmith.wheel.attestation.claims import Claims
from wheelsmith.wheel.attestation.patterns import matches

GITHUB, GITLAB = "https://token.actions.githubusercontent.com", "https://gitlab.com"
# Whose certificates a repository's or a workflow's address is in, where nobody says another.
_ISSUERS = {"https://github.com/": GITHUB, "https://gitlab.com/": GITLAB}
_SHOWN = 300  # characters
_SEVERAL = 4  # identities that are told of


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """All that is given must be so; ``*`` stands for anything but a slash, but in an issuer and a repository.

    Where no repository is given, it is the one that the workflow is of: a workflow may be called from any other.

    :param issuer: of the token.
    :param subject: the address that the certificate is of: a workflow's with its revision, or of mail.
    :param repository: its address.
    :param workflow: the path of a workflow or of a pipeline's file in the repository.
    :param ref: as ``refs/tags/*``.
    """

    issuer: str
    subject: str | None = None
    repository: str | None = None
    workflow: str | None = None
    ref: str | None = None

    def refusals(self, claims: Claims) -> Iterator[str]:
        """Yield in what a certificate is of somebody else."""
        if claims.issuer != self.issuer:
            yield f"the issuer {_cut(claims.issuer)}, not {self.issuer}"
        if self.subject is not None and not matches(claims.subject, self.subject):
            yield f"{_cut(claims.subject)}, not {self.subject}"
        if self.repository is not None and claims.repository != self.repository:
            yield f"the repository {_cut(claims.repository)}, not {self.repository}"
        if self.repository is None and claims.caller is not None:
            yield f"the repository {_cut(claims.caller)}, which called that workflow and is not named beside it"
        if self.workflow is not None and not _is(claims.workflow_file, self.workflow):
            yield f"the workflow {_cut(claims.workflow)}, not {self.workflow}"
        if self.ref is not None and not _is(claims.ref, self.ref):
            yield f"the ref {_cut(claims.ref)}, not {self.ref}"


def identity_of(data: Mapping[str, str]) -> Identity:
    """Return an identity that somebody wrote down.

    :raises ValueError: a word is unknown, or it would be anybody.
    """
    known = {field.name for field in fields(Identity)}
    if unknown := data.keys() - known:
        raise ValueError(f"an identity has {min(unknown)[:40]!r}, which nothing reads")
    if "issuer" not in data or not {"subject", "repository"} & data.keys():
        raise ValueError("an identity needs its issuer, and a subject or a repository")
    return Identity(**data)


def known_issuer(address: str) -> str | None:
    """Return who issues the tokens of a repository's workflows; None where that is not known."""
    return next((issuer for start, issuer in _ISSUERS.items() if address.startswith(start)), None)


def not_believed(claims: Claims, identities: tuple[Identity, ...]) -> str | None:
    """Say why a certificate is of nobody who is believed; None where it is of one."""
    wrong = [list(each.refusals(claims)) for each in identities]
    if not all(wrong):
        return None
    more = f"; and of {len(wrong) - _SEVERAL} more" if len(wrong) > _SEVERAL else ""
    return "its certificate is of " + "; or of ".join(" and ".join(each) for each in wrong[:_SEVERAL]) + more


def _is(text: str | None, pattern: str) -> bool:
    # What a certificate does not say, no pattern stands for.
    return text is not None and matches(text, pattern)


def _cut(text: str | None) -> str:
    return text[:_SHOWN] if text else "none that it names"
