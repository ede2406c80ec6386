"""An index in a bucket: S3 and compatible hosts, Google Cloud Storage, Azure Blob Storage.

A bucket has no locks. Conditional writes and the order of the writes in ``writer`` keep an index consistent.

Messages of obstore contain requests and responses, which may contain a signature or a token. Errors here contain only
a status, a code made of letters, and a description of a few known failures.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wheelsmith.base.distribution import install_command
from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.compare_and_swap import backoff
from wheelsmith.index.storage.location import Address, parse_address
from wheelsmith.index.storage.protocol import ConflictError, Listed, Storage, Stored, T, read_pieces, response_headers

if TYPE_CHECKING:
    from obstore import ObjectMeta, PutMode
    from obstore.store import AzureStore, GCSStore, S3Store

PREFIXES = {"s3": "AWS_", "gs": "GOOGLE_", "az": "AZURE_"}  # of environment variables
_STATUS = re.compile(r"status code: (\d{3})\b")
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound"}
_BAD_CREDENTIALS = {
    "InvalidAccessKeyId",
    "SignatureDoesNotMatch",
    "ExpiredToken",
    "InvalidToken",
    "AuthenticationFailed",
}
_TEMPORARY_STATUSES = {404, 408, 409, 429}
# Addresses from which machines in a cloud get credentials. obstore uses them if it finds no other credentials.
_MACHINE_CREDENTIALS = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|fd00:ec2::254|token request"
    r"|/latest/api/token|/computeMetadata/|/metadata/identity|credential provider"
)
_CREATE_BUCKET = {
    "s3": "aws s3 mb s3://{bucket}",
    "gs": "gcloud storage buckets create gs://{bucket}",
    "az": "az storage container create --name '{bucket}'",
}
_SIGN_IN = {
    "s3": "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or pip install boto3, which reads profiles and SSO",
    "gs": "gcloud auth application-default login; for workload identity federation: pip install google-auth requests",
    "az": "export AZURE_STORAGE_ACCOUNT_KEY; or pip install azure-identity and az login",
}
_GRANT_ACCESS = {
    "s3": "allow s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject in it",
    "gs": "grant roles/storage.objectAdmin on the bucket",
    "az": "assign Storage Blob Data Contributor on the container",
}


def is_missing_bucket(error: Exception) -> bool:
    """Return True if the bucket itself is missing. The error of a missing file differs only in its code."""
    return _code(error) in _NO_BUCKET


def is_final(error: Exception) -> bool:
    """Return True if the host would refuse the same request again."""
    status = _status(error)
    return is_missing_bucket(error) or (status is not None and status // 100 == 4 and status not in _TEMPORARY_STATUSES)  # noqa: PLR2004  # HTTP status class


def settings_error(error: Exception, address: Address, variables: Iterable[str]) -> PackageIndexError:
    """Return the error for a store that cannot be opened.

    :param variables: names of the environment variables that are set. Their values may be secret.
    """
    if "Account must be specified" in str(error):
        return PackageIndexError(
            f"{address}: no storage account is named", remedy="export AZURE_STORAGE_ACCOUNT_NAME=…"
        )
    names = ", ".join(sorted(variables)) or "none is set"
    return PackageIndexError(
        f"{address}: the settings in the environment cannot be used", remedy=f"check the variables: {names}"
    )


def request_error(error: Exception, address: Address) -> PackageIndexError:
    """Return the error for a failed request.

    :param error: an exception of obstore, or one that passed through it.
    """
    text, kind, status, code = str(error), type(error).__name__, _status(error), _code(error)
    response, scheme = " ".join(str(part) for part in (status, code) if part), address.scheme
    for applies, message, remedy in (
        (
            "BadScheme" in text,
            "the endpoint is plain http",
            f"use https or, on a trusted network, export {PREFIXES[scheme]}ALLOW_HTTP=true",
        ),
        (
            "incorrectly configured region" in text or status in {301, 307},
            "the bucket is in another region",
            "export AWS_REGION=…",
        ),
        (_MACHINE_CREDENTIALS.search(text), "no valid credentials were found", _SIGN_IN[scheme]),
        (is_missing_bucket(error), "there is no such bucket", _CREATE_BUCKET[scheme].format(bucket=address.bucket)),
        (
            kind == "UnauthenticatedError" or code in _BAD_CREDENTIALS,
            f"the credentials are not accepted ({response or 'expired?'})",
            _SIGN_IN[scheme],
        ),
        (kind == "PermissionDeniedError", f"the credentials lack permissions ({response})", _GRANT_ACCESS[scheme]),
        (
            kind == "NotImplementedError" or status == HTTPStatus.NOT_IMPLEMENTED,
            "the host does not support conditional writes",
            "use another host, or a newer version of it",
        ),
        (status, f"the host answers {response}", "try again later"),
    ):
        if applies:
            return PackageIndexError(f"{address}: {message}", remedy=remedy)
    remedy = "check the network and the endpoint, then try again"
    return PackageIndexError(f"{address}: the host does not answer", remedy=remedy)


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _code(error: Exception) -> str | None:
    found = _CODE.search(str(error))
    return found[1] if found else None


# Environment variables that set an endpoint.
_ENDPOINT_VARIABLES = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
# If one of these variables is set, obstore finds the credentials itself.
_CREDENTIAL_VARIABLES = {
    "s3": ("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE"),
    "gs": (
        "GOOGLE_SERVICE_ACCOUNT",
        "GOOGLE_SERVICE_ACCOUNT_PATH",
        "GOOGLE_SERVICE_ACCOUNT_KEY",
        "GOOGLE_BEARER_TOKEN",
        "GOOGLE_SKIP_SIGNATURE",
    ),
    "az": (
        "AZURE_STORAGE_ACCOUNT_KEY",
        "AZURE_STORAGE_ACCESS_KEY",
        "AZURE_STORAGE_MASTER_KEY",
        "AZURE_STORAGE_KEY",
        "AZURE_STORAGE_SAS_KEY",
        "AZURE_STORAGE_SAS_TOKEN",
        "AZURE_STORAGE_TOKEN",
        "AZURE_STORAGE_USE_EMULATOR",
        "AZURE_SKIP_SIGNATURE",
    ),
}
# Variables of Azure's own tools → settings of obstore.
_AZURE_SETTINGS = {"AZURE_STORAGE_ACCOUNT": "account_name", "AZURE_STORAGE_KEY": "account_key"}
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
# Limit of one request. One part of a wheel must be sent in this time, too.
_TIMEOUT = "120 seconds"
_BACKOFF = {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2}
INDEX_RETRIES: Any = {"max_retries": 8, "retry_timeout": timedelta(minutes=2), "backoff": _BACKOFF}
CACHE_RETRIES: Any = {"max_retries": 2, "retry_timeout": timedelta(seconds=5), "backoff": _BACKOFF}


def connect(
    address: Address, environ: Mapping[str, str] = os.environ, retries: Any = INDEX_RETRIES
) -> S3Store | GCSStore | AzureStore:
    """Return the obstore store of a bucket. This sends no request yet.

    :raises PackageIndexError: obstore is not installed, or a setting is missing.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise PackageIndexError(
            f"{address} needs obstore, which is not installed", remedy=install_command("buckets")
        ) from None
    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    try:
        store: S3Store | GCSStore | AzureStore = kinds[address.scheme](
            address.bucket,
            prefix=address.prefix or None,
            config=settings(address.scheme, environ),
            retry_config=retries,
            credential_provider=_credential_provider(address, environ),
        )
    except (BaseError, ValueError) as error:
        names = (name for name in environ if name.startswith(PREFIXES[address.scheme]))
        raise settings_error(error, address, names) from None
    return store


