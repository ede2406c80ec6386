"""Write frameworks/tensorflow.json: the first wheels of each TensorFlow minor, and facts about their libraries.

    python scripts/tensorflow_releases.py DATE

On x86_64, ``tensorflow`` is a build for CUDA, and the smaller ``tensorflow-cpu`` has the same headers.
"""

from __future__ import annotations

import json
import re
import sys
from io import BytesIO
from pathlib import Path

from package_index import first_of_each_minor, make_partial_pin, manylinux_wheels, published, read_member
from packaging.version import Version

from wheelsmith.model import PinnedFile
from wheelsmith.wheel.elf import read_extension

OLDEST = Version("2.12")
LEAST_SIZE = 10_000_000  # bytes; the aarch64 wheels of old releases only require another project
LIBRARY = "tensorflow/libtensorflow_framework.so.2"
NAMESPACE = "tensorflow/include/absl/base/options.h"
BUILD_INFO = "tensorflow/python/platform/build_info.py"
TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "tensorflow.json"


def abseil_namespace(pin: PinnedFile) -> str:
    """Return the inline namespace of abseil in a wheel's headers, e.g. ``lts_20230802``."""
    text = read_member(pin, NAMESPACE).decode()
    found = re.search(r"#define ABSL_OPTION_INLINE_NAMESPACE_NAME (\w+)", text)
    assert found
    return found[1]


def cuda_release(pin: PinnedFile) -> str:
    """Return the CUDA release that a wheel was built for."""
    found = re.search(r"'cuda_version', '([\d.]+)'", read_member(pin, BUILD_INFO).decode())
    assert found
    return ".".join(found[1].split(".")[:2])


def c_functions(pin: PinnedFile) -> set[str]:
    """Return the functions of the C API that a wheel's library exports."""
    exported = read_extension(LIBRARY, BytesIO(read_member(pin, LIBRARY))).exported
    return {name for name in exported if name.startswith("TF_")}


def main(date: str) -> None:
    """Write the file."""
    with_cuda = {version: manylinux_wheels(pins) for version, pins in published("tensorflow").items()}
    cpu_only = {version: manylinux_wheels(pins) for version, pins in published("tensorflow-cpu").items()}
    releases, exports, versions = [], {}, []
    for minor, version in first_of_each_minor(
        each for each in cpu_only if each >= OLDEST and each in with_cuda
    ).items():
        wheels = {"x86_64": cpu_only[version]["x86_64"]}
        if (arm := with_cuda[version].get("aarch64")) and (arm.size or 0) > LEAST_SIZE:
            wheels["aarch64"] = arm
        versions.append(str(version))
        exports[minor] = c_functions(wheels["x86_64"])
        releases.append(
            {
                "minor": minor,
                "version": str(version),
                "cxx_std": 17,
                "wheels": {arch: make_partial_pin(pin) for arch, pin in wheels.items()},
                "abseil": abseil_namespace(wheels["x86_64"]),
                "cuda": cuda_release(with_cuda[version]["x86_64"]),
                "source": "the wheels of tensorflow and tensorflow-cpu on PyPI",
                "date": date,
            }
        )
        print(minor, version, releases[-1]["abseil"], releases[-1]["cuda"], len(exports[minor]))
    minors = list(exports)
    functions = {
        name: [minor for minor in minors if name in exports[minor]] for name in sorted(set().union(*exports.values()))
    }
    # Functions that only some releases in between export would need more than two numbers.
    assert all(there == minors[minors.index(there[0]) :][: len(there)] for there in functions.values())
    table = {name: [there[0], None if there[-1] == minors[-1] else there[-1]] for name, there in functions.items()}
    data = {"schema_version": 1, "releases": releases, "functions": table}
    TARGET.write_text(json.dumps(data, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
