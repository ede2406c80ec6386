"""Write which CUDA releases each torch was built for into frameworks/torch.json.

python scripts/torch_builds.py DATE RELEASE.md

RELEASE.md is pytorch/pytorch's, whose compatibility matrix names the stable and the experimental CUDA of each release.
What is published beyond it stands below, with who says so. A release that neither knows is left as it is.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "wheelsmith" / "frameworks" / "torch.json"
_ROW = re.compile(r"\| *(?P<minor>\d+\.\d+) *\|(?P<cells>.*)\|")
_CUDA = re.compile(r"\bCUDA (\d+\.\d+)")
_MATRIX = "release compatibility matrix in RELEASE.md of pytorch/pytorch"


@dataclass(frozen=True, slots=True, kw_only=True)
class Beyond:
    """CUDA releases that the matrix does not name for a torch, and who does."""

    torch: tuple[str, ...]
    cuda: tuple[str, ...]
    source: str


BEYOND = (
    Beyond(
        torch=("2.9", "2.10", "2.11", "2.12", "2.13"),
        cuda=("12.9",),
        source="CUDA 12.9 beyond it: pytorch/pytorch#187834, and public projects that pin those wheels",
    ),
    Beyond(
        torch=("2.15",),
        cuda=("13.0", "13.2"),
        source="CUDA matrix for release 2.15 (pytorch/pytorch#190385): 13.0 and 13.2, no 12.6; 13.4 was built nightly, "
        "and nothing says that it was released",
    ),
)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("date")
    parser.add_argument("matrix", type=Path)
    options = parser.parse_args()
    matrix = dict(_rows(options.matrix.read_text()))
    data = json.loads(TARGET.read_text())
    data["releases"] = [_release(item, matrix.get(item["minor"], ()), options.date) for item in data["releases"]]
    TARGET.write_text(json.dumps(data, indent=1) + "\n")


def _rows(text: str) -> Iterator[tuple[str, tuple[str, ...]]]:
    for line in text.splitlines():
        if (row := _ROW.match(line)) and (found := _CUDA.findall(row["cells"])):
            yield row["minor"], tuple(found)


def _release(item: dict[str, Any], named: tuple[str, ...], date: str) -> dict[str, Any]:
    beyond = [more for more in BEYOND if item["minor"] in more.torch]
    if not named and not beyond:
        print(f"torch {item['minor']} is not in the matrix")
        return item
    cuda = {*named, *(version for more in beyond for version in more.cuda)}
    if lost := set(item["cuda"]) - cuda:
        raise SystemExit(f"torch {item['minor']}: nothing says CUDA {', '.join(sorted(lost))} any more")
    sources = [*([_MATRIX] if named else []), *(more.source for more in beyond)]
    changed = {
        "cuda": sorted(cuda, key=lambda version: tuple(map(int, version.split(".")))),
        "cuda_source": "; ".join(sources),
        "cuda_date": date,
    }
    order = [key for key in item if key not in changed]
    place = order.index("wheels")
    return {key: {**item, **changed}[key] for key in (*order[:place], *changed, *order[place:])}


if __name__ == "__main__":
    main()
