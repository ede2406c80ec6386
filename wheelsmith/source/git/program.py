"""Run git on a repository of the cache: within limits, without hooks, prompts and the settings of other repositories.

The user's own configuration holds: proxies, credential helpers, other addresses for the same repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible

SECONDS = 1800.0  # of one command
MOST_WRITTEN = 1 << 30  # bytes of one file, such as a pack
MEMORY = 4 << 30  # bytes
_TURN = 0.5  # seconds between two looks at the progress
_MESSAGES = 1 << 14  # bytes of its messages that are read, from their end
_LONGEST_REASON = 300  # characters

# The user's way to the network; other variables, as a hook has them, are for another repository.
_KEPT = re.compile(
    r"GIT_(SSH\w*|SSL_\w+|HTTP_\w+|PROXY_\w+|EXEC_PATH|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
_REASON = re.compile(r"(fatal|error|ssh|git|Host key|Permission denied)\b")
_PROTOCOLS = ("https", "http", "ssh", "git", "file")
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    # Files are written as they are in the repository, under names that are safe everywhere.
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # A pack is one file, so its size is limited.
    "fetch.unpackLimit": "1",
    "transfer.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "fetch.showForcedUpdates": "false",
    # No other place that a server names.
    "transfer.bundleURI": "false",
    "fetch.uriProtocols": "",
    "credential.interactive": "false",
    # A server that is silent for a minute is given up.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    # Addresses in messages are whole, so their credentials can be removed.
    "core.quotePath": "true",
    "color.ui": "false",
}


class GitError(Exception):
    """A command failed; the message is one line that can be shown."""


def git(folder: Path, *argv: str, most: int = MOST_WRITTEN, hear: Callable[[bytes], None] | None = None) -> str:
    """Return what a command prints.

    Its streams are files: a helper that git leaves running, as ssh does to share a connection, would keep a pipe open.

    :param folder: the repository, which need not be there yet.
    :param most: bytes of a file that it may write, of what it prints too.
    :param hear: is given the end of its messages, now and then.
    :raises GitError: it failed, or took too long.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            _command(folder, argv),
            cwd=folder.parent,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            # No terminal to ask for a password, and a group that can be ended.
            start_new_session=True,
        )
        try:
            _limit(process.pid, min(most, MOST_WRITTEN))
            _wait(process, lambda: hear and hear(_last(messages)))
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            raise GitError(_reason(_last(messages), process.returncode))
        output.seek(0)
        return output.read().decode("utf-8", "surrogateescape")


def _command(folder: Path, argv: tuple[str, ...]) -> list[str]:
    program = shutil.which("git")
    if program is None:
        raise SourceError("there is no git on PATH", remedy="install git 2.30 or later, such as: apt-get install git")
    settings = (word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))
    return [program, f"--git-dir={folder}", *settings, *argv]


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT.fullmatch(name)}
    kept.pop("SSH_ASKPASS", None)
    only = "file" if is_offline() else os.environ.get("GIT_ALLOW_PROTOCOL")
    allowed = [name for name in _PROTOCOLS if only is None or name in only.split(":")]
    return kept | {
        "LC_ALL": "C",
        "LANGUAGE": "C",
        "GIT_ALLOW_PROTOCOL": ":".join(allowed),
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        # A missing object is an error, not another request.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _limit(pid: int, most: int) -> None:
    for kind, limit in ((resource.RLIMIT_FSIZE, most), (resource.RLIMIT_DATA, MEMORY)):
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, kind)
            least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(pid, kind, (least, least))


def _wait(process: subprocess.Popen[bytes], look: Callable[[], object]) -> None:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_TURN)
            look()
            return
        look()
    raise GitError(f"it takes longer than {SECONDS / 60:g} minutes")


def _last(messages: IO[bytes]) -> bytes:
    size = os.fstat(messages.fileno()).st_size
    # The file's position is the program's own.
    return os.pread(messages.fileno(), _MESSAGES, max(size - _MESSAGES, 0))


def _reason(messages: bytes, code: int) -> str:
    lines = re.split(r"[\r\n]+", messages.decode("utf-8", "replace"))
    chosen = [line for line in lines if _REASON.match(line)] or [line for line in lines if line.strip()]
    words = " ".join(redact(line).strip() for line in chosen[-3:])
    return visible(words)[:_LONGEST_REASON] or (f"exit code {code}" if code > 0 else f"it died of signal {-code}")


# Words in a message, what they mean, and the remedy.
_EXPLANATIONS = (
    (
        ("couldn't find remote ref", "not our ref", "unadvertised object", "no such remote ref", "trying to write ref"),
        "{shown} has no revision '{revision}'",
        "name a branch, a tag, or all 40 digits of a commit; git ls-remote tells what there is",
    ),
    (
        ("dubious ownership",),
        "git does not read {shown}: it is another user's",
        "git config --global --add safe.directory {folder}",
    ),
    (
        (
            *("could not read Username", "could not read Password", "Authentication failed"),
            *("terminal prompts disabled", "Permission denied", "Host key verification failed"),
            *("returned error: 401", "returned error: 403"),
        ),
        "{shown} is not given without credentials, or is not there",
        "let git have them without being asked, by a credential helper or a key: git ls-remote {shown}",
    ),
    (
        ("not found", "does not appear to be a git repository", "not a git repository", "returned error: 404"),
        "there is no git repository {shown}",
        "fix kernel.git in matrix.yaml",
    ),
    (
        ("invalid index-pack output",),
        "{shown} was not received whole, or is larger than {most} MiB: {reason}",
        "try again, or name a repository without large files",
    ),
    ((), "{shown} could not be fetched: {reason}", "check the network: git ls-remote must reach it{last}"),
)


def explain_fetch(address: GitAddress, revision: str, reason: str, before: str | None) -> SourceError:
    """Return the error of a fetch that failed, with its remedy.

    :param reason: git's own message.
    :param before: the commit that the revision was when it was last fetched.
    """
    shown = address.text if address.is_local else address.shown
    values = {
        "shown": shown,
        "folder": shown.removeprefix("file://"),
        "revision": revision,
        "reason": reason,
        "most": MOST_WRITTEN >> 20,
        "last": f"; to go on without, write the commit that it was last time: revision: {before}" if before else "",
    }
    message, remedy = next(
        (message, remedy)
        for words, message, remedy in _EXPLANATIONS
        if not words or any(word in reason for word in words)
    )
    return SourceError(message.format_map(values), remedy=remedy.format_map(values))
