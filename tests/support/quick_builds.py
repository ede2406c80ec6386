"""An executor that writes a small wheel for each plan, without a compiler."""

from __future__ import annotations

from wheels import make_wheel

from wheelsmith.model import BuildResult, Status
from wheelsmith.run.executors import EXECUTORS
from wheelsmith.store import Store
from wheelsmith.wheel import wheel_file
from wheelsmith.wheel.checker_version import checker_digest


def use_quick_builds(monkeypatch):
    """Have every run build with ``QuickBuilds``."""
    monkeypatch.setitem(EXECUTORS, "local", (__name__, "QuickBuilds"))


class QuickBuilds:
    """Builds what the plans name.

    :cvar version_of: plan → the version of its wheel.
    :cvar most: number of plans after which the run is cancelled; None for all.
    """

    version_of = staticmethod(lambda plan: plan.wheel.version)
    most = None

    def build(self, work, *, listen, on_result, cancel):
        for plan in work.to_build[: self.most]:
            spec, version = plan.wheel, self.version_of(plan)
            wheel = make_wheel(
                work.folder / plan.cell.id,
                spec.distribution,
                version,
                requires=(f"torch=={plan.cell.release}.*",),
                files={f"{spec.distribution}-{version}.dist-info/build-plan.json": plan.recorded()},
                tag=f"{spec.python_tag}-{spec.abi_tag}-manylinux_2_28_{spec.arch}",
            )
            stored = Store(work.cache / "store").put(plan.build_digest, wheel, wheel_file(wheel), checker_digest())
            digest = plan.build_digest
            on_result(BuildResult(cell=plan.cell, plan_digest=digest, status=Status.BUILT, wheel=stored.wheel))
        if self.most is not None:
            cancel.set()
