"""Run git on repositories in the cache and on work trees, with limits and without hooks and prompts.

The user's git configuration applies, such as proxies, credential helpers and ``url.*.insteadOf``. But settings of other
repositories do not apply. ``refs/wheelsmith/…`` stores the commit of each revision at its last fetch.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from wheelsmith.base.errors import SourceError
from wheelsmith.base.git_address import GitAddress
from wheelsmith.base.offline import VENDOR_REMEDY, is_offline
from wheelsmith.base.redact import redact
from wheelsmith.base.sanitize import visible
from wheelsmith.base.units import parse_size, show_binary_size, show_duration
from wheelsmith.model import Listener, Transfer

COMMIT = re.compile(r"[0-9a-f]{40}")
# Lines of the server cannot match, because git prefixes them with `remote:`.
_RECEIVED = re.compile(rb"(?:^|[\r\n])Receiving objects: [^,\r\n]*, ([1-9][0-9]{0,8}(?:\.[0-9]{1,9})? [KMG]iB)")
_MAX_OUTPUT = 64 << 20  # bytes; enough to list half a million files
_MAX_REPOSITORY = 4 << 30  # bytes of all files in a repository; the source may be a small part of it
# info/attributes overrides .gitattributes, so no filter, line end or keyword of the repository applies.
_ATTRIBUTES = "* -filter -text -eol -ident -working-tree-encoding\n"
COMMAND_TIMEOUT = 1800.0  # seconds
MAX_FILE_SIZE = 1 << 30  # bytes of a file, such as a pack
MEMORY = 4 << 30  # bytes
_POLL_INTERVAL = 0.5  # seconds between two reads of the progress
_MESSAGES_SIZE = 1 << 14  # bytes that are read from the end of stderr
_MAX_REASON = 300  # characters

# Variables for the network are kept. A hook sets other GIT_ variables, which belong to another repository.
_KEPT_NAMES = re.compile(
    r"GIT_(SSH\w*|SSL_\w+|HTTP_\w+|PROXY_\w+|EXEC_PATH|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM|COUNT|KEY_\d+|VALUE_\d+))"
)
_REASON = re.compile(r"(fatal|error|ssh|git|Host key|Permission denied)\b")
_PROTOCOLS = ("https", "http", "ssh", "git", "file")
_SETTINGS = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    # Write files unchanged, and refuse names that are unsafe on any file system.
    "core.autocrlf": "false",
    "core.fileMode": "true",
    "core.symlinks": "true",
    "core.protectHFS": "true",
    "core.protectNTFS": "true",
    "maintenance.auto": "false",
    "gc.auto": "0",
    # Keep the received pack as one file, so that the limit of a file's size applies to it.
    "fetch.unpackLimit": "1",
    "transfer.unpackLimit": "1",
    "fetch.recurseSubmodules": "false",
    "fetch.writeCommitGraph": "false",
    "fetch.showForcedUpdates": "false",
    # Do not fetch from other addresses that the server names.
    "transfer.bundleURI": "false",
    "fetch.uriProtocols": "",
    "credential.interactive": "false",
    # Give up if the server sends less than 1 kB/s for a minute.
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "60",
    # Keep addresses in messages unbroken, so that their credentials can be removed.
    "core.quotePath": "true",
    "color.ui": "false",
}


class GitError(Exception):
    """A git command failed. The message is one line without credentials."""


def run_git(
    folder: Path,
    *argv: str,
    max_size: int = MAX_FILE_SIZE,
    on_output: Callable[[bytes], None] | None = None,
    seconds: float | None = None,
) -> str:
    """Run a git command on a repository and return its stdout.

    :param folder: the repository, which need not exist yet.
    :param max_size: the largest size in bytes of each written file, including stdout.
    :param on_output: called regularly with the end of stderr.
    :param seconds: the time limit, if it is not ``COMMAND_TIMEOUT``.
    :raises GitError: the command failed or exceeded its time limit.
    """
    return _run(folder.parent, (f"--git-dir={folder}", *argv), max_size, on_output, seconds)


def list_work_tree(folder: Path) -> dict[str, bool]:
    """Return path → True if git tracks a file, False if git neither tracks nor ignores it.

    Submodules and other repositories in the folder are listed, too.

    :raises GitError: git cannot read a repository.
    """
    found: dict[str, bool] = {}
    todo = [""]
    while todo:
        prefix = todo.pop()
        for options, is_tracked in (("--others", "--exclude-standard"), False), (("--cached",), True):
            # The repository of another user is safe, because listing files runs no program of the repository.
            argv = ("-c", "safe.directory=*", "ls-files", "-z", *options)
            for name in _run(folder / prefix, argv, _MAX_OUTPUT).split("\0")[:-1]:
                path = folder / prefix / name
                if os.path.lexists(path / ".git") and not path.is_symlink():
                    todo.append(f"{prefix}{name.rstrip('/')}/")
                else:
                    found[f"{prefix}{name}"] = is_tracked
    return found


def _run(
    cwd: Path,
    argv: tuple[str, ...],
    max_size: int,
    on_output: Callable[[bytes], None] | None = None,
    seconds: float | None = None,
) -> str:
    # A helper that outlives git, such as a shared ssh connection, would keep a pipe open, so the streams are files.
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            _command(argv),
            cwd=cwd,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=messages,
            # A new session has no terminal for password prompts, and its process group can be killed.
            start_new_session=True,
        )
        try:
            _limit(process.pid, min(max_size, MAX_FILE_SIZE))
            _wait(process, lambda: on_output and on_output(_read_end(messages)), seconds or COMMAND_TIMEOUT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        if process.returncode:
            raise GitError(_reason(_read_end(messages), process.returncode))
        output.seek(0)
        return output.read().decode("utf-8", "surrogateescape")


def _command(argv: tuple[str, ...]) -> list[str]:
    program = shutil.which("git")
    if program is None:
        raise SourceError("there is no git on PATH", remedy="install git 2.30 or later, such as: apt-get install git")
    settings = (word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}"))
    return [program, *settings, *argv]


def _environment() -> dict[str, str]:
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or _KEPT_NAMES.fullmatch(name)
    }
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
        # Fail on a missing object instead of fetching it.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _limit(pid: int, max_size: int) -> None:
    for kind, limit in ((resource.RLIMIT_FSIZE, max_size), (resource.RLIMIT_DATA, MEMORY)):
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(pid, kind)
            least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
            resource.prlimit(pid, kind, (least, least))


def _wait(process: subprocess.Popen[bytes], poll: Callable[[], object], seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_INTERVAL)
            poll()
            return
        poll()
    raise GitError(f"it took longer than {show_duration(seconds)}")


def _read_end(messages: IO[bytes]) -> bytes:
    size = os.fstat(messages.fileno()).st_size
    # pread, because the child shares the position of the file.
    return os.pread(messages.fileno(), _MESSAGES_SIZE, max(size - _MESSAGES_SIZE, 0))


def _reason(messages: bytes, code: int) -> str:
    lines = re.split(r"[\r\n]+", messages.decode("utf-8", "replace"))
    chosen = [line for line in lines if _REASON.match(line)] or [line for line in lines if line.strip()]
    words = " ".join(redact(line).strip() for line in chosen[-3:])
    return visible(words)[:_MAX_REASON] or (f"exit code {code}" if code > 0 else f"it was killed by signal {-code}")


# (fragments of git's messages, message, remedy)
_EXPLANATIONS = (
    (
        ("couldn't find remote ref", "not our ref", "unadvertised object", "no such remote ref", "trying to write ref"),
        "{shown} has no revision '{revision}'",
        "name a branch, a tag, or all 40 digits of a commit; git ls-remote lists branches and tags",
    ),
    (
        ("dubious ownership",),
        "git refuses to read {shown}, because it belongs to another user",
        "git config --global --add safe.directory {folder}",
    ),
    (
        (
            *("could not read Username", "could not read Password", "Authentication failed"),
            *("terminal prompts disabled", "Permission denied", "Host key verification failed"),
            *("returned error: 401", "returned error: 403"),
        ),
        "{shown} needs credentials, or does not exist",
        "set up a credential helper or a key, until this works without a prompt: git ls-remote {shown}",
    ),
    (
        ("not found", "does not appear to be a git repository", "not a git repository", "returned error: 404"),
        "there is no git repository {shown}",
        "fix kernel.git in matrix.yaml",
    ),
    (
        ("invalid index-pack output",),
        "the download of {shown} is incomplete or larger than {most}: {reason}",
        "try again, or name a repository without large files",
    ),
    ((), "{shown} could not be fetched: {reason}", "check the network: git ls-remote must reach it{last}"),
)


def explain_fetch(address: GitAddress, revision: str, reason: str, before: str | None) -> SourceError:
    """Return the error and remedy for a failed fetch.

    :param reason: git's message.
    :param before: the commit of the revision at the last fetch, or None.
    """
    shown = address.text if address.is_local else address.shown
    values = {
        "shown": shown,
        "folder": shown.removeprefix("file://"),
        "revision": revision,
        "reason": reason,
        "most": show_binary_size(MAX_FILE_SIZE),
        "last": f"; to continue without it, use the commit of the last fetch: revision: {before}" if before else "",
    }
    message, remedy = next(
        (message, remedy)
        for words, message, remedy in _EXPLANATIONS
        if not words or any(word in reason for word in words)
    )
    return SourceError(message.format_map(values), remedy=remedy.format_map(values))


@dataclass(frozen=True, slots=True, kw_only=True)
class Repository:
    """A bare repository in the cache, which one process uses at a time.

    :param address: the address to fetch from.
    :param folder: the folder in the cache.
    :param listen: receives the progress of downloads.
    """

    address: GitAddress
    folder: Path
    listen: Listener

    def fetch(self, revision: str) -> str:
        """Fetch a revision and return its commit. A commit in the cache needs no network.

        :raises SourceError: it cannot be fetched.
        :raises GitError: the repository in the cache is damaged.
        """
        if COMMIT.fullmatch(revision) and self._resolve(revision):
            return revision
        ref = f"refs/wheelsmith/{hashlib.sha256(revision.encode()).hexdigest()}"
        before = self._resolve(ref)
        try:
            run_git(self.folder, "init", "--quiet", "--bare", "--template=", str(self.folder))
            self._remove_unfinished()
            self._fetch(revision, ref)
        except GitError as error:
            self._remove_unfinished()
            run_git(self.folder, "rev-list", "--quiet", "--objects", "--all")
            raise explain_fetch(self.address, revision, str(error), before) from None
        commit = self._resolve(ref)
        if commit is None:
            raise SourceError(
                f"{revision} of {self.address.shown} is not a commit", remedy="name a branch, tag or commit"
            )
        return commit

    def check_out(self, commit: str, folder: Path) -> dict[str, str]:
        """Write the files and links of a commit to a folder. Return path → commit of its submodules.

        :raises SourceError: the files are too large.
        :raises GitError: it cannot be read or has unsafe names.
        """
        # Without -t, a huge hierarchy of folders without files would print nothing and never reach the limit of stdout.
        listing = self._query("ls-tree", "-r", "-t", "-z", "--long", "--full-tree", commit)
        entries = [(*item.partition("\t")[0].split(), item.partition("\t")[2]) for item in listing.split("\0")[:-1]]
        size = sum(int(size) for _, kind, _, size, _ in entries if kind == "blob")
        if size > _MAX_REPOSITORY:
            raise SourceError(
                f"{self.address.shown} is too large for a source: over {show_binary_size(_MAX_REPOSITORY)}"
            )
        (self.folder / "info").mkdir(exist_ok=True)
        (self.folder / "info/attributes").write_text(_ATTRIBUTES)
        run_git(self.folder, "read-tree", commit)
        run_git(self.folder, f"--work-tree={folder}", "checkout-index", "--all", "--force")
        return {path: name for _, kind, name, _, path in entries if kind == "commit"}

    def submodules(self, commit: str) -> dict[str, str]:
        """Return path → address of the submodules. The address is empty for a submodule with ``update = none``.

        :raises SourceError: .gitmodules cannot be read.
        """
        try:
            # Without --no-includes, .gitmodules could include files of this machine.
            text = self._query("config", f"--blob={commit}:.gitmodules", "--no-includes", "--null", "--list")
        except GitError as error:
            raise SourceError(f".gitmodules cannot be read: {error}") from None
        sections: dict[str, dict[str, str]] = {}
        for item in text.split("\0"):
            name, _, value = item.partition("\n")
            section, _, key = name.rpartition(".")
            sections.setdefault(section, {})[key] = value
        return {
            each["path"].rstrip("/"): "" if each.get("update") == "none" else each["url"]
            for each in sections.values()
            if "path" in each and each.get("url")
        }

    def _query(self, *argv: str) -> str:
        return run_git(self.folder, *argv, max_size=_MAX_OUTPUT)

    def _resolve(self, name: str) -> str | None:
        """Return the commit of a ref or an id in the cache, or None."""
        if not self.folder.is_dir():
            return None
        try:
            return self._query("rev-parse", "--quiet", "--verify", f"{name}^{{commit}}").strip()
        except GitError:
            return None

    def _fetch(self, revision: str, ref: str) -> None:
        try:
            self._download(f"+{revision}:{ref}", depth="1")
        except GitError as error:
            if not (COMMIT.fullmatch(revision) and "unadvertised object" in str(error)):
                raise
            # An old server serves only refs, so fetch the history of all refs, which should contain the commit.
            names = ("+refs/heads/*:refs/wheelsmith/heads/*", "+refs/tags/*:refs/wheelsmith/tags/*")
            self._download(*names, depth="2147483647")  # the depth that git uses for --unshallow
            self._query("update-ref", ref, revision)

    def _download(self, *refs: str, depth: str) -> None:
        if is_offline() and not self.address.is_local:
            raise SourceError(
                f"{self.address.shown} cannot be fetched: wheelsmith is offline, and the cache lacks this revision",
                remedy=VENDOR_REMEDY,
            )
        received = 0

        def on_output(messages: bytes) -> None:
            nonlocal received
            size = max((parse_size(size.decode()) for size in _RECEIVED.findall(messages)), default=0)
            if size > received:
                received = size
                self.listen(Transfer(name=self.address.shown, done=received, total=0))

        quiet = ("--progress", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", f"--depth={depth}")
        run_git(self.folder, "fetch", *quiet, "--", self.address.text, *refs, on_output=on_output)
        if received:
            self.listen(Transfer(name=self.address.shown, done=received, total=received))

    def _remove_unfinished(self) -> None:
        """Remove temporary files and locks of a killed git. No other process uses the repository now."""
        for pattern in ("objects/pack/tmp_*", "*.lock", "refs/**/*.lock"):
            for path in self.folder.glob(pattern):
                path.unlink()
