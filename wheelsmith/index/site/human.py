"""Render the pages for people: one for each project, and one for the index. No clock is read."""

from __future__ import annotations

import base64
import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from wheelsmith.base.units import counted, release_order, show_size
from wheelsmith.index.entries.catalogue import Catalogue, catalogue_key, catalogue_of, dump_catalogue
from wheelsmith.index.entries.entry import EVERYTHING, CellWithoutWheel, NoWheel, ProjectState
from wheelsmith.index.entries.metadata import Readme, is_safe_link
from wheelsmith.index.entries.state import Completeness
from wheelsmith.index.resolve.choose import Chooser
from wheelsmith.index.resolve.install_commands import Installer, fill_template, presences_of, slot_values, template_for
from wheelsmith.index.resolve.target import Choice, ParsedWheel, Target
from wheelsmith.index.site.front import front_data, make_front
from wheelsmith.index.site.grid import catalogue_cells, grids, legend_statuses, yank_reasons
from wheelsmith.index.site.listing import Listing
from wheelsmith.index.site.picker import (
    BASE,
    Picker,
    VersionOfWheels,
    format_releases,
    make_picker,
    picker_data,
    versions_of,
)
from wheelsmith.index.site.readme import render_readme
from wheelsmith.index.site.requirements import requirements_of
from wheelsmith.model import release_title
from wheelsmith.platforms import compute_name, compute_order

if TYPE_CHECKING:
    from jinja2 import Environment

