"""Group the phases of a compile step into jobs, and compute the cache key and the expected cost of each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import PurePosixPath
from posixpath import normpath

from wheelsmith.base import sandbox_paths
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.json_dataclass import canonical_digest
from wheelsmith.model import BuildPlan, Step, StepKind
from wheelsmith.pipeline.context import BuildContext
from wheelsmith.pipeline.tasks import MIB
from wheelsmith.plan.recipe.phases import Phase, PhaseKind, needs_source
from wheelsmith.store import Cost
from wheelsmith.store.objects import FORMAT

# Cost of a phase without earlier measurements, measured with torch/all.h of torch 2.11. The memory of g++ is that for
# torch/extension.h of torch 2.13.
_DEFAULT_COST = {
    PhaseKind.PREPROCESS: Cost(seconds=2.0, memory=400 * MIB),
    PhaseKind.CUDAFE: Cost(seconds=20.0, memory=2000 * MIB),
    PhaseKind.CICC: Cost(seconds=20.0, memory=2700 * MIB),
    PhaseKind.PTXAS: Cost(seconds=2.0, memory=500 * MIB),
    PhaseKind.FATBINARY: Cost(seconds=0.1, memory=200 * MIB),
    PhaseKind.HOST: Cost(seconds=12.0, memory=1650 * MIB),
    PhaseKind.WHOLE: Cost(seconds=60.0, memory=2700 * MIB),
}
# Bytes of memory for each byte of input.
_MEMORY_PER_BYTE = {PhaseKind.CUDAFE: 115, PhaseKind.CICC: 155, PhaseKind.HOST: 94}
_BASE_MEMORY = 50 * MIB
# Memory factor of debug information, which Python's own flags enable; measured with torch/extension.h of torch 2.13.
_DEBUG_FACTOR = 1.35
_RUNNER = f"{sandbox_paths.TOOLS}/site/wheelsmith/engine/backend/phases.py"
_PHASES = "build/phases.json"
_SOURCE_NAME_OPTION = "--orig_src_path_name"
NAMED = "named"  # mounted as the source folder if a job needs only the modification time of the source


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Phases that run in order in one sandbox.

    :param reads: input file → output file of an earlier job.
    :param writes: files that later jobs read, or the object.
    :param named_source: path at which the job sees an empty file with a fixed modification time, or None. cudafe++ puts
        the path and time of the source into the names of internal symbols, or the current time if the file does not
        exist. ptxas also looks for it, for line information. The path must be in the source folder.
    """

    name: str
    kind: PhaseKind
    phases: tuple[Phase, ...]
    reads: dict[str, str]
    writes: tuple[str, ...]
    named_source: str | None = None

    @property
    def argv(self) -> tuple[str, ...]:
        """Return the command that runs all phases."""
        return self.phases[0].argv if len(self.phases) == 1 else ("python3", _RUNNER, _PHASES)

    @property
    def sees_source(self) -> bool:
        """Return True if it reads the kernel's source and the framework's headers."""
        return any(needs_source(phase) for phase in self.phases)

    @property
    def reads_anything(self) -> bool:
        """Return True if it may read any file in the sandbox."""
        return self.kind is PhaseKind.WHOLE and self.sees_source

    def lay_out(self, folder: WorkFolder) -> None:
        """Create the folders and files that the job needs, except for its inputs."""
        if self.named_source:
            named = NAMED + self.named_source.removeprefix(sandbox_paths.SOURCE)
            with folder.create_with_mtime(named, int(sandbox_paths.SOURCE_DATE_EPOCH)):
                pass
        for name in {*self.reads, *(name for phase in self.phases for name in phase.writes)}:
            folder.make_folder(str(PurePosixPath(name).parent))
        if len(self.phases) > 1:
            commands = [
                {"argv": phase.argv, "copies": {seen: made for seen, made in phase.reads.items() if seen != made}}
                for phase in self.phases
            ]
            with folder.create(_PHASES) as file:
                file.write(json.dumps(commands).encode())


def has_fixed_time(phases: Iterable[Phase]) -> bool:
    """Return True if all sources in the names of internal symbols can have a fixed modification time."""
    return all(map(_can_have_fixed_time, _named_sources(phases)))


def _named_sources(phases: Iterable[Phase]) -> Iterator[str]:
    """Yield the sources whose paths cudafe++ puts into names."""
    commands = (phase.argv for phase in phases if phase.kind is PhaseKind.CUDAFE)
    yield from (after for argv in commands for word, after in pairwise(argv) if word == _SOURCE_NAME_OPTION)


def _first_fixed(phases: Iterable[Phase]) -> str | None:
    return next((name for name in _named_sources(phases) if _can_have_fixed_time(name)), None)


def _can_have_fixed_time(source: str) -> bool:
    return source.startswith(f"{sandbox_paths.SOURCE}/") and normpath(source) == source and source.isprintable()


def group_phases(phases: tuple[Phase, ...], *, together: bool, in_place: bool = False) -> tuple[Job, ...]:
    """Group phases into jobs. By default each phase is a job.

    :param together: make two jobs, one that preprocesses and one that compiles, because the engine starts slowly.
    :param in_place: make one job for all phases that preprocess, because they run in the project's sandbox.
    """
    first = tuple(phase for phase in phases if phase.kind is PhaseKind.PREPROCESS)
    rest = tuple(phase for phase in phases if phase.kind is not PhaseKind.PREPROCESS)
    if not together and not in_place:
        return tuple(_single_job(phase, phases) for phase in phases)
    compiled = (_compile_job(first, rest),) if together else tuple(_single_job(phase, rest) for phase in rest)
    return (*((_preprocess_job(first),) if first else ()), *compiled)


