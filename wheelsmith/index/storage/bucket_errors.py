"""The meaning of a bucket's refusals, and what fixes them.

obstore's messages contain whole requests and responses, which may contain a signature or a token. Only a status, a code
made of letters, and which of a few known failures it was are taken from them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.location import Address

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
_MAY_PASS = {404, 408, 409, 429}
# Where machines in a cloud get credentials; requested only if there are none elsewhere.
_ASKED_THE_MACHINE = re.compile(
    r"169\.254\.169\.254|169\.254\.170\.2|fd00:ec2::254|token request"
    r"|/latest/api/token|/computeMetadata/|/metadata/identity|credential provider"
)
_MAKE = {
    "s3": "aws s3 mb s3://{bucket}",
    "gs": "gcloud storage buckets create gs://{bucket}",
    "az": "az storage container create --name '{bucket}'",
}
_SIGN_IN = {
    "s3": "export AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; or pip install boto3, which reads profiles and SSO",
    "gs": "gcloud auth application-default login; for workload identity federation: pip install google-auth requests",
    "az": "export AZURE_STORAGE_ACCOUNT_KEY; or pip install azure-identity and az login",
}
_RIGHTS = {
    "s3": "allow s3:ListBucket on the bucket, and s3:GetObject, s3:PutObject and s3:DeleteObject in it",
    "gs": "grant roles/storage.objectAdmin on the bucket",
    "az": "assign Storage Blob Data Contributor on the container",
}


def lacks_bucket(error: Exception) -> bool:
    """Return True if the bucket itself is missing; missing files differ from it only by their code."""
    return _code(error) in _NO_BUCKET


def is_final(error: Exception) -> bool:
    """Return True if the same request would be refused again."""
    status = _status(error)
    return lacks_bucket(error) or (status is not None and status // 100 == 4 and status not in _MAY_PASS)  # noqa: PLR2004  # HTTP's own


def explain_settings(error: Exception, address: Address, variables: Iterable[str]) -> PackageIndexError:
    """Return why a store cannot be opened at all.

    :param variables: names of the variables that are set; their values may be secret.
    """
    if "Account must be specified" in str(error):
        return PackageIndexError(
            f"{address}: no storage account is named", remedy="export AZURE_STORAGE_ACCOUNT_NAME=…"
        )
    said = ", ".join(sorted(variables)) or "no variable is set"
    return PackageIndexError(
        f"{address}: what the environment says of it cannot be used", remedy=f"see what is wrong or missing: {said}"
    )


def explain(error: Exception, address: Address) -> PackageIndexError:
    """Return the meaning of a failed request.

    :param error: an obstore exception, or one that obstore lets through.
    """
    text, kind, status, code = str(error), type(error).__name__, _status(error), _code(error)
    told, scheme = " ".join(str(part) for part in (status, code) if part), address.scheme
    for applies, message, remedy in (
        (
            "BadScheme" in text,
            "the endpoint is plain http",
            f"use https; or, where you trust the network, export {PREFIXES[scheme]}ALLOW_HTTP=true",
        ),
        (
            "incorrectly configured region" in text or status in {301, 307},
            "the bucket is in another region",
            "export AWS_REGION=…",
        ),
        (_ASKED_THE_MACHINE.search(text), "no valid credentials were found", _SIGN_IN[scheme]),
        (lacks_bucket(error), "there is no such bucket", _MAKE[scheme].format(bucket=address.bucket)),
        (
            kind == "UnauthenticatedError" or code in _BAD_CREDENTIALS,
            f"the credentials are not accepted ({told or 'expired?'})",
            _SIGN_IN[scheme],
        ),
        (kind == "PermissionDeniedError", f"the credentials do not suffice ({told})", _RIGHTS[scheme]),
        (
            kind == "NotImplementedError" or status == HTTPStatus.NOT_IMPLEMENTED,
            "the host has no conditional writes",
            "use one that has, or a newer version of it",
        ),
        (status, f"the host answers {told}", "try again later"),
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
