"""Write frameworks/jax.json: the first wheel of each jaxlib minor that has jax.ffi, and the version of its FFI.

    python scripts/jax_releases.py DATE

The first wheel counts, because a kernel that requires ``jaxlib>=0.8`` may be installed with it. Later patch releases
may have a newer FFI, as 0.8.1 has.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

from package_index import first_of_each_minor, make_partial_pin, manylinux_wheels, published, read_member
from packaging.version import Version

from wheelsmith.model import PinnedFile

PROJECT = "jaxlib"
OLDEST = Version("0.5")  # the first jax with jax.ffi
PLUGIN = "jax-cuda{major}-plugin"
MAJORS = (12, 13)
API = "jaxlib/include/xla/ffi/api/c_api.h"
TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "jax.json"


def ffi_version(pin: PinnedFile) -> str:
    """Return the version of the FFI in a wheel's headers, e.g. ``0.1``."""
    text = read_member(pin, API).decode()
    found = dict(re.findall(r"#define XLA_FFI_API_(MAJOR|MINOR) (\d+)", text))
    return f"{found['MAJOR']}.{found['MINOR']}"


def main(date: str) -> None:
    """Write the file."""
    wheels = {version: manylinux_wheels(pins) for version, pins in published(PROJECT).items() if version >= OLDEST}
    releases = []
    for minor, version in first_of_each_minor(wheels).items():
        releases.append(
            {
                "minor": minor,
                "version": str(version),
                "cxx_std": 17,
                "wheels": {arch: make_partial_pin(pin) for arch, pin in wheels[version].items()},
                "ffi": ffi_version(wheels[version]["x86_64"]),
                "source": f"the wheels of {PROJECT} on PyPI",
                "date": date,
            }
        )
    plugins = {str(major): str(min(published(PLUGIN.format(major=major)))) for major in MAJORS}
    TARGET.write_text(json.dumps({"schema_version": 1, "plugins": plugins, "releases": releases}, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
