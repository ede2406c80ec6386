"""Read and compare the plan that a wheel records.

The plan is a claim of the wheel's maker. Only a rebuild of the wheel proves it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from wheelsmith.base.errors import WheelError
from wheelsmith.base.json_dataclass import Record, canonical_json, read_json
from wheelsmith.base.zip_archive import Archive
from wheelsmith.model import RECORDED_PLAN
from wheelsmith.wheel.archive import info_folder, open_archive

_MAX_SIZE = 16 << 20  # bytes; the plan of flash-attn2, with 72 sources, has one megabyte
_SHOWN = 8  # differences in one result
_MAX_VALUE = 80  # characters of a value in a message


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPlan(Record):
    """The plan in a wheel's ``.dist-info`` folder. It is untrusted.

    :param digest: sha256 of the file, which is the plan's digest.
    :param data: parsed content of the file.
    """

    digest: str
    data: dict[str, Any]

    @property
    def summary(self) -> RecordedPlan:
        """Return a copy without the large parts."""
        return replace(self, data={name: self.data.get(name) for name in ("source", "toolset", "wheel", "repacked")})

    @property
    def tree(self) -> str:
        """Return the digest of the source's files."""
        return str(self.data["source"]["tree"])


def read_plan(wheel: Path) -> RecordedPlan | None:
    """Return the plan that a wheel records, or None if it records none.

    :raises WheelError: it cannot be read.
    """
    with open_archive(wheel) as archive:
        return read_recorded_plan(archive, info_folder(archive))


def read_recorded_plan(archive: Archive, info: str) -> RecordedPlan | None:
    """Return the plan that a wheel records, or None if it records none.

    :param info: name of the ``.dist-info`` folder.
    :raises WheelError: it cannot be read, or is not canonical JSON.
    """
    name = f"{info}/{RECORDED_PLAN}"
    if name not in archive.members:
        return None
    text = archive.read(name, _MAX_SIZE)
    try:
        return RecordedPlan(digest=hashlib.sha256(text).hexdigest(), data=_parse(text))
    except (ValueError, TypeError, LookupError) as error:
        raise WheelError(f"{name} cannot be read: {str(error)[:200]}") from None


def _parse(text: bytes) -> dict[str, Any]:
    data: dict[str, Any] = read_json(text)
    if canonical_json(data) != text:
        raise ValueError("it is not canonical JSON")
    named = data["source"]["tree"], data["wheel"]["distribution"], data["wheel"]["version"]
    if not all(isinstance(each, str) for each in named):
        raise ValueError("it does not name the wheel and its source")
    return data


def plan_differences(
    recorded: Any, planned: Any, place: str = "", *, labels: tuple[str, str] = ("the wheel has", "the plan has")
) -> list[str]:
    """Return the differences between a recorded plan and a new one.

    :param place: path of the compared values in the plan.
    :param labels: the words that introduce the two values in a message.
    """
    pairs: list[tuple[str, Any, Any]]
    if isinstance(recorded, dict) and isinstance(planned, dict):
        names = sorted(recorded.keys() | planned.keys())
        pairs = [(f".{_shorten(name)}", recorded.get(name), planned.get(name)) for name in names]
    elif isinstance(recorded, list) and isinstance(planned, list) and len(recorded) == len(planned):
        pairs = [(f"[{at}]", one, other) for at, (one, other) in enumerate(zip(recorded, planned, strict=True))]
    elif recorded == planned and type(recorded) is type(planned):
        return []
    else:
        return [f"{place}: {labels[0]} {_shorten(json.dumps(recorded))}, {labels[1]} {_shorten(json.dumps(planned))}"]
    found: list[str] = []
    for inside, one, other in pairs:
        found += plan_differences(one, other, f"{place}{inside}".removeprefix("."), labels=labels)
    return found[:_SHOWN]


def _shorten(text: str) -> str:
    plain = text if text.isprintable() else json.dumps(text)
    return plain if len(plain) <= _MAX_VALUE else f"{plain[:_MAX_VALUE]}…"
