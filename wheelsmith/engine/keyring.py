"""The kernel's key store, which namespaces do not divide by session."""

from __future__ import annotations

import ctypes
import platform

_KEYCTL = {"x86_64": 250, "aarch64": 219}
_JOIN_SESSION_KEYRING = 1


def leave_session_keyring() -> None:
    """Give this thread, and what it starts from now on, a session keyring of its own, with no keys in it.

    A child inherits its session's keyring through every namespace, and with it what Kerberos and eCryptfs keep there.
    """
    number = _KEYCTL.get(platform.machine())
    if number is not None:
        # A kernel without key store has nothing to leave.
        ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(_JOIN_SESSION_KEYRING), None)
