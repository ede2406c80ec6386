"""One request and its response as files in a folder.

For a worker that runs in a sandbox of an engine, as ``python -m wheelsmith.worker FOLDER``.
"""

from __future__ import annotations

import json
from typing import Any

from wheelsmith.base.beneath import WorkFolder
from wheelsmith.base.errors import OutputError, WorkerError
from wheelsmith.worker.protocol import result_of

REQUEST, RESPONSE = "request.json", "response.json"
_MAX_RESPONSE = 64 * 2**20  # bytes


def write_request(folder: WorkFolder, operation: str, request: dict[str, Any]) -> None:
    """Write the request of a job.

    :param operation: ``module:function``; the function takes and returns plain data.
    """
    with folder.create(REQUEST) as file:
        file.write(json.dumps({"operation": operation, "input": request}).encode())


def read_response(folder: WorkFolder, subject: str = "") -> dict[str, Any]:
    """Return the result of a job that ended.

    :param subject: the file that it read, for messages.
    :raises WheelsmithError: the operation raised it.
    :raises WorkerError: the reader failed, or left no response.
    """
    try:
        response = b"".join(folder.chunks(RESPONSE, _MAX_RESPONSE))
    except OutputError as error:
        raise WorkerError.about(subject, "the reader left no answer", details=str(error)) from None
    return result_of(response, subject)
