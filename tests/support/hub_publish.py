"""Publish what indexes in folders hold to Hub repos: ``python hub_publish.py FOLDER TARGET [FOLDER TARGET …]``.

A process of its own, for the client reads its environment when it is imported.
"""

import sys
from pathlib import Path

from wheelsmith.index.publish.input_folders import read_release
from wheelsmith.index.publish.kernels_layout import add_release, hub_builds
from wheelsmith.index.storage.location import open_storage


def publish(folder: str, target: str) -> None:
    release = read_release(Path(folder))
    with hub_builds(release.uploads, target) as builds:
        add_release(open_storage(target), release, builds.builds, upload_time="2026-01-02T03:04:05Z")
    print(*sorted(build.variant for build in builds.builds), *builds.left_out.values())


if __name__ == "__main__":
    for pair in zip(sys.argv[1::2], sys.argv[2::2], strict=True):
        publish(*pair)
