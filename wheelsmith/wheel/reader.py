"""Read untrusted wheels in a worker, so that their content cannot harm this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wheelsmith.base.beneath import remove_tree
from wheelsmith.base.errors import WheelError, WorkerError
from wheelsmith.base.redact import file_name
from wheelsmith.model import WheelSpec
from wheelsmith.wheel.report import PACKED, CheckReport
from wheelsmith.worker import Worker

if TYPE_CHECKING:
    from wheelsmith.wheel.facts import WheelFacts
    from wheelsmith.wheel.recorded_plan import RecordedPlan
    from wheelsmith.wheel.torch_wheel import TorchFacts


class WheelReader(Worker):
    """A worker that reads wheels. Open one for each command."""

    def check(self, wheel: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()) -> CheckReport:
        """Check a wheel against every rule that applies. The parameters are those of ``check_wheel``.

        :raises WheelError: the file cannot be read as a wheel.
        """
        spec = expected.to_json() if expected else None
        return CheckReport.from_json(
            self._read("wheelsmith.wheel.operations:check", wheel, expected=spec, declared=list(declared))
        )

    def facts(self, wheel: Path) -> WheelFacts:
        """Return the facts about a wheel that an index lists.

        :raises WheelError: the wheel cannot be read.
        """
        from wheelsmith.wheel.facts import WheelFacts

        return WheelFacts.from_json(self._read("wheelsmith.wheel.operations:facts", wheel))

    def torch_facts(self, wheel: Path, release: str, source: str, date: str) -> TorchFacts:
        """Return the facts about torch in its wheel. The parameters are those of ``read_facts``.

        :raises WheelError: it is not a wheel of torch.
        """
        from wheelsmith.wheel.torch_wheel import TorchFacts

        operation = "wheelsmith.wheel.operations:torch_facts"
        return TorchFacts.from_json(self._read(operation, wheel, release=release, source=source, date=date))

    def recorded_plan(self, wheel: Path) -> RecordedPlan | None:
        """Return the plan that a wheel records, or None if it records none.

        :raises WheelError: it cannot be read.
        """
        from wheelsmith.wheel.recorded_plan import RecordedPlan

        plan = self._read("wheelsmith.wheel.operations:recorded_plan", wheel)["plan"]
        return RecordedPlan.from_json(plan) if plan else None

    def differences(self, given: Path, rebuilt: Path) -> list[str]:
        """Return the differences between a wheel and its rebuild; none if name and bytes are the same.

        :raises WheelError: one of the wheels cannot be read.
        """
        found: list[str] = self._read(
            "wheelsmith.wheel.operations:differences", given, rebuilt=str(rebuilt.absolute())
        )["differences"]
        return found

    def relabel(self, wheel: Path) -> Path:
        """Return a copy of a wheel without its local version. It is in ``folder``, and the next call removes it.

        :raises WheelError: the wheel cannot be read.
        """
        work = self.folder / "relabelled"
        remove_tree(work)
        name = self._read("wheelsmith.wheel.operations:relabel", wheel, work=str(work))["wheel"]
        return work / PACKED / Path(name).name

    def _read(self, operation: str, wheel: Path, **more: Any) -> dict[str, Any]:
        path = wheel.absolute()
        if not path.exists():
            raise WheelError(f"there is no {file_name(wheel)}")
        size = path.stat().st_size if path.is_file() else 0
        request = {"path": str(path), **more}
        try:
            return self.call(operation, request, subject=wheel.name, size=size)
        except WorkerError as error:
            raise WheelError(error.message) from error


def check_wheel(path: Path, expected: WheelSpec | None = None, declared: Sequence[str] = ()) -> CheckReport:
    """Check a wheel against every rule that applies, in a separate process with limits.

    :param expected: the planned wheel. Without it, the wheel is only compared with its own claims.
    :param declared: patterns of files that are intended, although they belong to another project.
    :raises WheelError: the file cannot be read as a wheel.
    """
    with WheelReader() as reader:
        return reader.check(path, expected, declared)
