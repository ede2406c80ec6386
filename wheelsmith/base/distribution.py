"""The name of wheelsmith's distribution, and the place that the running one was installed from."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

DISTRIBUTION = "wheelsmith-factory"  # equal to the name in pyproject.toml; PyPI's "wheelsmith" is another project
# File in an environment that a tool made → the commands that add an extra there and upgrade it.
_TOOLS = {
    "uv-receipt.toml": ("uv tool install", "uv tool upgrade"),
    "pipx_metadata.json": ("pipx install --force", "pipx upgrade"),
}
_PIP = ("pip install", "pip install --upgrade")


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The place that a distribution was installed from.

    :param url: the address for installers. Empty for a package index.
    :param editable: Python imports from the folder at ``url``.
    """

    url: str = ""
    editable: bool = False

    @property
    def is_local(self) -> bool:
        """True if the address names a file or a folder of this machine."""
        return urlsplit(self.url).scheme.endswith("file")

    @property
    def is_pinned_wheel(self) -> bool:
        """True if the address names a wheel with its hash on another machine, as in pipelines."""
        return ".whl#sha256=" in self.url and not self.is_local

    def requirement(self, extra: str = "") -> str:
        """Return the requirement (PEP 508) that installs from this place."""
        name = f"{DISTRIBUTION}[{extra}]" if extra else DISTRIBUTION
        return f"{name} @ {self.url}" if self.url else name

    def install_command(self, extra: str, environment: Path) -> str:
        """Return the command that adds an extra to an installation in an environment."""
        tool, _ = _tool(environment)
        if self.editable:
            return f"{tool} --editable {shlex.quote(f'{_path(self.url)}[{extra}]')}"
        return f"{tool} {shlex.quote(self.requirement(extra))}"


def install_command(extra: str) -> str:
    """Return the command that adds an extra to the running wheelsmith."""
    return (running_origin() or Origin()).install_command(extra, Path(sys.prefix))


def upgrade_command() -> str:
    """Return the command that upgrades the running wheelsmith from a package index."""
    return f"{_tool(Path(sys.prefix))[1]} {DISTRIBUTION}"


def running_origin() -> Origin | None:
    """Return the origin of the running wheelsmith, or None if it is not installed."""
    try:
        found = distribution(DISTRIBUTION)
    except PackageNotFoundError:
        return None
    return read_origin(found, Path(__file__).parents[2])


def read_origin(found: Distribution, running: Path) -> Origin | None:
    """Return the origin of a distribution from its ``direct_url.json`` (PEP 610).

    :param running: the folder that Python imports wheelsmith from. The result is None if ``found`` is another copy.
    """
    record = json.loads(found.read_text("direct_url.json") or "{}")
    url, editable = record.get("url", ""), record.get("dir_info", {}).get("editable", False)
    folder = _path(url) if editable else Path(str(found.locate_file("")))
    if folder.resolve() != running.resolve():
        return None
    if vcs := record.get("vcs_info"):
        url = f"{vcs['vcs']}+{url}@{vcs['commit_id']}"
    elif sha256 := record.get("archive_info", {}).get("hashes", {}).get("sha256"):
        url = f"{url}#sha256={sha256}"
    return Origin(url=url, editable=editable)


def _path(url: str) -> Path:
    return Path(url2pathname(urlsplit(url).path))


def _tool(environment: Path) -> tuple[str, str]:
    return next((commands for file, commands in _TOOLS.items() if (environment / file).is_file()), _PIP)
