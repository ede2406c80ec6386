"""An obstore store for a bucket: endpoint, credentials and limits from each ecosystem's usual places."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.bucket_errors import PREFIXES, explain_settings
from wheelsmith.index.storage.location import Address

if TYPE_CHECKING:
    from obstore.store import AzureStore, GCSStore, S3Store

# Variables that name an endpoint.
_ENDPOINTS = {
    "s3": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
    "gs": ("GOOGLE_BASE_URL",),
    "az": ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
}
# With one of these obstore needs nobody's help to find credentials.
_GIVEN = {
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
# What Azure's own tools call two of obstore's settings.
_AZURE_NAMES = {"AZURE_STORAGE_ACCOUNT": "account_name", "AZURE_STORAGE_KEY": "account_key"}
_GOOGLE_SCOPE = "https://www.googleapis.com/auth/devstorage.read_write"
# A request that is not answered; a part of a wheel must be sent in this time too.
_TIMEOUT = "120 seconds"
_RETRIES: Any = {
    "max_retries": 8,
    "retry_timeout": timedelta(minutes=2),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=5), "base": 2},
}


def connect(address: Address, environ: Mapping[str, str] = os.environ) -> S3Store | GCSStore | AzureStore:
    """Return the obstore store of a bucket; nothing is asked of the network yet.

    :raises PackageIndexError: obstore is not installed, or a setting is missing.
    """
    try:
        from obstore.exceptions import BaseError
        from obstore.store import AzureStore, GCSStore, S3Store
    except ImportError:
        raise PackageIndexError(
            f"{address} needs obstore, which is not installed", remedy="pip install 'wheelsmith[buckets]'"
        ) from None
    kinds: dict[str, Any] = {"s3": S3Store, "gs": GCSStore, "az": AzureStore}
    try:
        store: S3Store | GCSStore | AzureStore = kinds[address.scheme](
            address.bucket,
            prefix=address.prefix or None,
            config=settings(address.scheme, environ),
            retry_config=_RETRIES,
            credential_provider=_credentials(address, environ),
        )
    except (BaseError, ValueError) as error:
        names = (name for name in environ if name.startswith(PREFIXES[address.scheme]))
        raise explain_settings(error, address, names) from None
    return store


def settings(scheme: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return what is set beyond that which obstore reads from the environment itself."""
    config = {}
    if f"{PREFIXES[scheme]}TIMEOUT" not in environ:
        config["timeout"] = _TIMEOUT
    if f"{PREFIXES[scheme]}ALLOW_HTTP" not in environ and _is_loopback(endpoint_of(scheme, environ) or ""):
        config["allow_http"] = "true"
    if scheme == "s3":
        # One file at a time is deleted, and not every host knows the request for many.
        config["disable_bulk_delete"] = "true"
    if scheme == "az":
        config |= {ours: environ[theirs] for theirs, ours in _AZURE_NAMES.items() if theirs in environ}
    return config


def endpoint_of(scheme: str, environ: Mapping[str, str]) -> str | None:
    """Return the endpoint that the environment names in place of the cloud's own.

    :raises PackageIndexError: it is none.
    """
    name = next((name for name in _ENDPOINTS[scheme] if environ.get(name)), None)
    if name is None:
        return None
    try:
        parts = urlsplit(environ[name])
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.username is None
    except ValueError:
        usable = False
    if not usable:
        raise PackageIndexError(
            f"{name} is no endpoint", remedy=f"export {name}=https://host, without user or password"
        )
    return environ[name]


def _is_loopback(endpoint: str) -> bool:
    host = urlsplit(endpoint).hostname or ""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _credentials(address: Address, environ: Mapping[str, str]) -> Any:
    """Return what finds credentials where obstore does not look; None leaves it to obstore."""
    if any(environ.get(name) for name in _GIVEN[address.scheme]):
        return None
    try:
        return {"s3": _from_boto3, "gs": _from_google, "az": _from_azure}[address.scheme]()
    except ImportError:
        if address.scheme == "s3" and environ.get("AWS_PROFILE"):
            raise PackageIndexError(
                f"{address}: AWS_PROFILE is set, and reading profiles takes boto3", remedy="pip install boto3"
            ) from None
        return None


def _from_boto3() -> Any:
    """Find credentials as the aws command does: profiles, SSO, roles to assume, and what obstore knows itself."""
    from botocore.exceptions import BotoCoreError
    from obstore.auth.boto3 import Boto3CredentialProvider

    try:
        return Boto3CredentialProvider()
    except ValueError:
        return None  # it found none
    except BotoCoreError as error:
        # Its messages name a profile or a file, never what is in it.
        raise PackageIndexError(f"no credentials for S3: {error}", remedy="aws configure list") from None


def _from_google() -> Any:
    """Find application default credentials, workload identity federation among them."""
    import google.auth
    from google.auth.exceptions import DefaultCredentialsError, GoogleAuthError
    from obstore.auth.google import GoogleCredentialProvider

    try:
        credentials, _ = google.auth.default(scopes=[_GOOGLE_SCOPE])
    except DefaultCredentialsError:
        return None  # it found none
    except GoogleAuthError as error:
        raise PackageIndexError(
            f"no credentials for Google Cloud Storage: {type(error).__name__}",
            remedy="gcloud auth application-default print-access-token",
        ) from None
    return GoogleCredentialProvider(credentials)


def _from_azure() -> Any:
    """Find what ``az login``, a managed identity or the environment gives."""
    from obstore.auth.azure import AzureCredentialProvider

    return AzureCredentialProvider()
