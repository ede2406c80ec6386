"""JUnit reports: a test case for each cell, which CI systems display.

The format is the one that GitLab reads: https://docs.gitlab.com/ci/testing/unit_test_reports/.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree as ET

from wheelsmith.model import Failure
from wheelsmith.model.run_record import CellRecord, RunRecord

# Characters of a name, a message, the end of a log, and all logs. GitLab reads at most 10 MB of a job's reports.
_MAX_NAME, _MAX_TEXT, _MAX_LOG, _MAX_LOGS = 200, 2_000, 20_000, 2_000_000
# Characters that XML does not allow, even escaped: https://www.w3.org/TR/xml/#charsets.
_INVALID = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit_report(record: RunRecord, seconds: float) -> bytes:
    """Return the JUnit report of a run. A cell without a wheel counts as failed, or as skipped if it was not built.

    :param seconds: the duration of the run.
    """
    kernel = _text(record.kernel[:_MAX_NAME])
    log = min(_MAX_LOG, _MAX_LOGS // max(1, len(record.cells)))
    suite = ET.Element("testsuite", name=kernel, time=f"{seconds:.3f}")
    for name, cell in record.cells.items():
        took = sum(timing.seconds for timing in cell.result.timings) if cell.result else 0
        case = ET.SubElement(suite, "testcase", classname=kernel, name=name[:_MAX_NAME], time=f"{took:.3f}")
        case.extend(_problems(cell, log))
    for count, found in (("tests", "testcase"), ("failures", "*/failure"), ("skipped", "*/skipped")):
        suite.set(count, str(len(suite.findall(found))))
    ET.indent(suite)
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _problems(cell: CellRecord, log: int) -> Iterator[ET.Element]:
    """Yield the failure or skip element of a cell without a wheel, with so many characters of its log."""
    result = cell.result
    if cell.reason is not None:
        yield _skipped(cell.reason)
    elif result and result.failure:
        yield _failed(result.failure, log)
    elif not (result and result.wheel):
        yield _skipped("the run ended before it was built")


def _failed(failure: Failure, log: int) -> ET.Element:
    text = f"{failure.stage}: {failure.message}"[:_MAX_TEXT]
    found = ET.Element("failure", type=_text(failure.stage[:_MAX_NAME]), message=_text(text))
    remedy = f"help: {failure.remedy}\n"[:_MAX_TEXT] if failure.remedy else ""
    found.text = _text(remedy + "\n".join(failure.tail)[-log:])
    return found


def _skipped(why: str) -> ET.Element:
    return ET.Element("skipped", message=_text(why[:_MAX_TEXT]))


def _text(text: str) -> str:
    return _INVALID.sub("\N{REPLACEMENT CHARACTER}", text)
