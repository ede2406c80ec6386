"""A run as JUnit's XML, which CI systems show as tests: each cell is a case.

The form is what GitLab reads: https://docs.gitlab.com/ci/testing/unit_test_reports/.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from xml.etree import ElementTree as ET

from wheelsmith.model import BuildPlan, BuildResult, Failure, RunFinished

_LONGEST, _LONGEST_LOG = 2_000, 20_000  # characters of a message, and of the end of a log
_MOST_LOGS = 4_000_000  # characters; GitLab reads 10 MB of a job's reports
# What no XML may hold, however it is written: https://www.w3.org/TR/xml/#charsets.
_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(kernel: str, plans: Sequence[BuildPlan], finished: RunFinished) -> bytes:
    """Return a run as XML: a cell without a wheel has failed, or was skipped where nobody tried to build it.

    :param plans: of all cells that were asked for.
    """
    answered = {result.cell.id: result for result in finished.results}
    suite = ET.Element("testsuite", name=_text(kernel), time=f"{finished.seconds:.3f}")
    logs = _MOST_LOGS
    for plan in plans:
        logs -= _add_case(suite, kernel, plan.cell.id, answered.get(plan.cell.id), logs)
    for left_out in finished.excluded:
        _case(suite, kernel, left_out.cell.id, 0).append(_skipped(left_out.reason))
    for count, found in (("tests", "testcase"), ("failures", "*/failure"), ("skipped", "*/skipped")):
        suite.set(count, str(len(suite.findall(found))))
    ET.indent(suite)
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ET.Element, kernel: str, cell: str, result: BuildResult | None, logs: int) -> int:
    """Add a cell, and return how many characters of logs it took.

    :param logs: how many it may take.
    """
    case = _case(suite, kernel, cell, sum(timing.seconds for timing in result.timings) if result else 0)
    if result and result.failure:
        case.append(failed := _failed(result.failure, logs))
        return len(failed.text or "")
    if not (result and result.wheel):
        case.append(_skipped("the run ended before it was built"))
    return 0


def _case(suite: ET.Element, kernel: str, cell: str, seconds: float) -> ET.Element:
    return ET.SubElement(suite, "testcase", classname=_text(kernel), name=cell, time=f"{seconds:.3f}")


def _failed(failure: Failure, logs: int) -> ET.Element:
    words = f"{failure.stage}: {failure.message}"[:_LONGEST]
    found = ET.Element("failure", type=_text(failure.stage), message=_text(words))
    room = min(logs, _LONGEST_LOG)
    log = "\n".join(failure.tail)[-room:] if room > 0 else ""
    remedy = f"help: {failure.remedy[:_LONGEST]}" if failure.remedy else ""
    found.text = _text("\n".join(text for text in (remedy, log) if text))
    return found


def _skipped(why: str) -> ET.Element:
    return ET.Element("skipped", message=_text(why[:_LONGEST]))


def _text(text: str) -> str:
    return _UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text)
