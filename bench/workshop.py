"""The temporary folder of a run and the environment of its commands."""

from __future__ import annotations

import contextlib
import os
import platform
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from bench.cost import Command, Cost, measure
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import default_cache, remove_tree
from wheelsmith.model.events import ignore
from wheelsmith.platforms import cuda_prefix, cuda_toolkits
from wheelsmith.toolchain import Toolchains
from wheelsmith.toolchain.pip import pip_settings

ROOT = Path(__file__).resolve().parent.parent
KERNELS = ROOT / "bench" / "kernels"
CORES = os.cpu_count() or 1
# Waits until the run ends or is killed, then stops its processes and removes its folder.
_CLEAN_UP = """
cat >/dev/null
[ ! -s "$0/running" ] || kill -KILL -- "-$(cat "$0/running")"
sleep 1
chmod -R u+w "$0"
rm -rf "$0"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workshop:
    """The folder and environment of a run.

    :param folder: a temporary folder.
    :param environment: the environment variables of every command.
    """

    folder: Path
    environment: dict[str, str]

    def measure(
        self, argv: tuple[str, ...], folder: Path, variables: dict[str, str], *, out: Path | None = None
    ) -> Cost:
        """Run a command in ``folder`` with further variables and return its cost."""
        log = self.folder / "log"
        log.write_bytes(b"")
        environment = self.environment | variables
        command = Command(argv=argv, folder=folder, environment=environment, log=log, out=out)
        return measure(command, self.folder / "running")


@contextlib.contextmanager
def open_workshop() -> Iterator[Workshop]:
    """Make a workshop. Its folder is removed even if this process is killed."""
    folder = Path(tempfile.mkdtemp(prefix="wheelsmith-bench-"))
    with (
        _interrupted_by(signal.SIGTERM, signal.SIGHUP),
        subprocess.Popen(
            ["sh", "-c", _CLEAN_UP, str(folder)],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ),
    ):
        scratch = folder / "tmp"
        scratch.mkdir()
        yield Workshop(folder=folder, environment=_plain_environment() | {"TMPDIR": str(scratch)})


@contextlib.contextmanager
def _interrupted_by(*numbers: signal.Signals) -> Iterator[None]:
    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _plain_environment() -> dict[str, str]:
    """Return the environment variables of this process, without other settings of pip than its first index."""
    settings = pip_settings()
    if not settings.indexes:
        raise WheelsmithError("pip has no index", remedy="unset PIP_NO_INDEX")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "WHEELSMITH_", "TORCH_"))}
    pip = {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_CACHE_DIR": "1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
        "PIP_INDEX_URL": settings.indexes[0],
        "PIP_TIMEOUT": str(int(settings.timeout)),
        "PIP_CERT": settings.cert or "",
        "PIP_PROXY": settings.proxy or "",
    }
    return kept | {name: value for name, value in pip.items() if value}


def cuda_home(cuda: str) -> Path:
    """Return a CUDA toolkit from wheelsmith's cache, and fetch it if it is missing."""
    arch = platform.machine()
    return Toolchains(default_cache(), ignore).prepare(cuda_prefix(cuda_toolkits()[cuda], arch, arch))


def disk_use(*folders: Path) -> int:
    """Return the total disk use of folders in bytes."""
    there = [str(folder) for folder in folders if folder.exists()]
    answer = subprocess.run(["du", "-scB1", *there], capture_output=True, text=True, check=True)
    return int(answer.stdout.splitlines()[-1].split()[0])


@contextlib.contextmanager
def empty_folder(folder: Path) -> Iterator[Path]:
    """Make an empty folder, and remove it after the block."""
    remove_tree(folder)
    folder.mkdir(parents=True)
    try:
        yield folder
    finally:
        remove_tree(folder)
