"""The indexes of torch's own builds: releases, release candidates and nightly builds."""

from __future__ import annotations

import os
from collections.abc import Iterable

from packaging.version import InvalidVersion, Version

from wheelsmith.base.offline import is_offline

TORCH_INDEX = "https://download.pytorch.org/whl/"
TORCH_INDEX_VARIABLE = "WHEELSMITH_TORCH_INDEX"
NIGHTLY = "nightly"  # the name of the newest nightly build in matrix.yaml, and the folder of its index


def torch_index() -> str:
    """Return the address of the folder with torch's indexes: WHEELSMITH_TORCH_INDEX, or torch's own."""
    return (os.environ.get(TORCH_INDEX_VARIABLE) or TORCH_INDEX).rstrip("/") + "/"


def prerelease_index(build: str, base: str = TORCH_INDEX) -> str | None:
    """Return the index with a pre-release build, e.g. ``…/whl/test/cu130`` for ``2.16.0rc2+cu130``.

    Return None for a release, and for a version without a compute platform.
    """
    try:
        version = Version(build)
    except InvalidVersion:
        return None
    if not version.is_prerelease or version.local is None:
        return None
    return f"{base}{NIGHTLY if version.is_devrelease else 'test'}/{version.local}"


def prerelease_indexes(builds: Iterable[str]) -> tuple[str, ...]:
    """Return the indexes of the pre-releases among some builds of torch; none while offline."""
    found = (prerelease_index(build, torch_index()) for build in builds if not is_offline())
    return tuple(dict.fromkeys(filter(None, found)))


def read_prerelease(text: str) -> str | None:
    """Return a pre-release with its patch number in normal form, ``2.16.0rc2`` for ``2.16-rc2``; None for other texts.

    :raises ValueError: the text has a local version.
    """
    try:
        version = Version(text)
    except InvalidVersion:
        return None
    if not version.is_prerelease or version.epoch:
        return None
    if version.local:
        raise ValueError(f"{text!r} names a build of torch: write {version.public}, since other axes choose the build")
    ending = str(version).removeprefix(version.base_version)
    return f"{version.major}.{version.minor}.{version.micro}{ending}"
