"""The summaries of a run that CI systems show: as Markdown, and as JUnit's XML."""

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import plans
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from wheelsmith.base.errors import OutputError
from wheelsmith.model import BuildResult, Cell, Excluded, Failure, RunFinished, SourceId, Status, Timing, WheelRecord
from wheelsmith.pipeline.failures import failure_of
from wheelsmith.report.junit import junit_report
from wheelsmith.report.markdown import markdown_summary
from wheelsmith.report.page import report_page
from wheelsmith.report.timeline import Bar, Timeline

NASTY = "**b** ![i](https://example.org/i) <b>x</b> `c` | & @all $x$ </pre> ~s~ \\"
CELLS = [Cell(release=f"2.{minor}", toolkit="13.0", arch="x86_64") for minor in range(10, 14)]


def plan(cell, version=""):
    nothing = plans.plan(0)
    return replace(nothing, cell=cell, wheel=replace(nothing.wheel, version=version or cell.id))


PLANS = [plan(cell) for cell in CELLS]


def made(of, status=Status.BUILT, **fields):
    wheel = WheelRecord(
        filename=f"k-{of.cell.release}.whl", sha256="ab", size=7, metadata_sha256="", requires_python=None
    )
    return BuildResult(cell=of.cell, plan_digest=of.build_digest, status=status, wheel=wheel, **fields)


def failed(of, message="it ended with exit code 1", **fields):
    failure = Failure(stage="compile", message=message, **fields)
    return BuildResult(cell=of.cell, plan_digest=of.build_digest, status=Status.FAILED, failure=failure)


def record(planned, results, excluded=(), *, kernel="k", interrupted=False):
    return plans.planned_run(planned, excluded, kernel=kernel).record(results, interrupted=interrupted)


def summary(planned, results, excluded=(), *, interrupted=False):
    return markdown_summary(record(planned, results, excluded, kernel=f"k {NASTY}", interrupted=interrupted), 61)


LEFT_OUT = Excluded(cell=CELLS[3], reason=NASTY)


@pytest.mark.parametrize("kernel", ["- x", "1. x", "# x", "=== x", "a\n---"])
def test_what_a_kernel_is_called_opens_nothing(kernel):
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(markdown_summary(record([], [], kernel=kernel), 1))
    assert [token.type for token in tokens if token.nesting == 1][:3] == [
        "heading_open",
        "paragraph_open",
        "table_open",
    ]


@pytest.mark.parametrize(
    ("planned", "results", "count"),
    [
        (PLANS, [made(each) for each in PLANS], "4 of 4 combinations have a wheel"),
        (PLANS, [*(made(each) for each in PLANS[:3]), failed(PLANS[3])], "3 of 4 combinations have a wheel: 1 failed"),
        (PLANS, [made(PLANS[0]), failed(PLANS[1])], "1 of 4 combinations have a wheel: 1 failed, 2 not built"),
        ([], [], "No combination has a wheel: 1 excluded, none built"),
    ],
)
def test_the_first_line_is_the_count(planned, results, count):
    left_out = replace(LEFT_OUT, cell=replace(LEFT_OUT.cell, arch="aarch64"))
    first, *others = summary(planned, results, [left_out], interrupted=True).splitlines()
    assert first == f"### {count}"
    assert "Interrupted after 1m 1s" in "".join(others)


def test_the_reason_of_a_failure_stands_before_the_table_and_once_for_cells_of_one_wheel():
    first, second = plan(CELLS[0], "1"), plan(CELLS[1], "1")
    tail = ("k.cu(4): error: no such thing", "", "1 error")
    results = [failed(each, tail=tail, remedy="build it alone") for each in (first, second)]
    text = summary([first, second], results)
    reason, table = text.split("| combination |")
    assert reason.count("exit code 1") == 1
    assert "and 1 combination with the same wheel" in reason
    assert "help: build it alone" in reason
    assert "k.cu(4): error: no such thing" in reason
    assert table.count("| failed | compile |") == 2


def test_every_cell_has_a_row_of_its_own_with_its_time():
    timings = (Timing(stage="compile", seconds=75.0),)
    results = [made(PLANS[0], timings=timings), made(PLANS[1], Status.CACHED, built_in=timings), failed(PLANS[2])]
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(summary(PLANS, results, [LEFT_OUT]))
    texts = [token.content for token in tokens if token.type == "inline"][-25:]
    rows = {row[0].strip("`"): row[1:] for row in zip(*[iter(texts)] * 5, strict=True)}
    assert rows[CELLS[0].id] == ("built", "`k-2.10.whl`", "7 B", "1m 15s")
    assert rows[CELLS[1].id] == ("cached", "`k-2.11.whl`", "7 B", "1m 15s when built")
    assert rows[CELLS[2].id] == ("failed", "compile", "", "")
    assert rows[CELLS[3].id][0] == "excluded"


