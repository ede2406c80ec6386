"""Hostile builds through the whole pipeline, on every engine: each ends with a clear answer."""

from __future__ import annotations

import dataclasses
import io
import json
import resource
import shutil
import threading
import uuid
from dataclasses import dataclass
from pathlib import Path

import hostile
import processes
import pytest
import wants
from command_line import run_command
from factory import ROOT, Factory
from kernels import BUILD_TOML, matrix, pure_kernel, tiny_kernel, write
from one_build import build_one
from wheels import make_wheel

from wheelsmith.base.beneath import remove_tree
from wheelsmith.engine import Limits
from wheelsmith.model import BuildPlan, BuildResult, Status
from wheelsmith.model.events import CellFinished, CellLine, CellProgress, CellStage
from wheelsmith.pipeline import BuildContext, ToolchainPrefetcher
from wheelsmith.pipeline.repair_job import RepairJob
from wheelsmith.run.build import build, make_build_request
from wheelsmith.run.executors.local import make_context
from wheelsmith.run.prepare import Prepared, Request, prepare
from wheelsmith.run.prepared_set import PreparedSet
from wheelsmith.run.scratch import scratch
from wheelsmith.toolchain import Toolchains

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("hostile builds")]
MIB = 2**20
IMAGE = "engine: {image: debian}\n"
# What holds for each engine, because it is done after the build.
one_engine = pytest.mark.parametrize("confining", ["bwrap"], indirect=True)


def prepared_for(confining, tmp_path) -> Prepared:
    """Plan the kernel in folder ``k`` for an engine."""
    request = Request(
        matrix=matrix(tmp_path, "k", more=IMAGE), cache=Factory.at(tmp_path).cache, engine=confining.engine.name
    )
    return prepare(request, lambda event: None)


# --- what a build says --------------------------------------------------------------------------------------

DECEITS = [
    b"\x1b[2J\x1b[1;1Hgone",
    b"\x1b]52;c;cm0gLXJmIH4=\x07",
    b"\x1b]0;title\x1b\\",
    b"\x9b31m",  # CSI in one byte
    "\x9b31mred \x9d52;c;eA==\x9c".encode(),  # C1 controls, in UTF-8
    "\u202eevil\u202c \u2066x\u2069 \u200f \u061c".encode(),  # text that runs backwards
    "\u200b\ufeff\u2060\U000e0041".encode(),  # that is not seen
    "\u2028line\u2029paragraph\x85next\x0bvertical\x0cform".encode(),
    b"nul\0nul \x7f \x08\x08\x08",
    b"\xff\xfe\xed\xa0\x80 not UTF-8",
    b"x" * 100_000,
    b"a\rb",
    b"[wheelsmith 5/0] x",
    b"[wheelsmith 7/3] x",
    b"[wheelsmith " + b"9" * 4200 + b"/1] x",
    "[wheelsmith ٣/٤] x".encode(),
    b"[/] [bold red]markup[/bold red] [link=x]",
    b"::error title=x::forged",
]


# --- the wheel that a build leaves --------------------------------------------------------------------------


class HijackedTools(Toolchains):
    """Toolchains whose ``python3 -m build`` is the attacker's."""

    def __init__(self, cache: Path, build: Path) -> None:
        super().__init__(cache, lambda event: None)
        self._build = build

    def tools(self) -> Path:
        return self._build


@pytest.fixture
def outside(tmp_path):
    """A folder of the host with a wheel that is none of the kernel's business."""
    folder = tmp_path / "outside"
    make_wheel(folder, "pure", "1").rename(folder / "host.whl")
    return folder


@dataclass
class Bench:
    """One kernel's pure wheel, built in a sandbox by a build that the attacker wrote."""

    plan: BuildPlan
    workshop: BuildContext
    hijack: Path
    events: list

    def build(self, code: str) -> BuildResult:
        """Build with a program of the attacker's."""
        write(self.hijack / "site" / "build", {"__main__.py": code})
        return build_one(self.plan, self.workshop)

    def spoil(self, code: str, outside: Path) -> BuildResult:
        """Build an honest wheel, and spoil it."""
        return self.build(hostile.BUILD.replace("OUTSIDE_PATH", repr(str(outside))) + code)

    @property
    def log(self) -> str:
        return (self.workshop.logs / f"{self.plan.cell.id}.log").read_bytes().decode("utf-8")


