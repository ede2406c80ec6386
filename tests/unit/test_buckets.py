"""What needs no bucket: addresses, headers, settings, and what a refusal means."""

import pytest

from wheelsmith.base.errors import PackageIndexError
from wheelsmith.index.storage.bucket import is_final, request_error, settings, settings_error
from wheelsmith.index.storage.location import Address, open_storage, parse_address
from wheelsmith.index.storage.protocol import response_headers

FOREVER = "max-age=365000000, immutable"
FILE = f"files/ab/{'ab' * 32}/k-1+cu130-py3-none-any.whl"


@pytest.mark.parametrize(
    ("key", "kind", "caching"),
    [
        ("cpu/k/index.html", "text/html; charset=utf-8", "no-cache"),
        ("cpu/k/index.json", "application/vnd.pypi.simple.v1+json", "no-cache"),
        ("index.json", "application/json", "no-cache"),
        (FILE, "application/octet-stream", FOREVER),
        (f"{FILE}.metadata", "text/plain; charset=utf-8", FOREVER),
        ("files/ab/index.json", "application/json", FOREVER),
        ("filesystem/k/index.json", "application/vnd.pypi.simple.v1+json", "no-cache"),
    ],
)
def test_headers(key, kind, caching):
    headers = response_headers(key)
    assert (headers.content_type, headers.cache_control) == (kind, caching)


@pytest.mark.parametrize(
    ("target", "scheme", "bucket", "prefix"),
    [
        ("s3://wheels", "s3", "wheels", ""),
        ("s3://my.wheels-1/a/b_c~d.e/", "s3", "my.wheels-1", "a/b_c~d.e"),
        ("az://$web/whl", "az", "$web", "whl"),
    ],
)
def test_addresses(target, scheme, bucket, prefix):
    address = parse_address(target)
    assert address == Address(scheme=scheme, bucket=bucket, prefix=prefix)
    assert str(address) == target.rstrip("/")


@pytest.mark.parametrize(
    "target",
    [
        *("s3://", "s3:///x", "s3://../", "s3://a..b/x", "s3://UPPER/x", "s3://a b/x", "s3://x", "s3://[::1]/x"),
        *("s3://wheels/a b", "s3://wheels/%2f", "s3://wheels/../x", "s3://wheels/a//b", "s3://wheels/a\nb"),
        *("s3://wheels/\u202egpj", "s3://wheels:443/x", "gs://wheels/*", "az://$root/x"),
    ],
)
def test_addresses_that_are_none(target):
    with pytest.raises(PackageIndexError) as caught:
        parse_address(target)
    assert str(caught.value).isprintable()
    assert caught.value.remedy


@pytest.mark.parametrize(
    "target",
    ["s3://user:hunt/er2@wheels/x", "s3://wheels/x?sig=hunter2", "az://c/x?sv=1&sig=hunt@er2"],
)
def test_no_secret_is_shown(target):
    with pytest.raises(PackageIndexError) as caught:
        open_storage(target)
    assert "er2" not in f"{caught.value}{caught.value.remedy}"


S3 = Address(scheme="s3", bucket="wheels", prefix="x")
SIGNED = "https://wheels.host/x?X-Amz-Signature=hunter2&sig=hunter2"


def failure(kind, text):
    """Return an exception such as obstore's: its message holds the request, and all of the answer."""
    return type(kind, (Exception,), {})(f"Generic S3 error: Error performing PUT {SIGNED} in 2ms - {text} hunter2")


def status(number, code=""):
    return f"Server returned non-2xx status code: {number} Some Words: <Error><Code>{code}</Code></Error>"


@pytest.mark.parametrize(
    ("error", "message", "remedy"),
    [
        (failure("FileNotFoundError", status(404, "NoSuchBucket")), "there is no such bucket", "aws s3 mb s3://wheels"),
        (failure("PermissionDeniedError", status(403, "InvalidAccessKeyId")), "are not accepted", "AWS_ACCESS_KEY_ID"),
        (failure("GenericError", "http://169.254.169.254/latest/api/token"), "no valid credentials", "boto3"),
        (failure("GenericError", "HTTP error: builder error BadScheme"), "plain http", "AWS_ALLOW_HTTP=true"),
        (failure("GenericError", status(501, "NotImplemented")), "support conditional writes", "newer"),
        (failure("GenericError", "HTTP error: error sending request"), "does not answer", "network"),
    ],
)
def test_a_refusal_says_what_it_means_and_what_mends_it(error, message, remedy):
    found = request_error(error, S3)
    assert str(found).startswith("s3://wheels/x: ")
    assert message in str(found)
    assert remedy in found.remedy
    assert "hunter2" not in f"{found}{found.remedy}"


def test_remedies_are_of_the_cloud_that_refuses():
    for scheme, words in (("gs", "gcloud storage buckets create gs://wheels"), ("az", "--name 'wheels'")):
        found = request_error(
            failure("GenericError", status(404, "NoSuchBucket")), Address(scheme=scheme, bucket="wheels", prefix="")
        )
        assert words in found.remedy
    missing = failure("GenericError", "Account must be specified")
    assert "_ACCOUNT_NAME" in settings_error(missing, Address(scheme="az", bucket="c", prefix=""), ()).remedy


@pytest.mark.parametrize("endpoint", ["garbage", "ftp://host", "http://[::bad", "https://user:hunter2@host"])
def test_an_endpoint_that_is_none_is_one_error(endpoint):
    with pytest.raises(PackageIndexError, match="AWS_ENDPOINT_URL is not an endpoint") as caught:
        settings("s3", {"AWS_ENDPOINT_URL": endpoint})
    assert "hunter2" not in f"{caught.value}{caught.value.remedy}"


@pytest.mark.parametrize(
    ("text", "final"),
    [
        (status(403, "AccessDenied"), True),
        (status(404, "NoSuchBucket"), True),
        (status(404, "NoSuchUpload"), False),
        (status(409, "OperationAborted"), False),
        ("HTTP error: operation timed out", False),
    ],
)
def test_only_a_refusal_is_final(text, final):
    assert is_final(failure("GenericError", text)) is final


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({}, False),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000"}, True),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1:9000", "AWS_ALLOW_HTTP": "false"}, False),
        ({"AWS_ENDPOINT_URL": "http://127.0.0.1.example:9000"}, False),
    ],
)
def test_plain_http_is_for_loopback_unless_it_is_asked_for(environ, allowed):
    assert ("allow_http" in settings("s3", environ)) is allowed


def test_azures_own_names_are_read():
    found = settings("az", {"AZURE_STORAGE_ACCOUNT": "ada", "AZURE_STORAGE_KEY": "key", "AZURE_TIMEOUT": "1 second"})
    assert found == {"account_name": "ada", "account_key": "key"}
