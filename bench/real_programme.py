"""Fetch and check published wheels, measure the checks, and run other tools on the same wheels."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.real_facts import Fact, RealWheel, RealWheels
from bench.results import Results
from bench.stopwatch import run_timed
from bench.workshop import ROOT, Workshop, empty_folder
from wheelsmith.base.errors import WheelsmithError
from wheelsmith.base.files import sha256_file
from wheelsmith.model.events import ignore
from wheelsmith.toolchain.package_index import locate
from wheelsmith.toolchain.pip import pip_settings
from wheelsmith.toolchain.remote import fetch_whole

FIGURES = ROOT / "bench" / "real_wheels_results.json"
_LIMIT = 3600  # seconds of wall time for a tool and a wheel, on a possibly busy machine
_FINDINGS = 1  # exit code of check for a wheel with findings


def fetch(wheels: Sequence[RealWheel], folder: Path) -> None:
    """Fetch missing wheels from the user's index, and verify all hashes."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = pip_settings()
    with settings.client() as client:
        for wheel in wheels:
            path = folder / wheel.pin.filename
            if not path.exists() or sha256_file(path) != wheel.pin.sha256:
                print(f"fetch {wheel.pin.filename}", file=sys.stderr)
                there = fetch_whole(wheel.pin, locate(wheel.pin, settings), folder, client, ignore)
                if there != path:
                    path.symlink_to(there)


def make_tools(workshop: Workshop, wheels: RealWheels) -> Path:
    """Make and return an environment with the other tools."""
    tools = workshop.folder / "tools"
    run_timed((sys.executable, "-m", "venv", tools), workshop.environment)
    run_timed((tools / "bin" / "python", "-m", "pip", "install", "--quiet", *wheels.tools), workshop.environment)
    return tools


@dataclass(frozen=True, slots=True, kw_only=True)
class Programme:
    """The measurements of each wheel.

    :param folder: the folder of the wheels.
    :param tools: the environment with the other tools.
    """

    workshop: Workshop
    tools: Path
    folder: Path
    results: Results

    def check(self, wheel: RealWheel) -> None:
        """Check a wheel and store the messages and the cost."""
        path = self.folder / wheel.pin.filename
        outputs: list[str] = []
        argv = ("timeout", str(_LIMIT), sys.executable, "-m", "wheelsmith", "check", "--json", path)
        environment = self.workshop.environment | {"PYTHONPATH": str(ROOT)}
        took = run_timed(argv, environment, outputs=outputs, ok_codes=(0, _FINDINGS))
        sentences = list(failed_messages(json.loads(outputs[0])))
        self.results.put(
            f"{wheel.pin.filename}/check",
            {"cpu": took.cpu, "peak_memory": took.peak_memory, "wall": took.wall, "complaints": sentences},
        )

    def run_other_tools(self, wheel: RealWheel) -> None:
        """Run the command of each fact and store the line that proves it."""
        with empty_folder(self.workshop.folder / "unpacked") as unpacked:
            answers = [self._run_tool(wheel, fact, unpacked) for fact in wheel.facts]
        self.results.put(f"{wheel.pin.filename}/others", {"lines": answers})

    def _run_tool(self, wheel: RealWheel, fact: Fact, unpacked: Path) -> str:
        path = self.folder / wheel.pin.filename
        argv = [part.replace("{wheel}", str(path)) for part in shlex.split(fact.command)]
        with zipfile.ZipFile(path) as archive:
            for name in set(argv) & set(archive.namelist()):
                archive.extract(name, unpacked)
        environment = self.workshop.environment | {"LC_ALL": "C", "COLUMNS": "400"}
        environment["PATH"] = f"{self.tools / 'bin'}:{environment['PATH']}"
        answer = subprocess.run(
            argv, cwd=unpacked, env=environment, capture_output=True, text=True, timeout=_LIMIT, check=False
        )
        found = re.search(fact.shows, answer.stdout + answer.stderr, re.MULTILINE)
        if not found:
            raise WheelsmithError(f"{wheel.pin.filename}: the output of {fact.command} does not match {fact.shows}")
        return " ".join(found[0].split())


def failed_messages(report: dict[str, Any]) -> Iterator[str]:
    """Yield each message of a failed rule in the report of ``check``, as ``rule: message``."""
    for wheel in report["wheels"]:
        for finding in wheel["findings"]:
            if not finding["ok"]:
                yield from (f"{finding['rule']}: {sentence}" for sentence in finding["message"].split("; "))