def settings(scheme: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that obstore does not read from the environment itself."""
    config = {}
    if f"{PREFIXES[scheme]}TIMEOUT" not in environ:
        config["timeout"] = _TIMEOUT
    if f"{PREFIXES[scheme]}ALLOW_HTTP" not in environ and _is_loopback(endpoint_of(scheme, environ) or ""):
        config["allow_http"] = "true"
    if scheme == "s3":
        # Not every host supports bulk deletion, and files are deleted one at a time here.
        config["disable_bulk_delete"] = "true"
    if scheme == "az":
        config |= {ours: environ[theirs] for theirs, ours in _AZURE_SETTINGS.items() if theirs in environ}
    return config


def endpoint_of(scheme: str, environ: Mapping[str, str]) -> str | None:
    """Return the custom endpoint that is set in the environment, or None.

    :raises PackageIndexError: it is not an endpoint URL.
    """
    name = next((name for name in _ENDPOINT_VARIABLES[scheme] if environ.get(name)), None)
    if name is None:
        return None
    try:
        parts = urlsplit(environ[name])
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
    except ValueError:
        usable = False
    if not usable:
        raise PackageIndexError(
            f"{name} is not an endpoint", remedy=f"export {name}=https://host, without user or password"
        )
    return environ[name]


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _credential_provider(address: Address, environ: Mapping[str, str]) -> Any:
    """Return a provider of credentials that obstore does not find itself, or None."""
    if any(environ.get(name) for name in _CREDENTIAL_VARIABLES[address.scheme]):
        return None
    try:
        return {"s3": _boto3_credentials, "gs": _google_credentials, "az": _azure_credentials}[address.scheme]()
    except ImportError:
        if address.scheme == "s3" and environ.get("AWS_PROFILE"):
            raise PackageIndexError(
                f"{address}: AWS_PROFILE is set, and profiles require boto3", remedy="pip install boto3"
            ) from None
        return None


def _boto3_credentials() -> Any:
    """Find credentials like the aws command: profiles, SSO, assumed roles, and the sources of obstore."""
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except ValueError:
        return None  # no credentials found
    except BotoCoreError as error:
        # Messages of botocore name a profile or a file, never its content.
        raise PackageIndexError(f"no credentials for S3: {error}", remedy="aws configure list") from None


def _google_credentials() -> Any:
    """Find application default credentials, including workload identity federation."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from obstore.auth.google import GoogleCredentialProvider

    try:
        credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    except DefaultCredentialsError:
        return None  # no credentials found
    except GoogleAuthError as error:
        raise PackageIndexError(
            f"no credentials for Google Cloud Storage: {type(error).__name__}",
            remedy="gcloud auth application-default print-access-token",
        ) from None
    return GoogleCredentialProvider(credentials)


def _azure_credentials() -> Any:
    """Find credentials of ``az login``, a managed identity or the environment."""
    from obstore.auth.azure import AzureCredentialProvider

    return AzureCredentialProvider()


# Attempts in addition to obstore's own retries, for requests that obstore cannot know to be safe to repeat.
_ATTEMPTS = 3
# Parts of 5 MiB each. Several wheels are sent at the same time.
_PARTS_AT_ONCE = 2
_ONE_PART = 5 * 2**20  # bytes: obstore's own parts
_PROBE = "_state/.probe"
_WRONG_TAG = json.dumps({"e_tag": '"0"'})


def open_bucket(target: str, retries: Any = INDEX_RETRIES) -> Storage:
    """Open ``s3://bucket/prefix``, ``gs://bucket/prefix`` or ``az://container/prefix``.

    :raises PackageIndexError: the address is wrong, or obstore is not installed.
    """
    address = parse_address(target)
    # AWS, Google and Microsoft support conditional writes. Other hosts are tested.
    trusted = address.scheme != "s3" or endpoint_of("s3", os.environ) is None
    return Bucket(connect(address, retries=retries), address, trusted=trusted)


class Bucket(Storage):
    """Files under a prefix of a bucket, stored with the response headers that installers need.

    :param trusted: True if the host is known to support conditional writes.
    """

    def __init__(self, store: S3Store | GCSStore | AzureStore, address: Address, *, trusted: bool) -> None:
        self._store = store
        self._address = address
        self._trusted = trusted

    @property
    def name(self) -> str:
        """Return the bucket's address."""
        return str(self._address)

    def read(self, key: str) -> Stored | None:
        """Return a file, or None if it does not exist."""
        import obstore

        def get() -> Stored:
            result = obstore.get(self._store, key)
            return Stored(bytes(result.bytes()), _tag(result.meta))

        return self._none_if_missing(get)

    def stat(self, key: str) -> Listed | None:
        """Return the size and modification time of a file, or None if it does not exist."""
        import obstore

        return self._none_if_missing(lambda: _listed(obstore.head(self._store, key)))

    def put(self, key: str, content: Path | bytes) -> None:
        """Write a file that never changes, a large one in parts. Rewriting a file renews its modification time."""
        import obstore

        attributes = _attributes(key)

        def send() -> None:
            sent = _upload_content(content, key) if isinstance(content, Path) else content
            obstore.put(self._store, key, sent, attributes=attributes, max_concurrency=_PARTS_AT_ONCE)

        self._retry(send)

    def swap(self, key: str, data: bytes, tag: str | None) -> None:
        """Replace a file if its tag is ``tag``. None creates a file that must not exist yet."""
        import obstore
        from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

        attributes = _attributes(key)
        mode: PutMode = json.loads(tag) if tag else "create"

        def attempt() -> None:
            try:
                obstore.put(self._store, key, data, attributes=attributes, mode=mode)
            except (AlreadyExistsError, PreconditionError):
                raise ConflictError(f"{self.name}/{key} was changed by another process") from None
            except GenericError:
                # The response was lost. Read the file to find out if it was written.
                now = self.read(key)
                if now and now.data == data:
                    return
                if (now.tag if now else None) != tag:
                    raise ConflictError(f"{self.name}/{key} was changed by another process") from None
                raise

        self._retry(attempt)

    def delete(self, key: str) -> None:
        """Remove a file. A missing file is not an error."""
        import obstore

        self._none_if_missing(lambda: obstore.delete(self._store, key))

    def listing(self, prefix: str) -> Iterator[Listed]:
        """Yield every file whose key begins with ``prefix``, in any order."""
        import obstore

        # A prefix of obstore is always a complete folder name.
        folder = prefix.rpartition("/")[0]
        with self._convert_errors():
            for batch in obstore.list(self._store, folder or None):
                yield from (_listed(meta) for meta in batch if meta["path"].startswith(prefix))

    def transaction(self, work: Callable[[Storage], T]) -> T:
        """Run ``work``. Other processes may write at the same time; ``swap`` detects conflicts."""
        if not self._trusted:
            self._check_conditional_writes()
            self._trusted = True
        return work(self)

    def _check_conditional_writes(self) -> None:
        """Test that the host does not ignore preconditions, as some hosts do.

        :raises PackageIndexError: the host ignores a precondition.
        """
        if not ((self._rejects_swap(None) or self._rejects_swap(None)) and self._rejects_swap(_WRONG_TAG)):
            raise PackageIndexError(
                f"{self.name}: the host ignores If-Match or If-None-Match, so publishers could lose changes",
                remedy="use a host that supports conditional writes, or a newer version of it",
            )

    def _rejects_swap(self, tag: str | None) -> bool:
        try:
            self.swap(_PROBE, uuid.uuid4().bytes, tag)
        except ConflictError:
            return True
        return False

    def _none_if_missing(self, request: Callable[[], T]) -> T | None:
        with self._convert_errors():
            try:
                return request()
            except FileNotFoundError as error:
                if is_missing_bucket(error):
                    raise
                return None

    def _retry(self, attempt: Callable[[], object]) -> None:
        """Repeat an attempt after network failures, but not after a refusal."""
        from obstore.exceptions import GenericError

        for number in range(_ATTEMPTS):
            with self._convert_errors():
                try:
                    attempt()
                # An upload in parts is also reported as not found if it had succeeded and the response was lost.
                except (GenericError, FileNotFoundError) as error:
                    if number == _ATTEMPTS - 1 or is_final(error):
                        raise
                else:
                    return
            backoff(number, 1.0)

    @contextmanager
    def _convert_errors(self) -> Iterator[None]:
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, FileNotFoundError, NotImplementedError) as error:
            raise request_error(error, self._address) from None


def _upload_content(path: Path, key: str) -> bytes | Iterator[bytes]:
    """Return the content of a small file, or the pieces of a large one. The upload is aborted if a piece fails."""
    pieces = read_pieces(path, key)
    return b"".join(pieces) if path.is_file() and path.stat().st_size <= _ONE_PART else pieces


def _attributes(key: str) -> dict[str, str]:
    """Return the headers to store with a file. A write without them would remove them."""
    headers = response_headers(key)
    return {"Content-Type": headers.content_type, "Cache-Control": headers.cache_control}


def _tag(meta: ObjectMeta) -> str:
    """Return the tag of a version: the ETag for S3 and Azure, the generation for Google."""
    return json.dumps({name: meta[name] for name in ("e_tag", "version") if meta[name]})


def _listed(meta: ObjectMeta) -> Listed:
    return Listed(meta["path"], meta["size"], meta["last_modified"].timestamp())
