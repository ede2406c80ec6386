"""The options that say who is believed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from wheelsmith.wheel.attestation.policy import SignaturePolicy

_F = TypeVar("_F", bound=Callable[..., Any])


def policy_options(command: _F) -> _F:
    """Add ``--key``, ``--policy``, ``--source``, ``--repository`` and ``--builder``."""
    for option in (
        click.option("--builder", "builders", multiple=True, metavar="URI", help="Who may have built. Repeatable."),
        click.option(
            "--repository",
            "repositories",
            multiple=True,
            metavar="URL",
            help="Which repository a CI system may have checked out. Repeatable.",
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
            help="Who is believed, in a file: keys, sources, repositories, builders.",
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


def optional_policy(keys: tuple[Path, ...], policy: Path | None, **words: tuple[str, ...]) -> SignaturePolicy | None:
    """Return what is believed; None where nobody asks whether anything was signed.

    :raises WheelsmithError: a key or the policy cannot be read.
    """
    return policy_of(keys, policy, **words) if keys or policy or any(words.values()) else None


def policy_of(keys: tuple[Path, ...], policy: Path | None, **words: tuple[str, ...]) -> SignaturePolicy:
    """Return what is believed.

    :param words: sources, repositories and builders.
    :raises WheelsmithError: a key or the policy cannot be read.
    """
    from wheelsmith.wheel.attestation.keys import verifying_key
    from wheelsmith.wheel.attestation.policy import SignaturePolicy, read_policy

    if bool(keys) == bool(policy):
        raise click.UsageError("say who is believed: --key release.pub, or --policy policy.yaml")
    if policy:
        return read_policy(policy).but(**words)
    return SignaturePolicy(keys=tuple(map(verifying_key, keys)), **words)
