"""The worker process: ``python -m wheelsmith.worker [FOLDER]`` serves requests from stdin, or one from a folder."""

from __future__ import annotations

import ctypes
import errno
import importlib
import json
import math
import os
import resource
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from wheelsmith.base.errors import WheelsmithError, system_error
from wheelsmith.worker.protocol import READY, REQUEST, RESPONSE, WorkerLimits, error_to_json

_PR_SET_PDEATHSIG = 1
_FAILURE = b'{"failure": '  # prefix of such a response
_OUT_OF_MEMORY = _FAILURE + b'"memory"}'
_MAX_TEXT, _MAX_TRACEBACK = 200, 10_000  # characters of an exception's text and traceback


def serve_lines() -> None:
    """Perform requests from stdin until it is closed or a request fails. Write ``READY`` first."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    # With a limit of one byte the kernel starts no core dump program. With 0 it would.
    resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    # Redirect the output of libraries to stderr. Programs that they start get an empty stdin.
    requests, responses = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    _send(responses, READY)
    for line in requests:
        request = json.loads(line)
        _set_limits(WorkerLimits(**request["limits"]))
        response = _response(request)
        _send(responses, response)
        if response.startswith(_FAILURE):
            return


def serve_folder(folder: Path) -> None:
    """Perform the request in a folder, with the limits of this process, and write the response to the same folder.

    If the reader fails, this program ends with a traceback like any other command of a build.
    """
    os.chdir(folder)
    response = _perform(json.loads(Path(REQUEST).read_bytes()))
    Path(RESPONSE).write_text(json.dumps(response), encoding="utf-8")


def _send(responses: BinaryIO, response: bytes) -> None:
    responses.write(response + b"\n")
    responses.flush()


def _set_limits(limits: WorkerLimits) -> None:
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu_end = math.ceil(used.ru_utime + used.ru_stime) + limits.cpu_seconds
    values = {resource.RLIMIT_AS: limits.memory, resource.RLIMIT_CPU: cpu_end, resource.RLIMIT_FSIZE: limits.file_size}
    for kind, value in values.items():
        hard = resource.getrlimit(kind)[1]
        resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def _response(request: dict[str, Any]) -> bytes:
    """Perform an operation and return the response in JSON. Every exception becomes a response."""
    try:
        return json.dumps(_perform(request)).encode()
    except MemoryError:
        return _OUT_OF_MEMORY
    except OSError as error:
        if error.errno == errno.ENOMEM:
            return _OUT_OF_MEMORY
        if error.errno == errno.EFBIG:
            return _failure("a file in it is too large")
        return json.dumps({"error": error_to_json(system_error(error))}).encode()
    except RecursionError:
        return _failure("it is nested too deeply")
    except Exception as error:  # noqa: BLE001  # libraries may raise any exception for untrusted bytes
        text = " ".join(str(error).split())[:_MAX_TEXT]
        return _failure(f"the reader failed ({type(error).__name__}: {text})")


def _failure(reason: str) -> bytes:
    return json.dumps({"failure": reason, "traceback": traceback.format_exc()[-_MAX_TRACEBACK:]}).encode()


def _perform(request: dict[str, Any]) -> dict[str, Any]:
    """Perform an operation, ``module:function``, and return its result or its WheelsmithError."""
    module, _, name = request["operation"].partition(":")
    try:
        return {"result": getattr(importlib.import_module(module), name)(request["input"])}
    except WheelsmithError as error:
        return {"error": error_to_json(error)}


if __name__ == "__main__":
    # The limit of CPU time also covers the conversion of long numbers.
    sys.set_int_max_str_digits(0)
    if sys.argv[1:]:
        serve_folder(Path(sys.argv[1]))
    else:
        serve_lines()
