"""Compare an index with its own state: every file, every side-car, every page."""

from __future__ import annotations

import hashlib
from pathlib import Path

from wheelsmith.files import sha256_file
from wheelsmith.index.folder import FolderIndex
from wheelsmith.index.metadata import read_metadata
from wheelsmith.index.render import file_path, render_project, render_roots


def verify(root: Path) -> tuple[str, ...]:
    """Give what is wrong with the index, in words; nothing is changed."""
    projects = FolderIndex(root).entries()
    wrong = []
    for entry in (entry for entries in projects.values() for entry in entries):
        path = root / file_path(entry)
        side_car = path.with_name(path.name + ".metadata")
        if not path.is_file():
            wrong.append(f"{entry.filename} is listed but not there")
        elif sha256_file(path) != entry.sha256:
            wrong.append(f"{entry.filename} is not the file that was published")
        elif not side_car.is_file() or side_car.read_bytes() != read_metadata(path):
            wrong.append(f"{entry.filename}.metadata is not the wheel's METADATA")
        elif hashlib.sha256(side_car.read_bytes()).hexdigest() != entry.metadata_sha256:
            wrong.append(f"{entry.filename}.metadata has another hash than its page says")
    pages = render_roots(projects)
    for project, entries in projects.items():
        pages |= render_project(project, entries)
    for name, data in sorted(pages.items()):
        path = root / name
        if not path.is_file() or path.read_bytes() != data:
            wrong.append(f"{name} is not what the state says")
    return tuple(wrong)
