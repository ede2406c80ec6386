"""The record of a run: results.json has the format that it always had, and is read by every later step."""

import json
from dataclasses import replace
from pathlib import Path

import plans
import pytest

from wheelsmith.model import (
    BuildResult,
    Cell,
    Excluded,
    Failure,
    ImageId,
    PrefixId,
    SourceId,
    Status,
    Timing,
    Toolset,
    WheelRecord,
)
from wheelsmith.model.run_record import RESULTS, RunRecord

GOLDEN = Path(__file__).parent / "data" / "results.json"
SHARD = {"plan": "a" * 64, "number": 2}
REPACKED = {
    "torch211-x": {"status": "refused", "reason": "no"},
    "torch212-y": {"status": "repacked", "wheel": "k3.whl", "reason": None},
}
ONE, SAME, FAILS, LATE = plans.plan(1), plans.plan(1, "2.13"), plans.plan(2, "2.12"), plans.plan(4, "2.13")
OF_CUDA = replace(
    plans.plan(3),
    cell=Cell(release="2.13", toolkit="13.0", arch="x86_64"),
    image=ImageId(name="debian", digest="sha256:" + "1" * 64),
    source=SourceId(origin="hub:org/k", revision="v1", commit="c" * 40, tree="t" * 64),
    toolset=Toolset(arch="x86_64", cxx="g++", version="g++ 14.2.0", digest="d" * 64),
    toolkit=PrefixId(kind="cuda", version="13.0", arch="x86_64", digest="e" * 64),
    wheel=replace(
        plans.plan(3).wheel,
        version="1+cu130.torch2.13",
        gpu_archs=("8.0", "9.0+PTX"),
        release="2.13",
        toolkit="13.0",
    ),
)
TOO_NEW = Excluded(cell=Cell(release="2.14", toolkit="13.2", arch="aarch64"), reason="too new")
PLANNED = plans.planned_run(
    (ONE, SAME, FAILS, OF_CUDA, LATE),
    (TOO_NEW,),
    kernel="org/k @ccccccc",
    not_folded={OF_CUDA.cell.id: "it needs CUDA 13.2"},
    matrix_sha256="f" * 64,
)


def wheel(name):
    return WheelRecord(
        filename=name,
        sha256="ab" * 32,
        size=7,
        metadata_sha256="cd" * 32,
        requires_python=">=3.9",
        gpu_archs=("8.0",),
    )


def result(plan, status, **fields):
    return BuildResult(cell=plan.cell, plan_digest=plan.build_digest, status=status, **fields)


TIMES = (Timing(stage="compile", seconds=1.5), Timing(stage="check", seconds=0.25))
WRONG = Failure(
    stage="compile", message="it ended with exit code 1", remedy="mend it", tail=("k.cpp:4: error: é", "1 error")
)
RESULT_OF_EACH = (
    result(ONE, Status.BUILT, wheel=wheel("k1-1-py3-none-any.whl"), timings=TIMES, log="one.log"),
    result(SAME, Status.FOLDED, wheel=wheel("k1-1-py3-none-any.whl"), log="one.log"),
    result(FAILS, Status.FAILED, failure=WRONG, timings=TIMES[:1], log="other.log"),
    result(OF_CUDA, Status.CACHED, wheel=wheel("k3.whl"), built_in=TIMES, untested="there is no GPU"),
)


@pytest.fixture
def golden():
    return json.loads(GOLDEN.read_text())


def test_a_run_is_written_as_it_always_was(golden):
    record = PLANNED.record(reversed(RESULT_OF_EACH), interrupted=True)
    times = {"started_on": "2026-01-02T03:04:05Z", "finished_on": "2026-01-02T03:05:05Z"}
    record = replace(record, wheelsmith=golden["wheelsmith"], **times)
    assert json.dumps(record.to_json(), indent=1) + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"shard": SHARD},
        {"started_on": None, "finished_on": None},
        {"variants": REPACKED, "distribution": None, "kernel_version": None, "matrix_sha256": None},
    ],
    ids=["whole", "shard", "joined", "repacked"],
)
def test_what_is_read_is_written_again(golden, more):
    data = golden | more
    assert RunRecord.from_json(data).to_json() == data
    assert RunRecord.from_json(data | {"of a later version": 1}).to_json() == data


def test_what_was_planned_and_what_came_of_it_are_told_apart(tmp_path):
    (tmp_path / RESULTS).write_bytes(GOLDEN.read_bytes())
    record = RunRecord.read(tmp_path)
    assert record.results == RESULT_OF_EACH
    assert [cell.cell for cell in record.planned] == [plan.cell for plan in PLANNED.plans]
    assert record.excluded == (TOO_NEW,)
    assert record.cells[LATE.cell.id].status is Status.CANCELLED
    assert record.cells[SAME.cell.id].planned.folded.cell == ONE.cell.id
    assert not record.is_complete


@pytest.mark.parametrize(
    "change",
    [lambda cell: cell.update(status="failed"), lambda cell: cell.pop("cell")],
)
def test_a_cell_that_no_run_writes_is_refused(golden, change):
    change(golden["cells"][ONE.cell.id])
    with pytest.raises(ValueError, match=r"."):
        RunRecord.from_json(golden)