@pytest.fixture
def bench(confining, tmp_path):
    pure_kernel(tmp_path / "k")
    prepared = prepared_for(confining, tmp_path)
    hijack = tmp_path / "tools"
    site = hijack / "site" / "wheelsmith"
    shutil.copytree(ROOT / "wheelsmith" / "engine" / "backend", site / "engine" / "backend")
    for package in (site, site / "engine"):
        (package / "__init__.py").touch()
    events: list = []
    with scratch(tmp_path / "cache" / "work") as folder:
        assert folder.stat().st_mode & 0o077 == 0  # a setuid file in there is out of everybody's reach
        workshop = make_context(make_build_request(PreparedSet.of(prepared), folder), events.append)
        tools = HijackedTools(tmp_path / "cache", hijack)
        limits = Limits(memory=512 * MIB, seconds=30.0, pids=64)
        workshop = dataclasses.replace(workshop, toolchains=ToolchainPrefetcher(tools), limits=limits)
        yield Bench(plan=prepared.plans[0], workshop=workshop, hijack=hijack, events=events)


def tree(folder: Path) -> dict[str, object]:
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in sorted(folder.rglob("*"))}


def stored(tmp_path) -> list[Path]:
    return list((tmp_path / "cache" / "store").rglob("*.whl"))


@one_engine
def test_an_honest_build_is_kept(bench, outside, tmp_path):
    result = bench.spoil("pack()", outside)
    assert result.failure is None
    assert [path.name for path in stored(tmp_path)] == ["pure-1-py3-none-any.whl"]


@pytest.mark.parametrize("spoiled", hostile.SPOILED, ids=lambda s: s.name)
def test_a_spoiled_wheel_is_refused(spoiled, bench, outside, tmp_path):
    before, beside = tree(outside), sorted(p.name for p in tmp_path.iterdir())
    result = bench.spoil(spoiled.code, outside)
    assert result.status is Status.FAILED
    failure = result.failure
    assert failure
    assert failure.stage == spoiled.stage, failure
    assert failure.message
    assert spoiled.says in failure.message
    assert all(text.isprintable() for text in (failure.message, *failure.tail))
    json.dumps(result.to_json()).encode()
    assert tree(outside) == before
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted({*beside, "dist"})
    assert stored(tmp_path) == []
    assert not list(tmp_path.rglob("*escape*"))


def test_links_in_the_work_folder_lead_wheelsmith_nowhere(bench, outside, tmp_path):
    """The build succeeds; whatever wheelsmith writes afterwards must not land where the build points."""
    before = tree(outside)
    code = """
for name in ("repair", "packed", "unpacked", "tagged", "site", "test", "lock", "logs", "store"):
    os.symlink(OUTSIDE, work / name)
for name in ("src", "build"):
    shutil.rmtree(work / name); os.symlink(OUTSIDE, work / name)
(work / "plan.json").unlink(); os.symlink(OUTSIDE + "/canary", work / "plan.json")
"""
    result = bench.spoil(code, outside)
    assert result.failure is None
    assert tree(outside) == before


# Pieces that weigh next to nothing packed, and are planned: a kernel's own file grows.
_LARGE = """
name = next(name for name in files if name.endswith("__init__.py"))
del files[name]
with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
    for other, data in files.items():
        archive.writestr(zipfile.ZipInfo(other), data)
    with archive.open(zipfile.ZipInfo(name), "w", force_zip64=True) as member:
        for _ in range(900):
            member.write(b"#" * 10**6)
"""


@one_engine
def test_what_a_build_left_is_read_within_its_limits(bench, outside, tmp_path):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = bench.spoil(_LARGE, outside)
    assert result.status is Status.FAILED
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 100_000  # KiB
    assert stored(tmp_path) == []


@one_engine
def test_a_reader_that_hangs_is_killed_in_time(bench, outside, monkeypatch):
    marker = f"reader-{uuid.uuid4().hex}"
    command = RepairJob.command

    def hanging(finisher, limits, memory):
        argv = ("/bin/sh", "-c", "sleep 60 & sleep 60", marker)
        return dataclasses.replace(command(finisher, dataclasses.replace(limits, seconds=0.5), memory), argv=argv)

    monkeypatch.setattr(RepairJob, "command", hanging)
    result = bench.spoil("pack()", outside)
    assert result.failure
    assert result.failure.stage == "repair"
    assert result.failure.message == "the repair and check ran longer than 0.5s"
    assert processes.left(lambda: processes.with_words(marker)) == []


