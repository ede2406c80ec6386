"""A run as JUnit's XML, which CI systems show as tests: each cell is a case.

The form is what GitLab reads: https://docs.gitlab.com/ci/testing/unit_test_reports/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from wheelsmith.model import BuildPlan, BuildResult, Failure, RunFinished

_LONGEST, _LONGEST_LOG = 2_000, 20_000  # characters of a message, and of the end of a log
_MOST = 6_000_000  # bytes, after which each cell is told with a few words alone; GitLab reads 10 MB of a job's reports
_BRIEF = 100  # characters of a message then
# What no XML may hold, however it is written: https://www.w3.org/TR/xml/#charsets.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(kernel: str, plans: Sequence[BuildPlan], finished: RunFinished) -> bytes:
    """Return a run as XML: a cell without a wheel has failed, or was skipped where nobody tried to build it.

    :param plans: of all cells that were asked for.
    """
    answered = {result.cell.id: result for result in finished.results}
    suite = ET.Element("testsuite", name=_text(kernel), time=f"{finished.seconds:.3f}")
    size = 0
    for plan in plans:
        longest, log = (_LONGEST, _LONGEST_LOG) if size < _MOST else (_BRIEF, 0)
        case = _add_case(suite, kernel, plan.cell.id, answered.get(plan.cell.id), (longest, log))
        size += len(ET.tostring(case, encoding="utf-8"))
    for left_out in finished.excluded:
        skipped = _skipped(left_out.reason[: _LONGEST if size < _MOST else _BRIEF])
        _case(suite, kernel, left_out.cell.id, 0).append(skipped)
        size += len(ET.tostring(skipped, encoding="utf-8"))
    for count, found in (("tests", "testcase"), ("failures", "*/failure"), ("skipped", "*/skipped")):
        suite.set(count, str(len(suite.findall(found))))
    ET.indent(suite)
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(
    suite: ET.Element, kernel: str, cell: str, result: BuildResult | None, longest: tuple[int, int]
) -> ET.Element:
    """Add a cell.

    :param longest: how many characters of a message, and of a log, it may tell.
    """
    case = _case(suite, kernel, cell, sum(timing.seconds for timing in result.timings) if result else 0)
    if result and result.failure:
        case.append(_failed(result.failure, *longest))
    elif not (result and result.wheel):
        case.append(_skipped("the run ended before it was built"))
    return case


def _case(suite: ET.Element, kernel: str, cell: str, seconds: float) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_text(kernel), name=cell, time=f"{seconds:.3f}")


def _failed(failure: Failure, longest: int, longest_log: int) -> ET.Element:
    words = f"{failure.stage}: {failure.message}"[:longest]
    found = ET.Element("failure", type=_text(failure.stage[:longest]), message=_text(words))
    remedy = f"help: {failure.remedy[:longest]}" if failure.remedy else ""
    log = "\n".join(failure.tail)
    found.text = _text("\n".join(text for text in (remedy, log[max(len(log) - longest_log, 0) :]) if text))
    return found


def _skipped(why: str) -> ET.Element:
    return ET.Element("skipped", message=_text(why[:_LONGEST]))


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
