"""The environment that docker's and podman's own clients run in."""

from __future__ import annotations

import os

# What a client needs of the environment; the rest, tokens above all, must not reach even the client, which some
# configurations tell to hand its environment on.
_CLIENT_ENVIRONMENT = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "SSH_AUTH_SOCK", "REGISTRY_AUTH_FILE")
_CLIENT_PREFIXES = ("XDG_", "DOCKER_", "CONTAINER", "DBUS_SESSION_")


def client_environment() -> dict[str, str]:
    """Return the environment that the client runs in."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _CLIENT_ENVIRONMENT or name.startswith(_CLIENT_PREFIXES)
    }
