"""Convert errors of a cell to failures with messages for users."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable

from wheelsmith.base.errors import WheelsmithError, system_error
from wheelsmith.base.units import show_binary_size, show_duration
from wheelsmith.engine import Exit, ExitReason, Limits
from wheelsmith.model import Failure, Status
from wheelsmith.wheel import CheckReport

_MORE_MEMORY = "engine.memory in matrix.yaml (a cell) or --memory (the run)"
# Without control groups, the kernel refuses memory to the compiler, which prints one of these messages or aborts.
_OUT_OF_MEMORY = re.compile(r"out of memory|memory exhausted|Cannot allocate memory|MemoryError|bad_alloc")
_UNDECLARED = re.compile(
    r"error: .*(was not declared|has not been declared|is not a member of|does not name a type|incomplete type"
    r"|has no member|is undefined)"
)
_NOT_DEFINED = re.compile(r"required symbol `(\w+)' not defined")  # of GNU ld
_ABORTED = 128 + signal.SIGABRT  # exit code of a shell


class StageError(Exception):  # always caught in the pipeline
    """A stage of a build failed.

    :param reported: True if the command reported the error, False if it was killed, exceeded a limit or lacked memory.
    """

    def __init__(self, failure: Failure, status: Status = Status.FAILED, *, reported: bool = False) -> None:
        super().__init__(failure.message)
        self.failure = failure
        self.status = status
        self.reported = reported


def failure_of(error: BaseException, stage: str) -> tuple[Failure, Status]:
    """Return the failure and the status for an error.

    :param stage: the stage in which it was raised.
    """
    match error:
        case StageError():
            failure, status = error.failure, error.status
        case WheelsmithError():
            failure, status = Failure(stage=stage, message=str(error), remedy=error.remedy), Status.FAILED
        case OSError():
            converted = system_error(error)
            failure, status = Failure(stage=stage, message=str(converted), remedy=converted.remedy), Status.FAILED
        case _:
            message = f"wheelsmith failed: {type(error).__name__}: {error}"
            failure, status = Failure(stage="internal", message=message), Status.FAILED
    return failure.escaped(), status


def command_failed(
    stage: str, what: str, exit_: Exit, limits: Limits, tail: tuple[str, ...], excerpt: tuple[str, ...] = ()
) -> StageError:
    """Return the error for a failed command.

    :param what: the command, as the subject of a sentence: ``the build``.
    :param tail: its last lines of output.
    :param excerpt: other lines to show, which contain its first error.
    """
    message, remedy = _message_and_remedy(what, exit_, limits, tail)
    status = Status.CANCELLED if exit_.reason is ExitReason.CANCELLED else Status.FAILED
    reported = exit_.reason is ExitReason.EXITED and not _lacked_memory(exit_, tail)
    failure = Failure(stage=stage, message=message, remedy=remedy, tail=excerpt or tail)
    return StageError(failure, status, reported=reported)


def lacks_declaration(lines: Iterable[str]) -> bool:
    """Return True if a line of g++ or cudafe++ reports a name or a member that is not declared."""
    return any(map(_UNDECLARED.search, lines))


def check_failed(report: CheckReport) -> StageError:
    """Return the error for a wheel that did not pass the check."""
    wrong = [f"{finding.rule}: {finding.message}" for finding in report.findings if not finding.ok]
    return StageError(Failure(stage="check", message=f"the wheel check failed: {wrong[0]}", tail=tuple(wrong)))


def _message_and_remedy(what: str, exit_: Exit, limits: Limits, tail: tuple[str, ...]) -> tuple[str, str | None]:
    limit = limits.effective_memory or 0
    return {
        ExitReason.EXITED: (
            f"{what} ended with exit code {exit_.code}",
            f"if memory ran out: raise {_MORE_MEMORY}" if _lacked_memory(exit_, tail) else _missing_function(tail),
        ),
        ExitReason.TIMEOUT: (
            f"{what} ran longer than {show_duration(limits.seconds)}",
            "raise engine.timeout in matrix.yaml",
        ),
        ExitReason.OUT_OF_MEMORY: (
            f"out of memory: the limit is {show_binary_size(limit)}",
            f"raise {_MORE_MEMORY}, or build with fewer jobs (-j 1)",
        ),
        ExitReason.TOO_MUCH_OUTPUT: (f"{what} printed more than {show_binary_size(limits.output)}", None),
        ExitReason.DISK_FULL: (
            f"{what} wrote more than {show_binary_size(limits.disk)}, or the disk is full",
            "free disk space, or raise engine.disk in matrix.yaml",
        ),
        ExitReason.TOO_MANY_PROCESSES: (f"{what} started more than {limits.pids} processes", None),
        ExitReason.CANCELLED: ("cancelled", None),
        ExitReason.KILLED: (f"{what} was killed (code {exit_.code})", None),
    }[exit_.reason]


def _missing_function(tail: tuple[str, ...]) -> str | None:
    """Return the remedy if the linker did not find a function of build.toml."""
    found = next(filter(None, map(_NOT_DEFINED.search, tail)), None)
    if found is None:
        return None
    how = f'define {found[1]} as an extern "C" function, or for JAX with XLA_FFI_DEFINE_HANDLER_SYMBOL'
    return f"{how}, or correct functions in build.toml"


def _lacked_memory(exit_: Exit, tail: tuple[str, ...]) -> bool:
    return exit_.code == _ABORTED or any(_OUT_OF_MEMORY.search(line) for line in tail)
