"""Validate the addresses of git repositories, revisions and subfolders."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from wheelsmith.base.redact import AMBIGUOUS, is_ambiguous, redact

GIT_FORM = "git+https://HOST/ORGANIZATION/PROJECT@TAG"  # for messages
_MAX_LENGTH = 1000  # characters of an address
_MAX_REVISION_LENGTH = 200
_MAX_PATH_LENGTH = 240  # bytes
_REMOTE_SCHEMES = ("https", "http", "ssh", "git")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
# For `NAME::address`, git runs the program git-remote-NAME.
_HELPER = re.compile(r"[A-Za-z0-9][A-Za-z0-9+.-]*::")
# A host that begins with a hyphen would be an option to ssh.
_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9])?\.?|\[[0-9A-Fa-f:.]+\]")
_SCP_ADDRESS = re.compile(
    r"(?P<host>(?:[A-Za-z0-9_][A-Za-z0-9._-]*@)?(?:[A-Za-z0-9_][A-Za-z0-9._-]*|\[[0-9A-Fa-f:.]+\])):(?P<path>[^-].*)"
)
# A line end in an address would inject a field into the request to a credential helper.
_ESCAPED_CONTROL = re.compile(r"%(?:[01][0-9a-f]|7f)", re.IGNORECASE)
_INVALID_REVISION = re.compile(r"[ ~^:?*\[\\]|\.\.|@\{|//|^[-/.+]|[/.]$|\.lock$|/\.")


@dataclass(frozen=True, slots=True, kw_only=True)
class GitAddress:
    """The address of a git repository.

    :param text: the address for git. It may contain credentials.
    :param shown: the address for messages and records, without credentials and local paths.
    :param is_local: True for a folder of this machine.
    """

    text: str
    shown: str
    is_local: bool


def parse_git_address(text: str) -> GitAddress:
    """Parse an address of ``git clone``: a URL, ``user@host:path`` or a folder.

    :raises ValueError: it is not such an address, or git would run a program for it.
    """
    if not text or len(text) > _MAX_LENGTH or not text.isprintable() or text.startswith("-"):
        raise ValueError(f"{_quote(text)} is not the address of a git repository")
    if _HELPER.match(text):
        raise ValueError("git would run a program for such an address: give a URL, user@host:path or a folder")
    if scheme := _SCHEME.match(text):
        return _parse_url(text, scheme[1])
    if ":" in text.partition("/")[0]:
        scp = _SCP_ADDRESS.fullmatch(text)
        if not scp or " " in text:
            raise ValueError(f"{_quote(text)} is not an address such as git@host:org/project")
        # In `a:b@host:path`, `a:b` is a user with a password.
        return GitAddress(text=text, shown=text if "@" in scp["host"] else redact(text), is_local=False)
    return GitAddress(text=text, shown="local", is_local=True)


def _parse_url(text: str, scheme: str) -> GitAddress:
    if scheme == "file":
        return GitAddress(text=text, shown="local", is_local=True)
    if scheme not in _REMOTE_SCHEMES:
        plain = scheme.lower().removeprefix("git+").removesuffix("+git")
        hint = f": write {plain}://" if plain in _REMOTE_SCHEMES else ""
        raise ValueError(
            f"{scheme}:// is not one of {', '.join(f'{name}://' for name in _REMOTE_SCHEMES)} and file://{hint}"
        )
    try:
        parts = urlsplit(text)
        is_valid_port = parts.port is None or parts.port
    except ValueError:
        is_valid_port = False
    if not is_valid_port or not _HOST.fullmatch(_host_of(parts)) or " " in text or _ESCAPED_CONTROL.search(text):
        raise ValueError("this URL has no host or contains invalid characters")
    if parts.query or parts.fragment or "?" in text or "#" in text:
        raise ValueError("give an address for git clone, without ? and #; for a folder in it, set subdirectory")
    if is_ambiguous(text):
        raise ValueError(AMBIGUOUS)
    shown = redact(text)
    if scheme == "ssh" and parts.username:  # the user of the server, no secret
        shown = shown.replace("://", f"://{parts.username}@", 1)
    return GitAddress(text=text, shown=shown, is_local=False)


def _host_of(parts: SplitResult) -> str:
    place = parts.netloc.rpartition("@")[2]
    return place if place.endswith("]") else re.sub(r":[0-9]*$", "", place)


def _quote(text: str) -> str:
    """Return the beginning of the user's text in quotes, without credentials."""
    return repr(redact(text)[:80])


def parse_submodule_address(parent: GitAddress, text: str) -> GitAddress:
    """Parse the address of a submodule as a repository gives it.

    :param parent: the address of the repository; a relative address is resolved against it.
    :raises ValueError: it is not an address, or it is a folder of this machine. Only the user may name such a folder.
    """
    if text.startswith(("./", "../")):
        if parent.is_local:
            raise ValueError(f"{_quote(text)} would be a folder of this machine next to the repository")
        text = _resolve_relative(parent.text, text)
    address = parse_git_address(text)
    if address.is_local:
        raise ValueError(f"{_quote(text)} would be a folder of this machine")
    return address


def _resolve_relative(parent: str, text: str) -> str:
    head, slash, path = _split_address(parent)
    parts = [part for part in path.split("/") if part]
    for part in text.split("/"):
        if part == "..":
            if not parts:
                raise ValueError(f"{_quote(text)} leads above the top of the repository's server")
            parts.pop()
        elif part not in {"", "."}:
            parts.append(part)
    return f"{head}{slash}{'/'.join(parts)}"


def _split_address(address: str) -> tuple[str, str, str]:
    """Split an address into the part before the path, the separator, and the path."""
    if scheme := _SCHEME.match(address):
        host, slash, path = address[scheme.end() :].partition("/")
        return scheme[0] + host, slash or "/", path
    head, _, path = address.partition(":")
    return f"{head}:", "/" if path.startswith("/") else "", path


def check_revision(text: str) -> str:
    """Return a branch, tag or commit.

    :raises ValueError: git allows no such name, or the text selects a range or an expression.
    """
    if not text or len(text) > _MAX_REVISION_LENGTH or not text.isprintable() or _INVALID_REVISION.search(text):
        raise ValueError(f"{_quote(text)} is not a branch, a tag or a commit such as main, v1.2 or 40 hex digits")
    return text


def check_subfolder(text: str) -> str:
    """Return the normalized path of a folder inside of a repository.

    :raises ValueError: it is not such a path.
    """
    parts = [part for part in text.split("/") if part not in {"", "."}]
    if text.startswith("/") or not parts or ".." in parts or "\\" in text or not text.isprintable():
        raise ValueError(f"{_quote(text)} is not a path below the top folder, such as kernels/relu")
    if len(text.encode()) > _MAX_PATH_LENGTH:
        raise ValueError(f"the path of the folder is longer than {_MAX_PATH_LENGTH} bytes")
    return "/".join(parts)
