"""What was asked of one page and of one wheel, and what came back: all that the judgements see."""

from __future__ import annotations

from dataclasses import dataclass

from wheelsmith.index.doctor.exchange import Exchange
from wheelsmith.index.doctor.page import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVisit:
    """A page, asked for in every way that matters.

    :param project: None for the list of projects, which neither pip nor uv reads to install anything.
    :param pip: with pip's Accept header; ``uv``: with uv's; ``html``: by somebody who takes HTML alone.
    :param bare: without the slash at the end.
    :param again: with the ETag that pip was given; ``changed``: with an ETag that the page never had.
    :param inside: ``index.html`` beneath, where the page itself is missing.
    """

    project: str | None
    pip: Exchange
    uv: Exchange
    html: Exchange
    bare: Exchange | None = None
    again: Exchange | None = None
    changed: Exchange | None = None
    inside: Exchange | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WheelVisit:
    """A wheel, asked for in every way that matters.

    :param whole: all of it, by the URL that pip makes of the link; cut short where it is larger than is fetched.
    :param end: its last bytes, asked for as a range.
    :param start: its first bytes, asked for as a range.
    :param side_car: its ``.metadata``, where the page announces one or one might be.
    :param raw: its head by the URL that uv takes, where the page writes ``+`` and pip asks for ``%2B``.
    """

    link: Link
    page: str
    head: Exchange
    whole: Exchange
    end: Exchange | None = None
    start: Exchange | None = None
    side_car: Exchange | None = None
    raw: Exchange | None = None
