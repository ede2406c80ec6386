"""A build whose compile steps are divided among machines."""

import threading
from dataclasses import replace

import pytest
import wants
from factory import Factory
from kernels import matrix, tiny_kernel

from wheelsmith.matrix.remote_cache import RemoteCacheSettings
from wheelsmith.model import Status, StepFinished
from wheelsmith.plan.recipe.phases import PhaseKind
from wheelsmith.run.build import make_build_request
from wheelsmith.run.executors.local import Arrival, LocalExecutor
from wheelsmith.run.prepare import Request, prepare
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.scratch import scratch


@pytest.fixture
def build_on(tmp_path):
    """Build what arrives on one more machine with an empty cache. All share a remote cache."""
    wants.program("bwrap")
    tiny_kernel(tmp_path / "k")
    path = matrix(tmp_path, "k")
    remote = RemoteCacheSettings(addresses=(str(tmp_path / "shared"),))

    def build(name, part=None):
        cache = Factory.at(tmp_path / name).cache
        prepared = prepare(Request(matrix=path, cache=cache, engine="bwrap", out=tmp_path / name / "dist"))
        (plan,) = prepared.plans
        arrivals, events, results, parts = [[Arrival(plan=plan, part=part)], []], [], [], []
        ended = threading.Event()

        def arriving():
            if part is None or ended.is_set():
                return arrivals.pop(0) if arrivals else None
            return arrivals.pop(0) if len(arrivals) == 2 else []

        def on_part(plan, found):
            parts.append(found)
            ended.set()

        with scratch(cache / "work") as folder:
            work = make_build_request(PreparedSet.of(prepared), folder, remote_cache=remote)
            (folder / "logs").mkdir()
            LocalExecutor().build_arriving(
                replace(work, logs=folder / "logs"),
                arriving,
                listen=events.append,
                on_result=results.append,
                on_part=on_part,
                cancel=threading.Event(),
            )
        steps = [each for each in events if isinstance(each, StepFinished) and each.kind != PhaseKind.PREPROCESS]
        return results, parts, [each.reused for each in steps]

    return build


def test_the_machine_that_links_compiles_nothing_that_others_have_compiled(build_on):
    assert build_on("a", (0, 2)) == ([], [(0, 2)], [False])
    assert build_on("b", (1, 2)) == ([], [(1, 2)], [False])
    results, parts, reused = build_on("c")
    assert [result.status for result in results] == [Status.BUILT]
    assert (parts, reused) == ([], [True, True])
