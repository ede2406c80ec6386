"""The page that a run leaves."""

from dataclasses import replace

from plans import plan, planned_run

from wheelsmith.model import BuildResult, Cell, Excluded, Failure, SourceId, Status, WheelRecord
from wheelsmith.model.events import RunFinished
from wheelsmith.report.page import report_page
from wheelsmith.report.timeline import Bar, Timeline

NASTY = "</script><script>alert(1)</script>&\"'<b>"
BUILT, FAILED, LEFT_OUT = (Cell(release=torch, toolkit="13.0", arch="x86_64") for torch in ("2.11", "2.12", "2.13"))


def planned():
    """Return a plan that nothing is built by."""
    return replace(plan(0), cell=BUILT)


def page(plans=(), results=(), excluded=(), **timeline):
    record = planned_run(plans, excluded, kernel=f"k {NASTY}").record(results, interrupted=False)
    finished = RunFinished(results=results, excluded=excluded, interrupted=False, seconds=61, compiled=3, reused=9)
    timeline = Timeline(**{"seconds": 61, "stages": (), "steps": (), **timeline})
    return report_page(record, "bwrap", finished, timeline).decode()


def test_it_says_what_became_of_the_run_and_escapes_all_that_it_is_told():
    failure = Failure(stage="compile", message=NASTY, remedy=NASTY, tail=(NASTY,))
    plan = replace(planned(), cell=FAILED)
    text = page(
        plans=(plan,),
        results=(BuildResult(cell=FAILED, plan_digest="", status=Status.FAILED, failure=failure, log="x.log"),),
        excluded=(Excluded(cell=LEFT_OUT, reason=NASTY),),
        steps=(Bar(row="0", kind=NASTY, start=1, end=3, text=NASTY),),
    )
    assert "alert(1)</script>" not in text
    assert "1 failed" in text
    assert "1 excluded" in text
    assert "1m 1s" in text
    assert "9 of 12 compiler phases" in text
    assert 'href="logs/x.log"' in text


def cell_plan(cell, version):
    return replace(planned(), cell=cell, wheel=replace(planned().wheel, version=version, release=cell.release))


def done(plan, status, **fields):
    wheel = WheelRecord(
        filename="k-1+cu130-py3-none-any.whl", sha256="ab" * 32, size=7, metadata_sha256="", requires_python=None
    )
    return BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=status, wheel=wheel, **fields)


def test_it_leads_with_how_many_of_the_wheels_are_there():
    first, second = cell_plan(BUILT, "1+a"), cell_plan(FAILED, "1+b")
    shared = replace(second, cell=LEFT_OUT)
    failure = Failure(stage="compile", message="no")
    broken = BuildResult(cell=FAILED, plan_digest=second.build_digest, status=Status.FAILED, failure=failure)
    plans = (first, second)
    for results, lead in (
        ((done(first, Status.BUILT), done(second, Status.CACHED)), '<p class="score is-whole"><b>2 of 2 wheels</b> in'),
        ((done(first, Status.BUILT), broken), '<p class="score is-short"><b>1 of 2 wheels</b> in'),
        ((), '<p class="score is-short"><b>0 of 2 wheels</b> in'),
    ):
        assert lead in page(plans, results)
    assert "wheels/k-1%2Bcu130-py3-none-any.whl" in page(plans, (done(first, Status.BUILT),))
    folded = page((second, shared), (done(second, Status.BUILT), done(shared, Status.FOLDED)))
    assert "<b>1 of 1 wheel, for 2 combinations</b>" in folded
    assert "<b>No wheel was planned</b>" in page(excluded=(Excluded(cell=LEFT_OUT, reason="no"),))


def test_the_hash_of_an_archive_is_not_called_a_commit():
    plan = cell_plan(BUILT, "1")
    hub = replace(plan, source=SourceId(origin="hub:a/b", revision="v1", commit="c0", tree="7e"))
    sdist = replace(plan, source=SourceId(origin="sdist:k==1", revision=None, commit="5a", tree="7e"))
    assert "hub:a/b<br>commit <code>c0</code>" in page((hub,), (done(hub, Status.BUILT),))
    assert "sdist:k==1<br>SHA-256 <code>5a</code>" in page((sdist,), (done(sdist, Status.BUILT),))
