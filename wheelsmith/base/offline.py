"""Whether the network may be used, and which folder has what would come from there.

Settings of the environment, so that every program that is started here keeps to them too.
"""

from __future__ import annotations

import os
from pathlib import Path

OFFLINE, VENDORED = "WHEELSMITH_OFFLINE", "WHEELSMITH_VENDORED"
# What a vendored folder holds: whole wheels, wheels with some of their members alone, what no index has, a source.
WHEELS, PARTS, ARCHIVES, SOURCE = "wheels", "parts", "archives", "source"
MARK = "wheelsmith-vendored.txt"  # in every vendored folder, whatever it is called
VENDOR = "wheelsmith vendor, where there is a network, and copy what it writes"  # a remedy
_NO = {"", "0", "false", "no", "off"}


def is_offline() -> bool:
    """Say whether nothing may be asked of the network."""
    return os.environ.get(OFFLINE, "").lower() not in _NO


def vendored_folder() -> Path | None:
    """Return the folder that ``wheelsmith vendor`` wrote; None where none was named."""
    named = os.environ.get(VENDORED)
    return Path(named).absolute() if named else None


def go_offline(vendored: Path) -> None:
    """Use the network no more, in this process and in what it starts.

    :param vendored: the folder to take things from; it need not be there.
    """
    os.environ[OFFLINE] = "1"
    os.environ[VENDORED] = str(vendored.absolute())
    # huggingface_hub's own setting, read when it is imported.
    os.environ["HF_HUB_OFFLINE"] = "1"
