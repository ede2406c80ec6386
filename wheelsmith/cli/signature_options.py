"""The options that say who is believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from wheelsmith.wheel.attestation.identity import Identity
    from wheelsmith.wheel.attestation.policy import SignaturePolicy

_F = TypeVar("_F", bound=Callable[..., Any])
# What policy_options adds.
POLICY = ("keys", "policy", "identities", "issuer", "trust_config", "sources", "repositories", "builders")

trust_option = click.option(
    "--trust-config",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Whose certificates and logs are believed, as Sigstore's programs write it; default: Sigstore's own.",
)


def policy_options(command: _F) -> _F:
    """Add the options that ``POLICY`` names."""
    for option in (
        click.option("--builder", "builders", multiple=True, metavar="URI", help="Who may have built. Repeatable."),
        click.option(
            "--repository",
            "repositories",
            multiple=True,
            metavar="URL",
            help="Which repository a CI system may have checked out; alone, any workflow of it may sign without a key. "
            "Repeatable.",
        ),
        click.option(
            "--source",
            "sources",
            multiple=True,
            metavar="SOURCE",
            help="What may be built, such as hub:org/name or git:https://…@revision. Repeatable.",
        ),
        click.option(
            "--policy",
            type=click.Path(path_type=Path),
            help="Who is believed, in a file: keys, identities, sources, repositories, builders.",
        ),
        trust_option,
        click.option(
            "--issuer",
            metavar="URL",
            help="Who issued the tokens of --identity and --repository; default: what GitHub and GitLab have.",
        ),
        click.option(
            "--identity",
            "identities",
            multiple=True,
            metavar="ADDRESS",
            help="A workflow with its revision, or a mail address, that may sign without a key; * is anything but a "
            "slash. Repeatable.",
        ),
        click.option(
            "--key",
            "keys",
            multiple=True,
            type=click.Path(path_type=Path),
            help="A public key in PEM that may sign. Repeatable.",
        ),
    ):
        command = option(command)
    return command


def optional_policy(**given: Any) -> SignaturePolicy | None:
    """Return what is believed; None where nobody asks whether anything was signed.

    :param given: as ``policy_of``.
    :raises WheelsmithError: a key or the policy cannot be read.
    """
    return policy_of(**given) if any(given.values()) else None


def policy_of(
    *,
    keys: tuple[Path, ...],
    policy: Path | None,
    identities: tuple[str, ...],
    issuer: str | None,
    trust_config: Path | None,
    **words: tuple[str, ...],
) -> SignaturePolicy:
    """Return what is believed.

    :param words: sources, repositories and builders.
    :raises WheelsmithError: a key or the policy cannot be read.
    """
    from wheelsmith.wheel.attestation.keys import verifying_key
    from wheelsmith.wheel.attestation.policy import SignaturePolicy, read_policy

    if policy:
        if keys or identities or issuer:
            raise click.UsageError("--policy says who is believed: --key, --identity and --issuer stand in it")
        written = read_policy(policy).but(**words)
        return replace(written, trust=trust_config) if trust_config else written
    signers = _identities(identities, words["repositories"], issuer) if identities or not keys else ()
    if not (keys or signers):
        raise click.UsageError("say who is believed: --key release.pub, --identity ADDRESS, or --policy policy.yaml")
    believed = SignaturePolicy(keys=tuple(map(verifying_key, keys)), identities=signers, trust=trust_config)
    return believed.but(**words)


def _identities(subjects: tuple[str, ...], repositories: tuple[str, ...], issuer: str | None) -> tuple[Identity, ...]:
    """Return who may sign without a key: the subjects, in these repositories where some are named; or any in these."""
    from wheelsmith.wheel.attestation.identity import Identity, known_issuer

    found = []
    for subject, repository in product(subjects or (None,), repositories or (None,)):
        address = subject or repository
        if address is None:
            return ()
        by = issuer or known_issuer(address)
        if by is None:
            raise click.UsageError(f"who issues the tokens of {address} is not known: say it with --issuer URL")
        found.append(Identity(issuer=by, subject=subject, repository=repository))
    return tuple(found)
