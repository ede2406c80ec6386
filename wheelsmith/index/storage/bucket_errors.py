"""What a bucket's refusal means, and what fixes it.

obstore's messages hold whole requests and answers, and so may hold a signature or a token. What is taken from them is a
status, a code made of letters, and which of a few known failures it was; nothing else of the text is shown.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.address import Address

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
# Where machines in a cloud are given credentials: asked only when there are none elsewhere.
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
    """Say whether the bucket itself is not there; a file that is not there answers alike but for its code."""
    return _code(error) in _NO_BUCKET


def is_final(error: Exception) -> bool:
    """Say whether the same request would be refused again."""
    status = _status(error)
    return lacks_bucket(error) or (status is not None and status // 100 == 4 and status not in _MAY_PASS)  # noqa: PLR2004  # HTTP's own


def explain_settings(error: Exception, address: Address, variables: Iterable[str]) -> PackageIndexError:
    """Return why a store cannot be made at all.

    :param variables: the names of those that are set; what they hold may be a secret.
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
    """Return what a failed request means.

    :param error: an obstore exception, or one that obstore lets through.
    """
    message, remedy = _setting(error, address) or _refusal(error, address) or _silence(error)
    return PackageIndexError(f"{address}: {message}", remedy=remedy)


def _setting(error: Exception, address: Address) -> tuple[str, str] | None:
    """Return what is wrong on this side."""
    text = str(error)
    if "BadScheme" in text:
        variable = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}[address.scheme] + "_ALLOW_HTTP=true"
        return "the endpoint is plain http", f"use https; or, where you trust the network, export {variable}"
    if "incorrectly configured region" in text or _status(error) in {301, 307}:
        return "the bucket is in another region", "export AWS_REGION=…"
    if _ASKED_THE_MACHINE.search(text):
        return "no valid credentials were found", _SIGN_IN[address.scheme]
    return None


def _refusal(error: Exception, address: Address) -> tuple[str, str] | None:
    """Return what the host refuses."""
    kind, code, status = type(error).__name__, _code(error), _status(error)
    answer = " ".join(str(part) for part in (status, code) if part)
    if lacks_bucket(error):
        return "there is no such bucket", _MAKE[address.scheme].format(bucket=address.bucket)
    if kind == "UnauthenticatedError" or code in _BAD_CREDENTIALS:
        return f"the credentials are not accepted ({answer or 'expired?'})", _SIGN_IN[address.scheme]
    if kind == "PermissionDeniedError":
        return f"the credentials do not suffice ({answer})", _RIGHTS[address.scheme]
    if kind == "NotImplementedError" or status == 501:  # noqa: PLR2004  # HTTP's own
        return "the host has no conditional writes", "use one that has, or a newer version of it"
    return None


def _silence(error: Exception) -> tuple[str, str]:
    """Return what may pass."""
    status, code = _status(error), _code(error)
    if status:
        return f"the host answers {status}{f' {code}' if code else ''}", "try again later"
    return "the host does not answer", "check the network and the endpoint, then try again"


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _code(error: Exception) -> str | None:
    found = _CODE.search(str(error))
    return found[1] if found else None
