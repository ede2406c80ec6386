"""Pin Debian's compilers and C libraries in wheelsmith/platforms/host_compilers.json.

    host_compilers.py SUITE/ARCH=PACKAGES...

PACKAGES is the unpacked package list of a Debian suite and architecture, for example: bookworm/amd64=Packages
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "wheelsmith" / "platforms" / "host_compilers.json"
ARCHIVE = "https://deb.debian.org/debian"
SNAPSHOT = "https://snapshot.debian.org/archive/debian"  # historical states of the archive
SUITE, MAJOR = "bookworm", "12"
TITLE = "g++ {version} of Debian 12"
# Packages of every compiler, independent of its target.
COMMON = ("libbinutils", "libctf0", "libctf-nobfd0", "libjansson4")
COMMON += ("libgmp10", "libisl23", "libmpc3", "libmpfr6", "libzstd1", "zlib1g")
LIBRARIES = ("libgcc-12-dev", "libgcc-s1", "libstdc++-12-dev", "libstdc++-12-pic", "libstdc++6")
LIBRARIES += ("libatomic1", "libgomp1")
NATIVE = ("gcc-12", "g++-12", "cpp-12", "binutils", "binutils-{name}", *LIBRARIES)
CROSS = ("gcc-12-{name}", "g++-12-{name}", "cpp-12-{name}", "binutils-{name}")
CROSS += tuple(f"{name}-{{debian}}-cross" for name in LIBRARIES)
RUNTIME = "libc6"  # the C library that the compilers run with
C_LIBRARY = ("libc6", "libc6-dev", "libcrypt1", "libcrypt-dev", "linux-libc-dev")
DEBIAN = {"x86_64": "amd64", "aarch64": "arm64"}
# Pairs of the machine that runs the compiler and the target.
TARGETS = [("x86_64", "x86_64"), ("x86_64", "aarch64")]
# manylinux policy → the newest symbol versions that it allows (auditwheel's manylinux-policy.json), and a Debian
# release with C library headers that need no newer ones.
POLICIES = {
    "2_28": ({"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}, "bullseye"),
    "2_34": ({"GLIBC": "2.34", "GLIBCXX": "3.4.29", "CXXABI": "1.3.13", "GCC": "7.0.0"}, "bookworm"),
}


def main() -> None:
    """Write the file."""
    lists = {name: packages(Path(path)) for name, _, path in (word.partition("=") for word in sys.argv[1:])}
    today = datetime.now(UTC)
    policies = [
        {
            "name": name,
            "newest": newest,
            "packages": {
                arch: [pin(lists[f"{suite}/{DEBIAN[arch]}"][package], today) for package in C_LIBRARY]
                for _, arch in TARGETS
            },
        }
        for name, (newest, suite) in POLICIES.items()
    ]
    facts = {
        "schema_version": 1,
        "source": f"{ARCHIVE}, suites {', '.join(sorted({name.partition('/')[0] for name in lists}))}",
        "date": today.date().isoformat(),
        "compilers": [row(lists, machine, arch, today) for machine, arch in TARGETS],
        "policies": policies,
    }
    TARGET.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def row(lists: dict[str, dict[str, dict[str, str]]], machine: str, arch: str, day: datetime) -> dict[str, Any]:
    """Return the entry of a compiler."""
    known, triplet = lists[f"{SUITE}/{DEBIAN[machine]}"], f"{arch}-linux-gnu"
    wanted = NATIVE if machine == arch else CROSS
    names = [name.format(name=triplet.replace("_", "-"), debian=DEBIAN[arch]) for name in wanted]
    version = known[names[1]]["Version"]
    return {
        "name": f"gcc-{version.partition('-')[0]}",
        "title": TITLE.format(version=version),
        "machine": machine,
        "arch": arch,
        "triplet": triplet,
        "major": MAJOR,
        "packages": [pin(known[name], day) for name in (*names, *COMMON)],
        "runtime": pin(known[RUNTIME], day),
    }


def packages(path: Path) -> dict[str, dict[str, str]]:
    """Return the fields of every package by name. The last entry of a name is the newest."""
    found = {}
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields:
            found[fields["Package"]] = fields
    return found


def pin(fields: dict[str, str], day: datetime) -> dict[str, Any]:
    """Return the entry of a package."""
    path = fields["Filename"]
    return {
        "filename": path.rpartition("/")[2],
        "url": f"{ARCHIVE}/{path}",
        "sha256": fields["SHA256"],
        "size": int(fields["Size"]),
        "mirrors": [f"{SNAPSHOT}/{day:%Y%m%d}T000000Z/{path}"],
    }


if __name__ == "__main__":
    main()