def test_what_a_build_says_stays_text():
    results = [failed(PLANS[0], NASTY, tail=(NASTY, "", "a\n\n# b\n\n[c](d)", "</pre><img src=x>"), remedy=NASTY)]
    text = summary(PLANS[:1], results, [LEFT_OUT])
    tokens = MarkdownIt("gfm-like", {"linkify": False}).parse(text)
    inline = [child for token in tokens if token.type == "inline" for child in token.children]
    assert {child.type for child in inline} <= {"text", "code_inline", "strong_open", "strong_close", "softbreak"} | {
        "html_inline"
    }
    assert {child.content for child in inline if child.type == "html_inline"} == {"<br>"}
    shown = ["".join(child.content for child in token.children) for token in tokens if token.type == "inline"]
    assert sum(NASTY in line for line in shown) == 3
    (block,) = [token.content for token in tokens if token.type == "html_block"]
    assert block.count("<") == 2
    assert "&lt;img src=x&gt;" in block


@pytest.mark.parametrize(("letter", "lines"), [("*", 30), ("é", 100)])
def test_it_stays_below_what_is_shown(letter, lines):
    cells = [Cell(release=f"2.{number}", toolkit="13.0", arch="x86_64") for number in range(2000)]
    results = [failed(plan(cell), letter * 10_000, tail=(letter * 10_000,) * lines) for cell in cells]
    text = summary([plan(cell) for cell in cells], results)
    assert len(text.encode()) < 2**20
    assert 0 < text.count("<pre>") <= 10
    assert text.splitlines()[-1] == "| and 1000 more | | | | |"


# As JUnit's XML


def junit(results, excluded=(), kernel="k"):
    return ET.fromstring(junit_report(record(PLANS[:3], results, excluded, kernel=kernel), 61))


def test_every_cell_is_a_case():
    timings = (Timing(stage="compile", seconds=1.5), Timing(stage="check", seconds=0.25))
    suite = junit([made(PLANS[0], timings=timings), failed(PLANS[1], tail=("k.cu(4)", "1 error"))], [LEFT_OUT])
    assert suite.attrib == {"name": "k", "time": "61.000", "tests": "4", "failures": "1", "skipped": "2"}
    good, bad, missing, left_out = suite
    assert [case.get("name") for case in suite] == [cell.id for cell in CELLS]
    assert ([*good], good.get("time")) == ([], "1.750")
    (failure,) = bad
    assert failure.attrib == {"type": "compile", "message": "compile: it ended with exit code 1"}
    assert failure.text == "k.cu(4)\n1 error"
    assert [(each.tag, each.get("message")) for each in missing] == [("skipped", "the run ended before it was built")]
    assert [(each.tag, each.get("message")) for each in left_out] == [("skipped", NASTY)]


def test_of_a_long_log_the_end_is_kept():
    (failure,) = junit([failed(PLANS[0], "é" * 100_000, tail=("é" * 90_000, "the end"), remedy="again")])[0]
    assert (failure.text.startswith("help: again\n"), failure.text.endswith("é\nthe end")) == (True, True)
    assert len(failure.text) + len(failure.get("message")) < 30_000


@pytest.mark.parametrize("letter", ["k", "&", "é"])
def test_no_report_grows_with_a_name_or_a_reason(letter):
    """A kernel may have any name, and hundreds of cells."""
    text = letter * 100_000
    cells = [Cell(release=f"2.{number}", toolkit="13.0", arch="x86_64") for number in range(600)]
    failures = [failure_of(OutputError(text, remedy=text), "build")[0]] * 200
    plans_ = [
        replace(plan(cell), source=SourceId(origin="path", revision=None, commit=None, tree="t")) for cell in cells
    ]
    results = tuple(
        BuildResult(cell=each.cell, plan_digest=each.build_digest, status=Status.FAILED, failure=failure)
        for each, failure in zip(plans_, failures)  # noqa: B905  # some fail, some are not reached
    )
    told = record(plans_[:400], results, [Excluded(cell=cell, reason=text) for cell in cells[400:]], kernel=text)
    finished = RunFinished(results=results, excluded=(), interrupted=False, seconds=61)
    bars = tuple(Bar(row="core 1", kind="cicc", start=n, end=n + 1, text=text) for n in range(60))
    timeline = Timeline(seconds=61, stages=(), steps=bars)
    sizes = {
        "junit.xml": len(junit_report(told, 61)),
        "summary.md": len(markdown_summary(told, 61).encode()),
        "results.json": len(json.dumps(told.to_json())),
        "report.html": len(report_page(told, "bwrap", finished, timeline)),
    }
    assert {name: size for name, size in sizes.items() if size > 10_000_000} == {}


def test_of_many_long_logs_less_is_kept():
    cells = [Cell(release=f"2.{number}", toolkit="13.0", arch="x86_64") for number in range(900)]
    results = [failed(plan(cell), tail=("&" * 4000,) * 30) for cell in cells]
    assert len(junit_report(record([plan(cell) for cell in cells], results), 61)) < 12_000_000


@given(st.text(st.characters(blacklist_categories=())))
def test_whatever_a_build_says_is_xml(text):
    suite = junit([failed(PLANS[0], text, tail=(text,), remedy=text)], kernel=text)
    assert len(suite) == 3
    shown = "".join(letter if letter.isprintable() else "" for letter in text)
    read = "".join(letter for letter in suite[0][0].get("message") if letter.isprintable() and letter != "\ufffd")
    assert read == f"compile: {shown}".replace("\ufffd", "")
