"""From entries to pages: the same entries give the same bytes, and no clock is read.

Standards: PEP 503, 629, 658, 691, 700, 714 and 792, which together are version 1.4 of the simple API.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from wheelsmith.model import IndexEntry

if TYPE_CHECKING:
    from jinja2 import Template

API_VERSION = "1.4"
EVERYTHING = "simple"


def roots(entry: IndexEntry) -> tuple[str, ...]:
    """Give the roots whose pages list the entry: one for each compute platform it serves, and the one for all."""
    computes = {cell.compute for cell in entry.cells if cell.settings.advertise}
    return (EVERYTHING, *sorted(computes)) if computes else ()


def file_path(entry: IndexEntry) -> str:
    """Give the wheel's path in the index: under the hash of its content, so that it never changes."""
    return f"files/{entry.sha256[:2]}/{entry.sha256}/{entry.filename}"


def render_project(project: str, entries: Iterable[IndexEntry]) -> dict[str, bytes]:
    """Give every page of one project: path in the index → bytes."""
    ordered = sorted(entries, key=lambda entry: (_version(entry), entry.filename))
    pages = {}
    for root in sorted({root for entry in ordered for root in roots(entry)}):
        listed = [entry for entry in ordered if root in roots(entry)]
        detail = _detail(project, listed)
        pages[f"{root}/{project}/index.json"] = _json(detail)
        pages[f"{root}/{project}/index.html"] = (
            _template("project.html").render(project=project, files=detail["files"]).encode()
        )
    return pages


def render_roots(projects: dict[str, tuple[IndexEntry, ...]]) -> dict[str, bytes]:
    """Give the list of projects of every root."""
    listed: dict[str, set[str]] = {EVERYTHING: set()}
    for project, entries in projects.items():
        for root in {root for entry in entries for root in roots(entry)}:
            listed.setdefault(root, set()).add(project)
    pages = {}
    for root, names in listed.items():
        data = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in sorted(names)]}
        pages[f"{root}/index.json"] = _json(data)
        pages[f"{root}/index.html"] = _template("root.html").render(projects=sorted(names)).encode()
    return pages


def _version(entry: IndexEntry) -> Version:
    return parse_wheel_filename(entry.filename)[1]


def _detail(project: str, entries: list[IndexEntry]) -> dict[str, Any]:
    return {
        "meta": {"api-version": API_VERSION},
        "name": project,
        "project-status": {"status": "active"},
        "versions": sorted({str(_version(entry)) for entry in entries}, key=Version),
        "files": [_file(entry) for entry in entries],
    }


def _file(entry: IndexEntry) -> dict[str, Any]:
    # Some hosts read + in a path as a space.
    url = "../../" + quote(file_path(entry), safe="/")
    metadata = {"sha256": entry.metadata_sha256}
    return {
        "filename": entry.filename,
        "url": url,
        "hashes": {"sha256": entry.sha256},
        "size": entry.size,
        "upload-time": entry.upload_time,
        **({"requires-python": entry.requires_python} if entry.requires_python else {}),
        "core-metadata": metadata,
        "dist-info-metadata": metadata,
        "yanked": False,
        # Keys with an underscore are the server's own (PEP 691): the Hub's names of what the wheel serves.
        "_wheelsmith": {"cells": sorted(cell.id for cell in entry.cells)},
    }


def _json(data: dict[str, Any]) -> bytes:
    return json.dumps(data, indent=1, sort_keys=True).encode() + b"\n"


@cache
def _template(name: str) -> Template:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("wheelsmith.index"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    return environment.get_template(name)