@pytest.mark.release("waits for time limits")
@one_engine
def test_a_reader_that_was_taken_over_hands_nothing_in(bench, outside, tmp_path, monkeypatch):
    """The program that reads may be the build's victim: what it leaves is looked at like what a build leaves."""
    command = RepairJob.command
    for trick in (
        f"ln -sf {outside}/host.whl packed/pure-1-py3-none-any.whl",
        f"rm -r packed; ln -s {outside} packed",
        "rm -r packed; mkfifo packed",
        "rm packed/*; mkfifo packed/pure-1-py3-none-any.whl",
        "ln packed/pure-1-py3-none-any.whl another",
        "sleep 0.1; find packed -name '*.whl' -exec sh -c 'echo more >> $1' - {} ';'",
        "echo '{}' > response.json",
        "echo '[[[[' > response.json",
        "rm response.json; ln -s /etc/hostname response.json",
        "truncate -s 70M response.json",
    ):

        def tricky(finisher, limits, memory, trick=trick):
            plain = command(finisher, limits, memory)
            script = f'"$@"; cd /wheelsmith-finish; {trick}; exit 0'
            return dataclasses.replace(plain, argv=("/bin/sh", "-c", script, "sh", *plain.argv))

        monkeypatch.setattr(RepairJob, "command", tricky)
        before = tree(outside)
        result = bench.spoil("pack()", outside)
        assert result.failure, trick
        assert result.failure.stage in {"check", "store"}
        assert tree(outside) == before
        assert stored(tmp_path) == []


@one_engine
def test_what_a_build_left_goes_when_its_cell_is_done(confining, tmp_path):
    """Each cell may leave as much as engine.disk: all together would fill any machine."""
    pure_kernel(tmp_path / "k")
    cache = tmp_path / "cache"
    prepared = prepared_for(confining, tmp_path)
    left = {}

    def look(event):
        if isinstance(event, CellStage | CellFinished):
            left[type(event)] = list(cache.glob(f"work/*/{prepared.plans[0].cell.id}"))

    build(prepared, look, threading.Event())
    assert len(left[CellStage]) == 1
    assert left[CellFinished] == []


def test_escape_sequences_in_the_log(bench):
    code = "import sys\nfor d in " + repr(DECEITS) + ": sys.stdout.buffer.write(d + b'\\n')\nsys.exit(3)"
    result = bench.build(code)
    assert result.failure
    assert result.failure.message == "the build ended with exit code 3"
    said = [e.line for e in bench.events if isinstance(e, CellLine)]
    said += [e.step for e in bench.events if isinstance(e, CellProgress)]
    for line in (*said, *result.failure.tail, *bench.log.splitlines()):
        assert line.replace("\t", " ").isprintable()
    for reporter in ("live", "plain", "json"):
        _replay(reporter, bench.events, result)


def _replay(name, events, result):
    """Show the events on a terminal; only the reporter's own escape sequences may come out."""
    from rich.console import Console

    from wheelsmith.report.live import LiveReporter
    from wheelsmith.report.reporters import PlainReporter

    text = io.StringIO()
    console = Console(file=text, force_terminal=name == "live", markup=False, emoji=False, highlight=False, width=200)
    if name == "json":
        return
    with (LiveReporter if name == "live" else PlainReporter)(console, Path("out")) as reporter:
        for event in (*events, CellFinished(result=result)):
            reporter(event)
            if name == "live":
                console.print(reporter)
    shown = text.getvalue()
    for bad in ("\x1b]", "\x9b", "\u202e", "\0", "\x07"):
        assert bad not in shown


def test_endings_are_explained(bench):
    """Each limit ends as a failure in words, not as a traceback."""
    usual = bench.workshop.limits
    for code, change, words in (
        ("while True: pass", {"seconds": 1.0}, "ran longer than 1s"),
        ("while True: print('x' * 99)", {"output": MIB}, "printed more than"),
        ("x = []\nwhile True: x.append(bytearray(b'x') * 2**22)", {"memory": 128 * MIB}, "out of memory"),
        ("for n in range(9): open(f'/work/{n}', 'wb').write(b'x' * 2**20)", {"disk": 4 * MIB}, "wrote more than"),
    ):
        limits = dataclasses.replace(usual, **change)
        remove_tree(bench.workshop.folder / bench.plan.cell.id)
        bench.workshop = dataclasses.replace(bench.workshop, limits=limits)
        result = bench.build(code)
        assert result.failure
        refused = not wants.COUNTED and any("MemoryError" in line for line in result.failure.tail)
        assert words in result.failure.message or refused


# --- kernels that attack with what compilers do -------------------------------------------------------------

