"""The branches and tags of a kernel's repository, and the newest one of the same kind as a revision."""

from __future__ import annotations

import re
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from packaging.version import InvalidVersion, Version

from wheelsmith.matrix.types import KernelRef
from wheelsmith.source.git import parse_address
from wheelsmith.source.git_repository import COMMIT, GitError, explain_fetch, run_git
from wheelsmith.source.hub import list_hub_references

_VERSION = re.compile(r"(?P<prefix>\D*)(?P<version>\d.*)")  # v1, 2.3.4, release-1.0
_ANNOTATED = "^{}"  # suffix of the commit that an annotated tag points to
_TIMEOUT = 20.0  # seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class References:
    """Branches and tags of a repository, with their commits.

    :param default: the newest commit of the default branch.
    """

    branches: dict[str, str] = field(default_factory=dict)
    tags: dict[str, str] = field(default_factory=dict)
    default: str | None = None

    def commit(self, revision: str) -> str | None:
        """Return the commit of a branch or tag, or of a commit itself."""
        return (
            self.tags.get(revision) or self.branches.get(revision) or (revision if COMMIT.fullmatch(revision) else None)
        )

    def newest(self, revision: str) -> str:
        """Return the newest revision of the same kind.

        For a version such as ``v1.2`` it is the tag or branch with the newest version, for a commit the newest commit
        of the default branch. Any other branch is its own newest revision.
        """
        if COMMIT.fullmatch(revision):
            return self.default or revision
        group = self.tags if revision in self.tags else self.branches
        known = _read_version(revision)
        if known is None:
            return revision
        prefix, version = known
        others = {name: found[1] for name in group if (found := _read_version(name)) and found[0] == prefix}
        usable = {name: other for name, other in others.items() if version.is_prerelease or not other.is_prerelease} | {
            revision: version
        }
        return max(usable, key=lambda name: (usable[name], name == revision))


def _read_version(name: str) -> tuple[str, Version] | None:
    match = _VERSION.fullmatch(name)
    try:
        return (match["prefix"], Version(match["version"])) if match else None
    except InvalidVersion:
        return None


def list_references(kernel: KernelRef, base: Path) -> References:
    """Return the branches and tags of a kernel's Hub repo or git repository.

    :param base: the folder for relative paths.
    :raises SourceError: the repository cannot be reached, or not in time.
    """
    if kernel.hub:
        branches, tags, default = list_hub_references(kernel.hub)
        return References(branches=branches, tags=tags, default=branches.get(default))
    address, _ = parse_address(kernel, base)
    with tempfile.TemporaryDirectory() as folder:
        try:
            listing = run_git(Path(folder, "none"), "ls-remote", "--", address.text, seconds=_TIMEOUT)
        except GitError as error:
            raise explain_fetch(address, str(kernel.revision), str(error), None) from None
    return _read_listing(listing)


def _read_listing(listing: str) -> References:
    found: dict[str, str] = {}
    for line in listing.splitlines():
        commit, _, name = line.partition("\t")
        if COMMIT.fullmatch(commit):
            found[name.removesuffix(_ANNOTATED)] = commit  # the commit of an annotated tag follows the tag
    return References(
        branches={name.removeprefix("refs/heads/"): found[name] for name in found if name.startswith("refs/heads/")},
        tags={name.removeprefix("refs/tags/"): found[name] for name in found if name.startswith("refs/tags/")},
        default=found.get("HEAD"),
    )
