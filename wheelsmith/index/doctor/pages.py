"""Read the pages of an index."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urljoin, urlsplit

from mousebender import simple
from packaging.utils import canonicalize_name, is_normalized_name
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from wheelsmith.index.doctor.http_exchange import JSON, Exchange
from wheelsmith.model import WheelName, read_wheel_name
from wheelsmith.toolchain.package_index import html_base

ACCEPTED = ("text/html", "application/vnd.pypi.simple.v1+html", JSON)
PLATFORM = re.compile(r"cpu|xpu|cu\d+|rocm\d[\d.]*")
_NAMELESS_HASH = re.compile(r"(?<!&)#[^#\"'=<>\s]*(?=[\"'\s>])")  # mousebender fails on it; installers ignore it


class UnreadablePageError(Exception):
    """A page that installers refuse."""


class PageFile(BaseModel):
    """A file on a page, with the fields of the JSON API."""

    model_config = ConfigDict(frozen=True, strict=True)

    filename: str
    url: str
    hashes: dict[str, str]
    core_metadata: bool | dict[str, str] | None = Field(None, alias="core-metadata")
    size: int | None = None
    wheelsmith: Any = Field(None, alias="_wheelsmith")

    @property
    def wheel(self) -> WheelName | None:
        """Return the parts of its name, or None if that is not a wheel's."""
        try:
            return read_wheel_name(self.filename) if self.filename.endswith(".whl") else None
        except ValueError:
            return None

    @property
    def platforms(self) -> set[str]:
        """Return the compute platforms that it serves, from its version and the cells that wheelsmith writes."""
        cells = self.wheelsmith.get("cells") if isinstance(self.wheelsmith, dict) else None
        words = {word for cell in cells or () for word in str(cell).split("-")}
        words.add(((self.wheel and self.wheel.version.local) or "").partition(".")[0])
        return {word for word in words if PLATFORM.fullmatch(word)}


class _ProjectPage(BaseModel):
    files: list[PageFile]


class _ListedProject(BaseModel):
    name: str


class _ProjectList(BaseModel):
    projects: list[_ListedProject]


def read_wheels(exchange: Exchange, project: str) -> tuple[PageFile, ...]:
    """Return the wheels on the page of a project, with absolute URLs.

    :raises UnreadablePageError: installers refuse the page.
    """
    base = exchange.final
    with _explained():
        if _is_json(exchange):
            page = _ProjectPage.model_validate_json(exchange.body)
        else:
            text = _NAMELESS_HASH.sub("", exchange.body.decode())
            page = _ProjectPage.model_validate(simple.from_project_details_html(text, project))
            base = html_base(text, base)
        wheels = [file for file in page.files if file.wheel]
        return tuple(file.model_copy(update={"url": _absolute(base, file.url)}) for file in wheels)


def read_projects(exchange: Exchange) -> tuple[str, ...]:
    """Return the normalized names on a list of projects.

    :raises UnreadablePageError: installers refuse the page.
    """
    with _explained():
        if _is_json(exchange):
            listed = _ProjectList.model_validate_json(exchange.body)
        else:
            listed = _ProjectList.model_validate(simple.from_project_index_html(exchange.body.decode()))
    names = (canonicalize_name(project.name.strip().rstrip("/")) for project in listed.projects)
    return tuple(dict.fromkeys(name for name in names if is_normalized_name(name)))


def _is_json(exchange: Exchange) -> bool:
    """Return True if a page is to be read as JSON. One with a wrong content type is read by its looks."""
    return exchange.media == JSON or (exchange.media not in ACCEPTED and exchange.body.lstrip()[:1] == b"{")


@contextmanager
def _explained() -> Iterator[None]:
    """Raise what pydantic, mousebender and urllib raise on a broken page as UnreadablePageError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            yield
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        raise UnreadablePageError(f"{'.'.join(map(str, first['loc']))} {first['msg']}".strip()) from None
    except (ValueError, AssertionError, simple.UnsupportedAPIVersion) as error:
        raise UnreadablePageError(str(error) or "it is broken HTML") from None


def _absolute(base: str, link: str) -> str:
    url = urljoin(base, link)
    urlsplit(url).port  # noqa: B018  # raises ValueError
    return url
