"""A process that publishes wheels to a Hub repo, one after the other, and says when each is published.

``python hub_writer.py TARGET FOLDER NUMBER COUNT PROJECTS``
"""

import sys
from pathlib import Path

from hub_kernels import kernel_wheel

from wheelsmith.index.publish.kernels_layout import add_release, hub_builds
from wheelsmith.index.publish.release import IndexRelease
from wheelsmith.index.storage.hub import open_repo
from wheelsmith.model import Cell


def main(target: str, folder: Path, number: int, count: int, projects: int) -> None:
    repo = open_repo(target)
    for turn in range(count):
        cell = Cell(release=f"2.{number % 7 + 5}", toolkit=None, arch="x86_64")
        version = f"1.{number}.{turn}+cpu.torch{cell.release}"
        offer = kernel_wheel(folder / str(number), f"kernel{number % projects}", version, cell)
        with hub_builds([offer], target) as builds:
            add_release(repo, IndexRelease(uploads=(offer,)), builds.builds, upload_time="2026-01-02T03:04:05Z")
        print(offer.entry.filename, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *map(int, sys.argv[3:]))
