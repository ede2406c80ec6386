"""Projects that are compiled without torch, such as bitsandbytes. Their wheels differ by compute platform only."""

from __future__ import annotations

from wheelsmith.frameworks.framework import Framework, LoaderInputs, Release
from wheelsmith.model import NO_FRAMEWORK, Cell


class NoFramework(Framework):
    """No framework: nothing to install, to name in versions or to require. Its only release is ``""``."""

    name = NO_FRAMEWORK
    project = ""
    packages = ""
    headers = ""
    include = ()

    def releases(self) -> dict[str, Release]:
        """Return nothing, because there is nothing to know."""
        return {}

    def local_part(self, release: str) -> str:
        """Return nothing: a local version has only the compute platform."""
        return ""

    def defines(self, namespace: str, backend: str, stable_abi: str | None) -> tuple[str, ...]:
        """Return no macros."""
        return ()

    def files(self, of: LoaderInputs) -> dict[str, str]:
        """Return no files."""
        return {}

    def why_impossible(self, cell: Cell, *, any_minor: bool) -> str | None:
        """Return None, because every cell is possible."""
        return None

    def requirement(self, release: str) -> str:
        """Return nothing."""
        return ""
