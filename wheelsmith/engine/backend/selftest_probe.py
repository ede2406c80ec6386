"""Try forbidden operations from inside a sandbox and report those that succeed.

This program also runs inside containers, so it uses only the standard library and must run on old Pythons.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

# From linux/socket.h: raw packets, the kernel's ciphers, the hypervisor.
_OTHER_FAMILIES = {"AF_PACKET": 17, "AF_ALG": 38, "AF_VSOCK": 40}
_KINDS = (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET)
_NEW_NETWORK, _NEW_USER, _NEW_MOUNTS = 0x40000000, 0x10000000, 0x00020000


def run_probes(baits: dict[str, Any]) -> dict[str, list[str]]:
    """Return promise → the ways in which it is broken.

    :param baits: things on the host that the sandbox must hide: an open port, a file, a variable.
    """
    return {
        "network": list(_network(baits)),
        "files": list(_files(baits)),
        "environment": list(_environment(baits)),
        "calls": list(_calls()),
        "host": list(_host(baits)),
    }


def _network(baits: dict[str, Any]) -> Iterator[str]:
    if _works(lambda: socket.create_connection(("127.0.0.1", baits["port"]), 1).close()):
        yield "the host's loopback is reachable"
    names = [line.partition(":")[0].strip() for line in _text("/proc/net/dev").splitlines() if ":" in line]
    yield from (f"the network interface {name} is visible" for name in names if name != "lo")
    for name, family in _OTHER_FAMILIES.items():
        if any(_works(partial(_socket_of, family, kind)) for kind in _KINDS):
            yield f"a socket of {name} can be created"


def _socket_of(family: int, kind: int) -> None:
    socket.socket(family, kind).close()


def _files(baits: dict[str, Any]) -> Iterator[str]:
    if _text(baits["file"]):
        yield f"{baits['file']} can be read"
    for folder in ("/", "/usr", baits["shown"]):
        if os.access(folder, os.W_OK):
            yield f"{folder} can be written to"


def _environment(baits: dict[str, Any]) -> Iterator[str]:
    if any(baits["variable"] in name for name in os.environ):
        yield f"the variable {baits['variable']} is visible"


def _calls() -> Iterator[str]:
    status = dict(line.split(":", 1) for line in _text("/proc/self/status").splitlines() if ":" in line)
    if status.get("Seccomp", "").strip() != "2":
        yield "no filter is active"
    if status.get("NoNewPrivs", "").strip() != "1":
        yield "programs may gain privileges"
    yield from (f"{name} is not empty" for name in ("CapEff", "CapPrm", "CapBnd") if int(status.get(name, "0"), 16))
    libc = ctypes.CDLL(None, use_errno=True)
    for name, flag in (("user", _NEW_USER), ("mount", _NEW_USER | _NEW_MOUNTS), ("network", _NEW_USER | _NEW_NETWORK)):
        if libc.unshare(flag) == 0:
            yield f"a {name} namespace can be created"
    # The filter returns ENOSYS. Another error would come from the kernel, so the call would not be filtered.
    if libc.syscall(ctypes.c_long(425), 0, None) != -1 or ctypes.get_errno() != errno.ENOSYS:  # io_uring_setup
        yield "io_uring can be used"


def _host(baits: dict[str, Any]) -> Iterator[str]:
    for path in ("/proc/self/mountinfo", "/proc/cmdline", "/proc/partitions", "/proc/key-users"):
        if _text(path).strip("\0\n "):
            yield f"{path} is not empty"
    if socket.gethostname() == baits["hostname"]:
        yield "the hostname is visible"
    if baits["marker"] in _text(f"/proc/{baits['pid']}/cmdline"):
        yield "processes of the host are visible"


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _works(action: Callable[[], object]) -> bool:
    try:
        action()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(f"{json.dumps(run_probes(json.loads(sys.argv[1])))}\n")
