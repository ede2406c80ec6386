"""Run commands with docker."""

from __future__ import annotations

import json
import shutil

from packaging.version import InvalidVersion, Version

from wheelsmith.engine.containers import ContainerEngine
from wheelsmith.engine.processes import last_line
from wheelsmith.engine.protocol import Limits, Probe, Readiness

_OLDEST = Version("20.10")
_NO_BUILDKIT_INSIDE = Version("23")
_INSTALL = "apt-get install docker.io"


class Docker(ContainerEngine):
    """Runs commands in docker containers."""

    name = "docker"

    def probe(self) -> Probe:
        """Return the state of docker: installed, daemon reachable and recent enough."""
        if shutil.which("docker") is None:
            return Probe(readiness=Readiness.MISSING, detail="docker is not on PATH", remedy=_INSTALL)
        result = self.ask("version", "--format", "{{json .Server.Version}}")
        if result.returncode:
            return self._failed_probe(result.stderr)
        version = _version(result.stdout)
        if version is not None and version < _OLDEST:
            detail = f"the daemon's version {version} is older than {_OLDEST}"
            return Probe(readiness=Readiness.TOO_OLD, version=str(version), detail=detail, remedy=_INSTALL)
        return Probe(readiness=Readiness.READY, version=str(version) if version else None)

    def client(self) -> tuple[str, ...]:
        """Return the docker command."""
        return ("docker",)

    def run_options(self, limits: Limits) -> tuple[str, ...]:
        """Return no options."""
        del limits
        return ()

    def has_buildkit(self) -> bool:
        """Return True if BuildKit is available, as the buildx plugin or in the client, which contains it before 23."""
        if self.ask("buildx", "version").returncode == 0:
            return True
        result = self.ask("version", "--format", "{{.Client.Version}}")
        return result.returncode == 0 and Version(result.stdout.strip().split("+")[0]) < _NO_BUILDKIT_INSIDE

    def label_format(self, label: str) -> str:
        """Return the template that prints a label in the output of ``ps``."""
        return f'{{{{.Label "{label}"}}}}'

    def _failed_probe(self, stderr: str) -> Probe:
        detail = last_line(stderr)
        if "permission denied" in stderr:
            remedy = "usermod --append --groups docker $USER, then log in again"
            return Probe(readiness=Readiness.NOT_PERMITTED, detail=detail, remedy=remedy)
        return Probe(readiness=Readiness.NOT_RUNNING, detail=detail, remedy="systemctl start docker")


def _version(text: str) -> Version | None:
    try:
        return Version(json.loads(text))
    except (ValueError, TypeError, InvalidVersion):
        return None
