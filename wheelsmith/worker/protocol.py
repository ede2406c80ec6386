"""Requests and responses of the worker, in JSON.

A response is an object with one of three keys: ``result`` is the result of the operation, ``error`` is a
WheelsmithError that it raised, and ``failure`` is a failure of the reader. After a failure, the process is not used
again.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from typing import Any

from wheelsmith.base import errors
from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import MatrixMistakesError, OutputError, Place, WheelsmithError, WorkerError
from wheelsmith.base.json_dataclass import parse_json
from wheelsmith.base.units import show_binary_size

READY = b'{"ready": true}'  # the worker accepts requests
REQUEST, RESPONSE = "request.json", "response.json"  # in the folder of a job
_MAX_RESPONSE = 64 * 2**20  # bytes
_SCALE_BYTES = 256 * 2**20  # each so many bytes of input add the base limits of time once more


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """Limits of one request.

    :param memory: bytes of address space.
    :param cpu_seconds: CPU time.
    :param seconds: wall time.
    :param file_size: bytes of each written file.
    """

    memory: int = 4 * 2**30
    cpu_seconds: int = 60
    seconds: int = 600
    file_size: int = 64 * 2**30

    def for_input(self, size: int) -> WorkerLimits:
        """Return the limits for an input of this many bytes."""
        factor = 1 + size / _SCALE_BYTES
        return replace(
            self,
            memory=self.memory + size,
            cpu_seconds=round(self.cpu_seconds * factor),
            seconds=round(self.seconds * factor),
        )


def parse_response(response: bytes, subject: str, limits: WorkerLimits | None = None) -> dict[str, Any]:
    """Return the result of a response, or raise its error.

    :param subject: the file that was read, for messages.
    """
    try:
        data = parse_json(response)
    except ValueError:
        data = None
    match data:
        case {"result": dict(result)}:
            return result
        case {"error": {"type": str(), "message": str()} as error}:
            raise _error_from_json(error)
        case {"failure": "memory"}:
            amount = f" ({show_binary_size(limits.memory)})" if limits else ""
            raise WorkerError.about(subject, f"the reader ran out of memory{amount}")
        case {"failure": str(reason)}:
            raise WorkerError.about(subject, reason, details=str(data.get("traceback", "")))
    raise WorkerError.about(subject, "the reader wrote no valid response")


def error_to_json(error: WheelsmithError) -> dict[str, Any]:
    """Return an error as JSON data. Its type is the nearest base class in ``base.errors``."""
    mistakes = error.mistakes if isinstance(error, MatrixMistakesError) else ()
    return {
        "type": next(cls.__name__ for cls in type(error).__mro__ if cls.__module__ == errors.__name__),
        "message": error.message,
        "where": asdict(error.where) if error.where else None,
        "remedy": error.remedy,
        "mistakes": [error_to_json(each) for each in mistakes],
    }


def _error_from_json(data: dict[str, Any]) -> WheelsmithError:
    mistakes = tuple(_error_from_json(each) for each in data.get("mistakes") or ())
    if mistakes:
        return MatrixMistakesError(mistakes)
    where = Place(**data["where"]) if data.get("where") else None
    cls = getattr(errors, data["type"], None)
    if not (isinstance(cls, type) and issubclass(cls, WheelsmithError)):
        cls = WheelsmithError
    return cls(data["message"], where=where, remedy=data.get("remedy"))


def write_request(folder: WorkFolder, operation: str, request: dict[str, Any]) -> None:
    """Write a request to a folder.

    :param operation: ``module:function``. The function takes and returns JSON data.
    """
    with folder.create(REQUEST) as file:
        file.write(json.dumps({"operation": operation, "input": request}).encode())


def read_response(folder: WorkFolder, subject: str = "") -> dict[str, Any]:
    """Return the result of the request in a folder.

    :param subject: the file that was read, for messages.
    :raises WheelsmithError: the operation raised it.
    :raises WorkerError: the reader failed or wrote no response.
    """
    try:
        response = b"".join(folder.chunks(RESPONSE, _MAX_RESPONSE))
    except OutputError as error:
        raise WorkerError.about(subject, "the reader wrote no response", details=str(error)) from None
    return parse_response(response, subject)
