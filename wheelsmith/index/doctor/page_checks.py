"""Read pages of an index and check what the page of a project offers."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from urllib.parse import urljoin, urlsplit

from mousebender import simple
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name, is_normalized_name
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from wheelsmith.frameworks import outranked
from wheelsmith.index.doctor.finding import IndexFinding, finding
from wheelsmith.index.doctor.http_checks import ACCEPTED
from wheelsmith.index.doctor.http_exchange import JSON, Exchange
from wheelsmith.model import WheelName, read_wheel_name
from wheelsmith.toolchain.package_index import html_base

VARIANTS = "-variants.json"
PLATFORM = re.compile(r"cpu|xpu|cu\d+|rocm\d[\d.]*")
_FILES = (".whl", ".tar.gz", ".zip", VARIANTS)
_NAMELESS_HASH = re.compile(r"(?<!&)#[^#\"'=<>\s]*(?=[\"'\s>])")  # mousebender fails on it; installers ignore it
_Model = TypeVar("_Model", bound=BaseModel)


class UnreadablePageError(Exception):
    """A page that installers refuse.

    :param rule: that it breaks.
    """

    def __init__(self, reason: str, rule: str = "unreadable-page") -> None:
        super().__init__(reason)
        self.rule = rule


class PageFile(BaseModel):
    """A file on a page, with the fields of the JSON API."""

    model_config = ConfigDict(frozen=True, strict=True)

    filename: str
    url: str
    hashes: dict[str, str]
    requires_python: str | None = Field(None, alias="requires-python")
    core_metadata: bool | dict[str, str] | None = Field(None, alias="core-metadata")
    dist_info_metadata: Any = Field(None, alias="dist-info-metadata")
    yanked: bool | str = False
    size: int | None = None
    upload_time: AwareDatetime | None = Field(None, alias="upload-time")
    wheelsmith: Any = Field(None, alias="_wheelsmith")

    @property
    def wheel(self) -> WheelName | None:
        """Return the parts of its name, or None if that is not a wheel's."""
        try:
            return read_wheel_name(self.filename) if self.filename.endswith(".whl") else None
        except ValueError:
            return None

    @property
    def platform(self) -> str:
        """Return the compute platform in the version, such as ``cu130``, or an empty text."""
        word = ((self.wheel and self.wheel.version.local) or "").partition(".")[0]
        return word if PLATFORM.fullmatch(word) else ""

    @property
    def platforms(self) -> set[str]:
        """Return the compute platforms that it serves, from its version and the cells that wheelsmith writes."""
        cells = self.wheelsmith.get("cells") if isinstance(self.wheelsmith, dict) else None
        words = {word for cell in cells or () for word in str(cell).split("-")}
        return {word for word in words | {self.platform} if PLATFORM.fullmatch(word)}


class _ProjectPage(BaseModel):
    files: list[PageFile]


class _ListedProject(BaseModel):
    name: str


class _ProjectList(BaseModel):
    projects: list[_ListedProject]


def read_files(exchange: Exchange, project: str) -> tuple[PageFile, ...]:
    """Return the files on the page of a project, with absolute URLs.

    :raises UnreadablePageError: installers refuse the page.
    """
    base = exchange.final
    if _is_json(exchange):
        page = _from_json(_ProjectPage, exchange)
    else:
        text = _NAMELESS_HASH.sub("", _text(exchange))
        with _html_errors():
            page = _ProjectPage.model_validate(simple.from_project_details_html(text, project))
            base = html_base(text, base)
    with _html_errors():
        files = [file for file in page.files if file.filename.endswith(_FILES)]
        return tuple(file.model_copy(update={"url": _absolute(base, file.url)}) for file in files)


def read_projects(exchange: Exchange) -> tuple[str, ...]:
    """Return the normalized names on a list of projects.

    :raises UnreadablePageError: installers refuse the page.
    """
    if _is_json(exchange):
        listed = _from_json(_ProjectList, exchange)
    else:
        with _html_errors():
            listed = _ProjectList.model_validate(simple.from_project_index_html(_text(exchange)))
    names = (canonicalize_name(project.name.strip().rstrip("/")) for project in listed.projects)
    return tuple(dict.fromkeys(name for name in names if is_normalized_name(name)))