def _single_job(phase: Phase, others: tuple[Phase, ...]) -> Job:
    named = None if needs_source(phase) else _first_fixed(others)
    return Job(
        name=phase.name,
        kind=phase.kind,
        phases=(phase,),
        reads=phase.reads,
        writes=phase.writes,
        named_source=named,
    )


def _preprocess_job(phases: tuple[Phase, ...]) -> Job:
    texts = tuple(name for phase in phases for name in phase.writes)
    return Job(name="preprocess", kind=PhaseKind.PREPROCESS, phases=phases, reads={}, writes=texts)


def _compile_job(first: tuple[Phase, ...], rest: tuple[Phase, ...]) -> Job:
    reads = {name: name for phase in first for name in phase.writes}
    kind = PhaseKind.WHOLE if len(rest) > 1 else rest[0].kind
    return Job(
        name="compile", kind=kind, phases=rest, reads=reads, writes=rest[-1].writes, named_source=_first_fixed(rest)
    )


def job_key(
    step: Step,
    plan: BuildPlan,
    context: BuildContext,
    commands: object,
    reads: dict[str, str],
    writes: Iterable[str] = (),
) -> str:
    """Return the cache key of commands: a digest of the commands, their inputs, and all programs that they may run.

    Its parts are those of an action in the Remote Execution API: a command with its outputs, an input root and a salt.

    :param reads: name of each input → hash of its content.
    :param writes: the names of the outputs.
    """
    cuda = None if step.kind is StepKind.CXX else plan.toolkit
    programs = context.toolchains.toolchains.programs
    digests = [programs(prefix) for prefix in (plan.pinned_compilers, cuda) if prefix]
    command = {"arguments": commands, "environment_variables": plan.environment, "output_paths": sorted(writes)}
    input_root = {
        "files": reads,
        "compilers": plan.toolset.digest if plan.toolset else "",
        "cuda": cuda.digest if cuda else "",
        "programs": {name: digest for each in digests for name, digest in each.items()},
    }
    return canonical_digest(
        {"command": canonical_digest(command), "input_root": canonical_digest(input_root), "salt": FORMAT}
    )


def all_inputs(plan: BuildPlan) -> dict[str, str]:
    """Return the inputs of a job that may read any file: name → digest."""
    return {
        "source": plan.source.tree,
        "generated": canonical_digest(plan.recipe.generated),
        plan.cell.framework: plan.headers.digest if plan.headers else "",
        "cuda": plan.toolkit.digest if plan.toolkit else "",
        **{library.version: library.digest for library in plan.libraries},
    }


class Estimates:
    """Estimates the cost of the jobs of one step from earlier runs with this release of the framework, or another."""

    def __init__(self, step: Step, plan: BuildPlan, context: BuildContext) -> None:
        cell = plan.cell
        self._names = f"{plan.wheel.distribution} {step.output} {cell.compute} {cell.arch}"
        self._release = f"{cell.framework}{cell.release}"
        self._project = plan.wheel.distribution
        self._costs, self._factors = context.costs, context.guess_factors

    def find(self, job: Job) -> Cost | None:
        """Return the recorded cost of a job, or None."""
        return self._costs.find(self._keys(job.kind, _target(job)))

    def guess(self, job: Job, size: int | None) -> Cost:
        """Return the expected cost of a job without a record.

        :param size: bytes of its inputs; None if unknown.
        """
        guess = _guess(job, size)
        return replace(guess, memory=int(guess.memory * self._factors.of(self._guess_kind(job))))

    def seconds(self, job: Job) -> float:
        """Return the expected duration of a job before its inputs exist."""
        return (self.find(job) or self.guess(job, None)).seconds

    def path(self, kinds: Iterable[PhaseKind]) -> float:
        """Return the expected seconds of a sequence of phases before the dry run."""
        return sum((self._costs.find(self._keys(kind, "")) or _DEFAULT_COST[kind]).seconds for kind in kinds)

    def learn(self, job: Job, size: int | None, cost: Cost) -> None:
        """Record the cost of a job."""
        self._costs.learn(self._keys(job.kind, _target(job)), cost)
        self._factors.succeeded(self._guess_kind(job), cost.memory / _guess(job, size).memory)

    def record_shortfall(self, job: Job, size: int | None, memory: int, following: int) -> None:
        """Record that a guess was too low, to correct those for other sources of the project, which are often similar.

        :param memory: bytes of the failed attempt.
        :param following: bytes of the next attempt.
        """
        guess = _guess(job, size).memory
        self._factors.record_shortfall(self._guess_kind(job), memory / guess, following / guess)

    def _guess_kind(self, job: Job) -> str:
        return f"{self._project} {job.kind}"

    def _keys(self, kind: PhaseKind, target: str) -> tuple[str, ...]:
        own = f"{self._names} {kind} {target}"
        return f"{own} {self._release}", own


def _guess(job: Job, size: int | None) -> Cost:
    guess = _scale_by_size(_DEFAULT_COST[job.kind], job.kind, size)
    return replace(guess, memory=int(guess.memory * _DEBUG_FACTOR)) if "-g" in job.phases[-1].argv else guess


def _scale_by_size(limit: Cost, kind: PhaseKind, size: int | None) -> Cost:
    """Scale the cost of a phase by the size of its input, which is large mostly because of torch's headers.

    :param limit: the upper limit.
    """
    if size is None or kind not in _MEMORY_PER_BYTE:
        return limit
    memory = _BASE_MEMORY + _MEMORY_PER_BYTE[kind] * size
    return Cost(seconds=limit.seconds * min(1.0, memory / limit.memory), memory=min(memory, limit.memory))


def _target(job: Job) -> str:
    return job.phases[0].target if len(job.phases) == 1 else "together"
