"""The live view as a picture: what a terminal of each size shows of a run."""

import io
from dataclasses import replace
from types import SimpleNamespace

import pytest
from plans import plan
from rich.console import Console

from wheelsmith.model import BuildResult, Cell, Failure, Status, Timing
from wheelsmith.model.events import (
    CellFinished,
    CellLine,
    CellProgress,
    CellStage,
    CellStarted,
    CommandStarted,
    Load,
    RunStarted,
    StepFinished,
)
from wheelsmith.report.live import LiveReporter, RunningCell, RunProgress, rows, shorten_start, status_line
from wheelsmith.report.reporters import JsonReporter
from wheelsmith.report.style import print_words
from wheelsmith.run.schedule import BuildCosts
from wheelsmith.store import Costs

OTHER = BuildResult(
    cell=Cell(release="2.11", toolkit=None, arch="x86_64"),
    plan_digest="",
    status=Status.BUILT,
    timings=(Timing(stage="compile", seconds=4.0), Timing(stage="check", seconds=1.5)),
)
LOAD = Load(cores=3, all_cores=4, memory=5 * 2**29, all_memory=8 * 2**30)


def cell(number, *, done=0, total=0, line=""):
    name = f"torch2{number}-cxx11-cu130-aarch64-linux"
    found = RunningCell(start=0.0)
    found.update(CellStage(cell_id=name, stage="compile"))
    if total:
        found.update(CellProgress(cell_id=name, done=done, total=total, step="csrc/add.cu: cicc 90"))
    if line:
        found.update(CellLine(cell_id=name, line=line))
    return name, found


def picture(running, width, height, room):
    console = Console(file=io.StringIO(), width=width, height=height, legacy_windows=False)
    for part in rows(running, 63.0, console, room):
        console.print(part)
    return console.file.getvalue().splitlines()


def test_a_row_has_columns_that_stay_where_they_are():
    running = dict([cell(10, done=7, total=96), cell(9, line="x" * 300), cell(11, done=12, total=12)])
    lines = picture(running, 100, 24, 10)
    assert len(lines) == 3
    assert {line.index("compile") for line in lines} == {lines[0].index("compile")}
    assert {line.index("1m 3s") for line in lines} == {lines[0].index("1m 3s")}
    assert "7/96" in lines[0]
    assert "cicc 90" in lines[0]


@pytest.mark.parametrize("width", [46, 76, 200])
@pytest.mark.parametrize("room", [1, 3, 30])
def test_no_terminal_is_too_small(width, room):
    running = dict(cell(number, done=7, total=96, line="y" * 500) for number in range(10, 18))
    lines = picture(running, width, room + 2, room)
    assert all(len(line) <= width for line in lines)
    assert len(lines) == min(room, 8) + (room < 8)
    assert (f"and {8 - room} more running" in lines[-1][:width]) == (room < 8)
    assert "7/96" in lines[0]


def test_the_whole_is_told_in_a_line():
    running = dict([cell(10, done=6, total=10)])
    (name, found) = next(iter(running.items()))
    computes = {name: "cu130", "waiting": "cu130", OTHER.cell.id: "cpu"}
    whole = RunProgress(start=3.0, cells=3, load=LOAD, computes=computes)
    whole.finish(OTHER, cell(12, done=9, total=10)[1])
    told = "1 of 3 combinations · 16 of 20+ steps · 1m elapsed"
    load = "3 of 4 cores · 2.5 GiB of 8 GiB"
    assert whole.costs == {OTHER.cell.id: 5.5}
    # Two fifths of one and all of another, on four cores; it counts down from the last event.
    whole.costs |= {name: 100.0, "waiting": 40.0}
    whole.estimated = 61.0
    assert status_line(whole, running, 63.0, 200) == f"{told} · about 18s left · {load}"
    assert status_line(whole, running, 63.0, 80) == f"{told} · about 18s left"
    assert status_line(whole, running, 99.0, 200).split(" · ")[3] == "about 10s left"
    # The steps that remain are longer than the others.
    found.update(StepFinished(cell_id=name, step="", kind="", seconds=30.0, cpu=None, peak_memory=None, reused=False))
    assert whole.remaining_seconds(running, 61.0) == (70 + 40) / 4
    # A build without a known cost costs as much as others for its compute platform.
    del whole.costs["waiting"]
    assert whole.remaining_seconds(running, 61.0) == (70 + 100) / 4
    found.update(StepFinished(cell_id=name, step="", kind="", seconds=99.0, cpu=None, peak_memory=None, reused=False))
    assert whole.remaining_seconds(running, 61.0) == (40 + 100) / 4
    assert RunProgress(start=3.0, load=LOAD, computes=computes).remaining_seconds(running, 61.0) is None


