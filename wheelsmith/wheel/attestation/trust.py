"""Accepted certificate authorities and logs: Sigstore's own, or those in a file."""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from wheelsmith.base.errors import SigningKeyError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import in_one_line
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact

if TYPE_CHECKING:
    from sigstore.models import ClientTrustConfig, TrustedRoot
    from sigstore.verify import Verifier

_MAX_SIZE = 1 << 20  # bytes of a trust configuration
_CONFIG = "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json"


def verifier(trust: Path | None) -> Verifier:
    """Return the verifier of certificates, log entries and signatures.

    :param trust: a client's trust configuration or a trusted root, as Sigstore's programs write them; None takes
        Sigstore's own, as it was last fetched if wheelsmith is offline.
    :raises SigningKeyError: it cannot be read or fetched.
    """
    require_extra()
    with _trust_errors(trust):
        return _verifier(_read(trust) if trust else None, offline=is_offline())


@cache
def _verifier(text: str | None, *, offline: bool) -> Verifier:
    from sigstore.verify import Verifier

    return Verifier(trusted_root=_root(text, offline=offline))


def _root(text: str | None, *, offline: bool) -> TrustedRoot:
    from sigstore.models import ClientTrustConfig, TrustedRoot

    if text is None:
        return ClientTrustConfig.production(offline=offline).trusted_root
    if _is_config(text):
        return ClientTrustConfig.from_json(text).trusted_root
    with tempfile.NamedTemporaryFile(prefix="wheelsmith-") as file:
        file.write(text.encode())
        file.flush()
        return TrustedRoot.from_file(file.name)


def signing_config(trust: Path | None) -> ClientTrustConfig:
    """Return the servers for certificates and log entries, with their roots of trust.

    :param trust: a client's trust configuration; None takes Sigstore's own.
    :raises SigningKeyError: it cannot be read or fetched, or names no servers.
    """
    require_extra()
    from sigstore.models import ClientTrustConfig

    with _trust_errors(trust):
        text = _read(trust) if trust else None
        if text is None:
            return ClientTrustConfig.production()
        if not _is_config(text):
            raise ValueError("it says whom to believe, and not where to sign: a client's trust configuration does both")
        return ClientTrustConfig.from_json(text)


def require_extra() -> None:
    """Import the libraries of keyless signatures.

    :raises SigningKeyError: they are not installed.
    """
    try:
        import pypi_attestations  # noqa: F401  # whether it is there
        import sigstore.models  # noqa: F401  # as above
    except ImportError:
        raise SigningKeyError(
            "signatures without a key need sigstore, which is not installed",
            remedy="pip install 'wheelsmith[keyless]'",
        ) from None
    # Its errors say the same.
    logging.getLogger("sigstore").addHandler(logging.NullHandler())


def _is_config(text: str) -> bool:
    data = json.loads(text)
    return isinstance(data, dict) and data.get("mediaType") == _CONFIG


def _read(path: Path) -> str:
    return read_bounded(path, _MAX_SIZE).decode()


@contextmanager
def _trust_errors(trust: Path | None) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # noqa: BLE001  # sigstore raises what its libraries do
        name = f"the trust configuration {str(trust)!a}" if trust else "Sigstore's trusted root"
        cause = f": {type(error.__cause__).__name__}" if error.__cause__ else ""
        or_offline = "" if trust else "; or verify with --offline by what was fetched last"
        raise SigningKeyError(
            redact(f"{name} cannot be read: {in_one_line(error)}{cause}"),
            remedy=f"name one that Sigstore's programs wrote: --trust-config FILE{or_offline}",
        ) from None
