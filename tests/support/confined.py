"""Run a script in a sandbox, and check that nothing of it is left."""

from __future__ import annotations

import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import containers
import processes

from wheelsmith.engine import Command, Engine, Exit, Limits, Mount

MIB = 2**20


def command(
    code: str, work: Path, *argv: str, mounts: tuple[Mount, ...] = (), image: str | None = None, **limits: object
) -> Command:
    """Return the command that runs a Python script in ``/work``."""
    work.mkdir(parents=True, exist_ok=True)
    return Command(
        name=f"wheelsmith-test-{uuid.uuid4().hex[:12]}",
        argv=("python3", "-c", code, *argv),
        mounts=(Mount(source=work, target="/work", writable=True), *mounts),
        env={"LC_ALL": "C.UTF-8"},
        workdir="/work",
        limits=Limits(**{"memory": 512 * MIB, "seconds": 60.0, "pids": 64, **limits}),
        image=image,
    )


@dataclass(frozen=True)
class Confined:
    """An engine, and the image that its commands run in."""

    engine: Engine
    image: str | None

    def run(
        self, code: str, work: Path, *argv: str, cancel: threading.Event | None = None, **more: object
    ) -> tuple[Exit, list[str]]:
        """Run a script to its end; gives how it ended and the lines that it printed."""
        lines: list[str] = []
        order = command(code, work, *argv, image=self.image, **more)
        exit_ = self.engine.run(order, lines.append, cancel or threading.Event())
        assert processes.left(lambda: processes.with_words(order.name)) == []
        if self.engine.has_images:
            assert containers.containers_left(self.engine.name) == []
        return exit_, lines
