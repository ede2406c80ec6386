"""Render the pages for installers. The same entries give the same bytes; no clock is read.

The pages follow version 1.4 of the simple API: PEP 503, 629, 658, 691, 700, 714 and 792.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from packaging.version import Version

from wheelsmith.base.json_dataclass import dumps_pretty
from wheelsmith.index.entries.entry import EVERYTHING, IndexEntry, ProjectState, ProjectStatus
from wheelsmith.index.entries.side_files import AnnouncedFile, file_key
from wheelsmith.index.entries.state import variants_by_version
from wheelsmith.wheel.variant_format import dump_variants

if TYPE_CHECKING:
    from jinja2 import Template

API_VERSION = "1.4"


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantsFile:
    """``{name}-{version}-variants.json``, which describes the variant wheels of a version (PEP 825).

    It is stored under the hash of its content, because installers compare it with the hash on the page. Under a fixed
    name, a reader of an older page would get a newer file.

    :param upload_time: time of the oldest described wheel, so that installers that ignore newer uploads still read it.
    """

    filename: str
    data: bytes
    upload_time: str

    @property
    def sha256(self) -> str:
        """Return the hash of the content, in hexadecimal."""
        return hashlib.sha256(self.data).hexdigest()

    @property
    def path(self) -> str:
        """Return the path in the index."""
        return file_key(self.sha256, self.filename)


def variants_files(state: ProjectState) -> tuple[VariantsFile, ...]:
    """Return the variants file of every version with variant wheels on a page."""
    listed = variants_by_version(entry for entry in state.entries if entry.roots)
    return tuple(_variants_file(entries) for entries in listed.values())


def simple_pages(state: ProjectState) -> dict[str, bytes]:
    """Return all installer pages of one project: key → bytes."""
    ordered = sorted(state.entries, key=lambda entry: (entry.version, entry.filename))
    attributes = {entry.filename: _side_file_attributes(entry, state.address) for entry in ordered}
    offered: dict[str, list[tuple[Version, dict[str, Any]]]] = {}
    for entry in ordered:
        file = _file_entry(entry, state.address)
        for root in entry.roots:
            offered.setdefault(root, []).append((entry.version, file))
    pages = {}
    for root in sorted(offered):
        detail = _project_detail(state, root, offered[root])
        pages[f"{root}/{state.project}/index.json"] = dumps_pretty(detail)
        status = detail["project-status"]
        page = _template("project.html").render(detail, project_status=status, attributes=attributes)
        pages[f"{root}/{state.project}/index.html"] = page.encode()
    return pages


def simple_roots(roots: Mapping[str, Collection[str]]) -> dict[str, bytes]:
    """Return the project list pages of all roots: key → bytes.

    :param roots: project → the roots that list it.
    """
    pages = {}
    for root in sorted({EVERYTHING, *(root for each in roots.values() for root in each)}):
        names = sorted(name for name, each in roots.items() if root in each)
        data = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in names]}
        pages[f"{root}/index.json"] = dumps_pretty(data)
        pages[f"{root}/index.html"] = _template("root.html").render(projects=names).encode()
    return pages


def _variants_file(entries: list[IndexEntry]) -> VariantsFile:
    name, version, _ = entries[0].filename.split("-", 2)
    return VariantsFile(
        filename=f"{name}-{version}-variants.json",
        data=dump_variants(entry.variant for entry in entries if entry.variant),
        upload_time=min(entry.upload_time for entry in entries),
    )


def _project_detail(state: ProjectState, root: str, files: Sequence[tuple[Version, dict[str, Any]]]) -> dict[str, Any]:
    reason = {"reason": state.status_reason} if state.status_reason else {}
    # A quarantined project must offer nothing (PEP 792).
    offered = [] if state.status is ProjectStatus.QUARANTINED else files
    # Installers read this file before they choose a variant. Only this root lists variant wheels.
    variants = variants_files(state) if root == EVERYTHING and offered else ()
    return {
        "meta": {"api-version": API_VERSION},
        "name": state.project,
        "project-status": {"status": state.status, **reason},
        "versions": [str(version) for version in sorted({version for version, _ in offered})],
        "files": [file for _, file in offered] + [_variants_file_entry(each) for each in variants],
    }


def _file_entry(entry: IndexEntry, address: str | None) -> dict[str, Any]:
    announcements = (side.kind.in_json(url, side.sha256) for side, url in _announced_urls(entry, address))
    return {
        "filename": entry.filename,
        "url": entry.served_at or _url(entry.path),
        "hashes": {"sha256": entry.sha256},
        "size": entry.size,
        "upload-time": entry.upload_time,
        **({"requires-python": entry.requires_python} if entry.requires_python else {}),
        **dict(pair for keys in announcements for pair in keys.items()),
        # The reason must not be empty (PEP 691). Without a reason the value is true.
        "yanked": False if entry.yanked is None else entry.yanked or True,
        # Private keys begin with an underscore (PEP 691). Cells are named as in builds on the Hub.
        "_wheelsmith": {"cells": sorted(cell.id for cell in entry.cells), **({"older": True} if entry.older else {})},
    }


def _side_file_attributes(entry: IndexEntry, address: str | None) -> dict[str, str]:
    """Return the HTML attributes that announce the side files of a wheel."""
    given = (side.kind.in_html(url, side.sha256) for side, url in _announced_urls(entry, address))
    return dict(pair for attributes in given for pair in attributes.items())


def _announced_urls(entry: IndexEntry, address: str | None) -> Iterator[tuple[AnnouncedFile, str]]:
    """Yield the side files that pages announce, each with its URL."""
    for side in entry.announced:
        if not side.kind.needs_address:
            yield side, _url(side.path)
        elif address is not None:
            yield side, address + _quote_file_name(side.path)


def _variants_file_entry(file: VariantsFile) -> dict[str, Any]:
    return {
        "filename": file.filename,
        "url": _url(file.path),
        "hashes": {"sha256": file.sha256},
        "size": len(file.data),
        "upload-time": file.upload_time,
        "yanked": False,
    }


def _url(path: str) -> str:
    return f"../../{_quote_file_name(path)}"


def _quote_file_name(path: str) -> str:
    folder, _, name = path.rpartition("/")
    # Some hosts read + in a path as a space.
    return f"{folder}/{quote(name)}"


@cache
def _template(name: str) -> Template:
    from wheelsmith.base.templates import template_environment

    return template_environment("wheelsmith.index.entries").get_template(name)