HIJACK = """\
import os, subprocess, sys
if "-c" in sys.argv or "cc1plus" in sys.argv[1]:
    print("HIJACKED", os.getcwd(), flush=True)
    for name in ("repair", "dist/x", "tagged"):
        try: os.symlink({outside!r}, "/work/" + name)
        except OSError: pass
sys.exit(subprocess.call(sys.argv[1:]))
"""
FLAGS = 'src = ["tiny.cpp"]\ncxx-flags = {flags}\n'


def smuggle(line: str, **files: str) -> dict[str, str]:
    return {"tiny.cpp": f"{line}\nint tiny_answer() {{ return 42; }}\n", **files}


def flags(*words: str) -> dict[str, str]:
    return {"build.toml": BUILD_TOML.replace('src = ["tiny.cpp"]\n', FLAGS.format(flags=json.dumps(words)))}


@pytest.mark.network
@pytest.mark.parametrize(
    "make",
    [
        lambda path: smuggle(f'#include "{path}"'),
        lambda path: smuggle(f'asm(".section .rodata; .incbin \\"{path}\\"");'),
        lambda path: smuggle(f'asm(".incbin \\"/work/../../../..{path}\\"");'),
        lambda path: smuggle(f'asm(".incbin \\"/proc/1/root{path}\\"");'),
        lambda path: flags("-include", path),
        lambda path: flags(f"@{path}"),
        lambda path: flags("-Wp,-imacros," + path),
    ],
    ids=["include", "incbin", "incbin above", "incbin /proc", "-include", "@file", "-imacros"],
)
def test_no_file_of_the_host_is_smuggled_into_a_wheel(make, confining, tmp_path):
    write(tmp_path / "outside", {"secret.h": 'static const char* canary = "hf_canary_4711";\n'})
    result = build_kernel(confining, tmp_path, make(str(tmp_path / "outside" / "secret.h")))
    assert result.failure
    assert result.failure.stage == "compile"
    assert "exit code" in result.failure.message
    assert "hf_canary" not in json.dumps(result.to_json())
    assert stored(tmp_path) == []


@pytest.mark.network
def test_a_compiler_that_the_kernel_replaced_reaches_nothing(confining, tmp_path):
    """``-wrapper`` runs a program of the kernel's in place of the compiler: the kernel's code runs at build time."""
    outside = tmp_path / "outside"
    outside.mkdir()
    changes = flags("-wrapper", "python3,/work/src/evil.py") | {"evil.py": HIJACK.format(outside=str(outside))}
    result = build_kernel(confining, tmp_path, changes)
    log = next((tmp_path / "dist" / "logs").iterdir()).read_text()
    assert "HIJACKED /work" in log
    assert result.failure is None, result.failure
    assert list(outside.iterdir()) == []


HIDDEN = 'extern "C" int hidden() asm("{name}");\nint call() {{ return hidden(); }}\n'


@pytest.mark.network
def test_names_of_symbols_are_shown_as_they_are(confining, tmp_path):
    name = "\\033]52;c;eA==\\007"
    result = build_kernel(confining, tmp_path, smuggle(HIDDEN.format(name=name)))
    assert result.failure
    assert all(text.isprintable() for text in (result.failure.message, *result.failure.tail))


@pytest.mark.parametrize("path", ["../../etc/passwd", "/etc/passwd", "torch-ext/../../secret.cpp", "-include"])
def test_a_source_outside_the_kernel_is_refused(path, tmp_path, monkeypatch, capsys):
    tiny_kernel(tmp_path / "k", **{"build.toml": BUILD_TOML.replace('"tiny.cpp"', json.dumps(path))})
    matrix(tmp_path, "k")
    monkeypatch.chdir(tmp_path)
    answer = run_command(monkeypatch, capsys, "plan")
    assert answer.code == 2
    assert "is not a path inside the kernel's folder" in answer.err
    assert "Traceback" not in answer.err


def build_kernel(confining, tmp_path, changes: dict[str, str]) -> BuildResult:
    """Build a kernel the whole way, with the real tools."""
    tiny_kernel(tmp_path / "k", **changes)
    prepared = prepared_for(confining, tmp_path)
    with scratch(tmp_path / "cache" / "work") as folder:
        workshop = make_context(make_build_request(PreparedSet.of(prepared), folder), lambda event: None)
        workshop = dataclasses.replace(workshop, limits=Limits(memory=1024 * MIB, seconds=60.0, pids=64))
        return build_one(prepared.plans[0], workshop)