_SHOWN_WITHOUT_SCRIPT = (Installer.PIP, Installer.UV)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One combination in the tables that work without scripts.

    :param pythons: the Python versions with the same commands.
    :param commands: pairs of a label (installer and state of torch) and a command.
    """

    target: Target
    pythons: str
    commands: tuple[tuple[str, str], ...]


def human_pages(state: ProjectState, readme: Readme | None = None) -> dict[str, bytes]:
    """Return the page for people and the catalogue of a project: key → bytes. Unadvertised projects have none.

    :param readme: the description of the project.
    """
    catalogue = catalogue_of(state)
    if not catalogue.unserved and not any(entry.roots for entry in state.entries):
        return {}
    key = catalogue_key(state.project)
    return {key: dump_catalogue(catalogue), key.replace("catalogue.json", "index.html"): _project(catalogue, readme)}


def human_root(listing: Mapping[str, Listing]) -> dict[str, bytes]:
    """Return the start page of the index: key → bytes."""
    shown = {name: item for name, item in sorted(listing.items()) if item.roots}
    page, front = environment().get_template("index.html"), make_front(shown)
    every = sorted({root for item in shown.values() for root in item.roots} - {EVERYTHING}, key=compute_order)
    scripts = assets("address.js", "commands.js", "front.js")
    return {"index.html": page.render(front=front, data=front_data(front), roots=every, **scripts).encode()}


def assets(*scripts: str) -> dict[str, Any]:
    """Return the style sheet and the scripts of a page, and a content security policy that allows only these.

    They are embedded in the page, so a copied page is complete and its parts always match.
    """
    style, *texts = (_asset(name) for name in ("page.css", "theme.js", *scripts))
    allowed = [f"style-src {_digest(style)}", f"script-src {' '.join(map(_digest, texts))}"]
    rest = ["img-src data:", "base-uri 'none'", "form-action 'none'"]
    return {"style": style, "scripts": texts, "policy": "; ".join(["default-src 'none'", *allowed, *rest])}


@cache
def environment() -> Environment:
    """Return the template environment. ``_grid.html`` contains the macro ``matrix``, which reports use, too."""
    from wheelsmith.base.templates import template_environment

    made = template_environment("wheelsmith.index.site")
    made.filters |= {"size": show_size, "compute_name": compute_name}
    made.filters |= {"counted": counted, "release_title": lambda place: release_title(*place)}
    return made


def _project(catalogue: Catalogue, readme: Readme | None) -> bytes:
    chooser = Chooser(catalogue)
    picker = make_picker(chooser)
    shown = grids(catalogue_cells(catalogue))
    versions = versions_of(chooser, picker)
    current = _current_version(versions)
    page = environment().get_template("page.html")
    return page.render(
        catalogue=catalogue,
        warning=chooser.warning,
        picker=picker,
        data=picker_data(picker, catalogue) if picker else None,
        rows=_rows(picker) if picker else (),
        installers=tuple(Installer),
        presences=presences_of(picker.axes.framework) if picker else (),
        grids=shown,
        legend=legend_statuses(shown),
        yanks=yank_reasons(shown),
        failed=[item for item in catalogue.unserved if item.status is NoWheel.FAILED],
        excluded=_group_excluded(catalogue),
        current=current,
        yanked=_yanked_versions(versions, current),
        incomplete=_incomplete_versions(catalogue, versions),
        links=_links(catalogue, current),
        versions=versions,
        requirements=requirements_of(current) if current else None,
        readme=render_readme(readme) if readme else None,
        **assets("address.js", "commands.js", "picker.js"),
    ).encode()


def _links(catalogue: Catalogue, current: VersionOfWheels | None) -> tuple[tuple[str, str], ...]:
    """Return pairs of label and URL: those in METADATA, or else the repository of the current version."""
    if catalogue.about and catalogue.about.links:
        return catalogue.about.links
    wheels = current.wheels if current else ()
    urls = (wheel.provenance.source.url for wheel in wheels if wheel.provenance)
    return tuple(("Source", url) for url in islice(filter(None, urls), 1) if is_safe_link(url))


def _rows(picker: Picker) -> tuple[Row, ...]:
    """Return a row for each combination with a wheel. Combinations that differ only in Python share a row."""
    served = [
        (target, answer)
        for target, answer in zip(picker.targets, picker.answers, strict=True)
        if isinstance(answer, Choice)
    ]
    rows = []
    for _, group in groupby(served, lambda pair: (pair[0].release, pair[0].compute, pair[0].arch, pair[1].wheel.path)):
        targets = list(group)
        target, choice = targets[0]
        pythons = format_releases([target.python_minor for target, _ in targets])
        rows.append(Row(target=target, pythons=pythons, commands=_commands(choice, target)))
    return tuple(rows)


def _commands(choice: Choice, target: Target) -> tuple[tuple[str, str], ...]:
    others = bool(ParsedWheel(choice.wheel).other_requirements(target.framework))
    commands = []
    for installer in _SHOWN_WITHOUT_SCRIPT:
        for presence in presences_of(target.framework):
            slots = {**slot_values(choice, target, presence), "base": BASE}
            template = template_for(installer, presence, framework=target.framework, others=others)
            label = f"{installer.label}, {target.framework} {presence.label}" if target.release else installer.label
            commands.append((label, fill_template(template, slots).text(_quote_word)))
    return tuple(commands)


def _quote_word(word: str) -> str:
    """Quote a word for a shell. A word with the variable for the address gets double quotes."""
    rest = word.replace(BASE, "", 1)
    return f'"{word}"' if rest != word and not set(rest) & set('"$`\\') else shlex.quote(word)


def _current_version(versions: Sequence[VersionOfWheels]) -> VersionOfWheels | None:
    """Return the newest version with a wheel that is not yanked, or the newest version if all are yanked."""
    not_yanked = (version for version in versions if not version.is_yanked)
    return next(not_yanked, versions[0] if versions else None)


def _yanked_versions(
    versions: Sequence[VersionOfWheels], current: VersionOfWheels | None
) -> tuple[VersionOfWheels, ...]:
    """Return the current version and those newer than it, without versions that have a wheel that is not yanked."""
    return tuple(each for each in versions[: versions.index(current) + 1] if each.is_yanked) if current else ()


def _incomplete_versions(catalogue: Catalogue, versions: Sequence[VersionOfWheels]) -> tuple[Completeness, ...]:
    """Return the versions with missing wheels. A version that is yanked as a whole is not one of them."""
    yanked = {Version(each.public) for each in versions if each.is_yanked}
    return tuple(found for found in catalogue.versions if found.missing and Version(found.version) not in yanked)


def _group_excluded(catalogue: Catalogue) -> tuple[tuple[CellWithoutWheel, ...], ...]:
    """Return the excluded cells in groups of equal release, compute platform and reason."""

    def place(item: CellWithoutWheel) -> tuple[object, ...]:
        return release_order(item.cell.release), compute_order(item.cell.compute), item.reason

    left_out = sorted((item for item in catalogue.unserved if item.status is NoWheel.EXCLUDED), key=place)
    return tuple(tuple(group) for _, group in groupby(left_out, place))


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _asset(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")
