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
    """Return what somebody gave as an address without what may be a password: mistyped, that may stand anywhere."""
    try:
        parts = urlsplit(address)
        # Where the password has a slash, a piece of it stands where a port would.
        clear = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        parts, clear = None, False
    if parts and clear:
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    before, _, after = address.rpartition("@")
    return f"…@{after}" if ":" in before and not before.startswith("file:") else address


def _escaped(command: re.Match[str]) -> str:
    return command[0][:-1] + f"\\x{ord(command[0][-1]):x}"


def some_of(texts: Sequence[str]) -> str:
    """Return the first few of texts for people, and how many more there are."""
    more = len(texts) - _SHOWN
    shown = visible(", ".join(text[:_LONGEST_SHOWN] for text in texts[:_SHOWN]))
    return f"{shown} and {more} more" if more > 0 else shown
