"""Lease GPUs, so that one test at a time uses each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from filelock import FileLock, Timeout

from wheelsmith.base.errors import MachineError
from wheelsmith.base.units import show_binary_size, show_duration
from wheelsmith.platforms import Gpu, GpuMemory

_TICK = 1.0  # seconds between two looks
_IDLE = 0.02  # the fraction of its memory that an unused GPU may have in use
_SETTLE_SECONDS = 10.0  # until the driver has freed the memory of a process that ended


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuPool:
    """The GPUs of this machine. All runs of a user share their locks.

    :param folder: the folder of the locks.
    :param memory: returns the memory of each GPU by its uuid.
    :param patience: seconds to wait while other programs use all GPUs.
    :param warn: receives a line about memory that a test left in use.
    """

    folder: Path
    gpus: Sequence[Gpu]
    memory: Callable[[], Mapping[str, GpuMemory]]
    patience: float
    warn: Callable[[str], None]
    cancel: Event

    @contextmanager
    def lease(self, model: Gpu) -> Iterator[Gpu]:
        """Yield an unused GPU of a model. It belongs to the caller until the context ends.

        :raises MachineError: other programs use all of them.
        :raises KeyboardInterrupt: the run was cancelled.
        """
        gpu, lock = self._acquire([each for each in self.gpus if _same_model(each, model)])
        try:
            yield gpu
            self._look_after(gpu)
        finally:
            lock.release()

    def _acquire(self, gpus: Sequence[Gpu]) -> tuple[Gpu, FileLock]:
        self.folder.mkdir(parents=True, exist_ok=True)
        end = time.monotonic() + self.patience
        while not self.cancel.is_set():
            busy = []
            for gpu in gpus:
                lock = FileLock(self.folder / f"{gpu.uuid or 'gpu'}.lock", thread_local=False)
                with suppress(Timeout):
                    lock.acquire(blocking=False)
                    if (used := self._in_use(gpu)) is None:
                        return gpu, lock
                    lock.release()
                    busy.append(used)
            if len(busy) < len(gpus):
                end = time.monotonic() + self.patience  # another test will release its GPU
            elif time.monotonic() > end:
                raise MachineError(
                    f"other programs use the GPUs: {', '.join(busy)}",
                    remedy=f"stop them (the tests waited {show_duration(self.patience)}), or set CUDA_VISIBLE_DEVICES",
                )
            self.cancel.wait(_TICK)
        raise KeyboardInterrupt

    def _in_use(self, gpu: Gpu) -> str | None:
        """Describe the memory of a GPU that is in use. Return None if the GPU is unused or its memory is unknown."""
        memory = self.memory().get(gpu.uuid)
        if memory is None or memory.used <= _IDLE * memory.total:
            return None
        return f"{gpu.name} ({show_binary_size(memory.used)} of {show_binary_size(memory.total)} in use)"

    def _look_after(self, gpu: Gpu) -> None:
        end = time.monotonic() + _SETTLE_SECONDS
        while (used := self._in_use(gpu)) and time.monotonic() < end:
            self.cancel.wait(_TICK)
        if used:
            self.warn(f"a test has ended, but its GPU is not free: {used}")


def _same_model(one: Gpu, other: Gpu) -> bool:
    return (one.name, one.capability) == (other.name, other.capability)
