"""A source as people write it on a command line, and what of it stands under ``kernel`` in matrix.yaml."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from wheelsmith.base.errors import SourceError
from wheelsmith.matrix import KernelRef

_HUB, _SDIST, _GIT = "hub:", "sdist:", "git+"
_IN_GIT = "subdirectory="
_FORMS = "a folder, an archive, name==1.2 of a package index, git+https://…@revision, or hub:org/name@revision"
# An address such as git@host:org/project.git, with the revision behind another @.
_OF_SCP = re.compile(r"(?P<address>[^@/]+@[^:/]+:[^@]+)(@(?P<revision>.+))?")


def kernel_of(word: str, folder: Path) -> KernelRef:
    """Return what stands under ``kernel`` for a source.

    :param folder: that a path starts from.
    :raises SourceError: it is none.
    """
    if word.startswith(_HUB):
        return _hub(word.removeprefix(_HUB))
    if word.startswith(_GIT) or "://" in word or (word.partition("@")[0] and _OF_SCP.fullmatch(word)):
        return _git(word.removeprefix(_GIT))
    if not word.startswith(_SDIST) and os.path.exists(folder / word):  # noqa: PTH110  # Path raises for what is no path
        return KernelRef(path=word)
    return _sdist(word.removeprefix(_SDIST))


def _hub(word: str) -> KernelRef:
    from wheelsmith.source.hub import newest_branch

    repo, _, revision = word.partition("@")
    return KernelRef(hub=repo, revision=revision or newest_branch(repo))


def _git(word: str) -> KernelRef:
    address, _, fragment = word.partition("#")
    if fragment and not fragment.startswith(_IN_GIT):
        raise SourceError(f"#{fragment[:80]} is not #subdirectory=…", remedy="name the folder of the kernel so")
    if match := _OF_SCP.fullmatch(address):
        place, revision = match["address"], match["revision"]
    else:
        path, _, revision = _path(address).partition("@")
        place = address.removesuffix(f"{path}@{revision}") + path if revision else address
    return KernelRef(git=place, revision=revision or "HEAD", subdirectory=fragment.removeprefix(_IN_GIT) or None)


def _path(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:
        raise SourceError("this URL has no host that can be read", remedy=f"name {_FORMS}") from None


def _sdist(word: str) -> KernelRef:
    from wheelsmith.source.sdist import newest_release

    try:
        asked = Requirement(word if len(word) <= 200 else "")  # noqa: PLR2004  # characters of any name and version
    except InvalidRequirement:
        raise SourceError(f"{word[:80]!r} is no source", remedy=f"name {_FORMS}") from None
    if asked.specifier:
        return KernelRef(sdist=word)
    return KernelRef(sdist=f"{asked.name}=={newest_release(asked.name)}")
