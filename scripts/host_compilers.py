"""Pin Debian's compilers and C libraries in wheelsmith/platforms/host_compilers.json.

    host_compilers.py SUITE/ARCH=PACKAGES...

PACKAGES is the suite's list of packages for an architecture of Debian's, such as bookworm/amd64=Packages, unpacked.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "wheelsmith" / "platforms" / "host_compilers.json"
ARCHIVE = "https://deb.debian.org/debian"
SNAPSHOT = "https://snapshot.debian.org/archive/debian"  # the archive as it was on any day
COMPILERS = "bookworm"
PROGRAMS = ("gcc-12", "g++-12", "cpp-12", "binutils", "libbinutils", "libctf0", "libctf-nobfd0", "libjansson4")
OF_PROGRAMS = ("libgmp10", "libisl23", "libmpc3", "libmpfr6", "libzstd1", "zlib1g")
STANDARD = ("libgcc-12-dev", "libgcc-s1", "libstdc++-12-dev", "libstdc++-12-pic", "libstdc++6")
MORE = ("libatomic1", "libgomp1")
C_LIBRARY = ("libc6", "libc6-dev", "libcrypt1", "libcrypt-dev", "linux-libc-dev")
# machine → Debian's name of it, and its triplet.
MACHINES = {"x86_64": ("amd64", "x86_64-linux-gnu")}
# A manylinux policy → the newest versions of symbols that it allows (auditwheel's manylinux-policy.json), and a release
# of Debian whose headers are no newer than its readers.
POLICIES = {
    "2_28": ({"GLIBC": "2.28", "GLIBCXX": "3.4.24", "CXXABI": "1.3.11", "GCC": "7.0.0"}, "bullseye"),
}


def main() -> None:
    """Write the file anew."""
    lists = {name: packages(Path(path)) for name, _, path in (word.partition("=") for word in sys.argv[1:])}
    today = datetime.now(UTC)
    rows = [
        {
            "name": f"gcc-{found(lists, arch, 'gcc-12')['Version'].partition('-')[0]}",
            "title": f"g++ {found(lists, arch, 'g++-12')['Version']} of Debian 12",
            "machine": machine,
            "arch": machine,
            "triplet": triplet,
            "major": "12",
            "packages": [
                pin(found(lists, arch, name), today)
                for name in (*PROGRAMS, f"binutils-{triplet.replace('_', '-')}", *OF_PROGRAMS, *STANDARD, *MORE)
            ],
        }
        for machine, (arch, triplet) in MACHINES.items()
    ]
    policies = [
        {
            "name": name,
            "newest": newest,
            "packages": {
                machine: [pin(lists[f"{suite}/{arch}"][package], today) for package in C_LIBRARY]
                for machine, (arch, _) in MACHINES.items()
            },
        }
        for name, (newest, suite) in POLICIES.items()
    ]
    facts = {
        "schema_version": 1,
        "source": f"{ARCHIVE}, suites {', '.join(sorted({name.partition('/')[0] for name in lists}))}",
        "date": today.date().isoformat(),
        "compilers": rows,
        "policies": policies,
    }
    TARGET.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def found(lists: dict[str, dict[str, dict[str, str]]], arch: str, name: str) -> dict[str, str]:
    """Return what is written of one of the compilers' packages."""
    return lists[f"{COMPILERS}/{arch}"][name]


def packages(path: Path) -> dict[str, dict[str, str]]:
    """Return the fields of every package by its name; the last of a name is the newest."""
    found = {}
    for paragraph in path.read_text(encoding="utf-8").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields:
            found[fields["Package"]] = fields
    return found


def pin(fields: dict[str, str], day: datetime) -> dict[str, Any]:
    """Return what is written of one package."""
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