def test_the_number_of_steps_never_decreases():
    name, found = cell(10, done=38, total=39)
    seen = []
    for event in (
        CellProgress(cell_id=name, done=37, total=39, step="late"),
        CellStage(cell_id=name, stage="build"),
        CellProgress(cell_id=name, done=1, total=6, step="link"),
        CellProgress(cell_id=name, done=1, total=2, step="link"),
    ):
        found.update(event)
        seen.append((found.done, found.total))
    assert seen == [(38, 39), (39, 39), (40, 45), (40, 45)]


@pytest.mark.parametrize(
    ("width", "text"),
    [
        (40, "torch-ext/csrc/binding.cpp: cicc 90"),
        (30, "…/binding.cpp: cicc 90"),
        (12, "…pp: cicc 90"),
    ],
)
def test_a_step_keeps_the_end_of_its_file_name(width, text):
    assert shorten_start("torch-ext/csrc/binding.cpp: cicc 90", width) == text
    found = RunningCell(start=0.0)
    found.update(CellProgress(cell_id="", done=1, total=2, step="torch-ext/csrc/binding.cpp: cicc 90"))
    assert found.text(width) == text


def test_lines_are_wrapped_between_words():
    console = Console(file=io.StringIO(), width=20, highlight=False)
    print_words(console, "  a wheel: averylongname-1.0-py3-none-any.whl and more")
    print_words(console, "pip install it --index-url http://h/", ending=" \\")
    assert console.file.getvalue().splitlines() == [
        "  a wheel:",
        "averylongname-1.0-py3-none-any.whl",
        "    and more",
        "pip install it \\",
        "  --index-url \\",
        "  http://h/",
    ]


class Planned:
    """What of a plan says whose cost it is."""

    cell = Cell(release="2.11", toolkit="13.0", arch="x86_64")
    wheel = SimpleNamespace(distribution="k")


def finish(costs, seconds, *, reused):
    name = Planned.cell.id
    for number, each in enumerate(seconds):
        costs(
            StepFinished(
                cell_id=name, step=f"{number}", kind="cicc", seconds=each, cpu=None, peak_memory=None, reused=reused
            )
        )
    timings = (Timing(stage="compile", seconds=4.0), Timing(stage="check", seconds=1.5))
    costs(CellFinished(result=BuildResult(cell=Planned.cell, plan_digest="", status=Status.BUILT, timings=timings)))


def test_what_a_build_costs_is_remembered(tmp_path):
    kept = Costs(tmp_path / "costs.sqlite")
    costs = BuildCosts(kept, [Planned()])
    assert costs.known() == {}
    finish(costs, [3.0, 2.0], reused=False)
    assert costs.known() == {Planned.cell.id: 6.5}
    kept.save()
    cheaper = BuildCosts(Costs(tmp_path / "costs.sqlite"), [Planned()])
    finish(cheaper, [0.0, 1.0], reused=True)
    assert cheaper.known() == {Planned.cell.id: 6.5}


def test_events_as_json_leave_out_the_commands(capsys):
    JsonReporter()(CommandStarted(cell_id="a", command="x"))
    JsonReporter()(CellStarted(cell_id="a"))
    assert capsys.readouterr().out == '{"event": "CellStarted", "cell_id": "a"}\n'


def test_a_finished_kernel_of_a_set_is_one_line(tmp_path):
    """Its cells have none, unless they failed."""
    console = Console(file=io.StringIO(), width=100)
    reporter = LiveReporter(console, tmp_path)
    cells = [replace(plan(number).cell, kernel=kernel) for number, kernel in ((1, "relu"), (2, "relu"), (3, "gelu"))]
    plans = tuple(plan(1).of_cell(cell) for cell in cells)
    reporter(RunStarted(kernel="2 kernels", engine="bwrap", plans=plans, excluded=(), folded={}))
    failure = Failure(stage="compile", message="nvcc failed")
    for cell, status in zip(cells, (Status.FOLDED, Status.BUILT, Status.FAILED), strict=True):
        result = BuildResult(cell=cell, plan_digest="", status=status, failure=failure if cell is cells[2] else None)
        reporter(CellFinished(result=result))
    _, *lines = console.file.getvalue().splitlines()
    assert [" ".join(line.split()) for line in lines] == [
        "✓ relu 1 folded, 1 built",
        f"✗ {cells[2].id} failed: compile",
        "✗ gelu 1 failed",
    ]
