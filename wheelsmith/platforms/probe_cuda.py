"""Query the NVIDIA driver for its version and its GPUs, and print them as JSON.

This script runs in a separate process because a driver can hang.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator
from typing import Any
from uuid import UUID

_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76  # CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_…


def _query(function: Any, *arguments: int) -> int:
    answer = ctypes.c_int()
    if function(ctypes.byref(answer), *arguments):
        raise OSError
    return answer.value


def _gpus(cuda: Any) -> Iterator[dict[str, str]]:
    if cuda.cuInit(0):
        return
    for number in range(_query(cuda.cuDeviceGetCount)):
        device = _query(cuda.cuDeviceGet, number)
        name = ctypes.create_string_buffer(256)
        cuda.cuDeviceGetName(name, len(name), device)
        major = _query(cuda.cuDeviceGetAttribute, _CAPABILITY_MAJOR, device)
        minor = _query(cuda.cuDeviceGetAttribute, _CAPABILITY_MINOR, device)
        uuid = (ctypes.c_ubyte * 16)()
        known = cuda.cuDeviceGetUuid(uuid, device) == 0
        yield {
            "name": name.value.decode("utf-8", "replace"),
            "capability": f"{major}.{minor}",
            "uuid": f"GPU-{UUID(bytes=bytes(uuid))}" if known else "",
        }


def _driver() -> dict[str, Any] | None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
        version = _query(cuda.cuDriverGetVersion)
        return {"version": f"{version // 1000}.{version % 1000 // 10}", "gpus": list(_gpus(cuda))}
    except OSError:
        return None


json.dump(_driver(), sys.stdout)
