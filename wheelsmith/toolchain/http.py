"""Send requests to an untrusted server without reading unneeded data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType

import httpx

from wheelsmith.base.deadline import TooSlowError, deadline
from wheelsmith.base.redact import redact

# UnicodeError: an invalid host name.
REQUEST_ERRORS = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TooSlowError)
_RESPONSE_TIMEOUT = 120.0  # seconds until the response begins
_MAX_REDIRECTS = 20


@contextmanager
def open_response(
    client: httpx.Client, url: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[httpx.Response]:
    """Request a file without compression, and follow redirects.

    httpx would read the complete body of each redirect, and decompress the response.
    """
    request = client.build_request("GET", url, headers={"Accept-Encoding": "identity", **headers})
    for _ in range(_MAX_REDIRECTS + 1):
        with deadline(client, _RESPONSE_TIMEOUT):
            response = client.send(request, stream=True, follow_redirects=False)
        with closing(response):
            if response.next_request is None:
                yield response
                return
            request = response.next_request
    raise httpx.TooManyRedirects(f"it redirects more than {_MAX_REDIRECTS} times", request=request)


def failure_reason(error: Exception) -> str:
    """Return the reason of a failed request on one line, without passwords."""
    if isinstance(error, httpx.InvalidURL):  # its message quotes parts of the address
        return "it is not an address"
    message, _, _ = redact(str(error)).partition("\n")
    return message or type(error).__name__
