"""Run git on a bare repository of the cache, so that nothing of what it fetches is run and it always ends.

The user's own configuration holds: proxies, credential helpers, other addresses for the same repository.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import selectors
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import IO

from wheelsmith.base.errors import SourceError
from wheelsmith.base.offline import is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible

LONGEST = 1800.0  # seconds that one command may take
_PATIENCE = 180.0  # seconds in which it says nothing at all; while it fetches, git tells every second how far it is
MOST_WRITTEN = 1 << 30  # bytes of one file, a pack for one
_MOST_MEMORY = 4 << 30  # bytes; a few of a pack can ask git to make any number of them
TOO_LARGE = "it is too large"
_KEPT_WORDS = 1 << 14  # bytes of what it says, the last ones
_LONGEST_SAID = 300  # characters of a reason
_CHUNK = 1 << 16

# What of the environment is the user's way to the network; the rest, as a hook has it, is of another repository.
_KEPT = re.compile(
    r"GIT_(SSH\w*|SSL_\w+|HTTP_\w+|PROXY_\w+|EXEC_PATH|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
_TOLD = re.compile(r"(fatal|error|ssh|git|Host key|Permission denied)\b")
_PROTOCOLS = ("https", "http", "ssh", "git", "file")
_SETTINGS = {
    # Nothing is run but what moves bytes.
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # A pack is one file, whose size is bounded.
    "fetch.unpackLimit": "1",
    "transfer.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "fetch.showForcedUpdates": "false",
    # Nor from where else a server says that it is.
    "transfer.bundleURI": "false",
    "fetch.uriProtocols": "",
    "credential.interactive": "false",
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    # Addresses in what it says are found, and cut out, where they are not abbreviated.
    "core.quotePath": "true",
    "color.ui": "false",
}


Hear = Callable[[bytes], None]


def _ignore(words: bytes) -> None:
    """Do nothing of what is said."""


class GitError(Exception):
    """A command failed.

    :param said: why, in git's words or ours: one line that can be shown.
    """

    def __init__(self, said: str) -> None:
        super().__init__(said)
        self.said = said


def git(folder: Path, *argv: str, hear: Hear = _ignore) -> str:
    """Return what a short command prints.

    :param hear: is told what it says beside that, as it says it.
    :raises GitError: it failed.
    """
    return b"".join(git_output(folder, *argv, hear=hear)).decode("utf-8", "replace").strip()


def git_output(folder: Path, *argv: str, given: bytes = b"", hear: Hear = _ignore) -> Generator[bytes, None, None]:
    """Yield what a command prints, piece by piece; who takes no more of it ends it by closing this.

    :param folder: the repository, which need not be there yet.
    :param given: what it reads.
    :param hear: is told what it says beside what it prints.
    :raises GitError: it failed, or did not come to an end.
    """
    with tempfile.TemporaryFile() as words:
        words.write(given)
        words.seek(0)
        process = subprocess.Popen(
            _command(folder, argv),
            cwd=folder.parent,
            env=_environment(),
            stdin=words,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Without a terminal nobody can be asked for a password, by ssh for one; and all of it can be ended.
            start_new_session=True,
        )
    with process:
        try:
            for kind, most in ((resource.RLIMIT_FSIZE, MOST_WRITTEN), (resource.RLIMIT_DATA, _MOST_MEMORY)):
                _bound(process.pid, kind, most)
            said = yield from _spoken(process, hear)
        finally:
            if process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
        if process.returncode:
            raise GitError(_reason(said, process.returncode))


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
        # What is not there was not sent: no command goes and asks for it again.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _bound(pid: int, kind: int, most: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        _, hard = resource.prlimit(pid, kind)
        limit = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.prlimit(pid, kind, (limit, limit))


def _spoken(process: subprocess.Popen[bytes], hear: Hear) -> Generator[bytes, None, bytes]:
    """Yield what a process prints until it has ended; return the last of what it says beside that."""
    end, said = time.monotonic() + LONGEST, b""
    with _end_of(process) as ended, selectors.DefaultSelector() as streams:
        for stream in (ended, process.stdout, process.stderr):
            assert stream is not None  # noqa: S101  # PIPE above
            streams.register(stream, selectors.EVENT_READ)
        over = False
        # What it leaves running, as ssh does to keep a connection, has its streams for longer than it.
        while ready := streams.select(0 if over else min(_PATIENCE, max(end - time.monotonic(), 0.0))):
            for key, _ in ready:
                if key.fileobj is ended:
                    over = True
                    streams.unregister(ended)
                elif not (chunk := os.read(key.fd, _CHUNK)):
                    streams.unregister(key.fileobj)
                elif key.fileobj is process.stdout:
                    yield chunk
                else:
                    said = (said + chunk)[-_KEPT_WORDS:]
                    hear(chunk)
    if not over:
        raise GitError(f"it hangs, or takes longer than {LONGEST / 60:g} minutes")
    return said


@contextlib.contextmanager
def _end_of(process: subprocess.Popen[bytes]) -> Iterator[IO[bytes]]:
    """Yield a file that ends once a process has; kernels before Linux 5.3 have no other that can be waited for."""
    ours, theirs = os.pipe()

    def wait() -> None:
        process.wait()
        os.close(theirs)

    threading.Thread(target=wait, daemon=True).start()
    with os.fdopen(ours, "rb", buffering=0) as ended:
        yield ended


def _reason(said: bytes, code: int) -> str:
    lines = re.split(r"[\r\n]+", said.decode("utf-8", "replace"))
    told = [line for line in lines if _TOLD.match(line)] or [line for line in lines if line.strip()]
    words = " ".join(redact(line).strip() for line in told[-3:])
    return visible(words)[:_LONGEST_SAID] or f"it ended with exit code {code}"
