"""A process of a worker, and the thread that starts it and reads its responses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import IO, Any

from wheelsmith.base.files import default_cache

_MAX_RESPONSE = 64 * 2**20  # bytes
_END_SECONDS = 5  # seconds
_CHUNK, _KEPT_CHUNKS = 4096, 8  # of stderr


class WorkerProcess:
    """A running ``python -m wheelsmith.worker``.

    The kernel kills the process when the thread that started it ends, so each process has a new thread.

    :param folder: current folder of the process, and with ``sandbox`` the only writable one.
    :param sandbox: path of bubblewrap; None runs without a sandbox.
    :raises OSError: the process cannot be started.
    """

    def __init__(self, folder: Path, sandbox: str | None) -> None:
        self._responses: SimpleQueue[bytes] = SimpleQueue()
        self._stderr_chunks: deque[bytes] = deque(maxlen=_KEPT_CHUNKS)
        argv = (*(_bubblewrap_prefix(sandbox, folder) if sandbox else ()), sys.executable, "-m", "wheelsmith.worker")
        started: Future[subprocess.Popen[bytes]] = Future()
        self._thread = Thread(target=self._run, args=(argv, folder, started), daemon=True)
        self._thread.start()
        self._process = started.result()

    def read(self, seconds: float) -> bytes:
        """Return the next response, or empty bytes if the process ended.

        :param seconds: time to wait.
        :raises queue.Empty: there was no response in this time.
        """
        return self._responses.get(timeout=seconds)

    def write(self, request: dict[str, Any]) -> None:
        """Send a request. If the process has ended, nothing is sent, and ``read`` returns empty bytes."""
        assert self._process.stdin  # noqa: S101  # a pipe
        with suppress(OSError):
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()

    @property
    def ended(self) -> bool:
        """True if the process has ended."""
        return not self._thread.is_alive()

    def stop(self) -> None:
        """Kill the process and its children."""
        if not self.ended:
            _kill(self._process)
        self._thread.join()
        assert self._process.stdin  # noqa: S101  # a pipe
        with suppress(OSError):
            self._process.stdin.close()

    def wait(self) -> int:
        """Return the exit status in the convention of shells. The process must have closed its stdout."""
        self._thread.join(timeout=_END_SECONDS)
        self.stop()
        status = self._process.returncode
        return 128 - status if status < 0 else status

    @property
    def stderr_tail(self) -> str:
        """The end of the process's stderr."""
        return b"".join(self._stderr_chunks).decode(errors="replace").strip()

    def _run(self, argv: tuple[str, ...], folder: Path, started: Future[subprocess.Popen[bytes]]) -> None:
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                argv, stdin=pipe, stdout=pipe, stderr=pipe, env=_environment(folder), cwd=folder, start_new_session=True
            )
        except Exception as error:  # noqa: BLE001  # `started.result()` raises it
            started.set_exception(error)
            return
        assert process.stdout  # noqa: S101  # a pipe
        assert process.stderr  # noqa: S101  # a pipe
        reader = Thread(target=self._collect_stderr, args=(process.stderr,), daemon=True)
        reader.start()
        started.set_result(process)
        with process.stdout, process.stderr:
            while line := process.stdout.readline(_MAX_RESPONSE):
                self._responses.put(line)
            self._responses.put(b"")
            # WNOWAIT: the PID is not reused before `process.wait`, so `_kill` cannot kill another process.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            _kill(process)
            process.wait()
            reader.join()

    def _collect_stderr(self, stderr: IO[bytes]) -> None:
        while chunk := os.read(stderr.fileno(), _CHUNK):
            self._stderr_chunks.append(chunk)


def _kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def package_folders() -> tuple[Path, ...]:
    """Return the folders of installed packages that this process imports from."""
    entries = (Path(entry) for entry in sys.path)
    packages = (entry for entry in entries if entry.name in {"site-packages", "dist-packages"} and entry.is_dir())
    return tuple(dict.fromkeys(packages))


def import_path() -> tuple[str, ...]:
    """Return the folders that this process imports from, without the standard library."""
    own = Path(__file__).resolve().parents[2]
    return tuple(dict.fromkeys(str(path) for path in (own, *package_folders())))


def _environment(folder: Path) -> dict[str, str]:
    return {
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', os.defpath)}",
        "HOME": str(folder),
        "WHEELSMITH_CACHE": str(default_cache()),
        "TMPDIR": str(folder),
        "LANG": "C.UTF-8",
        "PYTHONPATH": ":".join(import_path()),
        "PYTHONSAFEPATH": "1",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def _bubblewrap_prefix(program: str, folder: Path) -> tuple[str, ...]:
    """Return the command prefix for a sandbox without a network and with one writable folder."""
    # Root can read the files of all users in the sandbox, too, if it stays in its user namespace.
    users = ("--cap-drop", "ALL", "--cap-add", "CAP_DAC_READ_SEARCH") if os.geteuid() == 0 else ("--unshare-user",)
    spaces = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try", *users)
    mounts = ("--ro-bind", "/", "/", "--dev", "/dev", "--ro-bind-try", "/dev/shm", "/dev/shm", "--proc", "/proc")  # noqa: S108
    return (program, *spaces, "--die-with-parent", "--new-session", *mounts, "--bind", str(folder), str(folder), "--")
