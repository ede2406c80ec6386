"""Ask a server that nobody trusts, and take no more of its answer than is read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from types import MappingProxyType

import httpx

from wheelsmith.base.deadline import TooSlowError, ended_after
from wheelsmith.base.redact import redact

# UnicodeError: a host that is no name.
FAILURES = (httpx.HTTPError, httpx.InvalidURL, UnicodeError, TooSlowError)
_LONGEST_WAIT = 120.0  # seconds for a server to begin
_MOST_REDIRECTS = 20


@contextmanager
def answer(
    client: httpx.Client, url: str, headers: Mapping[str, str] = MappingProxyType({})
) -> Iterator[httpx.Response]:
    """Ask for a file as it is, and go where a server sends us.

    httpx by itself reads to its end whatever comes with a redirect, and unpacks what a server says is packed.
    """
    request = client.build_request("GET", url, headers={"Accept-Encoding": "identity", **headers})
    for _ in range(_MOST_REDIRECTS + 1):
        with ended_after(client, _LONGEST_WAIT):
            response = client.send(request, stream=True, follow_redirects=False)
        with closing(response):
            if response.next_request is None:
                yield response
                return
            request = response.next_request
    raise httpx.TooManyRedirects(f"it redirects more than {_MOST_REDIRECTS} times", request=request)


def reason(error: Exception) -> str:
    """Return in one line why a request failed, without passwords."""
    if isinstance(error, httpx.InvalidURL):  # it quotes parts of the address
        return "it is not an address"
    why, _, _ = redact(str(error)).partition("\n")
    return why or type(error).__name__
