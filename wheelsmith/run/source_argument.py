"""A source as people write it on a command line, and what of it stands under ``kernel`` in matrix.yaml."""

from __future__ import annotations

import os
import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from packaging.requirements import InvalidRequirement, Requirement

from wheelsmith.base.errors import MatrixError, MatrixMistakesError
from wheelsmith.matrix import KernelRef, check_kernel

_HUB, _SDIST, _GIT = "hub:", "sdist:", "git+"
_IN_GIT, _NONE = "subdirectory=", "none"
_FORMS = "a folder, an archive, name==1.2 of a package index, git+https://…@revision, or hub:org/name@revision"
# An address such as git@host:org/project.git, with the revision behind another @.
_OF_SCP = re.compile(r"(?P<address>[^@/]+@[^:/]+:[^@]+)(@(?P<revision>.+))?")
_LONGEST = 200  # characters of any name and version


def kernel_of(word: str, folder: Path) -> KernelRef:
    """Return what stands under ``kernel`` for a source; where nobody says which revision or release, the newest.

    :param folder: that a path starts from.
    :raises MatrixError: it is none.
    :raises SourceError: the newest cannot be found out.
    """
    try:
        if word.startswith(_HUB):
            return _hub(word.removeprefix(_HUB))
        if word.startswith(_GIT) or "://" in word or _OF_SCP.fullmatch(word):
            return _git(word.removeprefix(_GIT))
        if not word.startswith(_SDIST) and os.path.exists(folder / word):  # noqa: PTH110  # Path raises for what is no path
            return check_kernel({"path": word})
        return _sdist(word.removeprefix(_SDIST))
    except MatrixMistakesError as error:
        raise _no_source("; ".join(mistake.message for mistake in error.mistakes)) from None


def with_submodules(kernel: KernelRef, words: str) -> KernelRef:
    """Return a git repository of which only these submodules are fetched.

    :param words: their paths, with commas between; ``none`` for none.
    :raises MatrixError: it is no git repository, or these are no paths.
    """
    if kernel.git is None:
        raise MatrixError("only a git repository has submodules", remedy="leave --submodules out")
    place = {"git": kernel.git, "revision": kernel.revision, "subdirectory": kernel.subdirectory}
    try:
        return check_kernel({**place, "submodules": [] if words == _NONE else words.split(",")})
    except MatrixMistakesError as error:
        why = "; ".join(mistake.message for mistake in error.mistakes)
        raise MatrixError(
            f"--submodules: {why}", remedy="name them by their paths, as in csrc/cutlass,third_party/json, or none"
        ) from None


def _hub(word: str) -> KernelRef:
    from wheelsmith.source.hub import newest_branch

    repo, _, revision = word.partition("@")
    kernel = check_kernel({"hub": repo, "revision": revision or "main"})
    return kernel if revision else replace(kernel, revision=newest_branch(repo))


def _git(word: str) -> KernelRef:
    address, _, fragment = word.partition("#")
    if fragment and not fragment.startswith(_IN_GIT):
        raise _no_source(f"#{fragment[:80]} is not #{_IN_GIT}…")
    if match := _OF_SCP.fullmatch(address):
        place, revision = match["address"], match["revision"]
    else:
        path, _, revision = _path(address).partition("@")
        place = address.removesuffix(f"{path}@{revision}") + path if revision else address
    folder = fragment.removeprefix(_IN_GIT) or None
    return check_kernel({"git": place, "revision": revision or "HEAD", "subdirectory": folder})


def _path(address: str) -> str:
    try:
        return urlsplit(address).path
    except ValueError:
        raise _no_source("this URL has no host that can be read") from None


def _sdist(word: str) -> KernelRef:
    from wheelsmith.source.sdist import newest_release

    try:
        asked = Requirement(word if len(word) <= _LONGEST else "")
    except InvalidRequirement:
        raise _no_source(f"{word[:80]!r} is no source") from None
    if word != asked.name:
        return check_kernel({"sdist": word})
    return check_kernel({"sdist": f"{word}=={newest_release(word)}"})


def _no_source(why: str) -> MatrixError:
    return MatrixError(why, remedy=f"name {_FORMS}")
