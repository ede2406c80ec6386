"""Read the catalogue and the signatures of an index, from the web or from a folder."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from packaging.utils import canonicalize_name

from wheelsmith.base.deadline import deadline
from wheelsmith.base.errors import AttestationError, PackageIndexError
from wheelsmith.base.files import read_bounded
from wheelsmith.base.json_dataclass import parse_json
from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact
from wheelsmith.base.suggest import closest
from wheelsmith.index.entries.catalogue import Catalogue, catalogue_key, load_catalogue
from wheelsmith.index.entries.state import check_project
from wheelsmith.index.pick.decide import Decision
from wheelsmith.index.resolve.target import Choice
from wheelsmith.platforms import compute_shape
from wheelsmith.wheel.attestation.bundle import LONGEST
from wheelsmith.wheel.attestation.policy import SignaturePolicy
from wheelsmith.wheel.attestation.verification import Verified, verify_statement

# Users copy the address that they give to pip, which is the address of a root.
_ROOT = re.compile(rf"/(simple|{compute_shape()})$")
_MAX_CATALOGUE = 1 << 28  # bytes of a catalogue
_READ_TIMEOUT = 30.0  # seconds without data
_MAX_SECONDS = 120.0  # seconds for one file


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundCatalogue:
    """A catalogue and its index.

    :param address: URL of the index with a trailing slash; may contain a user name and a password.
    """

    catalogue: Catalogue
    address: str = field(repr=False)

    @property
    def base(self) -> str:
        """Return the address without credentials."""
        return self.address if self.address.startswith("file:") else redact(self.address)

    @property
    def credentials(self) -> bool:
        """Return True if the address contains credentials."""
        return self.base != self.address


def find_catalogue(name: str, index: str) -> FoundCatalogue:
    """Read the catalogue of a project.

    :param index: a folder, or a URL that begins with ``http://``, ``https://`` or ``file://``.
    :raises PackageIndexError: the index cannot be read, or has no such project.
    """
    project, shown = check_project(name), redact(index).rstrip("/")
    if is_ambiguous(index):
        raise PackageIndexError(f"{shown} cannot be read: it is not a valid address", remedy=AMBIGUOUS)
    parts = urlsplit(index)
    if parts.scheme not in {"", "file", "http", "https"}:
        raise PackageIndexError(f"{shown} cannot be read by installers", remedy="name a folder or an https:// address")
    given = parts._replace(query="", fragment="").geturl() if parts.scheme else Path(index).resolve().as_uri()
    addresses = tuple(dict.fromkeys((given.rstrip("/"), _ROOT.sub("", given.rstrip("/")))))
    for address in addresses:
        url = f"{address}/{catalogue_key(project)}"
        data = _read(url, _MAX_CATALOGUE)
        if data is None:
            continue
        catalogue = load_catalogue(data, redact(url))
        if catalogue.project != project:
            raise PackageIndexError(f"{redact(url)} is the catalogue of {catalogue.project}")
        return FoundCatalogue(catalogue=catalogue, address=f"{address}/")
    names = [name for address in addresses for name in _project_names(address)]
    close = closest(project, names)
    raise PackageIndexError(
        f"{shown} has no project {project}",
        remedy=f"did you mean {close}?" if close else f"check the address: {shown}/index.html should list the projects",
    )


def verify_choice(
    decision: Decision, found: FoundCatalogue, policy: SignaturePolicy
) -> tuple[Decision, Verified | None]:
    """Verify the signature of the chosen wheel. Return the decision with the signed hash, and the verified claims.

    The wheel itself is not downloaded, because the command makes the installer compare the hash.

    :raises AttestationError: the wheel is not signed, or its signature does not satisfy the policy.
    :raises PackageIndexError: the signature file cannot be read.
    """
    if not isinstance(decision.answer, Choice):
        return decision, None
    wheel = decision.answer.wheel
    bundle = _read(f"{found.address}{wheel.bundle}", LONGEST) if wheel.bundle else None
    if bundle is None:
        raise AttestationError(f"{wheel.filename} is not signed")
    try:
        held = verify_statement(wheel.filename, wheel.sha256, bundle, policy)
    except AttestationError as error:
        raise AttestationError(f"{wheel.filename}: {error.message}") from None
    return replace(decision, by_hash=True), held


def _read(url: str, limit: int) -> bytes | None:
    """Return a file of an index, or None if it does not exist.

    :param limit: maximum size in bytes.
    :raises PackageIndexError: the file cannot be read or is too large.
    """
    parts, shown = urlsplit(url), redact(url)
    if parts.scheme != "file":
        return _fetch(url, limit, shown)
    try:
        return read_bounded(Path(url2pathname(parts.path)), limit)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _unreadable_error(shown, getattr(error, "strerror", None) or str(error)) from None


def _fetch(url: str, limit: int, shown: str) -> bytes | None:
    import httpx

    from wheelsmith.toolchain.http import REQUEST_ERRORS, failure_reason, open_response

    data = bytearray()
    try:
        with (
            httpx.Client(timeout=_READ_TIMEOUT) as client,
            deadline(client, _MAX_SECONDS),
            open_response(client, url) as response,
        ):
            for chunk in response.iter_bytes():
                data += chunk
                if len(data) > limit:
                    raise _unreadable_error(shown, f"it has more than {limit} bytes")
    except REQUEST_ERRORS as error:
        raise _unreadable_error(shown, failure_reason(error)) from None
    if response.status_code == httpx.codes.NOT_FOUND:
        return None
    if not response.is_success:
        raise _unreadable_error(shown, f"{response.status_code} {response.reason_phrase}")
    return bytes(data)


def _unreadable_error(shown: str, why: str) -> PackageIndexError:
    return PackageIndexError(f"{shown} cannot be read: {why}", remedy=f"try to open {shown}")


def _project_names(address: str) -> list[str]:
    """Return the projects of an index, for a hint. The result is empty if the list cannot be read."""
    with suppress(PackageIndexError, ValueError, LookupError, TypeError):
        page = parse_json(_read(f"{address}/simple/index.json", _MAX_CATALOGUE) or b"")
        return [str(canonicalize_name(item["name"])) for item in page["projects"]]
    return []
