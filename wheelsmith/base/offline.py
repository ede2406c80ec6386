"""The offline setting and the vendored folder.

Both are environment variables, so that child processes inherit them.
"""

from __future__ import annotations

import os
from pathlib import Path

OFFLINE, VENDORED = "WHEELSMITH_OFFLINE", "WHEELSMITH_VENDORED"
# Subfolders of a vendored folder: complete wheels, partial wheels, files that are not from an index, and the source.
WHEELS, PARTS, ARCHIVES, SOURCE = "wheels", "parts", "archives", "source"
VENDORED_MARK = "wheelsmith-vendored.txt"  # marks a vendored folder
VENDOR_REMEDY = "run wheelsmith vendor on a machine with a network, and copy its output here"
_FALSE_VALUES = {"", "0", "false", "no", "off"}


def is_offline() -> bool:
    """Return True if the network must not be used."""
    return os.environ.get(OFFLINE, "").lower() not in _FALSE_VALUES


def vendored_folder() -> Path | None:
    """Return the folder from ``wheelsmith vendor`` that the environment names, or None."""
    folder = os.environ.get(VENDORED)
    return Path(folder).absolute() if folder else None


def go_offline(vendored: Path) -> None:
    """Forbid the network in this process and its children.

    :param vendored: the folder to take files from; it need not exist.
    """
    os.environ[OFFLINE] = "1"
    os.environ[VENDORED] = str(vendored.absolute())
    # huggingface_hub reads this variable when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
