"""What of this machine a sandbox without image sees, and why; ``host_view.json`` has the list."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from wheelsmith.base.facts import read_facts
from wheelsmith.base.json_dataclass import Record


@dataclass(frozen=True, slots=True, kw_only=True)
class PathRule(Record):
    """A file or folder, as a pattern, and why it is shown or hidden."""

    path: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HostView(Record):
    """What is shown, and what of that is hidden again.

    :param development: what is hidden besides where compilers are brought along.
    :param python: below where a Python is installed outside of ``/usr``; ``{version}`` stands for ``3.11``.
    :param python_hidden: likewise.
    """

    source: str
    date: str
    shown: tuple[PathRule, ...]
    hidden: tuple[PathRule, ...]
    development: tuple[PathRule, ...]
    python: tuple[PathRule, ...]
    python_hidden: tuple[PathRule, ...]


@cache
def host_view() -> HostView:
    """Return what sandboxes without image see of this machine."""
    return HostView.from_json(read_facts(__package__, "host_view.json"))
