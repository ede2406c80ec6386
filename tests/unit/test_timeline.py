"""The bars of a build report."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from wheelsmith.model import BuildResult, Cell, Status
from wheelsmith.model.events import CellFinished, CellStage, RunFinished, RunStarted, StepFinished
from wheelsmith.report.timeline import TimelineRecorder

CELL = Cell(release="2.11", toolkit=None, arch="x86_64")


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def step(seconds, *, reused=False, name="a.cu: cicc 90"):
    return StepFinished(
        cell_id=CELL.id, step=name, kind="cicc", seconds=seconds, cpu=None, peak_memory=None, reused=reused
    )


def test_stages_follow_each_other_and_end_with_their_cell():
    clock = Clock()
    watch = TimelineRecorder(clock)
    for now, event in [
        (101, RunStarted(kernel="k", engine="bwrap", plans=(), excluded=(), folded={})),
        (102, CellStage(cell_id=CELL.id, stage="fetch")),
        (104, CellStage(cell_id=CELL.id, stage="compile")),
        (109, CellFinished(result=BuildResult(cell=CELL, plan_digest="", status=Status.BUILT))),
        (110, RunFinished(results=(), excluded=(), interrupted=False, seconds=9)),
    ]:
        clock.now = now
        watch(event)
    clock.now = 500
    timeline = watch.timeline()
    assert timeline.seconds == 9
    assert [(bar.kind, bar.start, bar.end) for bar in timeline.stages] == [("fetch", 1, 3), ("compile", 3, 8)]


def test_a_run_that_was_cut_short_ends_now():
    clock = Clock()
    watch = TimelineRecorder(clock)
    watch(CellStage(cell_id=CELL.id, stage="fetch"))
    clock.now = 107
    (bar,) = watch.timeline().stages
    assert (bar.start, bar.end, watch.timeline().seconds) == (0, 7, 7)


@given(st.lists(st.tuples(st.floats(1, 50), st.floats(0.1, 20)), max_size=30))
def test_steps_of_a_lane_never_overlap_and_no_lane_is_wasted(spans):
    clock = Clock()
    watch = TimelineRecorder(clock)
    for end, seconds in spans:
        clock.now = 100 + end
        watch(step(seconds))
    watch(step(5, reused=True))
    bars = watch.timeline().steps
    assert len(bars) == len(spans)
    lanes = {}
    for bar in bars:
        lanes.setdefault(bar.row, []).append(bar)
    for lane in lanes.values():
        assert all(one.end <= two.start for one, two in pairwise(sorted(lane, key=lambda bar: bar.start)))
    most = max((sum(a.start <= b.start < a.end for a in bars if a is not b) + 1 for b in bars), default=0)
    assert len(lanes) == most