def check_files(files: tuple[PageFile, ...], exchange: Exchange, root: str, project: str) -> Iterator[IndexFinding]:
    """Check the files on the page of a project. Of findings with the same rule, the first is enough."""
    found: dict[str, IndexFinding] = {}
    for file in files:
        for item in (*_check_file(file, exchange), *_check_wheel(file, files, exchange, root, project)):
            found.setdefault(item.rule, item)
    yield from found.values()
    named = [file.wheel.version for file in files if file.wheel and not file.wheel.label and file.yanked is False]
    for old, by in outranked(named).items():
        yield finding("stable-abi-name", exchange, old=old, by=by)


def _check_file(file: PageFile, exchange: Exchange) -> Iterator[IndexFinding]:
    scheme = urlsplit(file.url).scheme
    if scheme not in {"http", "https"}:
        yield finding("foreign-scheme", exchange, scheme=scheme)
    elif scheme == "http" and exchange.final.startswith("https:"):
        yield finding("mixed", exchange)
    if not file.hashes:
        yield finding("no-hash", exchange)
    if file.requires_python and not _is_specifier(file.requires_python):
        yield finding("requires-python", exchange, text=file.requires_python)
    if exchange.media == JSON:
        if not isinstance(file.dist_info_metadata, str | None):
            yield finding("old-side-car-key", exchange)
        if file.yanked == "":
            yield finding("empty-yank", exchange)
        if file.upload_time is None:
            yield finding("no-upload-time", exchange)


def _check_wheel(
    file: PageFile, files: tuple[PageFile, ...], exchange: Exchange, root: str, project: str
) -> Iterator[IndexFinding]:
    if not file.filename.endswith(".whl"):
        return
    if not file.core_metadata:
        yield finding("no-side-car", exchange)
    if file.wheel is None or file.wheel.project != project:
        yield finding("wheel-name", exchange, filename=file.filename)
        return
    platform = urlsplit(root).path.rstrip("/").rpartition("/")[2]
    if PLATFORM.fullmatch(platform) and file.platform not in {"", platform}:
        yield finding("platform-mixed", exchange, root=platform, filename=file.filename)
    described = {other.filename.removesuffix(VARIANTS) for other in files if other.filename.endswith(VARIANTS)}
    if file.wheel.label and "-".join(file.filename.split("-")[:2]) not in described:
        yield finding("variants", exchange, filename=file.filename)


def _is_json(exchange: Exchange) -> bool:
    """Return True if a page is to be read as JSON. One with a wrong content type is read by its looks."""
    return exchange.media == JSON or (exchange.media not in ACCEPTED and exchange.body.lstrip()[:1] == b"{")


def _text(exchange: Exchange) -> str:
    try:
        return exchange.body.decode()
    except UnicodeDecodeError:
        raise UnreadablePageError("it is not UTF-8") from None


def _from_json(model: type[_Model], exchange: Exchange) -> _Model:
    try:
        return model.model_validate_json(exchange.body)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        if first["type"] == "json_invalid":
            raise UnreadablePageError("it is sent as JSON and is none") from None
        raise UnreadablePageError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", "json-shape") from None


@contextmanager
def _html_errors() -> Iterator[None]:
    """Raise what mousebender and urllib raise on a broken page as UnreadablePageError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", simple.APIVersionWarning)
            yield
    except (ValueError, AssertionError, simple.UnsupportedAPIVersion) as error:
        raise UnreadablePageError(str(error) or "it is broken HTML") from None


def _absolute(base: str, link: str) -> str:
    url = urljoin(base, link)
    urlsplit(url).port  # noqa: B018  # raises ValueError
    return url


def _is_specifier(text: str) -> bool:
    try:
        SpecifierSet(text)
    except InvalidSpecifier:
        return False
    return True
