"""Every mistake wheelsmith can name: one tree, each with an exit code, a place and a remedy.

A compile that fails is a ``BuildResult``, not an exception. An exception is a mistake in the matrix, the
machine or wheelsmith itself.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum

from wheelsmith.base.units import counted


class ExitCode(IntEnum):
    """What the process returns, so that a pipeline can tell the cases apart."""

    OK = 0
    CELLS_FAILED = 1
    USAGE = 2
    NOTHING_SELECTED = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where in a file a mistake stands; lines and columns count from 1, 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return ``file:line:column``, as compilers do, leaving out what is unknown."""
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


class WheelsmithError(Exception):
    """A mistake that a person can fix.

    :param message: what is wrong, one sentence without a full stop.
    :param where: the place in a file, when there is one.
    :param remedy: what fixes it, ideally a command.
    """

    exit_code: ExitCode = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, where: Place | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        """Return place and message on one line, without the remedy."""
        return f"{self.where}: {self.message}" if self.where else self.message


class WorkerError(WheelsmithError):
    """The worker could not read a file: it failed, or came to a limit.

    :param details: what it wrote to stderr or the traceback, for developers.
    """

    def __init__(
        self, message: str, *, where: Place | None = None, remedy: str | None = None, details: str = ""
    ) -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.details = details

    @classmethod
    def about(cls, subject: str, reason: str, details: str = "") -> WorkerError:
        """Return the error for a file, or for something without a name."""
        return cls(f"{subject} cannot be read: {reason}" if subject else reason, details=details)


class MatrixError(WheelsmithError):
    """matrix.yaml, or what the command line adds to it, is wrong."""

    exit_code = ExitCode.USAGE


class BuildTomlError(WheelsmithError):
    """A kernel's build.toml is wrong, or asks for what wheelsmith refuses."""

    exit_code = ExitCode.USAGE


class MatrixMistakesError(WheelsmithError):
    """Several mistakes found in one reading, so that they can be fixed in one go.

    :param mistakes: at least one; the exit code is the first one's.
    """

    def __init__(self, mistakes: tuple[WheelsmithError, ...]) -> None:
        super().__init__(counted(len(mistakes), "mistake"))
        self.mistakes = mistakes
        self.exit_code = mistakes[0].exit_code


class SelectionError(WheelsmithError):
    """The selection leaves no cell."""

    exit_code = ExitCode.NOTHING_SELECTED


class SourceError(WheelsmithError):
    """A kernel's source cannot be had, or must not be used."""


class ToolchainError(WheelsmithError):
    """A CUDA toolkit or a torch target cannot be prepared."""


class NoEnvironmentError(ToolchainError):
    """An index does not have the wheels of a build environment; the message is pip's."""


class EngineError(WheelsmithError):
    """No engine can run the build."""


class WheelError(WheelsmithError):
    """A file is not a wheel that can be read."""

    exit_code = ExitCode.USAGE


class PackageIndexError(WheelsmithError):
    """An index cannot be read or written, or would be made to lie."""


class AddressError(PackageIndexError):
    """What the command line names is no place for an index."""

    exit_code = ExitCode.USAGE


class PromotionError(PackageIndexError):
    """A version does not fulfil what is asked of it."""

    exit_code = ExitCode.CELLS_FAILED


class UnreadableError(PackageIndexError):
    """What lies at a place of an index is not what may lie there: a broken state, or a link."""


class OutputError(WheelsmithError):
    """What a build left cannot be taken."""


class StoreError(WheelsmithError):
    """The cache or the output folder cannot be read or written."""


class CacheInUseError(StoreError):
    """The cache cannot be pruned while a run needs what is in it."""


class SettingError(WheelsmithError):
    """An environment variable asks for what cannot be."""

    exit_code = ExitCode.USAGE


class SigningKeyError(WheelsmithError):
    """A key is none, or cannot be used."""

    exit_code = ExitCode.USAGE


class PolicyError(WheelsmithError):
    """What is to be believed of signatures is not said, or not in a way that can be read."""

    exit_code = ExitCode.USAGE


class AttestationError(WheelsmithError):
    """What somebody signed of a wheel does not hold, or cannot be signed."""

    exit_code = ExitCode.CELLS_FAILED


class WheelTestError(WheelsmithError):
    """What a job says of its tests cannot be taken."""

    exit_code = ExitCode.CELLS_FAILED


class ReleaseError(WheelsmithError):
    """A step of a release cannot be done, or shows that something is wrong."""

    exit_code = ExitCode.CELLS_FAILED


class MachineError(WheelsmithError):
    """An environment cannot be looked at."""


class NoMatchingWheelError(WheelsmithError):
    """The index has no wheel for a machine, or none that may be chosen."""

    exit_code = ExitCode.NOTHING_SELECTED


def system_error(error: OSError) -> MachineError:
    """Return what the system refused as a mistake that a person can fix."""
    where = f" ({error.filename})" if error.filename else ""
    remedy = None
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        remedy = "free some disk, or choose another place with --out, WHEELSMITH_CACHE or TMPDIR"
    elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        remedy = "fix its permissions, or choose another place with --out, WHEELSMITH_CACHE or TMPDIR"
    return MachineError(f"{error.strerror or error}{where}", remedy=remedy)
