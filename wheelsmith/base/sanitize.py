"""Show the words of somebody whom nobody trusts, so that they are words and nothing more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

# Runners of GitHub, Azure and TeamCity take a line for a command wherever this stands in it, and GitHub's also where it
# begins with two colons: a step's outputs are set so, and what follows is hidden.
_COMMAND = re.compile(r"#(?=#\w*\[)|^\s*:(?=:)")
# Up to the last @, as who reads addresses takes it: a password may have others.
_CREDENTIALS = re.compile(r"(?<=://)[^/\s]*@")
_URL = re.compile(
    r"(?P<scheme>[a-z][a-z0-9+.-]*)://(?P<user>[^/?#]*@)?(?P<host>(?:[\w.-]+|\[[0-9a-f:.]+\])?(?::[0-9]{1,5})?)"
    r"(?P<path>(?:/[^?#]*)?)(?P<more>(?:[?#].*)?)",
    re.IGNORECASE | re.DOTALL,
)
_FOLDER = re.compile(r"\.{0,2}/(?!/)")
_SSH_USER = re.compile(r"(?<=ssh://)[\w.-]+@")  # whom ssh greets is no secret
_BEGUN = re.compile("([a-z][a-z0-9+.-]+)[:\uff1a]/", re.IGNORECASE)
_AT = re.compile("[@\uff20\ufe6b]")  # as wide letters, too, which look like it
_AT_OF_ANY_KIND = re.compile(f"{_AT.pattern}|%40")
_COLON = re.compile("[:\uff1a\ufe55]|%3a", re.IGNORECASE)
_IPV6 = re.compile(r"^\[[^\]]*\]")
_MORE = re.compile(r"[?#]")
_HIDDEN = "…@"
STRAY_AT = "an @ stands in its path, after a colon: write it as %40, and / in a password as %2F"
_SHOWN, _LONGEST_SHOWN = 4, 60  # texts, characters of each


def visible(text: str) -> str:
    r"""Replace what terminals and build servers obey: ESC becomes ``\x1b``, and ``##[`` becomes ``\x23#[``."""
    shown = "".join(c if c.isprintable() or c == "\t" else c.encode("unicode_escape").decode("ascii") for c in text)
    return _COMMAND.sub(_escaped, shown)


def bare_address(address: str) -> str:
    """Return a URL without user, password and what follows its path; what is none stays as it is."""
    if "://" not in address:
        return address
    parts = urlsplit(address)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment=""))


def without_credentials(text: str) -> str:
    """Return a text without the users and passwords of the addresses in it."""
    return _CREDENTIALS.sub("", text)


def shown_address(address: str) -> str:
    """Return what somebody gave as an address without what may be a password: mistyped, that may stand anywhere.

    Of a URL its user, query and fragment go. Of what only looks like one, or has a password with a slash, only
    what follows the last @ is shown, or the scheme.
    """
    if _FOLDER.match(address):
        return address
    url = _URL.fullmatch(address)
    return _shown_url(url) if url else _shown_text(address)


def _shown_url(url: re.Match[str]) -> str:
    host = _IPV6.sub("", url["host"])
    at = _AT_OF_ANY_KIND if ":" in host else _AT
    *before, after = at.split(url["path"] + url["more"])
    nowhere = not url["host"] and url["scheme"] != "file"
    if before and (nowhere or _COLON.search("".join([url["user"] or "", host, *before]))):
        return _behind_at(after)
    return f"{url['scheme']}://{url['host']}{url['path']}"


def _shown_text(address: str) -> str:
    *before, after = _AT_OF_ANY_KIND.split(address)
    credentials = "".join(before)
    if before and (_COLON.search(credentials) or "//" in credentials):
        return _behind_at(after)
    if scheme := _BEGUN.match(address):
        return f"{scheme[1]}://…"
    place, _, query = address.partition("?")
    return place if "=" in query else address


def _behind_at(after: str) -> str:
    return f"{_HIDDEN}{_MORE.split(after)[0]}"


def has_stray_at(address: str) -> bool:
    """Say whether an @ stands in an address where what is before it may be a password; ``STRAY_AT`` says what to do."""
    return shown_address(address).startswith(_HIDDEN)


def may_hold_password(address: str) -> bool:
    """Say whether an address has what might be one: a user, a query, or an @ where none belongs."""
    plain = _SSH_USER.sub("", address.partition("#")[0])
    return shown_address(plain) != plain


def _escaped(command: re.Match[str]) -> str:
    return command[0][:-1] + f"\\x{ord(command[0][-1]):x}"


def some_of(texts: Sequence[str]) -> str:
    """Return the first few of texts for people, and how many more there are."""
    more = len(texts) - _SHOWN
    shown = visible(", ".join(text[:_LONGEST_SHOWN] for text in texts[:_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown
