"""The plan that a wheel records: what it says there is a claim, which building it again proves."""

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

_LONGEST = 16 << 20  # bytes: of flash-attn2's 72 sources it is one megabyte
# What makes objects of a text of JSON, and how many of these there may be: a hundred bytes each.
_PARTS, _MOST_PARTS = (b",", b":", b"[", b"{"), 1_000_000
_DEEPEST = 32
_HEAD, _LONGEST_HEAD = ("source", "toolset", "wheel"), 64 << 10
_MOST_NAMED = 8  # differences
_LONGEST_VALUE = 80  # characters


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPlan(Record):
    """What a wheel says of how it was made.

    :param digest: the sha256 of the file, which is the plan's digest.
    :param data: what the file holds; a stranger may have written it.
    """

    digest: str
    data: dict[str, Any]

    @property
    def head(self) -> RecordedPlan:
        """Return what names its source, its wheel and its compilers, and nothing else: of that many can be held."""
        return replace(self, data={name: self.data.get(name) for name in _HEAD})

    @property
    def tree(self) -> str:
        """Return the digest of the source's files."""
        return str(self.data["source"]["tree"])


def plan_of(wheel: Path) -> RecordedPlan | None:
    """Return the plan that a wheel records; None where it records none.

    :raises WheelError: it cannot be read.
    """
    with open_archive(wheel) as archive:
        return read_recorded_plan(archive, info_folder(archive))


def read_recorded_plan(archive: Archive, info: str) -> RecordedPlan | None:
    """Return the plan that a wheel records; None where it records none.

    :param info: the name of its ``.dist-info`` folder.
    :raises WheelError: it cannot be read, or is written otherwise than plans are.
    """
    name = f"{info}/{RECORDED_PLAN}"
    if name not in archive.members:
        return None
    text = archive.read(name, _LONGEST)
    try:
        return RecordedPlan(digest=hashlib.sha256(text).hexdigest(), data=_data(text))
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise WheelError(f"{name} cannot be read: {str(error)[:200]}") from None


def _data(text: bytes) -> dict[str, Any]:
    if sum(map(text.count, _PARTS)) > _MOST_PARTS:
        raise ValueError("it says more than plans do")
    data: dict[str, Any] = read_json(text)
    _check_depth(data)
    if canonical_json(data) != text or len(canonical_json([data.get(name) for name in _HEAD])) > _LONGEST_HEAD:
        raise ValueError("it is not written as plans are")
    named = data["source"]["tree"], data["wheel"]["distribution"], data["wheel"]["version"]
    if not all(isinstance(each, str) for each in named):
        raise ValueError("it does not name the wheel and its source")
    return data


def _check_depth(data: Any) -> None:
    """Refuse what is nested deeper than any plan: whoever goes through it later need not be on their guard."""
    level = [data]
    for _ in range(_DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, (dict, list))
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError(f"it is nested deeper than {_DEEPEST} levels")


def plan_differences(
    recorded: Any, planned: Any, place: str = "", *, said: tuple[str, str] = ("the wheel says", "the plan is")
) -> list[str]:
    """Return what a recorded plan says otherwise than the one that was made now, by field.

    :param place: of what is compared, in words of the file.
    :param said: what stands before the value of each of the two.
    """
    if isinstance(recorded, dict) and isinstance(planned, dict):
        found: list[str] = []
        for name in sorted(recorded.keys() | planned.keys(), key=str):
            inside = f"{place}.{_shown_name(name)}".removeprefix(".")
            found += plan_differences(recorded.get(name), planned.get(name), inside, said=said)
            if len(found) >= _MOST_NAMED:
                break
        return found
    if isinstance(recorded, list) and isinstance(planned, list) and len(recorded) == len(planned):
        pairs = enumerate(zip(recorded, planned, strict=True))
        found = [text for at, (one, two) in pairs for text in plan_differences(one, two, f"{place}[{at}]", said=said)]
        return found[:_MOST_NAMED]
    if recorded == planned and type(recorded) is type(planned):
        return []
    return [f"{place}: {said[0]} {_shown(recorded)}, {said[1]} {_shown(planned)}"]


def _shown_name(name: str) -> str:
    """Return a key: those of plans are short, and of letters."""
    return name if len(name) <= _LONGEST_VALUE and name.isprintable() else _shown(name)


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"
