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

_PAGE = ROOT / "docs" / "reference" / "real-wheels.md"
_HEAD = """\
<!-- Written by bench/real_wheels report; do not edit. -->

# What a check finds in wheels that people install

{count} wheels as published on PyPI, chosen on {read} for their variety, each pinned by its sha256 in
[bench/real_wheels.json](../../bench/real_wheels.json), and what `wheelsmith check` says of them. These are good
projects, and nearly all of these wheels work for nearly everybody who installs them; several of what is listed is
deliberate. A finding is a fact about one file on one day, not a judgement of the people who made it. Beside each
stands another tool's answer about the same file, and whether it matters in practice. If one is wrong or no longer so,
we want to know.

- **Findings**: where a name, a tag, a library or a requirement says one thing and the file another. Each has another
  tool's answer beside it. What check says and none of the findings covers would be a mistake of ours: {mistakes}.
- **CPU, memory**: of `wheelsmith check`, user and system time, and the most that one process held.
- What [a check](checks.md) proves is all there is here: that the code computes the right thing is not among it.

## The wheels

| wheel | published | size | findings | CPU | memory |
| --- | --- | --- | --- | --- | --- |
"""
_FOOT = """\
## How this was done

{processor}, {cores} cores, Linux {kernel}, Python {python}, beside other work. Measured {date} at {commit}, some of the
largest up to a few dozen commits earlier. The other tools:
{tools}, GNU binutils and unzip. Every figure: [real_wheels_results.json](../../bench/real_wheels_results.json).

```console
$ bench/real_wheels FOLDER    # fetches 4.2 GB; exits with 1 where check and bench/real_wheels.json differ
$ bench/real_wheels report
```
"""


def write_page() -> None:
    """Write docs/reference/real-wheels.md from the figures."""
    atomic_write(_PAGE, page(_figures()).encode())
    print(f"wrote {_PAGE.relative_to(ROOT)}")


def disagreements() -> list[str]:
    """Return the messages of check without a known fact, and the known facts that check missed."""
    figures, found = _figures()["figures"], []
    for wheel in read_real_wheels().wheels:
        name = wheel.pin.filename
        if f"{name}/check" not in figures:
            continue
        said = figures[f"{name}/check"]["complaints"]
        found += [f"not known: {name}: {sentence}" for sentence in said if not wheel.fact_behind(sentence)]
        found += [f"not found: {name}: {f.fact}" for f in wheel.facts if f.says and f not in _stated(wheel, said)]
    return found


def _stated(wheel: RealWheel, complaints: list[str]) -> set[Fact | None]:
    return {wheel.fact_behind(sentence) for sentence in complaints}


def page(measured: dict[str, Any]) -> str:
    """Return the page, as Markdown."""
    known, figures, settings = read_real_wheels(), measured["figures"], measured["settings"]
    wheels = sorted(known.wheels, key=lambda wheel: wheel.pin.project)
    mistakes = sum(line.startswith("not known") for line in disagreements())
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
        raise WheelsmithError(f"{FIGURES} holds nothing to report", remedy="run bench/real_wheels FOLDER first")
    measured: dict[str, Any] = found["real"]
    return measured


def _row(wheel: RealWheel, figures: dict[str, Any]) -> str:
    count = len(_stated(wheel, figures["complaints"]) - {None})
    name = f"[{_title(wheel)}](#{_anchor(wheel)})" if wheel.facts else _title(wheel)
    return (
        f"| {name}, {wheel.holds} | {wheel.published} | {size(wheel.pin.size)} | {count or 'none'} "
        f"| {figures['cpu']:.1f} s | {size(figures['peak_memory'])} |"
    )


def _section(wheel: RealWheel, figures: dict[str, Any]) -> Iterator[str]:
    lines = figures[f"{wheel.pin.filename}/others"]["lines"]
    stated = _stated(wheel, figures[f"{wheel.pin.filename}/check"]["complaints"])
    yield f"## {_title(wheel)}\n"
    yield f"`{wheel.pin.filename}`, published {wheel.published}, sha256 `{wheel.pin.sha256}`.\n"
    yield "| finding | evidence | in practice |\n| --- | --- | --- |"
    for fact, line in zip(wheel.facts, lines, strict=True):
        by_hand = "" if fact in stated else " (found by reading, not by `wheelsmith check`)"
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
