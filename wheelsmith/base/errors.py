"""The errors that wheelsmith shows to users, each with an exit code, a place and a remedy.

A failed compile is a ``BuildResult``, not an exception. An exception means a mistake in the matrix, a fault of the
machine, or a bug in wheelsmith.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from enum import IntEnum

from wheelsmith.base.units import counted


class ExitCode(IntEnum):
    """The exit codes of the process, so that a pipeline can distinguish the cases."""

    OK = 0
    CELLS_FAILED = 1
    USAGE = 2
    NOTHING_SELECTED = 3
    ENVIRONMENT = 4
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A place in a file. Lines and columns count from 1; 0 means unknown."""

    file: str
    line: int = 0
    column: int = 0

    def __str__(self) -> str:
        """Return ``file:line:column``, as compilers do, without the unknown parts."""
        parts = [self.file, *(str(n) for n in (self.line, self.column) if n)]
        return ":".join(parts)


class WheelsmithError(Exception):
    """An error that the user can fix.

    :param message: one sentence without a full stop.
    :param where: the place in a file, if there is one.
    :param remedy: the fix, ideally a command.
    """

    exit_code: ExitCode = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, where: Place | None = None, remedy: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.where = where
        self.remedy = remedy

    def __str__(self) -> str:
        """Return the place and the message on one line, without the remedy."""
        return f"{self.where}: {self.message}" if self.where else self.message


class WorkerError(WheelsmithError):
    """The worker could not read a file, because it failed or reached a limit.

    :param details: its stderr or the traceback, for developers.
    """

    def __init__(
        self, message: str, *, where: Place | None = None, remedy: str | None = None, details: str = ""
    ) -> None:
        super().__init__(message, where=where, remedy=remedy)
        self.details = details

    @classmethod
    def about(cls, subject: str, reason: str, details: str = "") -> WorkerError:
        """Return the error for a file, or for unnamed data if ``subject`` is empty."""
        return cls(f"{subject} cannot be read: {reason}" if subject else reason, details=details)


class MatrixError(WheelsmithError):
    """matrix.yaml, or an option that overrides it, is wrong."""

    exit_code = ExitCode.USAGE


class BuildTomlError(WheelsmithError):
    """A kernel's build.toml is wrong, or uses a feature that wheelsmith refuses."""

    exit_code = ExitCode.USAGE


class MatrixMistakesError(WheelsmithError):
    """Several mistakes that one read found, so that the user can fix them together.

    :param mistakes: at least one. The exit code is that of the first.
    """

    def __init__(self, mistakes: tuple[WheelsmithError, ...]) -> None:
        super().__init__(counted(len(mistakes), "mistake"))
        self.mistakes = mistakes
        self.exit_code = mistakes[0].exit_code


class SelectionError(WheelsmithError):
    """The selection leaves no cell."""

    exit_code = ExitCode.NOTHING_SELECTED


class SourceError(WheelsmithError):
    """A kernel's source cannot be fetched, or is refused."""


class ToolchainError(WheelsmithError):
    """A CUDA toolkit or a torch target cannot be prepared."""


class NoEnvironmentError(ToolchainError):
    """An index lacks wheels of a build environment. The message is from uv."""


class EngineError(WheelsmithError):
    """No engine can run the build."""


class WheelError(WheelsmithError):
    """A file is not a readable wheel."""

    exit_code = ExitCode.USAGE


class PackageIndexError(WheelsmithError):
    """An index cannot be read or written, or the change would make it inconsistent."""


class AddressError(PackageIndexError):
    """An address on the command line is not a valid location of an index."""

    exit_code = ExitCode.USAGE


class PromotionError(PackageIndexError):
    """A version does not meet the conditions of the promotion."""

    exit_code = ExitCode.CELLS_FAILED


class UnreadableError(PackageIndexError):
    """A file of an index is broken or of the wrong kind, such as a broken state or a link."""


class OutputError(WheelsmithError):
    """The output of a build is not acceptable."""


class StoreError(WheelsmithError):
    """The cache or the output folder cannot be read or written."""


class CacheInUseError(StoreError):
    """The cache cannot be pruned while a run uses it."""


class SettingError(WheelsmithError):
    """An environment variable or an option has an invalid value."""

    exit_code = ExitCode.USAGE


class SigningKeyError(WheelsmithError):
    """A file is not a signing key, or the key cannot be used."""

    exit_code = ExitCode.USAGE


class PolicyError(WheelsmithError):
    """The policy for signatures is missing or cannot be read."""

    exit_code = ExitCode.USAGE


class AttestationError(WheelsmithError):
    """A signature or provenance of a wheel is invalid, or cannot be made."""

    exit_code = ExitCode.CELLS_FAILED


class WheelTestError(WheelsmithError):
    """Test results of a job cannot be read or recorded."""

    exit_code = ExitCode.CELLS_FAILED


class ReleaseError(WheelsmithError):
    """A step of a release cannot be done or found a problem."""

    exit_code = ExitCode.CELLS_FAILED


class MachineError(WheelsmithError):
    """An environment cannot be inspected, or the operating system refused an operation."""


class NoMatchingWheelError(WheelsmithError):
    """The index has no wheel for a machine, or none that the policy allows."""

    exit_code = ExitCode.NOTHING_SELECTED


def system_error(error: OSError) -> MachineError:
    """Return an error of the operating system as one that the user can fix."""
    where = f" ({error.filename})" if error.filename else ""
    remedy = None
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        remedy = "free some disk, or choose another place with --out, WHEELSMITH_CACHE or TMPDIR"
    elif error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        remedy = "fix its permissions, or choose another place with --out, WHEELSMITH_CACHE or TMPDIR"
    return MachineError(f"{error.strerror or error}{where}", remedy=remedy)
