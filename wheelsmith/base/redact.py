"""Remove passwords from addresses before they are shown or recorded.

A mistyped address can hold its password anywhere. Where the place is not certain, everything up to the last ``@`` is
replaced by ``…``.
"""

from __future__ import annotations

import re
from pathlib import Path

# The first branch matches a password with spaces: no port follows the colon, and the line has an @ further on.
_WORD = re.compile(r"(?:\S*[/\\]{2}[^\s/\\@:]*:(?!\d{0,5}[\"'),.;:]*(?:[/?#\s]|$))[^\s@]{1,200} [^\n@]{0,200}@)?\S+")
_SLASHES = re.compile(r"([a-z][a-z0-9+.-]{0,30})?(?:[:;\uff1a]?[/\\]{2,}|(?<=[a-z0-9])[:\uff1a][/\\]+)", re.IGNORECASE)
_FOLDER = re.compile(r"\.{0,2}/(?![/\\])")
_SCP = re.compile(r"[\"'(]?[\w.-]+@(?:[\w.-]+|\[[0-9a-f:.]+\]):[^@]*", re.IGNORECASE)
_AT = re.compile("[@\uff20\ufe6b]")  # the full-width and small forms look the same
_ESCAPED_AT = re.compile("%40")
_COLON = re.compile("[:\uff1a\ufe55]|%3a", re.IGNORECASE)
_JOINT = re.compile("([,;|'\"()<>]+)")
_QUERY = re.compile(r"[?#].*", re.DOTALL)
_AUTHORITY = re.compile(r"(?:[^:\uff1a\ufe55\[\]%]*|\[[0-9a-f:.]+\])(?::\d{0,5})?[^\w\[]*", re.IGNORECASE)
_FULL_HOST = re.compile(r"[\w-]+(?:\.[\w-]+)+|\[[0-9a-f:.]+\]", re.IGNORECASE)
_PLACES_WITHOUT_USERS = frozenset({"s3", "gs", "az", "hf", "github"})
_SSH_USER = re.compile(r"(?<=ssh://)[\w.-]+@")
_HIDDEN = "…"
_MAX_ADDRESSES = 20  # in one word

AMBIGUOUS = "an @ or a colon is not where one belongs: write @ as %40 and / as %2F in a password, and the host in full"


def redact(text: str) -> str:
    """Return a text with users, passwords, queries and fragments removed from its addresses.

    :param text: one address, however mistyped, or sentences with addresses in them.
    """
    return _WORD.sub(lambda word: _redact_word(word[0]), text)


def file_name(path: Path) -> str:
    """Return the name of a file. If it is missing, the path may be a mistyped address: return that, redacted."""
    return path.name if path.exists() else redact(str(path))


def is_ambiguous(address: str) -> bool:
    """Return True if an address may hold a password in an unusual place. ``AMBIGUOUS`` is the message for it."""
    return _HIDDEN in redact(address)


def has_credentials(address: str) -> bool:
    """Return True if an address may hold a password. The user of ``ssh://git@host`` does not count."""
    plain = _SSH_USER.sub("", address.partition("#")[0])
    return redact(plain) != plain or is_ambiguous(address)


def _redact_word(word: str) -> str:
    slashes = _SLASHES.search(word)
    if slashes is None:
        return word if _FOLDER.match(word) else _redact_without_scheme(word)
    if _COLON.search(word[: slashes.start()]) and _split_at_last(word[slashes.end() :])[1]:
        return _redact_without_scheme(word)  # slashes after a colon may belong to a password
    rest = _redact_url(scheme=(slashes[1] or "").lower(), rest=word[slashes.end() :])
    return _redact_without_scheme(word[: slashes.start()]) + slashes[0] + rest


def _redact_without_scheme(word: str) -> str:
    """Redact ``user:password@host/path``, but not ``git@host:path``."""
    head, at, tail = _split_at_last(word)
    if at and _COLON.search(head) and not _SCP.fullmatch(word):
        return _hide_up_to(tail)
    place, _, query = word.partition("?")
    return place if "=" in query else word


def _redact_url(*, scheme: str, rest: str) -> str:
    """Redact the part of a URL after the slashes."""
    head, at, tail = _split_at_last(rest)
    if scheme == "file" and not (at and _COLON.search(head)):
        return _redact_rest(rest)
    if not at:
        return _redact_host(rest)
    authority = _authority(head)
    if authority == head and at == "@":
        return _redact_host(tail)
    user, _, host = authority.rpartition("@")
    path = head[len(authority) :]
    is_place = scheme in _PLACES_WITHOUT_USERS and not _COLON.search(host)
    if path and (is_place or _FULL_HOST.fullmatch(host)) and not _COLON.search(user + path):
        return _redact_rest(host + path + at + tail)
    return _hide_up_to(tail)


def _hide_up_to(tail: str) -> str:
    return f"{_HIDDEN}@{_redact_rest(_ESCAPED_AT.split(tail)[-1])}"


def _redact_rest(rest: str) -> str:
    """Remove the query and the fragment, and redact addresses that follow without a space."""
    plain = _QUERY.sub("", rest)
    if found := len(_SLASHES.findall(plain)):
        return _redact_word(plain) if found <= _MAX_ADDRESSES else _HIDDEN
    place, *others = _JOINT.split(plain, maxsplit=1)
    return place + "".join(map(_redact_without_scheme, others))


def _redact_host(rest: str) -> str:
    return _redact_rest(rest) if _AUTHORITY.fullmatch(_authority(rest)) else _HIDDEN


def _authority(rest: str) -> str:
    return re.split(r"[/?#]", rest, maxsplit=1)[0]


def _split_at_last(text: str) -> tuple[str, str, str]:
    """Split a text at its last ``@``, or at its last ``%40`` where it has no ``@``."""
    ats = [*_AT.finditer(text)] or [*_ESCAPED_AT.finditer(text)]
    if not ats:
        return text, "", ""
    return text[: ats[-1].start()], ats[-1][0], text[ats[-1].end() :]
