"""Write the results of bench/real_wheels as a page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.real_facts import Fact, RealWheel, read_real_wheels
from bench.real_programme import FIGURES
from bench.results import read_results
from bench.words import size
from bench.workshop import ROOT
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import atomic_write

_PAGE = ROOT / "bench" / "real_wheels.md"
_HEAD = """\
<!-- Written by bench/real_wheels report; do not edit. -->

# Findings in published wheels

This page shows the findings of `wheelsmith check` in {count} wheels on PyPI. They were chosen on {read} for their
variety and are pinned by hash in [real_wheels.json](real_wheels.json). These are good projects.
Nearly all of their wheels work for nearly all users, and several findings are deliberate choices. A finding is a fact
about one file on one day. It does not judge the authors. Each finding has evidence from another tool and a note about
its effect in practice. Please report a finding that is wrong or outdated.

- **Findings**: a name, tag, library or requirement contradicts the file, and another tool confirms this. Findings of
  check without such evidence would be mistakes of check: {mistakes}.
- **CPU, memory**: user and system time of `wheelsmith check`, and the peak memory of one process.
- [A check](../docs/reference/checks.md) does not prove that the code computes the right results.

## The wheels

| wheel | published | size | findings | CPU | memory |
| --- | --- | --- | --- | --- | --- |
"""
_FOOT = """\
## Method

{processor}, {cores} cores, Linux {kernel}, Python {python}, during other work. Measured {date} at {commit}; some of the
largest wheels up to a few dozen commits earlier. The other tools:
{tools}, GNU binutils and unzip. All figures: [real_wheels_results.json](real_wheels_results.json).

```console
$ bench/real_wheels FOLDER    # fetches 4.2 GB; exits with 1 if check and bench/real_wheels.json differ
$ bench/real_wheels report
```
"""


def write_page() -> None:
    """Write bench/real_wheels.md from the figures."""
    atomic_write(_PAGE, page(_figures()).encode())
    print(f"wrote {_PAGE.relative_to(ROOT)}")


def disagreements() -> list[str]:
    """Return the messages of check without a known fact, and the known facts that check missed."""
    figures, found = _figures()["figures"], []
    for wheel in read_real_wheels().wheels:
        name = wheel.pin.filename
        if f"{name}/check" not in figures:
            continue
        messages = figures[f"{name}/check"]["complaints"]
        found += [f"unknown finding: {name}: {sentence}" for sentence in messages if not wheel.fact_behind(sentence)]
        found += [
            f"missing finding: {name}: {f.fact}"
            for f in wheel.facts
            if f.says and f not in _confirmed_facts(wheel, messages)
        ]
    return found


def _confirmed_facts(wheel: RealWheel, complaints: list[str]) -> set[Fact | None]:
    return {wheel.fact_behind(sentence) for sentence in complaints}


def page(measured: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    known, figures, settings = read_real_wheels(), measured["figures"], measured["settings"]
    wheels = sorted(known.wheels, key=lambda wheel: wheel.pin.project)
    mistakes = sum(line.startswith("unknown finding") for line in disagreements())
    head = _HEAD.format(count=len(wheels), read=known.read, mistakes=mistakes or "none")
    rows = [_row(wheel, figures[f"{wheel.pin.filename}/check"]) for wheel in wheels]
    sections = [section for wheel in wheels if wheel.facts for section in _section(wheel, figures)]
    foot = _FOOT.format(
        **settings["machine"], date=measured["date"], commit=settings["commit"], tools=", ".join(known.tools)
    )
    return head + "".join(f"{row}\n" for row in rows) + "\n" + "\n".join(sections) + "\n" + foot


def _figures() -> dict[str, Any]:
    found = read_results(FIGURES)
    if not found or "real" not in found:
        raise WheelsmithError(f"{FIGURES} has no measurements", remedy="run bench/real_wheels FOLDER first")
    measured: dict[str, Any] = found["real"]
    return measured


def _row(wheel: RealWheel, figures: dict[str, Any]) -> str:
    count = len(_confirmed_facts(wheel, figures["complaints"]) - {None})
    name = f"[{_title(wheel)}](#{_anchor(wheel)})" if wheel.facts else _title(wheel)
    return (
        f"| {name}, {wheel.holds} | {wheel.published} | {size(wheel.pin.size)} | {count or 'none'} "
        f"| {figures['cpu']:.1f} s | {size(figures['peak_memory'])} |"
    )


def _section(wheel: RealWheel, figures: dict[str, Any]) -> Iterator[str]:
    lines = figures[f"{wheel.pin.filename}/others"]["lines"]
    stated = _confirmed_facts(wheel, figures[f"{wheel.pin.filename}/check"]["complaints"])
    yield f"## {_title(wheel)}\n"
    yield f"`{wheel.pin.filename}`, published {wheel.published}, sha256 `{wheel.pin.sha256}`.\n"
    yield "| finding | evidence | in practice |\n| --- | --- | --- |"
    for fact, line in zip(wheel.facts, lines, strict=True):
        by_hand = "" if fact in stated else " (found manually, not by `wheelsmith check`)"
        yield f"| {fact.fact}{by_hand} | `{_code(fact.command)}`: `{_code(line)}` | {fact.practice} |"
    yield ""


def _title(wheel: RealWheel) -> str:
    arch = " (aarch64)" if "aarch64" in wheel.pin.filename else ""
    return f"{wheel.pin.project} {wheel.pin.version}{arch}"


def _anchor(wheel: RealWheel) -> str:
    kept = (letter for letter in _title(wheel).lower() if letter.isalnum() or letter in " -_")
    return "".join(kept).replace(" ", "-")


def _code(text: str) -> str:
    return text.replace("{wheel}", "WHEEL").replace("|", "\\|")
