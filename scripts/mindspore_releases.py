"""Write frameworks/mindspore.json: the first wheel of each MindSpore minor from 2.7 on. PyPI lacks 2.1 to 2.6.

python scripts/mindspore_releases.py DATE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from package_index import first_of_each_minor, make_pin, manylinux_wheels, published
from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.model import PinnedFile

PROJECT = "mindspore"
OLDEST = Version("2.7")
TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "mindspore.json"


def wheels_by_arch(pins: Iterable[PinnedFile]) -> dict[str, PinnedFile]:
    """Return a wheel by CPU architecture. The wheels for Linux on aarch64 have the platform tag ``any``."""
    pins = tuple(pins)
    anywhere = (pin for pin in pins if {tag.platform for tag in parse_wheel_filename(pin.filename)[3]} == {"any"})
    return manylinux_wheels(pins) | {"aarch64": next(anywhere)}


def main(date: str) -> None:
    """Write the file."""
    known = {version: pins for version, pins in published(PROJECT).items() if version >= OLDEST}
    releases = []
    for minor, version in first_of_each_minor(known).items():
        releases.append(
            {
                "minor": minor,
                "version": str(version),
                "cxx_std": 17,
                "wheels": {arch: make_pin(pin) for arch, pin in wheels_by_arch(known[version]).items()},
                "source": f"the wheels of {PROJECT} on PyPI",
                "date": date,
            }
        )
    TARGET.write_text(json.dumps({"schema_version": 1, "releases": releases}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
